/*
 * A shot: many checkpoints of differing size, then restores in some order:
 *     shot <configuration> [key=value ...]
 *
 *   versions=40      checkpoints
 *   bytes=1000000    the largest device region; each version's size differs from the last
 *   order=reverse    or same, random
 *   hints=all        every version is hinted before the first restore; before: before the first
 *                    checkpoint is taken; one: only the next one; none
 *   stream=0         1: the application hands its stream over
 *   host=0           bytes of a host region beside the device region
 *   managed=0        bytes of a managed region beside the device region
 *   late=0           1: the context is made after VELOC_Init_single
 *   wait=0           1: VELOC_Checkpoint_wait between the two passes
 *   registered=0     1: waits between the two passes until all of the host buffer is registered
 *   held=0           1: waits between the two passes for the end of the standard input
 *   again=0          1: restores everything a second time
 *   wall=0           1: an ephemeral job that must run out of room: the checkpoint that finds none
 *                    is refused, and what was taken before is all there; once that is restored,
 *                    there is room again
 *   last=0           1: waits before the last restore until that version has been fetched
 *   drain=1          the argument of VELOC_Finalize
 *   seed=1
 *
 * The forward pass never waits for the device: contents arrive by copies that are queued in a
 * non-blocking stream, and are destroyed in the same way as soon as VELOC_Checkpoint has returned.
 * So a capture that starts too early or returns too early has wrong bytes.
 */
#include "cuda.h"

#include <time.h>

enum { MOST = 1000 };

static struct {
    int versions, stream, late, wait, registered, held, again, wall, last, drain;
    size_t bytes, host, managed;
    const char *order, *hints;
    uint64_t seed;
} options;

static size_t size_of[MOST];
static CUstream stream;
static CUdeviceptr device, managed;
static unsigned char *staging, *junk, *host;

static void capture(int version)
{
    size_t bytes = size_of[version];
    fill(staging, bytes, 0, version);
    CU(cuMemcpyHtoDAsync_v2(device, staging, bytes, stream));
    if (managed != 0) {
        fill((void *)(uintptr_t)managed, options.managed, 2, version);
    }
    if (host != NULL)
        fill(host, options.host, 1, version);
    /* The same id with another size each time, as the GPU prototype's programs do. */
    OK(VELOC_Mem_protect(0, as_pointer(device), bytes, 1));
    if (options.wall && VELOC_Checkpoint("shot", version) != VELOC_SUCCESS) {
        CHECK(strstr(VELOC_Last_error(), "no room") != NULL);
        printf("wall %d\n", version);
        options.versions = version;
        CU(cuStreamSynchronize(stream));
        return;
    }
    if (!options.wall)
        OK(VELOC_Checkpoint("shot", version));
    CU(cuMemcpyHtoDAsync_v2(device, junk, bytes, stream));
    if (managed != 0)
        memset((void *)(uintptr_t)managed, 0xdd, options.managed);
    if (host != NULL)
        memset(host, 0xdd, options.host);
    CU(cuStreamSynchronize(stream));
}

static void restore(int version)
{
    size_t bytes = size_of[version];
    /* Queued before the restore: it must not land on top of what is restored. */
    CU(cuMemcpyHtoDAsync_v2(device, junk, bytes, stream));
    OK(VELOC_Mem_protect(0, as_pointer(device), bytes, 1));
    if (VELOC_Recover_ckpt_size("shot", version, 0) != bytes)
        check_failed(__FILE__, __LINE__, "VELOC_Recover_ckpt_size", "says another size");
    OK(VELOC_Restart("shot", version));
    DEVICE_CONTENT(device, bytes, 0, version);
    if (managed != 0)
        CONTENT((void *)(uintptr_t)managed, options.managed, 2, version);
    if (host != NULL)
        CONTENT(host, options.host, 1, version);
}

static int order[MOST];

