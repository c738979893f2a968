/*
 * Device memory in states and places of every kind: device <configuration> <case>
 *
 * A refusal is -1 with a text that names the thing; the job goes on, and what was taken stays.
 */
#include "cuda.h"

#include <pthread.h>
#include <time.h>

enum { BYTES = 1 << 20 };

static void one_good_checkpoint(CUdeviceptr device)
{
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    fill_device(device, BYTES, 1, 1);
    OK(VELOC_Checkpoint("good", 1));
}

static void still_there(CUdeviceptr device)
{
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    clear_device(device, BYTES);
    OK(VELOC_Restart("good", 1));
    DEVICE_CONTENT(device, BYTES, 1, 1);
}

/* Memory that was freed while it was protected. */
static void freed(const char *configuration)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES), gone;
    unsigned char *host = get_memory(BYTES);
    OK(VELOC_Init_single(0, configuration));
    one_good_checkpoint(device);
    gone = device_memory(BYTES);
    OK(VELOC_Mem_protect(2, as_pointer(gone), BYTES, 1));
    fill(host, BYTES, 3, 2);
    OK(VELOC_Mem_protect(3, host, BYTES, 1));
    OK(VELOC_Checkpoint("good", 2));
    CU(cuMemFree_v2(gone));
    REFUSED(VELOC_Checkpoint("bad", 1), "region 2");
    CHECK(VELOC_Restart_test("bad", 0) < 0);
    memset(host, 0, BYTES);
    clear_device(device, BYTES);
    REFUSED(VELOC_Restart("good", 2), "region 2");
    /* Checked before anything was overwritten. */
    EQUAL(host[0], 0);
    OK(VELOC_Mem_unprotect(2));
    OK(VELOC_Mem_unprotect(3));
    still_there(device);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
}

/* Ranges that reach past their allocation. */
static void beyond(const char *configuration)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES), managed = managed_memory(BYTES);
    OK(VELOC_Init_single(0, configuration));
    REFUSED(VELOC_Mem_protect(4, as_pointer(device), BYTES + 1, 1), "region 4|past the end");
    REFUSED(VELOC_Mem_protect(4, as_pointer(device + BYTES / 2), BYTES / 2 + 1, 1),
            "region 4|past the end");
    REFUSED(VELOC_Mem_protect(4, as_pointer(managed), BYTES, 2), "region 4|past the end");
    OK(VELOC_Mem_protect(4, as_pointer(device + BYTES / 2), BYTES / 2, 1));
    OK(VELOC_Mem_protect(5, as_pointer(device), 0, 1));
    OK(VELOC_Mem_unprotect(4));
    one_good_checkpoint(device);
    still_there(device);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
}

/* Memory that is mapped handle by handle in addresses that were reserved at once, as PyTorch's expandable
 * segments are. */
