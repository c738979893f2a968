// A program of the CUDA runtime: checkpoints of device, managed and host memory, changed by kernels
// before and after, and restored.
//
//     nvcc -o hello hello.cu -I../include -L../lib -lveloc-client
//     ./hello CONFIGURATION [versions=8] [bytes=4194304] [damage=VERSION]
#include "check.h"

int main(int argc, char **argv)
{
    const int versions = (int)option(argc, argv, "versions", 8);
    const int damaged = (int)option(argc, argv, "damage", -1);
    const size_t bytes = (size_t)option(argc, argv, "bytes", 4 << 20);
    std::vector<unsigned char> host(bytes);
    unsigned char *device, *managed;
    long wrong = 0;
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMallocManaged(&managed, bytes));
    begin(argc, argv);
    CHECK(VELOC_Mem_protect(0, device, bytes, 1));
    CHECK(VELOC_Mem_protect(1, managed, bytes, 1));
    CHECK(VELOC_Mem_protect(2, host.data(), bytes, 1));
    for (int version = 0; version < versions; version++) {
        // The library waits for the kernels that are queued.
        fill(device, bytes, 0, version);
        fill(managed, bytes, 1, version);
        for (size_t word = 0; 8 * word < bytes; word++)
            fill_word(host.data(), bytes, word, 2, version);
        CHECK(VELOC_Checkpoint("hello", version));
    }
    for (int version = versions - 1; version >= 0; version--) {
        fill(device, bytes, 0, -1);
        fill(managed, bytes, 1, -1);
        CHECK(VELOC_Restart("hello", version));
        if (version == damaged)
            damage(device + bytes / 2);
        wrong += wrong_bytes(device, 0, bytes, 0, version);
        wrong += wrong_bytes(managed, 0, bytes, 1, version);
        wrong += wrong_on_host(host.data(), 0, bytes, 2, version);
    }
    return finish("hello", versions, wrong);
}