static void choose_order(void)
{
    int i;
    for (i = 0; i < options.versions; i++)
        order[i] = strcmp(options.order, "reverse") == 0 ? options.versions - 1 - i : i;
    if (strcmp(options.order, "random") == 0)
        for (i = options.versions - 1; i > 0; i--) {
            int other = (int)(next_random(&options.seed) % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
}

static void hint_all(void)
{
    int i;
    for (i = 0; i < options.versions; i++)
        OK(VELOC_Prefetch_enqueue("shot", order[i]));
}

static void await_prefetched(int version)
{
    struct timespec pause = {0, 1000000};
    while (!VELOC_Next_prefetched("shot", version, 0))
        nanosleep(&pause, NULL);
}

/* Until those that are hinted first, which the device cache has room for, have been fetched. */
static void await_first(int versions)
{
    int i;
    for (i = 0; i < versions; i++)
        await_prefetched(order[i]);
}

static void restore_all(const char *hints)
{
    int i;
    if (strcmp(hints, "before") != 0)
        choose_order();
    if (strcmp(hints, "all") == 0)
        hint_all();
    if (strcmp(hints, "none") != 0)
        OK(VELOC_Prefetch_start());
    if (strcmp(hints, "before") == 0)
        await_first(4);
    for (i = 0; i < options.versions; i++) {
        if (strcmp(hints, "one") == 0 && i + 1 < options.versions)
            OK(VELOC_Prefetch_enqueue("shot", order[i + 1]));
        /* On a busy machine nothing may have been fetched until here. */
        if (options.last && i + 1 == options.versions)
            await_prefetched(order[i]);
        restore(order[i]);
    }
}

static void print_metrics(void)
{
    static const char *const hops[] = {"AtoD", "AtoH", "AtoF", "DtoH", "DtoF", "HtoF", "FtoP",
                                       "PtoF", "FtoH", "HtoD", "DtoA", "HtoA", "FtoA"};
    static const char *const causes[] = {"copy",      "order", "map",  "device_room",
                                         "host_room", "fetch", "file", "drain"};
    VELOC_Metrics metrics;
    unsigned i;
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    for (i = 0; i < sizeof causes / sizeof causes[0]; i++)
        printf("blocked_%s %llu\nwaits_%s %llu\n", causes[i],
               (unsigned long long)metrics.blocked[i].nanoseconds, causes[i],
               (unsigned long long)metrics.blocked[i].count);
    for (i = 0; i < sizeof hops / sizeof hops[0]; i++)
        printf("%s %llu\n", hops[i], (unsigned long long)metrics.hops[i].bytes);
    printf("checkpoints %llu\nrestores %llu\ndevice_evictions %llu\nhost_evictions %llu\n"
           "discards %llu\nspills %llu\nfetches %llu\ndevice_hits %llu\ndevice_misses %llu\n"
           "host_registered %llu\ndevice_capacity %llu\n",
           (unsigned long long)metrics.checkpoints, (unsigned long long)metrics.restores,
           (unsigned long long)metrics.device_evictions,
           (unsigned long long)metrics.host_evictions, (unsigned long long)metrics.discards,
           (unsigned long long)metrics.spills, (unsigned long long)metrics.fetches,
           (unsigned long long)metrics.device_hits, (unsigned long long)metrics.device_misses,
           (unsigned long long)metrics.host_registered,
           (unsigned long long)metrics.device_capacity);
}

static void await_registration(void)
{
    VELOC_Metrics metrics;
    do {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    } while (metrics.host_registered < metrics.host_capacity);
}

int main(int argc, char **argv)
{
    CUcontext context;
    void *pinned;
    int version;
    options.versions = (int)number(argc, argv, "versions", 40);
    options.bytes = (size_t)number(argc, argv, "bytes", 1000000);
    options.host = (size_t)number(argc, argv, "host", 0);
    options.managed = (size_t)number(argc, argv, "managed", 0);
    options.stream = (int)number(argc, argv, "stream", 0);
    options.late = (int)number(argc, argv, "late", 0);
    options.wait = (int)number(argc, argv, "wait", 0);
    options.registered = (int)number(argc, argv, "registered", 0);
    options.held = (int)number(argc, argv, "held", 0);
    options.again = (int)number(argc, argv, "again", 0);
    options.wall = (int)number(argc, argv, "wall", 0);
    options.last = (int)number(argc, argv, "last", 0);
    options.drain = (int)number(argc, argv, "drain", 1);
    options.seed = (uint64_t)number(argc, argv, "seed", 1);
    options.order = option(argc, argv, "order", "reverse");
    options.hints = option(argc, argv, "hints", "all");
    CHECK(argc > 1 && options.versions <= MOST);

    if (options.late)
        OK(VELOC_Init_single(0, argv[1]));
    context = cuda_start();
    /* Before the library maps its cache, which may take all there is. */
    device = device_memory(options.bytes);
    if (!options.late)
        OK(VELOC_Init_single(0, argv[1]));
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    CU(cuMemAllocHost_v2(&pinned, 2 * options.bytes));
    staging = pinned;
    junk = staging + options.bytes;
    memset(junk, 0xdd, options.bytes);
    if (options.managed > 0) {
        managed = managed_memory(options.managed);
        OK(VELOC_Mem_protect(2, as_pointer(managed), options.managed, 1));
    }
    if (options.host > 0) {
        host = get_memory(options.host);
        OK(VELOC_Mem_protect(1, host, options.host, 1));
    }
    if (options.stream) {
        /* A stream needs a device in use, which protecting its memory makes sure of. */
        OK(VELOC_Mem_protect(0, as_pointer(device), options.bytes, 1));
        OK(VELOC_Set_stream(stream));
    }
    if (strcmp(options.hints, "before") == 0) {
        choose_order();
        hint_all();
    }
    for (version = 0; version < options.versions; version++) {
        size_of[version] = options.bytes / 2 + next_random(&options.seed) % (options.bytes / 2) + 1;
        capture(version);
    }
    if (options.wait)
        OK(VELOC_Checkpoint_wait());
    if (options.registered)
        await_registration();
    if (options.held)
        CHECK(getchar() == EOF);
    restore_all(options.hints);
    if (options.again)
        restore_all("none");
    if (options.wall) {
        /* Everything is consumed now, and gives way. */
        options.wall = 0;
        for (version = 0; version < options.versions; version++)
            capture(version);
        restore_all("none");
    }
    print_metrics();
    OK(VELOC_Finalize(options.drain));
    check_no_misuse();
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFreeHost(pinned));
    CU(cuMemFree_v2(device));
    CU(cuCtxDestroy_v2(context));
    puts("done");
    return 0;
}