static void pieces(const char *configuration)
{
    enum { PIECES = 3 };
    CUcontext context = cuda_start();
    CUmemAllocationProp prop = {PINNED, 0, {LOCATION_DEVICE, 0}, NULL, {0}};
    CUmemAccessDesc access = {{LOCATION_DEVICE, 0}, READ_AND_WRITE};
    CUdeviceptr reserved, behind, first, plain = device_memory(BYTES);
    CUmemGenericAllocationHandle other;
    size_t unit, bytes;
    int i;
    CU(cuMemGetAllocationGranularity(&unit, &prop, 0));
    bytes = 2 * unit;
    CU(cuMemAddressReserve(&reserved, (PIECES + 1) * unit, 0, 0, 0));
    for (i = 0; i < PIECES; i++) {
        CUmemGenericAllocationHandle handle;
        CU(cuMemCreate(&handle, unit, &prop, 0));
        CU(cuMemMap(reserved + i * unit, unit, 0, handle, 0));
        CU(cuMemRelease(handle));
    }
    CU(cuMemSetAccess(reserved, PIECES * unit, &access, 1));
    first = reserved + unit / 2;
    /* Another range that is mapped, right behind the end of this one, which is not. */
    CU(cuMemAddressReserve(&behind, unit, 0, reserved + (PIECES + 1) * unit, 0));
    CU(cuMemCreate(&other, unit, &prop, 0));
    CU(cuMemMap(behind, unit, 0, other, 0));
    CU(cuMemRelease(other));
    CU(cuMemSetAccess(behind, unit, &access, 1));
    OK(VELOC_Init_single(0, configuration));
    REFUSED(VELOC_Mem_protect(4, as_pointer(reserved), PIECES * unit + 1, 1), "region 4|past the end");
    REFUSED(VELOC_Mem_protect(4, as_pointer(reserved), (PIECES + 1) * unit, 1),
            "region 4|past the end");
    REFUSED(VELOC_Mem_protect(4, as_pointer(reserved), (PIECES + 2) * unit, 1),
            "region 4|past the end");
    OK(VELOC_Mem_protect(4, as_pointer(reserved), PIECES * unit, 1));
    OK(VELOC_Mem_unprotect(4));
    OK(VELOC_Mem_protect(5, as_pointer(first), bytes, 1));
    fill_device(first, bytes, 5, 1);
    OK(VELOC_Checkpoint("pieces", 1));
    clear_device(reserved, PIECES * unit);
    OK(VELOC_Restart("pieces", 1));
    DEVICE_CONTENT(first, bytes, 5, 1);
    OK(VELOC_Mem_unprotect(5));
    one_good_checkpoint(plain);
    still_there(plain);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    for (i = 0; i < PIECES; i++)
        CU(cuMemUnmap(reserved + i * unit, unit));
    CU(cuMemUnmap(behind, unit));
    CU(cuMemAddressFree(behind, unit));
    CU(cuMemAddressFree(reserved, (PIECES + 1) * unit));
    CU(cuCtxDestroy_v2(context));
}

/* Work of another context that writes to managed memory, late. */
struct late {
    void *memory;
    int version;
};

static void write_late(void *what)
{
    struct late *late = what;
    struct timespec pause = {0, 100000000};
    nanosleep(&pause, NULL);
    fill(late->memory, BYTES, 3, late->version);
}

/* What `other` has queued is waited for, before a checkpoint and before a restart: the current context is the
 * job's. */
static void in_order_with(CUcontext job, CUcontext other, void *managed, int version)
{
    struct late good = {managed, version}, junk = {managed, 99};
    CUstream stream;
    CU(cuCtxSetCurrent(other));
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    CU(cuLaunchHostFunc(stream, write_late, &good));
    CU(cuCtxSetCurrent(job));
    OK(VELOC_Checkpoint("good", version));
    CU(cuCtxSetCurrent(other));
    CU(cuLaunchHostFunc(stream, write_late, &junk));
    CU(cuCtxSetCurrent(job));
    OK(VELOC_Restart("good", version));
    CU(cuCtxSetCurrent(other));
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy_v2(stream));
    CU(cuCtxSetCurrent(job));
    CONTENT(managed, BYTES, 3, version);
}

/* Memory of another context of the same device. */
static void context(const char *configuration)
{
    CUcontext first = cuda_start(), second;
    CUdeviceptr device = device_memory(BYTES), foreign, managed;
    OK(VELOC_Init_single(0, configuration));
    one_good_checkpoint(device);
    second = cuda_context(0);
    foreign = device_memory(BYTES);
    REFUSED(VELOC_Mem_protect(2, as_pointer(foreign), BYTES, 1), "region 2|context");
    /* Managed memory is everybody's. */
    managed = managed_memory(BYTES);
    fill((void *)(uintptr_t)managed, BYTES, 3, 1);
    OK(VELOC_Mem_protect(3, as_pointer(managed), BYTES, 1));
    CU(cuCtxSetCurrent(first));
    OK(VELOC_Checkpoint("good", 2));
    OK(VELOC_Restart("good", 2));
    CONTENT((void *)(uintptr_t)managed, BYTES, 3, 1);
    in_order_with(first, second, (void *)(uintptr_t)managed, 3);
    OK(VELOC_Mem_unprotect(3));
    still_there(device);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(second));
    CU(cuCtxDestroy_v2(first));
}

