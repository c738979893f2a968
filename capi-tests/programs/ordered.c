/*
 * Checkpoints and restarts in the order of a stream (stream_ordered): ordered <configuration> <scenario> [key=value ...]
 *
 *   many     versions=300 bytes=200000 seed=1: versions are taken, taken again, restored and cleaned up at random; the
 *            stream writes the memory before and behind each call, and nothing waits in between
 *   held     a stream that stands still: calls return all the same, and no room is used again (of a device cache for six)
 *   streams  another stream is handed over while copies are queued, and the one before is destroyed
 *   mixed    host memory, registered or not, beside device memory
 *   failed   the device fails while copies are queued (software device)
 *   reset    the context is destroyed while copies are queued
 *   forked   a child while copies are queued
 *   stuck    the job ends while the stream stands still; it is let go a second later
 */
#include "cuda.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JUNK = 0xdddddddd, SLOTS = 8, WORDS = 250000, BYTES = 4 * WORDS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int held;

static void wait_until_let_go(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (held)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* What is queued in the stream from here on stands still. */
static void hold(CUstream stream)
{
    held = 1;
    CU(cuLaunchHostFunc(stream, wait_until_let_go, NULL));
}

static void let_go(void)
{
    pthread_mutex_lock(&lock);
    held = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static CUstream stream;
static CUdeviceptr device;
static unsigned *seen;
static const char *configuration;

static void queue_value(CUdeviceptr at, unsigned value, size_t words)
{
    CU(cuMemsetD32Async(at, value, words, stream));
}

static void check_words(const unsigned *words, size_t count, unsigned value)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] != value) {
            fprintf(stderr, "word %zu is %#x, not %#x\n", i, words[i], value);
            exit(1);
        }
}

/* Waits for the stream. */
static void check_value(CUdeviceptr at, unsigned value)
{
    CU(cuMemcpyDtoHAsync_v2(seen, at, BYTES, stream));
    CU(cuStreamSynchronize(stream));
    check_words(seen, WORDS, value);
}

static void take(int version)
{
    queue_value(device, (unsigned)version, WORDS);
    OK(VELOC_Checkpoint("ordered", version));
    queue_value(device, JUNK, WORDS);
}

static void many(int argc, char **argv)
{
    int versions = (int)number(argc, argv, "versions", 300);
    size_t words = (size_t)number(argc, argv, "bytes", 200000) / 4;
    uint64_t random = (uint64_t)number(argc, argv, "seed", 1);
    unsigned *value = calloc((size_t)versions, sizeof *value), count = 0, expected[SLOTS];
    int there = 0, slots = 0;
    void *pinned;
    CHECK(value != NULL);
    CU(cuMemAllocHost_v2(&pinned, SLOTS * words * 4));
    OK(VELOC_Mem_protect(1, as_pointer(device), words, 4));
    while (there < versions) {
        uint64_t drawn = next_random(&random);
        int again = there > 0 && drawn % 8 == 0;
        int version = again ? (int)(drawn / 8 % (uint64_t)there) : there++;
        value[version] = ++count;
        queue_value(device, count, words);
        OK(VELOC_Checkpoint("ordered", version));
        queue_value(device, JUNK, words);
        while (next_random(&random) % 2 == 0) {
            version = there - 1 - (int)(next_random(&random) % (uint64_t)(there < 20 ? there : 20));
            if (value[version] == 0)
                continue;
            queue_value(device, JUNK, words);
            OK(VELOC_Restart("ordered", version));
            CU(cuMemcpyDtoHAsync_v2((unsigned *)pinned + (size_t)slots * words, device, words * 4, stream));
            queue_value(device, JUNK, words);
            expected[slots++] = value[version];
            if (slots == SLOTS) {
                CU(cuStreamSynchronize(stream));
                for (; slots > 0; slots--)
                    check_words((unsigned *)pinned + (size_t)(slots - 1) * words, words, expected[slots - 1]);
            }
        }
        if (next_random(&random) % 64 == 0) {
            OK(VELOC_Cleanup("ordered"));
            memset(value, 0, (size_t)versions * sizeof *value);
        }
    }
    CU(cuStreamSynchronize(stream));
    while (slots-- > 0)
        check_words((unsigned *)pinned + (size_t)slots * words, words, expected[slots]);
    OK(VELOC_Checkpoint_wait());
    for (int version = there - 1; version >= 0; version--)
        if (value[version] != 0) {
            OK(VELOC_Restart("ordered", version));
            CU(cuMemcpyDtoHAsync_v2(pinned, device, words * 4, stream));
            CU(cuStreamSynchronize(stream));
            check_words(pinned, words, value[version]);
        }
    printf("%u checkpoints\n", count);
    CU(cuMemFreeHost(pinned));
    free(value);
}

