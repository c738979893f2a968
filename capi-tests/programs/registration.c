/*
 * One of several processes that register their host buffers: registration <configuration> [key=value ...]
 *
 *   versions=6   checkpoints of device memory, taken while the buffer is being registered
 *
 * Waits until all of the buffer is registered, and restores. Prints "touched" when nothing but
 * registration is left.
 */
#include "cuda.h"

#include <time.h>

enum { BYTES = 2000000 };

int main(int argc, char **argv)
{
    CUcontext context = cuda_start();
    CUdeviceptr device = device_memory(BYTES);
    VELOC_Metrics metrics;
    int versions = (int)number(argc, argv, "versions", 6), version, said = 0;
    CHECK(argc > 1);
    OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
    OK(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    for (version = 0; version < versions; version++) {
        fill_device(device, BYTES, 1, version);
        OK(VELOC_Checkpoint("pin", version));
    }
    do {
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
        OK(VELOC_Get_metrics(&metrics, sizeof metrics));
        if (!said && metrics.host_touched == metrics.host_capacity) {
            puts("touched");
            fflush(stdout);
            said = 1;
        }
    } while (metrics.host_registered < metrics.host_capacity);
    puts("registered");
    fflush(stdout);
    for (version = 0; version < versions; version++) {
        OK(VELOC_Restart("pin", version));
        DEVICE_CONTENT(device, BYTES, 1, version);
    }
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
    puts("done");
    return 0;
}