/* Memory of another device. */
static void other_device(const char *configuration)
{
    CUcontext first = cuda_start(), second, primary;
    CUdeviceptr device = device_memory(BYTES), foreign, managed;
    int devices;
    CU(cuDeviceGetCount(&devices));
    if (devices < 2) {
        puts("skipped: there is one device");
        return;
    }
    second = cuda_context(1);
    foreign = device_memory(BYTES);
    CU(cuCtxSetCurrent(first));
    OK(VELOC_Init_single(0, configuration));
    REFUSED(VELOC_Mem_protect(2, as_pointer(foreign), BYTES, 1), "region 2|device 1|device 0");
    one_good_checkpoint(device);
    managed = managed_memory(BYTES);
    OK(VELOC_Mem_protect(3, as_pointer(managed), BYTES, 1));
    primary = cuda_primary(1);
    in_order_with(first, primary, as_pointer(managed), 3);
    OK(VELOC_Mem_unprotect(3));
    still_there(device);
    OK(VELOC_Finalize(1));
    /* The other device has its turn in the next job. */
    CU(cuCtxSetCurrent(second));
    OK(VELOC_Init_single(0, configuration));
    REFUSED(VELOC_Mem_protect(2, as_pointer(device), BYTES, 1), "region 2|device 0|device 1");
    one_good_checkpoint(foreign);
    still_there(foreign);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(second));
    CU(cuCtxDestroy_v2(first));
}

/* The application destroys its context, with everything in it, before it finalizes. */
static void context_first(const char *configuration)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES);
    int round;
    OK(VELOC_Init_single(0, configuration));
    one_good_checkpoint(device);
    OK(VELOC_Checkpoint_wait());
    CU(cuCtxDestroy_v2(context));
    REFUSED(VELOC_Checkpoint("bad", 1), "VELOC_Checkpoint");
    CHECK(VELOC_Restart("good", 1) == VELOC_FAILURE);
    VELOC_Finalize(1);
    for (round = 0; round < 2; round++) {
        context = cuda_context(0);
        device = device_memory(BYTES);
        OK(VELOC_Init_single(0, configuration));
        still_there(device);
        OK(VELOC_Finalize(1));
        CU(cuCtxDestroy_v2(context));
    }
}

/* The same with the primary context, which is made anew under the same handle before the job ends. */
static void reset_first(const char *configuration)
{
    CUdeviceptr device;
    check_cuda(__FILE__, __LINE__, "cuInit", cuda_load());
    cuda_primary(0);
    device = device_memory(BYTES);
    OK(VELOC_Init_single(0, configuration));
    one_good_checkpoint(device);
    OK(VELOC_Checkpoint_wait());
    CU(cuDevicePrimaryCtxReset_v2(0));
    REFUSED(VELOC_Checkpoint("bad", 1), "VELOC_Checkpoint|is gone");
    CU(cuDevicePrimaryCtxRelease_v2(0));
    cuda_primary(0);
    device = device_memory(BYTES);
    REFUSED(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1), "region 1|is gone");
    VELOC_Finalize(1);
    OK(VELOC_Init_single(0, configuration));
    still_there(device);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuDevicePrimaryCtxRelease_v2(0));
}

/* Finalized with everything in flight, waiting for it or not, and begun again. */
static void in_flight(const char *configuration)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES);
    int round, version;
    for (round = 0; round < 6; round++) {
        OK(VELOC_Init_single(0, configuration));
        OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
        for (version = 0; version < 12; version++) {
            fill_device(device, BYTES, 1, version);
            OK(VELOC_Checkpoint("good", version));
        }
        if (round % 3 == 2) {
            OK(VELOC_Prefetch_start());
            OK(VELOC_Restart("good", 11));
            OK(VELOC_Restart_begin("good", 10));
        }
        OK(VELOC_Finalize(round % 2));
        if (round % 2 == 1) {
            OK(VELOC_Init_single(0, configuration));
            EQUAL(VELOC_Restart_test("good", 0), 11);
            OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
            for (version = 0; version < 12; version++) {
                OK(VELOC_Restart("good", version));
                DEVICE_CONTENT(device, BYTES, 1, version);
            }
            OK(VELOC_Finalize(0));
        }
    }
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
}

