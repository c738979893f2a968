/*
 * The driver comes after VELOC_Init, and the process ends without VELOC_Finalize: driver_loaded_late <configuration>
 *
 * The driver's library ends before whatever was registered before it was loaded. Whether it has a device
 * or not: what was taken is kept, and the process ends.
 */
#include "check.h"

#include <dlfcn.h>

enum { BYTES = 200000, VERSIONS = 30 };

static char data[BYTES];

int main(int argc, char **argv)
{
    int version;
    void *library;
    int (*init)(unsigned flags);
    CHECK(argc > 1);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(0, data, BYTES, 1));
    for (version = 0; version < VERSIONS; version++) {
        if (version == VERSIONS / 2) {
            library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
            CHECK(library != NULL);
            *(void **)(void *)&init = dlsym(library, "cuInit");
            CHECK(init != NULL);
            printf("cuInit gives %d\n", init(0));
        }
        fill(data, BYTES, 0, version);
        OK(VELOC_Checkpoint("late", version));
    }
    puts("done");
    return 0;
}
