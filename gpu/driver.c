#include "driver.h"

#include <dlfcn.h>

#include "common.h"

struct driver driver;

static CUdevice device;
static CUcontext context;
static int software;

void driver_start(void)
{
    int count = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        fail("there is no CUDA driver: %s", dlerror());
    /* ISO C has no conversion from a data pointer to a function pointer; POSIX wants this way. */
#define DRIVER_FIND(name, parameters)                       \
    *(void **)(void *)&driver.name = dlsym(library, #name); \
    if (driver.name == NULL)                                \
        fail("the driver has no " #name);
    DRIVER_FUNCTIONS(DRIVER_FIND)
#undef DRIVER_FIND
    software = dlsym(library, "softcuda_is_software") != NULL;
    CU(cuInit(0));
    CU(cuDeviceGetCount(&count));
    if (count == 0)
        fail("the CUDA driver has no device");
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    driver_join();
}

void driver_join(void)
{
    CU(cuCtxSetCurrent(context));
}

CUdevice driver_device(void)
{
    return device;
}

int driver_is_software(void)
{
    return software;
}

void driver_check(CUresult result, const char *call, const char *file, int line)
{
    const char *name = NULL;
    if (result == 0)
        return;
    if (driver.cuGetErrorName(result, &name) != 0 || name == NULL)
        name = "an unknown error";
    fail("%s:%d: %s: %s (%d)", file, line, call, name, result);
}