/* A checkpoint of host memory needs no working device. */
static void broken_driver(const char *configuration)
{
    unsigned char *host = get_memory(BYTES);
    printf("cuInit gives %d\n", cuda_load());
    OK(VELOC_Init_single(0, configuration));
    fill(host, BYTES, 1, 1);
    OK(VELOC_Mem_protect(1, host, BYTES, 1));
    OK(VELOC_Checkpoint("host", 1));
    memset(host, 0, BYTES);
    OK(VELOC_Restart("host", 1));
    CONTENT(host, BYTES, 1, 1);
    OK(VELOC_Finalize(1));
}

/* Regions of a file restored into memory of another kind than they were taken from. */
static void changed_places(const char *configuration)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES), managed = managed_memory(BYTES);
    unsigned char *host = get_memory(BYTES);
    int lives;
    OK(VELOC_Init_single(0, configuration));
    for (lives = 0; lives < 2; lives++) {
        if (lives == 0) {
            fill_device(device, BYTES, 1, 1);
            fill(host, BYTES, 2, 1);
            fill((void *)(uintptr_t)managed, BYTES, 3, 1);
            OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
            OK(VELOC_Mem_protect(2, host, BYTES, 1));
            OK(VELOC_Mem_protect(3, as_pointer(managed), BYTES, 1));
            OK(VELOC_Checkpoint("places", 1));
        }
        memset(host, 0, BYTES);
        clear_device(device, BYTES);
        OK(VELOC_Mem_protect(1, host, BYTES, 1));
        OK(VELOC_Mem_protect(2, as_pointer(managed), BYTES, 1));
        OK(VELOC_Mem_protect(3, as_pointer(device), BYTES, 1));
        OK(VELOC_Restart("places", 1));
        CONTENT(host, BYTES, 1, 1);
        CONTENT((void *)(uintptr_t)managed, BYTES, 2, 1);
        DEVICE_CONTENT(device, BYTES, 3, 1);
        /* One region at a time, in the other order. */
        memset(host, 0, BYTES);
        OK(VELOC_Restart_begin("places", 1));
        {
            int ids[1];
            for (ids[0] = 3; ids[0] >= 1; ids[0]--)
                OK(VELOC_Recover_selective(VELOC_RECOVER_SOME, ids, 1));
        }
        OK(VELOC_Restart_end(1));
        CONTENT(host, BYTES, 1, 1);
        if (lives == 0) {
            OK(VELOC_Finalize(1));
            OK(VELOC_Init_single(0, configuration));
        }
    }
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
}

/* Regions captured one by one into a checkpoint whose first region is too large for the device
 * cache and whose second is not. */
static void large_then_small(const char *configuration)
{
    CUcontext context = cuda_start();
    size_t large = (size_t)12 << 20;
    CUdeviceptr first = device_memory(large), second = device_memory(BYTES);
    int ids[1];
    OK(VELOC_Init_single(0, configuration));
    fill_device(first, large, 1, 1);
    fill_device(second, BYTES, 2, 1);
    OK(VELOC_Mem_protect(1, as_pointer(first), large, 1));
    OK(VELOC_Mem_protect(2, as_pointer(second), BYTES, 1));
    OK(VELOC_Checkpoint_begin("large", 1));
    ids[0] = 1;
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1));
    ids[0] = 2;
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1));
    OK(VELOC_Checkpoint_end(1));
    clear_device(first, large);
    clear_device(second, BYTES);
    OK(VELOC_Restart("large", 1));
    DEVICE_CONTENT(first, large, 1, 1);
    DEVICE_CONTENT(second, BYTES, 2, 1);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
}

/* Host parts of several checkpoints fill the host buffer while their device parts wait for room
 * in it: everything has to reach its file all the same, or the calls must say that it did not. */
