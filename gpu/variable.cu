// Checkpoints of sizes that differ, as a reverse-time migration has them that compresses its wavefields:
// they grow as the wave spreads, and from then on differ a little from step to step. The kernels run
// in the default stream.
//
//     nvcc -o variable variable.cu -I../include -L../lib -lveloc-client
//     ./variable CONFIGURATION [versions=30] [bytes=2000003] [damage=VERSION]
//
// `bytes` are those of the largest.
#include "check.h"

static size_t size_of(int version, int versions, size_t largest)
{
    // In thousandths: 620 to 900 in the first third, then up to 100 more or less.
    size_t grown = 280 * (size_t)version / (size_t)(versions / 3 + 1);
    size_t part = 620 + (grown < 280 ? grown : 280) + content(0, version, 0) % 100;
    return largest / 1000 * part + largest % 1000;
}

int main(int argc, char **argv)
{
    const int versions = (int)option(argc, argv, "versions", 30);
    const int damaged = (int)option(argc, argv, "damage", -1);
    const size_t largest = (size_t)option(argc, argv, "bytes", 2000003);
    unsigned char *device;
    long wrong = 0;
    CHECK(cudaMalloc(&device, largest));
    begin(argc, argv);
    for (int version = 0; version < versions; version++) {
        size_t bytes = size_of(version, versions, largest);
        fill(device, bytes, 0, version);
        CHECK(VELOC_Mem_protect(0, device, bytes, 1));
        CHECK(VELOC_Checkpoint("variable", version));
    }
    for (int version = versions - 1; version >= 0; version--)
        CHECK(VELOC_Prefetch_enqueue("variable", version));
    CHECK(VELOC_Prefetch_start());
    for (int version = versions - 1; version >= 0; version--) {
        size_t bytes = VELOC_Recover_ckpt_size("variable", version, 0);
        if (bytes != size_of(version, versions, largest)) {
            std::fprintf(stderr, "version %d is said to have %zu bytes\n", version, bytes);
            return 1;
        }
        fill(device, largest, 1, version);
        CHECK(VELOC_Mem_protect(0, device, bytes, 1));
        CHECK(VELOC_Restart("variable", version));
        if (version == damaged)
            damage(device + largest - 1);
        wrong += wrong_bytes(device, 0, bytes, 0, version);
        // What is behind the region is as it was.
        wrong += wrong_bytes(device, bytes, largest, 1, version);
    }
    return finish("variable", versions, wrong);
}