static void held_scenario(void)
{
    CUdeviceptr other = device_memory(BYTES), apart = device_memory(BYTES), newest = device_memory(BYTES);
    CUstream before = stream, second;
    int version;
    CU(cuStreamCreate(&second, STREAM_NON_BLOCKING));
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    for (version = 1; version <= 2; version++)
        take(version);
    OK(VELOC_Checkpoint_wait());

    puts("a checkpoint and a restart return while the stream stands still");
    hold(stream);
    take(3);
    puts("also the restart of a version that is not copied yet");
    OK(VELOC_Restart("ordered", 3));
    CU(cuMemcpyDtoDAsync_v2(newest, device, BYTES, stream));
    OK(VELOC_Restart("ordered", 1));
    CU(cuMemcpyDtoDAsync_v2(other, device, BYTES, stream));
    queue_value(device, JUNK, WORDS);

    puts("version 3 is taken again, and all are cleaned up, while they are being copied");
    take(3);
    OK(VELOC_Cleanup("ordered"));
    OK(VELOC_Mem_unprotect(1));

    puts("what is taken in another stream gets other room");
    CUdeviceptr device_before = device;
    stream = second;
    OK(VELOC_Set_stream(stream));
    device = apart;
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    for (version = 4; version <= 6; version++)
        take(version);
    CU(cuStreamSynchronize(stream));
    let_go();
    CU(cuStreamSynchronize(before));
    check_value(other, 1);
    check_value(newest, 3);
    for (version = 6; version >= 4; version--) {
        OK(VELOC_Restart("ordered", version));
        check_value(device, (unsigned)version);
    }
    REFUSED(VELOC_Restart("ordered", 3), "no checkpoint");

    puts("a checkpoint that is ended by a call of its own waits for its copy");
    queue_value(device, 7, WORDS);
    OK(VELOC_Checkpoint_begin("ordered", 7));
    OK(VELOC_Checkpoint_mem());
    CU(cuMemsetD32Async(device, JUNK, WORDS, before));
    CU(cuStreamSynchronize(before));
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Restart("ordered", 7));
    check_value(device, 7);
    CU(cuMemFree_v2(other));
    CU(cuMemFree_v2(newest));
    CU(cuMemFree_v2(device_before));
    CU(cuStreamDestroy_v2(before));
}

static void streams(void)
{
    CUstream first = stream, second;
    CUdeviceptr of_first = device, of_second = device_memory(BYTES);
    CU(cuStreamCreate(&second, STREAM_NON_BLOCKING));
    OK(VELOC_Mem_protect(1, as_pointer(of_first), BYTES, 1));
    hold(first);
    take(1);

    puts("what the first stream waits for keeps the second one from nothing");
    OK(VELOC_Set_stream(second));
    stream = second;
    device = of_second;
    OK(VELOC_Mem_protect(1, as_pointer(of_second), BYTES, 1));
    take(2);
    CU(cuStreamSynchronize(second));
    check_value(of_second, JUNK);
    OK(VELOC_Restart("ordered", 2));
    check_value(of_second, 2);

    puts("the first stream is destroyed while copies wait for it");
    CU(cuStreamDestroy_v2(first));
    let_go();
    for (int version = 1; version <= 2; version++) {
        OK(VELOC_Restart("ordered", version));
        check_value(of_second, (unsigned)version);
    }

    puts("without a stream each call waits, also for what is queued");
    take(3);
    OK(VELOC_Set_stream(NULL));
    OK(VELOC_Restart("ordered", 3));
    CU(cuMemcpyDtoH_v2(seen, of_second, BYTES));
    check_words(seen, WORDS, 3);

    puts("the legacy default stream has an order, too");
    stream = (CUstream)1;
    OK(VELOC_Set_stream(stream));
    take(4);
    OK(VELOC_Restart("ordered", 4));
    check_value(of_second, 4);
    OK(VELOC_Set_stream(NULL));
    stream = second;
    device = of_second;
    CU(cuMemFree_v2(of_first));
}