static void crowded(const char *configuration)
{
    CUcontext context = cuda_start();
    size_t bytes = (size_t)3 << 20;
    CUdeviceptr device = device_memory(bytes);
    unsigned char *host = get_memory(bytes);
    int version;
    OK(VELOC_Init_single(0, configuration));
    OK(VELOC_Mem_protect(1, as_pointer(device), bytes, 1));
    OK(VELOC_Mem_protect(2, host, bytes, 1));
    for (version = 1; version <= 4; version++) {
        fill_device(device, bytes, 1, version);
        fill(host, bytes, 2, version);
        OK(VELOC_Checkpoint("crowded", version));
    }
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Finalize(1));
    OK(VELOC_Init_single(0, configuration));
    OK(VELOC_Mem_protect(1, as_pointer(device), bytes, 1));
    OK(VELOC_Mem_protect(2, host, bytes, 1));
    for (version = 1; version <= 4; version++) {
        OK(VELOC_Restart("crowded", version));
        DEVICE_CONTENT(device, bytes, 1, version);
        CONTENT(host, bytes, 2, version);
    }
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
}

/* A stream of a green context, a part of the device, orders a checkpoint like any other. */
static void green(const char *configuration)
{
    size_t bytes = (size_t)16 << 20;
    CUdeviceptr device;
    CUstream stream;
    void *context, *staging = get_memory(bytes);
    check_cuda(__FILE__, __LINE__, "cuInit", cuda_load());
    cuda_primary(0);
    device = device_memory(bytes);
    EQUAL(softcuda.cuGreenCtxCreate(&context, NULL, 0, 1), 0);
    EQUAL(softcuda.cuGreenCtxStreamCreate(&stream, context, STREAM_NON_BLOCKING, 0), 0);
    OK(VELOC_Init_single(0, configuration));
    OK(VELOC_Set_stream(stream));
    OK(VELOC_Mem_protect(1, as_pointer(device), bytes, 1));
    fill(staging, bytes, 1, 1);
    CU(cuMemcpyHtoDAsync_v2(device, staging, bytes, stream));
    OK(VELOC_Checkpoint("green", 1));
    clear_device(device, bytes);
    OK(VELOC_Restart("green", 1));
    DEVICE_CONTENT(device, bytes, 1, 1);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuStreamDestroy_v2(stream));
    EQUAL(softcuda.cuGreenCtxDestroy(context), 0);
    CU(cuDevicePrimaryCtxRelease_v2(0));
}

/* Pinned host memory that a stream is still writing when the checkpoint is asked for. */
static void pinned_host(const char *configuration)
{
    CUcontext context = cuda_start();
    size_t bytes = (size_t)32 << 20;
    CUdeviceptr device = device_memory(bytes);
    CUstream stream;
    void *pinned;
    OK(VELOC_Init_single(0, configuration));
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    CU(cuMemAllocHost_v2(&pinned, bytes));
    memset(pinned, 0, bytes);
    fill_device(device, bytes, 1, 1);
    OK(VELOC_Mem_protect(1, pinned, bytes, 1));
    CU(cuMemcpyDtoHAsync_v2(pinned, device, bytes, stream));
    OK(VELOC_Checkpoint("pinned", 1));
    CU(cuStreamSynchronize(stream));
    memset(pinned, 0, bytes);
    OK(VELOC_Restart("pinned", 1));
    CONTENT(pinned, bytes, 1, 1);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuMemFreeHost(pinned));
    CU(cuCtxDestroy_v2(context));
}

/* A capture that was not broken, and has so many pieces of work in it. */
static void end_capture(CUstream stream, size_t expected)
{
    void *graph;
    size_t nodes = 0;
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == expected);
    CU(cuGraphDestroy(graph));
}

