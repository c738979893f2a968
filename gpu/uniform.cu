// Checkpoints of one size, taken in a forward loop and restored in reverse, as an adjoint computation
// does. The kernels run in a stream of the program's, which the library is told of: nothing else orders
// its copies after them.
//
//     nvcc -o uniform uniform.cu -I../include -L../lib -lveloc-client
//     ./uniform CONFIGURATION [versions=24] [bytes=2000003] [damage=VERSION]
#include "check.h"

int main(int argc, char **argv)
{
    const int versions = (int)option(argc, argv, "versions", 24);
    const int damaged = (int)option(argc, argv, "damage", -1);
    const size_t bytes = (size_t)option(argc, argv, "bytes", 2000003);
    unsigned char *device;
    cudaStream_t stream;
    long wrong = 0;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, bytes));
    begin(argc, argv);
    CHECK(VELOC_Mem_protect(0, device, bytes, 1));
    CHECK(VELOC_Set_stream(stream));
    for (int version = 0; version < versions; version++) {
        fill(device, bytes, 0, version, stream);
        CHECK(VELOC_Checkpoint("uniform", version));
    }
    for (int version = versions - 1; version >= 0; version--)
        CHECK(VELOC_Prefetch_enqueue("uniform", version));
    CHECK(VELOC_Prefetch_start());
    for (int version = versions - 1; version >= 0; version--) {
        // Of this nothing may be left, though it is queued when the restore begins.
        fill(device, bytes, 0, -1, stream);
        CHECK(VELOC_Restart("uniform", version));
        if (version == damaged)
            damage(device + bytes - 1);
        wrong += wrong_bytes(device, 0, bytes, 0, version, stream);
    }
    return finish("uniform", versions, wrong);
}
