// Checkpoints of managed memory in several streams: each has a region, and kernels of its own. The first
// region is the host's to write. What the library waits for is the one stream that waits for all.
//
//     nvcc -o managed managed.cu -I../include -L../lib -lveloc-client
//     ./managed CONFIGURATION [versions=12] [streams=4] [bytes=600011] [damage=VERSION]
//
// `bytes` are those of a region.
#include "check.h"

static const int most = 32;
static cudaStream_t own[most], joined;
static cudaEvent_t events[most];
static unsigned char *regions[most];
static int streams;
static size_t bytes;

// Fills every region, and has the one stream wait for it.
static void fill_all(int version)
{
    for (int i = 0; i < streams; i++) {
        fill(regions[i], bytes, i, version, own[i]);
        CHECK(cudaEventRecord(events[i], own[i]));
        CHECK(cudaStreamWaitEvent(joined, events[i], 0));
    }
}

int main(int argc, char **argv)
{
    const int versions = (int)option(argc, argv, "versions", 12);
    const int damaged = (int)option(argc, argv, "damage", -1);
    long wrong = 0;
    streams = (int)option(argc, argv, "streams", 4);
    bytes = (size_t)option(argc, argv, "bytes", 600011);
    if (streams < 1 || streams > most) {
        std::fprintf(stderr, "streams=%d: 1 to %d are possible\n", streams, most);
        return 2;
    }
    CHECK(cudaStreamCreateWithFlags(&joined, cudaStreamNonBlocking));
    for (int i = 0; i < streams; i++) {
        CHECK(cudaStreamCreateWithFlags(&own[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
        CHECK(cudaMallocManaged(&regions[i], bytes));
    }
    begin(argc, argv);
    for (int i = 0; i < streams; i++)
        CHECK(VELOC_Mem_protect(i, regions[i], bytes, 1));
    CHECK(VELOC_Set_stream(joined));
    for (int version = 0; version < versions; version++) {
        fill_all(version);
        // Not every device lets the host touch managed memory while kernels run.
        CHECK(cudaDeviceSynchronize());
        for (size_t word = 0; 8 * word < bytes; word++)
            fill_word(regions[0], bytes, word, most, version);
        // The second half of the regions has kernels under way when the checkpoint begins.
        for (int i = streams / 2 + 1; i < streams; i++) {
            fill(regions[i], bytes, most + i, version, own[i]);
            CHECK(cudaEventRecord(events[i], own[i]));
            CHECK(cudaStreamWaitEvent(joined, events[i], 0));
        }
        CHECK(VELOC_Checkpoint("managed", version));
    }
    for (int version = versions - 1; version >= 0; version--) {
        fill_all(-1);
        CHECK(VELOC_Restart("managed", version));
        if (version == damaged)
            damage(regions[streams - 1] + bytes / 3);
        for (int i = 0; i < streams; i++) {
            int region = i == 0 || i > streams / 2 ? most + i : i;
            wrong += wrong_on_device(regions[i], 0, bytes, region, version, own[i]);
            wrong += wrong_on_host(regions[i], 0, bytes, region, version);
        }
    }
    return finish("managed", versions, wrong);
}
