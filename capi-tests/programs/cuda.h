/*
 * As much of the CUDA driver's interface as these programs use, found at run time: no CUDA header
 * or toolkit is needed to build them, and they run on the driver of the machine as well as on the
 * software device.
 */
#ifndef CUDA_H
#define CUDA_H

#include "check.h"

#include <dlfcn.h>

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct context_object *CUcontext;
typedef struct stream_object *CUstream;
typedef unsigned long long CUmemGenericAllocationHandle;

typedef struct {
    int type, id;
} CUmemLocation;

typedef struct {
    int type, handle_types;
    CUmemLocation location;
    void *windows;
    unsigned char flags[8];
} CUmemAllocationProp;

typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

enum {
    STREAM_NON_BLOCKING = 1,
    ATTACH_GLOBAL = 1,
    PINNED = 1,
    LOCATION_DEVICE = 1,
    READ_AND_WRITE = 3
};

static struct {
    int (*cuInit)(unsigned flags);
    int (*cuDeviceGetCount)(int *count);
    int (*cuDeviceGet)(CUdevice *device, int ordinal);
    int (*cuDevicePrimaryCtxRetain)(CUcontext *context, CUdevice device);
    int (*cuDevicePrimaryCtxRelease_v2)(CUdevice device);
    int (*cuDevicePrimaryCtxReset_v2)(CUdevice device);
    int (*cuCtxCreate_v2)(CUcontext *context, unsigned flags, CUdevice device);
    int (*cuCtxDestroy_v2)(CUcontext context);
    int (*cuCtxSetCurrent)(CUcontext context);
    int (*cuCtxSynchronize)(void);
    int (*cuMemAlloc_v2)(CUdeviceptr *pointer, size_t bytes);
    int (*cuMemAllocManaged)(CUdeviceptr *pointer, size_t bytes, unsigned flags);
    int (*cuMemAdvise)(CUdeviceptr pointer, size_t bytes, unsigned advice, CUdevice device);
    int (*cuMemPrefetchAsync)(CUdeviceptr pointer, size_t bytes, CUdevice to, CUstream stream);
    int (*cuMemFree_v2)(CUdeviceptr pointer);
    int (*cuMemAllocHost_v2)(void **pointer, size_t bytes);
    int (*cuMemFreeHost)(void *pointer);
    int (*cuMemcpyHtoD_v2)(CUdeviceptr to, const void *from, size_t bytes);
    int (*cuMemcpyDtoH_v2)(void *to, CUdeviceptr from, size_t bytes);
    int (*cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
    int (*cuMemcpyDtoHAsync_v2)(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
    int (*cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
    int (*cuMemsetD32Async)(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
    int (*cuStreamCreate)(CUstream *stream, unsigned flags);
    int (*cuStreamDestroy_v2)(CUstream stream);
    int (*cuStreamSynchronize)(CUstream stream);
    int (*cuLaunchHostFunc)(CUstream stream, void (*function)(void *), void *data);
    int (*cuStreamBeginCapture_v2)(CUstream stream, int mode);
    int (*cuStreamEndCapture)(CUstream stream, void **graph);
    int (*cuStreamIsCapturing)(CUstream stream, int *status);
    int (*cuGraphGetNodes)(void *graph, void **nodes, size_t *count);
    int (*cuGraphDestroy)(void *graph);
    int (*cuMemGetAllocationGranularity)(size_t *bytes, const CUmemAllocationProp *prop, int option);
    int (*cuMemAddressReserve)(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wish,
                               unsigned long long flags);
    int (*cuMemAddressFree)(CUdeviceptr pointer, size_t bytes);
    int (*cuMemCreate)(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags);
    int (*cuMemRelease)(CUmemGenericAllocationHandle handle);
    int (*cuMemMap)(CUdeviceptr pointer, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags);
    int (*cuMemUnmap)(CUdeviceptr pointer, size_t bytes);
    int (*cuMemSetAccess)(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access,
                          size_t count);
} cuda;

/* The software device's own functions, NULL with a real driver; and those of green contexts, for which a
 * real one wants descriptions. */
static struct {
    int (*inject)(const char *specification);
    int (*cuGreenCtxCreate)(void **green, void *description, CUdevice device, unsigned flags);
    int (*cuGreenCtxDestroy)(void *green);
    int (*cuGreenCtxStreamCreate)(CUstream *stream, void *green, unsigned flags, int priority);
    size_t (*calls)(char *buffer, size_t size);
    uint64_t (*misuse_count)(void);
    size_t (*misuse_log)(char *buffer, size_t size);
    void (*reset_counts)(void);
    uint64_t (*staged_count)(void);
    uint64_t (*spun_count)(void);
    uint64_t (*call_count)(const char *name);
    void (*migrated)(uint64_t *to_device, uint64_t *to_host);
} softcuda;

static inline void *cuda_symbol(void *library, const char *name, int wanted)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL && wanted)
        check_failed(__FILE__, __LINE__, name, "is not in libcuda.so.1");
    return symbol;
}

/* ISO C has no conversion from a data pointer to a function pointer; POSIX wants this way. */
#define CUDA_FIND(table, field, name, wanted) \
    (*(void **)(void *)&table.field = cuda_symbol(library, name, wanted))

/* Loads the driver. Failures of cuInit itself are the caller's business. */
static inline int cuda_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        check_failed(__FILE__, __LINE__, "libcuda.so.1", dlerror());
    CUDA_FIND(cuda, cuInit, "cuInit", 1);
    CUDA_FIND(cuda, cuDeviceGetCount, "cuDeviceGetCount", 1);
    CUDA_FIND(cuda, cuDeviceGet, "cuDeviceGet", 1);
    CUDA_FIND(cuda, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 1);
    CUDA_FIND(cuda, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease_v2", 1);
    CUDA_FIND(cuda, cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset_v2", 1);
    CUDA_FIND(cuda, cuCtxCreate_v2, "cuCtxCreate_v2", 1);
    CUDA_FIND(cuda, cuCtxDestroy_v2, "cuCtxDestroy_v2", 1);
    CUDA_FIND(cuda, cuCtxSetCurrent, "cuCtxSetCurrent", 1);
    CUDA_FIND(cuda, cuCtxSynchronize, "cuCtxSynchronize", 1);
    CUDA_FIND(cuda, cuMemAlloc_v2, "cuMemAlloc_v2", 1);
    CUDA_FIND(cuda, cuMemAllocManaged, "cuMemAllocManaged", 1);
    CUDA_FIND(cuda, cuMemAdvise, "cuMemAdvise", 1);
    CUDA_FIND(cuda, cuMemPrefetchAsync, "cuMemPrefetchAsync", 1);
    CUDA_FIND(cuda, cuMemFree_v2, "cuMemFree_v2", 1);
    CUDA_FIND(cuda, cuMemAllocHost_v2, "cuMemAllocHost_v2", 1);
    CUDA_FIND(cuda, cuMemFreeHost, "cuMemFreeHost", 1);
    CUDA_FIND(cuda, cuMemcpyHtoD_v2, "cuMemcpyHtoD_v2", 1);
    CUDA_FIND(cuda, cuMemcpyDtoH_v2, "cuMemcpyDtoH_v2", 1);
    CUDA_FIND(cuda, cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2", 1);
    CUDA_FIND(cuda, cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2", 1);
    CUDA_FIND(cuda, cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2", 1);
    CUDA_FIND(cuda, cuMemsetD32Async, "cuMemsetD32Async", 1);
    CUDA_FIND(cuda, cuStreamCreate, "cuStreamCreate", 1);
    CUDA_FIND(cuda, cuStreamDestroy_v2, "cuStreamDestroy_v2", 1);
    CUDA_FIND(cuda, cuStreamSynchronize, "cuStreamSynchronize", 1);
    CUDA_FIND(cuda, cuLaunchHostFunc, "cuLaunchHostFunc", 1);
    CUDA_FIND(cuda, cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2", 1);
    CUDA_FIND(cuda, cuStreamEndCapture, "cuStreamEndCapture", 1);
    CUDA_FIND(cuda, cuStreamIsCapturing, "cuStreamIsCapturing", 1);
    CUDA_FIND(cuda, cuGraphGetNodes, "cuGraphGetNodes", 1);
    CUDA_FIND(cuda, cuGraphDestroy, "cuGraphDestroy", 1);
    CUDA_FIND(cuda, cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 1);
    CUDA_FIND(cuda, cuMemAddressReserve, "cuMemAddressReserve", 1);
    CUDA_FIND(cuda, cuMemAddressFree, "cuMemAddressFree", 1);
    CUDA_FIND(cuda, cuMemCreate, "cuMemCreate", 1);
    CUDA_FIND(cuda, cuMemRelease, "cuMemRelease", 1);
    CUDA_FIND(cuda, cuMemMap, "cuMemMap", 1);
    CUDA_FIND(cuda, cuMemUnmap, "cuMemUnmap", 1);
    CUDA_FIND(cuda, cuMemSetAccess, "cuMemSetAccess", 1);
    CUDA_FIND(softcuda, inject, "softcuda_inject", 0);
    CUDA_FIND(softcuda, cuGreenCtxCreate, "cuGreenCtxCreate", 0);
    CUDA_FIND(softcuda, cuGreenCtxDestroy, "cuGreenCtxDestroy", 0);
    CUDA_FIND(softcuda, cuGreenCtxStreamCreate, "cuGreenCtxStreamCreate", 0);
    CUDA_FIND(softcuda, calls, "softcuda_calls", 0);
    CUDA_FIND(softcuda, misuse_count, "softcuda_misuse_count", 0);
    CUDA_FIND(softcuda, misuse_log, "softcuda_misuse_log", 0);
    CUDA_FIND(softcuda, reset_counts, "softcuda_reset_counts", 0);
    CUDA_FIND(softcuda, staged_count, "softcuda_staged_count", 0);
    CUDA_FIND(softcuda, spun_count, "softcuda_spun_count", 0);
    CUDA_FIND(softcuda, call_count, "softcuda_call_count", 0);
    CUDA_FIND(softcuda, migrated, "softcuda_migrated", 0);
    return cuda.cuInit(0);
}

static inline void check_cuda(const char *file, int line, const char *what, int status)
{
    char detail[64];
    if (status != 0) {
        snprintf(detail, sizeof detail, "returned CUresult %d", status);
        check_failed(file, line, what, detail);
    }
}

#define CU(call) check_cuda(__FILE__, __LINE__, #call, cuda.call)

static inline CUcontext cuda_context(int ordinal)
{
    CUdevice device;
    CUcontext context;
    CU(cuDeviceGet(&device, ordinal));
    CU(cuCtxCreate_v2(&context, 0, device));
    return context;
}

/* The primary context of a device, as programs of the runtime have it. */
static inline CUcontext cuda_primary(int ordinal)
{
    CUdevice device;
    CUcontext context;
    CU(cuDeviceGet(&device, ordinal));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    return context;
}

/* The driver, initialised, with a context on the first device. */
static inline CUcontext cuda_start(void)
{
    check_cuda(__FILE__, __LINE__, "cuInit", cuda_load());
    return cuda_context(0);
}

static inline CUdeviceptr device_memory(size_t bytes)
{
    CUdeviceptr pointer;
    CU(cuMemAlloc_v2(&pointer, bytes == 0 ? 1 : bytes));
    return pointer;
}

static inline CUdeviceptr managed_memory(size_t bytes)
{
    CUdeviceptr pointer;
    CU(cuMemAllocManaged(&pointer, bytes, ATTACH_GLOBAL));
    return pointer;
}

/* Contents of device memory. They wait for the copy alone, and use the default stream. */
static inline void fill_device(CUdeviceptr at, size_t bytes, int id, int version)
{
    void *staging = get_memory(bytes);
    fill(staging, bytes, id, version);
    CU(cuMemcpyHtoD_v2(at, staging, bytes));
    free(staging);
}

static inline void clear_device(CUdeviceptr at, size_t bytes)
{
    void *staging = get_memory(bytes);
    memset(staging, 0xee, bytes);
    CU(cuMemcpyHtoD_v2(at, staging, bytes));
    free(staging);
}

static inline void check_device(const char *file, int line, CUdeviceptr at, size_t bytes, int id,
                                int version)
{
    void *staging = get_memory(bytes);
    CU(cuMemcpyDtoH_v2(staging, at, bytes));
    check_content(file, line, staging, bytes, id, version);
    free(staging);
}

#define DEVICE_CONTENT(at, bytes, id, version) \
    check_device(__FILE__, __LINE__, (at), (bytes), (id), (version))

/* The software device notices what a real one would punish later or never. */
static inline void check_no_misuse(void)
{
    char log[4096] = "";
    if (softcuda.misuse_count == NULL || softcuda.misuse_count() == 0)
        return;
    softcuda.misuse_log(log, sizeof log);
    check_failed(__FILE__, __LINE__, "the software device was misused", log);
}

/* A device pointer as the library takes it. */
static inline void *as_pointer(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer;
}

#endif