static void mixed(void)
{
    unsigned char *plain = get_memory(BYTES);
    void *pinned;
    CU(cuMemAllocHost_v2(&pinned, BYTES));
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));

    puts("plain host memory is copied in the call, device memory behind it");
    OK(VELOC_Mem_protect(2, plain, BYTES, 1));
    hold(stream);
    fill(plain, BYTES, 2, 1);
    take(1);
    memset(plain, 0, BYTES);
    let_go();
    OK(VELOC_Restart("ordered", 1));
    CONTENT(plain, BYTES, 2, 1);
    check_value(device, 1);

    puts("with registered memory, which queued work may use, the call waits");
    OK(VELOC_Mem_protect(2, pinned, BYTES, 1));
    queue_value(device, 2, WORDS);
    CU(cuMemcpyDtoHAsync_v2(pinned, device, BYTES, stream));
    OK(VELOC_Checkpoint("ordered", 2));
    memset(pinned, 0, BYTES);
    CU(cuMemsetD32Async(device, JUNK, WORDS, stream));
    OK(VELOC_Restart("ordered", 2));
    check_words(pinned, WORDS, 2);
    check_value(device, 2);

    puts("a part alone, and a list, wait");
    OK(VELOC_Restart_begin("ordered", 2));
    OK(VELOC_Recover_mem());
    CU(cuMemcpyDtoH_v2(seen, device, BYTES));
    check_words(seen, WORDS, 2);
    OK(VELOC_Restart_end(1));
    OK(VELOC_Mem_unprotect(2));
    CU(cuMemFreeHost(pinned));
    free(plain);
}

static void failed(void)
{
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    take(1);
    OK(VELOC_Checkpoint_wait());
    hold(stream);
    /* Work of the application that breaks the context, ahead of what is copied. */
    softcuda.reset_counts();
    CHECK(softcuda.inject("cuMemsetD32Async:1~700") == 0);
    take(2);
    OK(VELOC_Restart("ordered", 1));
    let_go();
    REFUSED(VELOC_Checkpoint_wait(), "version |order of the stream");
    /* The failed restore may be told by this call, or by one before. */
    do
        CHECK(VELOC_Restart("ordered", 2) != VELOC_SUCCESS);
    while (strstr(VELOC_Last_error(), "version 1: restoring") != NULL);
    CHECK(strstr(VELOC_Last_error(), "version 2") != NULL);
    VELOC_Finalize(0);
}

static void reset(CUcontext context)
{
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    take(1);
    OK(VELOC_Checkpoint_wait());
    take(2);
    OK(VELOC_Restart("ordered", 1));
    CU(cuCtxDestroy_v2(context));
    /* It may have been copied before. */
    while (VELOC_Checkpoint_wait() != VELOC_SUCCESS)
        CHECK(strstr(VELOC_Last_error(), "version") != NULL);
    VELOC_Finalize(0);
}

/* The worker that waits for copies has just been started, or not yet. */
static void reset_at_once(CUcontext context)
{
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    take(1);
    CU(cuCtxDestroy_v2(context));
    /* What was not copied is told by its version, or by a worker that had not begun and now ends: that ends the job. */
    while (VELOC_Checkpoint_wait() != VELOC_SUCCESS) {
        if (strstr(VELOC_Last_error(), "worker ended: cuCtxSetCurrent") != NULL)
            break;
        CHECK(strstr(VELOC_Last_error(), "version") != NULL);
    }
    VELOC_Finalize(0);
}

