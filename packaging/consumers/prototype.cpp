/*
 * Saves and restores by the calls of C++ programs for VELOC's GPU prototype: save-prototype <configuration>
 *
 * Prints "done" if everything was as it should be, on every process.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <vector>

#include "program.hpp"

#include <veloc.hpp>

namespace {

void save(const char *config, int rank)
{
#ifdef WITH_MPI
    check(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS, "VELOC_Init");
#else
    check(VELOC_Init_single(0, config) == VELOC_SUCCESS, "VELOC_Init_single");
#endif
    const bool should_compress = 1;
    release_routine none = NULL;
    std::vector<float> ring(1 << 20);
    float *const ptr = ring.data();
    const std::string name = "RTM1";
    for (int i = 2; i >= 0; i--)
        check(VELOC_Prefetch_enqueue(name.c_str(), i, 0) == VELOC_SUCCESS, "VELOC_Prefetch_enqueue");
    const int protected_all[] = {
        VELOC_Mem_protect(0, ptr, ring.size(), sizeof(float), DEFAULT),
        VELOC_Mem_protect(0, ptr, ring.size(), sizeof(float), READ_ONLY, none),
        VELOC_Mem_protect(0, ptr, ring.size(), sizeof(float), should_compress, DEFAULT, none),
        VELOC_Mem_protect(0, ptr, ring.size(), sizeof(float), should_compress, DEFAULT),
        VELOC_Mem_protect(0, ptr, ring.size(), sizeof(float), should_compress),
    };
    for (int result : protected_all)
        check(result == VELOC_SUCCESS, "VELOC_Mem_protect");
    for (int version = 0; version < 3; version++) {
        ring.assign(ring.size(), static_cast<float>(10 * rank + version));
        check(VELOC_Checkpoint(name.c_str(), version) == VELOC_SUCCESS, "VELOC_Checkpoint");
        // The next frames take the place of these at once.
        ring.back() = -1;
        ring.assign(ring.size(), -1);
    }
    check(VELOC_Prefetch_start() == VELOC_SUCCESS, "VELOC_Prefetch_start");
    for (int version = 2; version >= 0; version--) {
        check(VELOC_Restart(name.c_str(), version) == VELOC_SUCCESS, "VELOC_Restart");
        check(ring == std::vector<float>(ring.size(), static_cast<float>(10 * rank + version)),
              "the restored frames");
    }
    check(VELOC_Mem_unprotect(0) == VELOC_SUCCESS, "VELOC_Mem_unprotect");
    const bool print_stats = false;
    check(VELOC_Cleanup(name.c_str(), print_stats) == VELOC_SUCCESS, "VELOC_Cleanup");
    check(VELOC_Finalize(0) == VELOC_SUCCESS, "VELOC_Finalize");
}

} // namespace

int main(int argc, char **argv)
{
    return run(argc, argv, save);
}
