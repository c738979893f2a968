/*
 * What a capture and a restore wait for: stream_order <configuration> [malloc=1|2]
 *
 *   malloc=1  host memory alone, which waits for nothing that is queued
 *   malloc=2  host memory alone, on a device that goes by the host's page tables: waits for all
 */
#include "cuda.h"

#include <time.h>
#include <pthread.h>

enum { BYTES = 3000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int open_gate;

static void delay(void *unused)
{
    struct timespec pause = {0, 150000000};
    (void)unused;
    nanosleep(&pause, NULL);
}

static void wait_for_gate(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!open_gate)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void open_the_gate(void)
{
    pthread_mutex_lock(&lock);
    open_gate = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static CUdeviceptr device;
static unsigned char *content, *junk;

/* Work queued before the call, which takes its time, is part of the checkpoint; the one queued
 * after it is not. */
static void captured_in_order(CUstream stream, int version)
{
    fill(content, BYTES, 1, version);
    CU(cuMemcpyHtoDAsync_v2(device, junk, BYTES, stream));
    CU(cuLaunchHostFunc(stream, delay, NULL));
    CU(cuMemcpyHtoDAsync_v2(device, content, BYTES, stream));
    OK(VELOC_Checkpoint("order", version));
    CU(cuMemcpyHtoDAsync_v2(device, junk, BYTES, stream));
    CU(cuStreamSynchronize(stream));
}

/* Work queued before a restore must not land on top of it; the restore is complete when the call
 * returns, for every stream. */
static void restored_in_order(CUstream stream, CUstream other, int version)
{
    CU(cuLaunchHostFunc(stream, delay, NULL));
    CU(cuMemcpyHtoDAsync_v2(device, junk, BYTES, stream));
    OK(VELOC_Restart("order", version));
    memset(content, 0, BYTES);
    CU(cuMemcpyDtoHAsync_v2(content, device, BYTES, other));
    CU(cuStreamSynchronize(other));
    CONTENT(content, BYTES, 1, version);
    CU(cuStreamSynchronize(stream));
    DEVICE_CONTENT(device, BYTES, 1, version);
}

static void write_late(void *memory)
{
    delay(NULL);
    fill(memory, BYTES, 1, 1);
}

/* Memory that nobody has registered, in a job that has a device. */
static int of_malloc(const char *configuration, int waits)
{
    CUcontext context = cuda_start();
    unsigned char *memory = malloc(BYTES);
    CUstream stream;
    CHECK(memory != NULL);
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    OK(VELOC_Init_single(0, configuration));
    /* The first device memory that it meets makes the device the job's. */
    OK(VELOC_Mem_protect(2, as_pointer(device_memory(1)), 1, 1));
    OK(VELOC_Mem_unprotect(2));
    fill(memory, BYTES, 1, waits ? 2 : 1);
    OK(VELOC_Mem_protect(1, memory, BYTES, 1));
    CU(cuLaunchHostFunc(stream, waits ? write_late : wait_for_gate, memory));
    /* Would hang here if it waited for the gate. */
    OK(VELOC_Checkpoint("malloc", 1));
    memset(memory, 0, BYTES);
    OK(VELOC_Restart("malloc", 1));
    CONTENT(memory, BYTES, 1, 1);
    open_the_gate();
    CU(cuCtxSynchronize());
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
    free(memory);
    puts("done");
    return 0;
}

int main(int argc, char **argv)
{
    int kind = (int)number(argc, argv, "malloc", 0);
    CUcontext context, second;
    CUstream stream, other, foreign;
    void *pinned;
    int version;
    CHECK(argc > 1);
    if (kind != 0)
        return of_malloc(argv[1], kind == 2);
    context = cuda_start();
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&other, STREAM_NON_BLOCKING));
    CU(cuMemAllocHost_v2(&pinned, 2 * BYTES));
    content = pinned;
    junk = content + BYTES;
    memset(junk, 0xdd, BYTES);
    device = device_memory(BYTES);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));

    puts("without a stream: everything in the context comes first");
    for (version = 1; version <= 3; version++)
        captured_in_order(stream, version);
    for (version = 3; version >= 1; version--)
        restored_in_order(stream, other, version);

    puts("with a stream: what is in it comes first");
    OK(VELOC_Set_stream(stream));
    for (version = 4; version <= 6; version++)
        captured_in_order(stream, version);
    for (version = 6; version >= 4; version--)
        restored_in_order(stream, other, version);

    puts("with a stream: what is in another one is not waited for");
    CU(cuStreamSynchronize(stream));
    CU(cuLaunchHostFunc(other, wait_for_gate, NULL));
    fill(content, BYTES, 1, 7);
    CU(cuMemcpyHtoDAsync_v2(device, content, BYTES, stream));
    /* Would hang here if it waited for the whole context. */
    OK(VELOC_Checkpoint("order", 7));
    OK(VELOC_Restart("order", 7));
    open_the_gate();
    CU(cuCtxSynchronize());
    DEVICE_CONTENT(device, BYTES, 1, 7);

    puts("a stream of another context is refused, and the one before stays");
    second = cuda_context(0);
    CU(cuStreamCreate(&foreign, STREAM_NON_BLOCKING));
    CU(cuCtxSetCurrent(context));
    REFUSED(VELOC_Set_stream(foreign), "stream|context");
    captured_in_order(stream, 8);
    restored_in_order(stream, other, 8);

    puts("back to the whole context");
    OK(VELOC_Set_stream(NULL));
    captured_in_order(other, 9);
    restored_in_order(other, stream, 9);

    puts("called from a thread state without a context");
    CU(cuCtxSetCurrent(NULL));
    OK(VELOC_Checkpoint("order", 10));
    OK(VELOC_Restart("order", 10));
    CU(cuCtxSetCurrent(second));
    OK(VELOC_Restart("order", 9));
    CU(cuCtxSetCurrent(context));
    DEVICE_CONTENT(device, BYTES, 1, 9);

    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
    CU(cuMemFreeHost(pinned));
    CU(cuMemFree_v2(device));
    CU(cuCtxDestroy_v2(second));
    CU(cuCtxDestroy_v2(context));
    puts("done");
    return 0;
}
