/*
 * As much of the CUDA driver's interface as `measure` uses, found at run time: no CUDA header or
 * toolkit is needed. Every call is checked.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

struct location {
    int type; /* 1: a device */
    int id;
};

struct allocation_properties {
    int type; /* 1: device memory */
    int handle_types;
    struct location location;
    void *windows_handle;
    unsigned char compression, direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct access {
    struct location location;
    int flags; /* 3: read and write */
};

enum {
    EVENT_DISABLE_TIMING = 2,
    STREAM_NON_BLOCKING = 1
};

/* One line for each function: its parameters. */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit, (unsigned))                                                                          \
    X(cuDriverGetVersion, (int *))                                                                 \
    X(cuGetErrorName, (CUresult, const char **))                                                   \
    X(cuDeviceGetCount, (int *))                                                                   \
    X(cuDeviceGet, (CUdevice *, int))                                                              \
    X(cuDeviceGetName, (char *, int, CUdevice))                                                    \
    X(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                   \
    X(cuDeviceGetAttribute, (int *, int, CUdevice))                                                \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    X(cuCtxSetCurrent, (CUcontext))                                                                \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                       \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                      \
    X(cuMemFree_v2, (CUdeviceptr))                                                                 \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                 \
    X(cuMemFreeHost, (void *))                                                                     \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                            \
    X(cuMemHostUnregister, (void *))                                                               \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                          \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                               \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                         \
    X(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))                                 \
    X(cuStreamCreate, (CUstream *, unsigned))                                                      \
    X(cuStreamSynchronize, (CUstream))                                                             \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                            \
    X(cuStreamDestroy_v2, (CUstream))                                                              \
    X(cuEventCreate, (CUevent *, unsigned))                                                        \
    X(cuEventRecord, (CUevent, CUstream))                                                          \
    X(cuEventSynchronize, (CUevent))                                                               \
    X(cuEventDestroy_v2, (CUevent))                                                                \
    X(cuMemGetAllocationGranularity, (size_t *, const struct allocation_properties *, int))        \
    X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))       \
    X(cuMemAddressFree, (CUdeviceptr, size_t))                                                     \
    X(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const struct allocation_properties *,  \
                    unsigned long long))                                                           \
    X(cuMemRelease, (CUmemGenericAllocationHandle))                                                \
    X(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))   \
    X(cuMemUnmap, (CUdeviceptr, size_t))                                                           \
    X(cuMemSetAccess, (CUdeviceptr, size_t, const struct access *, size_t))

struct driver {
#define DRIVER_FIELD(name, parameters) CUresult(*name) parameters;
    DRIVER_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
};

extern struct driver driver;

/* Loads the driver, makes the primary context of the first device current on this thread. */
void driver_start(void);

/* Makes the same context current on another thread. */
void driver_join(void);

CUdevice driver_device(void);

/* Whether it is the software device, whose times say nothing about a GPU. */
int driver_is_software(void);

/* Ends the program, with the call and the error's name, if the call failed. */
void driver_check(CUresult result, const char *call, const char *file, int line);

#define CU(call) driver_check(driver.call, #call, __FILE__, __LINE__)

#endif
