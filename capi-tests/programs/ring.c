/*
 * Flushes and fetches beside a host buffer that is not registered: ring <configuration>
 * [staged=1] [asleep=1]
 *
 * The device copies by way of the library's own registered memory: no copy is staged by the driver,
 * which would keep the application's launches waiting. With `staged=1` the driver registers nothing,
 * and copies have to be. With `asleep=1` much is left to do when the application waits for the workers:
 * they take no processor while the device copies.
 */
#include "cuda.h"

enum { BYTES = 5000001, VERSIONS = 6 };

int main(int argc, char **argv)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES);
    int version, staged = (int)number(argc, argv, "staged", 0);
    CHECK(argc > 1);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    for (version = 0; version < VERSIONS; version++) {
        fill_device(device, BYTES, 1, version);
        OK(VELOC_Checkpoint("ring", version));
    }
    if (number(argc, argv, "asleep", 0) && softcuda.spun_count != NULL) {
        uint64_t before = softcuda.spun_count();
        OK(VELOC_Checkpoint_wait());
        CHECK(softcuda.spun_count() == before);
    }
    OK(VELOC_Checkpoint_wait());
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
