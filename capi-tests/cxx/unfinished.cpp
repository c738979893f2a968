/*
 * A program that ends without VELOC_Finalize while its checkpoints are being flushed:
 * unfinished <configuration> host|device how=return|exit|quick|thread|busy
 *
 * Its exit code is 7. `thread`: another thread than main's ends the process. `busy`: another thread is in calls. An object of its own, which the end
 * of the process destroys, still calls the library, as those do that protect memory in their constructors.
 */
#include <atomic>
#include <thread>

#define VELOC_NO_MPI
#include "check.hpp"
#include "memory.hpp"

static const size_t size = 8 << 20;

struct collector {
    memory *ring = nullptr;
    ~collector()
    {
        if (ring != nullptr) {
            VELOC_Mem_unprotect(0);
            VELOC_Cleanup("shot1", false);
        }
    }
};

static collector forward;

int main(int argc, char **argv)
{
    static memory ring(std::string(argv[2]) == "device", size);
    forward.ring = &ring;
    EQUAL(VELOC_Init_single(0, argv[1]), VELOC_SUCCESS);
    for (int version = 5; version >= 0; version--)
        EQUAL(VELOC_Prefetch_enqueue("shot0", version, 0), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_protect(0, ring.address(), size, 1, true), VELOC_SUCCESS);
    for (int version = 0; version < 6; version++) {
        ring.fill(version);
        EQUAL(VELOC_Checkpoint("shot0", version), VELOC_SUCCESS);
    }
    EQUAL(VELOC_Prefetch_start(), VELOC_SUCCESS);
    for (int version = 5; version >= 4; version--) {
        EQUAL(VELOC_Restart("shot0", version), VELOC_SUCCESS);
        CHECK(ring.is(version));
    }
    EQUAL(VELOC_Prefetch_enqueue("shot1", 0, 0), VELOC_SUCCESS);
    // The flush of the last one takes hours.
    typedef int configure(const char *, const char *);
    if (auto *slow = reinterpret_cast<configure *>(dlsym(RTLD_DEFAULT, "softcuda_configure"))) {
        EQUAL(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
        EQUAL(slow("SOFTCUDA_BANDWIDTH", "dtoh=0.000001"), 0);
    }
    EQUAL(VELOC_Checkpoint("shot1", 0), VELOC_SUCCESS);
    puts("taken");
    fflush(stdout);
    const std::string how = option(argc, argv, "how");
    if (how == "return")
        return 7;
    if (how == "quick")
        std::quick_exit(7);
    if (how == "busy") {
        std::atomic<int> taken{0};
        std::thread([&] {
            for (int version = 0;; version++, taken++)
                VELOC_Checkpoint("busy", version);
        }).detach();
        while (taken < 20) {
        }
        exit(7);
    }
    if (how == "thread")
        std::thread([] { exit(7); }).join();
    exit(7);
}
