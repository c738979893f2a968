/*
 * How much of the host buffer has pages: touching_by_need <configuration> <what> [versions=N] [bytes=N]
 *
 *   ahead     takes so many checkpoints; what is touched stays within what they need, and gets there
 *   back      takes so many, and removes them: the pages go back, but for the slack
 *   reuse     takes and restores so many, under two names, one after the other: both get the same room
 *   full      takes checkpoints until one does not fit; the error says how many do
 *   device    protects device memory, and waits until more is touched than that
 *   grows     finds less memory than the bytes of the buffer; gets more (MEMINFO), and has it all
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

/* What may be touched where so many bytes are held. */
static uint64_t most_touched(uint64_t held)
{
    const uint64_t least = 64 << 20, tenth = held / 10;
    return held + (tenth > least ? tenth : least);
}

/* What is to be touched: what is held, eight checkpoints ahead, and two steps of touching, but not more than is held. */
static uint64_t wanted(size_t bytes, uint64_t held)
{
    const uint64_t two = 8 << 20;
    return held + 8 * (uint64_t)bytes + (held < two ? held : two);
}

static void take(void *memory, size_t bytes, int versions)
{
    /* In whole units; a copy may count twice for a moment. */
    const uint64_t unit = 4 << 20;
    uint64_t most = wanted(bytes, 0);
    int version;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    while (touched() + unit <= wanted(bytes, 0))
        ;
    for (version = 0; version < versions; version++) {
        CHECK(metrics.host_touched <= most + unit + bytes);
        fill(memory, bytes, 1, version);
        OK(VELOC_Checkpoint("need", version));
        most = wanted(bytes, ((uint64_t)version + 1) * (bytes + 4096));
        CHECK(touched() <= most + unit + bytes);
    }
    while (touched() + unit <= wanted(bytes, (uint64_t)versions * bytes))
        ;
    CHECK(metrics.host_touched <= most_touched((uint64_t)versions * (bytes + 4096)) + unit);
}

/* `more` are held besides. */
static void forward(const char *name, void *memory, size_t bytes, int versions, int more)
{
    const uint64_t unit = 4 << 20;
    int version;
    for (version = 0; version < versions; version++) {
        fill(memory, bytes, *name, version);
        OK(VELOC_Checkpoint(name, version));
        CHECK(touched() <= most_touched((uint64_t)(versions + more) * (bytes + 4096)) + unit);
    }
}

static void reverse(const char *name, void *memory, size_t bytes, int versions)
{
    while (versions-- > 0) {
        memset(memory, 0, bytes);
        OK(VELOC_Restart(name, versions));
        CONTENT(memory, bytes, *name, versions);
    }
}

static void give_back(void *memory, size_t bytes, int versions)
{
    int round;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    for (round = 0; round < 2; round++) {
        forward("need", memory, bytes, versions, 0);
        CHECK(touched() >= (uint64_t)versions * bytes / 2);
        OK(VELOC_Checkpoint_wait());
        reverse("need", memory, bytes, versions);
        OK(VELOC_Cleanup("need"));
        while (touched() > most_touched(0) + (4 << 20))
            ;
    }
}

static void reuse(void *memory, size_t bytes, int versions)
{
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    forward("a", memory, bytes, versions, 0);
    reverse("a", memory, bytes, versions);
    /* Nothing is discarded before its room is used: an adjoint may go over its states again. */
    reverse("a", memory, bytes, versions);
    /* The first one is the one that was read last. */
    forward("b", memory, bytes, versions, 1);
    reverse("b", memory, bytes, versions);
}

static void overflow(void *memory, size_t bytes, int least, int most)
{
    char words[64];
    int version = 0;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    while (fill(memory, bytes, 'n', version), VELOC_Checkpoint("need", version) == VELOC_SUCCESS) {
        version++;
        CHECK(version <= most);
        touched();
    }
    CHECK(version >= least);
    snprintf(words, sizeof words, "no room|host_cache_size|in which %d of this size fit", version);
    REFUSED(VELOC_Checkpoint("need", version), least == most ? words : "no room|host_cache_size");
    reverse("need", memory, bytes, version);
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
    do
        touched();
    while (metrics.host_capacity < whole);
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
        else if (strcmp(what, "back") == 0)
            give_back(memory, bytes, versions);
        else if (strcmp(what, "reuse") == 0)
            reuse(memory, bytes, versions);
        else
            overflow(memory, bytes, (int)number(argc, argv, "least", 0),
                     (int)number(argc, argv, "most", 0));
        OK(VELOC_Finalize(1));
    }
    printf("touched %llu of %llu\n", (unsigned long long)metrics.host_touched,
           (unsigned long long)metrics.host_capacity);
    free(memory);
    puts("done");
    return 0;
}