/* More streams than there are workers for, some of them in turns. */
static void many_streams(void)
{
    enum { STREAMS = 20 };
    CUstream all[STREAMS], before = stream;
    CUdeviceptr of_each[STREAMS], of_before = device;
    for (int i = 0; i < STREAMS; i++) {
        CU(cuStreamCreate(&all[i], STREAM_NON_BLOCKING));
        of_each[i] = device_memory(BYTES);
    }
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < STREAMS; i++) {
            stream = all[i];
            device = of_each[i];
            OK(VELOC_Set_stream(stream));
            OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
            take(STREAMS * turn + i);
        }
    for (int version = 0; version < 3 * STREAMS; version++) {
        OK(VELOC_Restart("ordered", version));
        check_value(device, (unsigned)version);
    }
    OK(VELOC_Set_stream(NULL));
    OK(VELOC_Mem_unprotect(1));
    OK(VELOC_Checkpoint_wait());
    for (int i = 0; i < STREAMS; i++) {
        CU(cuStreamSynchronize(all[i]));
        CU(cuStreamDestroy_v2(all[i]));
        CU(cuMemFree_v2(of_each[i]));
    }
    stream = before;
    device = of_before;
}

/* Calls that wait for their copies. */
static void waiting(const char *scenario)
{
    if (strcmp(scenario, "unset") == 0)
        OK(VELOC_Set_stream(NULL));
    if (strcmp(scenario, "large") == 0)
        OK(VELOC_Mem_protect(2, as_pointer(device_memory(4 * BYTES)), 4 * BYTES, 1));
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    for (int version = 1; version <= 3; version++)
        take(version);
    for (int version = 3; version >= 1; version--) {
        OK(VELOC_Restart("ordered", version));
        check_value(device, (unsigned)version);
    }
}

static void forked(void)
{
    int status;
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    hold(stream);
    take(1);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(VELOC_Checkpoint("ordered", 2) == VELOC_SUCCESS);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    let_go();
    OK(VELOC_Restart("ordered", 1));
    check_value(device, 1);
}

static void *let_go_later(void *unused)
{
    struct timespec pause = {1, 0};
    nanosleep(&pause, NULL);
    let_go();
    return unused;
}

static void stuck(void)
{
    pthread_t thread;
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    hold(stream);
    take(1);
    CHECK(pthread_create(&thread, NULL, let_go_later, NULL) == 0);
    OK(VELOC_Finalize(1));
    CHECK(pthread_join(thread, NULL) == 0);
    OK(VELOC_Init_single(0, configuration));
}

int main(int argc, char **argv)
{
    const char *scenario = argc > 2 ? argv[2] : "many";
    CUcontext context = cuda_start();
    void *pinned;
    CHECK(argc > 1);
    configuration = argv[1];
    CU(cuMemAllocHost_v2(&pinned, BYTES));
    seen = pinned;
    device = device_memory(BYTES);
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Set_stream(stream));
    if (strcmp(scenario, "many") == 0)
        many(argc, argv);
    else if (strcmp(scenario, "held") == 0)
        held_scenario();
    else if (strcmp(scenario, "streams") == 0)
        streams();
    else if (strcmp(scenario, "mixed") == 0)
        mixed();
    else if (strcmp(scenario, "forked") == 0)
        forked();
    else if (strcmp(scenario, "stuck") == 0)
        stuck();
    else if (strcmp(scenario, "unset") == 0 || strcmp(scenario, "waits") == 0 || strcmp(scenario, "large") == 0)
        waiting(scenario);
    else if (strcmp(scenario, "turns") == 0)
        many_streams();
    else if (strcmp(scenario, "failed") == 0 || strcmp(scenario, "reset") == 0 || strcmp(scenario, "gone") == 0) {
        if (scenario[0] == 'f')
            failed();
        else if (scenario[0] == 'r')
            reset(context);
        else
            reset_at_once(context);
        puts("done");
        return 0;
    } else
        CHECK(!"a scenario");
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuMemFreeHost(pinned));
    CU(cuMemFree_v2(device));
    CU(cuStreamDestroy_v2(stream));
    CU(cuCtxDestroy_v2(context));
    puts("done");
    return 0;
}