/* Checkpoints and restarts while work is being captured into a graph, in whatever mode. */
static void captured(const char *configuration)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES), other = device_memory(BYTES);
    CUstream stream, apart;
    void *pinned, *graph;
    int mode, status;
    CU(cuStreamCreate(&stream, 0));
    CU(cuStreamCreate(&apart, STREAM_NON_BLOCKING));
    CU(cuMemAllocHost_v2(&pinned, BYTES));
    memset(pinned, 1, BYTES);
    OK(VELOC_Init_single(0, configuration));
    one_good_checkpoint(device);
    for (mode = 0; mode < 3; mode++) {
        CU(cuStreamBeginCapture_v2(stream, mode));
        CU(cuMemcpyHtoDAsync_v2(other, pinned, BYTES, stream));
        REFUSED(VELOC_Checkpoint("captured", mode), "captured into a graph|VELOC_Set_stream");
        REFUSED(VELOC_Restart("good", 1), "captured into a graph|VELOC_Set_stream");
        CU(cuStreamIsCapturing(stream, &status));
        CHECK(status == 1);
        CU(cuMemcpyHtoDAsync_v2(other, pinned, BYTES, stream));
        /* Nor the stream that is captured, nor the default one, which would wait for it. */
        OK(VELOC_Set_stream(stream));
        REFUSED(VELOC_Checkpoint("captured", mode), "captured into a graph");
        OK(VELOC_Set_stream((void *)1));
        REFUSED(VELOC_Checkpoint("captured", mode), "captured into a graph");
        /* But any other. */
        OK(VELOC_Set_stream(apart));
        OK(VELOC_Checkpoint("captured", mode));
        OK(VELOC_Restart("captured", mode));
        OK(VELOC_Set_stream(NULL));
        end_capture(stream, 2);
        OK(VELOC_Checkpoint("captured", mode + 10));
    }
    /* Of a stream that the default one does not wait for, the driver tells nothing beforehand. */
    CU(cuStreamBeginCapture_v2(apart, 0));
    REFUSED(VELOC_Checkpoint("captured", 20), "captured into a graph|VELOC_Set_stream");
    CHECK(cuda.cuStreamEndCapture(apart, &graph) != 0 && graph == NULL);
    OK(VELOC_Checkpoint("captured", 20));
    OK(VELOC_Set_stream(stream));
    CU(cuStreamBeginCapture_v2(apart, 0));
    OK(VELOC_Checkpoint("captured", 21));
    end_capture(apart, 0);
    OK(VELOC_Set_stream(NULL));
    still_there(device);
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuMemFreeHost(pinned));
    CU(cuCtxDestroy_v2(context));
}

/* What a thread without a current context, of which the driver says nothing of any address, does. */
struct bare {
    const char *configuration;
    CUdeviceptr device, managed;
    unsigned char *host;
    void (*work)(struct bare *own);
};

static void *without_context(void *argument)
{
    struct bare *own = argument;
    own->work(own);
    return NULL;
}

static void elsewhere(struct bare *own, void (*work)(struct bare *own))
{
    pthread_t thread;
    own->work = work;
    EQUAL(pthread_create(&thread, NULL, without_context, own), 0);
    EQUAL(pthread_join(thread, NULL), 0);
}

static void bare_init(struct bare *own)
{
    OK(VELOC_Init_single(0, own->configuration));
}

static void bare_take(struct bare *own)
{
    OK(VELOC_Mem_protect(1, own->host, BYTES, 1));
    OK(VELOC_Mem_protect(2, as_pointer(own->device), BYTES, 1));
    OK(VELOC_Mem_protect(3, as_pointer(own->managed), BYTES, 1));
    OK(VELOC_Checkpoint("bare", 1));
}

static void bare_restore(struct bare *own)
{
    (void)own;
    OK(VELOC_Restart("bare", 1));
}

static void bare_end(struct bare *own)
{
    (void)own;
    OK(VELOC_Finalize(1));
}

static void take_and_restore_without_context(struct bare *own)
{
    own->device = device_memory(BYTES);
    own->managed = managed_memory(BYTES);
    own->host = get_memory(BYTES);
    fill(own->host, BYTES, 1, 1);
    fill_device(own->device, BYTES, 2, 1);
    fill(as_pointer(own->managed), BYTES, 3, 1);
    elsewhere(own, bare_init);
    elsewhere(own, bare_take);
    memset(own->host, 0, BYTES);
    memset(as_pointer(own->managed), 0, BYTES);
    clear_device(own->device, BYTES);
    elsewhere(own, bare_restore);
    CONTENT(own->host, BYTES, 1, 1);
    DEVICE_CONTENT(own->device, BYTES, 2, 1);
    CONTENT(as_pointer(own->managed), BYTES, 3, 1);
    elsewhere(own, bare_end);
    check_no_misuse();
}

