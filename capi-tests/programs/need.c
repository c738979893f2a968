/*
 * How much of the host buffer is touched: need <configuration> <what> [versions=N] [bytes=N]
 *
 *   ahead     takes so many checkpoints; what is touched stays within what they need, and gets there
 *   device    protects device memory, and waits until more is touched than that
 *   whole     waits until all of it is touched
 *   grows     finds less memory than the bytes of the buffer; gets more (MEMINFO), and waits for it all
 *
 * Prints "touched N of M" in the end.
 */
#include "cuda.h"

#include <time.h>

static VELOC_Metrics metrics;

static uint64_t touched(void)
{
    struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    return metrics.host_touched;
}

static void take(void *memory, size_t bytes, int versions)
{
    /* Eight checkpoints ahead, twice what was used and its headers, and the rest of a unit. */
    const uint64_t unit = 4 << 20;
    uint64_t least = 8 * (uint64_t)bytes, most = least + unit;
    int version;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    while (touched() < least)
        CHECK(metrics.host_touched <= most);
    for (version = 0; version < versions; version++) {
        fill(memory, bytes, 1, version);
        OK(VELOC_Checkpoint("need", version));
        least += 2 * (uint64_t)bytes;
        most += 2 * (bytes + 4096);
        CHECK(touched() <= most);
    }
    while (touched() < least)
        CHECK(metrics.host_touched <= most);
    CHECK(touched() <= most);
}

static void grow(void *memory, size_t bytes, uint64_t whole)
{
    FILE *meminfo;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    do
        touched();
    while (metrics.host_capacity == whole);
    CHECK(metrics.host_touched < whole);
    fill(memory, bytes, 1, 0);
    OK(VELOC_Checkpoint("need", 0));
    CHECK(touched() < whole);
    meminfo = fopen(getenv("MEMINFO"), "w");
    CHECK(meminfo != NULL);
    fputs("MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n", meminfo);
    CHECK(fclose(meminfo) == 0);
    while (touched() < whole)
        ;
    CHECK(metrics.host_capacity == whole);
    fill(memory, bytes, 1, 1);
    OK(VELOC_Checkpoint("need", 1));
    memset(memory, 0, bytes);
    OK(VELOC_Restart("need", 1));
    CONTENT(memory, bytes, 1, 1);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    size_t bytes = (size_t)number(argc, argv, "bytes", 1000000);
    int versions = (int)number(argc, argv, "versions", 10);
    void *memory = malloc(bytes);
    CHECK(argc > 2 && memory != NULL);
    if (strcmp(what, "device") == 0) {
        CUcontext context = cuda_start();
        CUdeviceptr device = device_memory(bytes);
        OK(VELOC_Init_single(0, argv[1]));
        OK(VELOC_Mem_protect(1, as_pointer(device), bytes, 1));
        while (touched() < 64 * (uint64_t)bytes)
            ;
        OK(VELOC_Finalize(1));
        CU(cuCtxDestroy_v2(context));
    } else {
        OK(VELOC_Init_single(0, argv[1]));
        if (strcmp(what, "ahead") == 0)
            take(memory, bytes, versions);
        else if (strcmp(what, "grows") == 0)
            grow(memory, bytes, number(argc, argv, "whole", 0));
        else
            while (touched() < metrics.host_capacity)
                ;
        OK(VELOC_Finalize(1));
    }
    printf("touched %llu of %llu\n", (unsigned long long)metrics.host_touched,
           (unsigned long long)metrics.host_capacity);
    free(memory);
    puts("done");
    return 0;
}
