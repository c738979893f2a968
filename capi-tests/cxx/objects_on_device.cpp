/*
 * Code of the application runs outside of the library's time in the device's context:
 * objects_on_device <configuration>
 */
#include <dlfcn.h>
#include <vector>

#define VELOC_NO_MPI
#include "check.hpp"
#include "veloc.hpp"

template <typename F> static F *driver(const char *name)
{
    static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != nullptr);
    return reinterpret_cast<F *>(dlsym(library, name));
}

/* The thread's calls are as strict about graph captures as the application left them. */
static void check_outside()
{
    int mode = 0;
    CHECK(driver<int(int *)>("cuThreadExchangeStreamCaptureMode")(&mode) == 0);
    CHECK(mode == 0);
}

int main(int, char **argv)
{
    void *context = nullptr, *memory[2];
    const size_t bytes = 100000;
    CHECK(driver<int(unsigned)>("cuInit")(0) == 0);
    CHECK(driver<int(void **, unsigned, int)>("cuCtxCreate_v2")(&context, 0, 0) == 0);
    veloc::client_t *client = veloc::get_client(0u, argv[1]);
    int written = 0, read = 0;
    /* Between two regions of the device, which are looked at before and after it. */
    for (int i = 0; i < 2; i++) {
        CHECK(driver<int(void **, size_t)>("cuMemAlloc_v2")(&memory[i], bytes) == 0);
        CHECK(client->mem_protect(2 * i, memory[i], bytes, 1));
    }
    CHECK(client->mem_protect(
        1,
        [&](std::ostream &out) {
            check_outside();
            written++;
            out << "x";
        },
        [&](std::istream &) {
            check_outside();
            read++;
            return true;
        }));
    for (int version = 0; version < 3; version++) {
        CHECK(client->checkpoint("x", version));
        check_outside();
        CHECK(client->restart("x", version));
        check_outside();
    }
    CHECK(written == 3 && read == 3);
    CHECK(client->checkpoint_wait());
    puts("done");
    return 0;
}