/* Every call of the library comes from such a thread, and the memory is a primary context's; once with
 * the other device in use as well. */
static void bare_thread(const char *configuration)
{
    struct bare own = {0};
    int devices, round;
    check_cuda(__FILE__, __LINE__, "cuInit", cuda_load());
    CU(cuDeviceGetCount(&devices));
    own.configuration = configuration;
    for (round = 0; round < 2; round++) {
        if (round == 1 && devices < 2)
            break;
        cuda_primary(0);
        if (round == 1)
            cuda_primary(1);
        take_and_restore_without_context(&own);
        CU(cuDevicePrimaryCtxRelease_v2(0));
        if (round == 1)
            CU(cuDevicePrimaryCtxRelease_v2(1));
    }
}

/* The library has met the device before, in a context that such a thread could not find. */
static void bare_later(const char *configuration)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES);
    struct bare own = {0};
    own.configuration = configuration;
    own.device = device;
    own.managed = managed_memory(BYTES);
    own.host = get_memory(BYTES);
    OK(VELOC_Init_single(0, configuration));
    one_good_checkpoint(device);
    OK(VELOC_Mem_unprotect(1));
    fill(own.host, BYTES, 1, 1);
    fill(as_pointer(own.managed), BYTES, 3, 1);
    elsewhere(&own, bare_take);
    memset(own.host, 0, BYTES);
    clear_device(device, BYTES);
    elsewhere(&own, bare_restore);
    CONTENT(own.host, BYTES, 1, 1);
    DEVICE_CONTENT(device, BYTES, 1, 1);
    still_there(device);
    elsewhere(&own, bare_end);
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
}

/* Handlers of the application's own take their time, in which the library's workers go on. */
static void linger(void)
{
    const struct timespec moment = {0, 300000000};
    nanosleep(&moment, NULL);
}

/* What a program does that finalizes in a handler of its own. */
static void finalize_late(void)
{
    linger();
    printf("late %d\ndone\n", VELOC_Finalize(1));
    fflush(stdout);
}

/* The process ends without VELOC_Finalize, or with one in a handler, and the driver ends first: it was
 * loaded after both VELOC_Init and that handler were there. */
static void begin_before_the_driver(const char *configuration, int late)
{
    CUdeviceptr device;
    int version;
    OK(VELOC_Init_single(0, configuration));
    CHECK(atexit(late ? finalize_late : linger) == 0);
    cuda_start();
    device = device_memory(BYTES);
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    for (version = 0; version < 12; version++)
        OK(VELOC_Checkpoint("exit", version));
}

static void without_finalize(const char *configuration)
{
    begin_before_the_driver(configuration, 0);
}

static void late_finalize(const char *configuration)
{
    begin_before_the_driver(configuration, 1);
}

/* The driver is there, and all that is protected is the host's. */
static void host_at_exit(const char *configuration)
{
    unsigned char *host = get_memory(BYTES);
    OK(VELOC_Init_single(0, configuration));
    CHECK(atexit(finalize_late) == 0);
    cuda_start();
    fill(host, BYTES, 1, 1);
    OK(VELOC_Mem_protect(1, host, BYTES, 1));
    OK(VELOC_Checkpoint("exit", 1));
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(const char *configuration);
    } cases[] = {
        {"freed", freed},
        {"beyond", beyond},
        {"pieces", pieces},
        {"captured", captured},
        {"context", context},
        {"other-device", other_device},
        {"context-first", context_first},
        {"reset-first", reset_first},
        {"in-flight", in_flight},
        {"broken-driver", broken_driver},
        {"changed-places", changed_places},
        {"large-then-small", large_then_small},
        {"crowded", crowded},
        {"pinned-host", pinned_host},
        {"green", green},
        {"bare-thread", bare_thread},
        {"bare-later", bare_later},
        {"without-finalize", without_finalize},
        {"late-finalize", late_finalize},
        {"host-at-exit", host_at_exit},
    };
    unsigned i;
    CHECK(argc > 2);
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[2]) == 0) {
            cases[i].run(argv[1]);
            puts("done");
            return 0;
        }
    CHECK(!"no such case");
    return 1;
}
