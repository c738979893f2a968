/*
 * Flushes and fetches beside a host buffer that is not registered: unregistered_buffer <configuration>
 * [staged=1] [asleep=1] [full=1]
 *
 * The device copies by way of the library's own registered memory: no copy is staged by the driver,
 * which would keep the application's launches waiting. With `staged=1` the driver registers nothing,
 * and copies have to be. With `asleep=1` workers take no processor while the device copies.
 * With `full=1` scratch has no room for a whole checkpoint.
 */
#include "cuda.h"

enum { BYTES = 5000001, FEW = 1000000, VERSIONS = 6, TRIES = 100 };

/* Waits until the workers have copied while the application did nothing else, and how they waited. */
static void asleep(CUdeviceptr device)
{
    uint64_t copies, before;
    int version = VERSIONS;
    do {
        CHECK(version < VERSIONS + TRIES);
        fill_device(device, BYTES, 1, version);
        OK(VELOC_Checkpoint("asleep", version++));
        before = softcuda.spun_count();
        copies = softcuda.call_count("cuMemcpyDtoHAsync_v2");
        OK(VELOC_Checkpoint_wait());
        CHECK(softcuda.spun_count() == before);
    } while (softcuda.call_count("cuMemcpyDtoHAsync_v2") == copies);
}

/* What is on its way when a file takes no more is no part of the next one. */
static void full(CUdeviceptr device)
{
    fill_device(device, BYTES, 1, 1);
    CHECK(VELOC_Checkpoint("full", 1) != VELOC_SUCCESS);
    OK(VELOC_Mem_protect(1, as_pointer(device), FEW, 1));
    fill_device(device, FEW, 1, 2);
    OK(VELOC_Checkpoint("full", 2));
    clear_device(device, FEW);
    OK(VELOC_Restart("full", 2));
    DEVICE_CONTENT(device, FEW, 1, 2);
}

int main(int argc, char **argv)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES);
    int version, staged = (int)number(argc, argv, "staged", 0);
    CHECK(argc > 1);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    if (number(argc, argv, "full", 0)) {
        full(device);
        OK(VELOC_Finalize(1));
        check_no_misuse();
        CU(cuCtxDestroy_v2(context));
        puts("done");
        return 0;
    }
    for (version = 0; version < VERSIONS; version++) {
        fill_device(device, BYTES, 1, version);
        OK(VELOC_Checkpoint("ring", version));
    }
    OK(VELOC_Checkpoint_wait());
    if (number(argc, argv, "asleep", 0) && softcuda.spun_count != NULL)
        asleep(device);
    for (version = VERSIONS - 1; version >= 0; version--) {
        clear_device(device, BYTES);
        OK(VELOC_Restart("ring", version));
        DEVICE_CONTENT(device, BYTES, 1, version);
    }
    OK(VELOC_Finalize(1));
    check_no_misuse();
    if (softcuda.staged_count != NULL)
        CHECK((softcuda.staged_count() > 0) == staged);
    CU(cuCtxDestroy_v2(context));
    puts("done");
    return 0;
}
