/*
 * Saves and restores, from C++ by the C interface: save-cxx <configuration>
 *
 * Prints "done" if everything was as it should be, on every process.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <vector>

#include "program.hpp"

namespace {

void save(const char *config, int rank)
{
#ifdef WITH_MPI
    check(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS, "VELOC_Init");
#else
    check(VELOC_Init_single(0, config) == VELOC_SUCCESS, "VELOC_Init_single");
#endif
    std::vector<double> state(10000);
    check(VELOC_Mem_protect(0, state.data(), state.size(), sizeof state[0]) == VELOC_SUCCESS,
          "VELOC_Mem_protect");
    for (int version = 1; version <= 3; version++) {
        state.back() = 100 * rank + version;
        check(VELOC_Checkpoint("save", version) == VELOC_SUCCESS, "VELOC_Checkpoint");
    }
    check(VELOC_Restart_test("save", 0) == 3, "VELOC_Restart_test");
    check(VELOC_Restart("save", 2) == VELOC_SUCCESS, "VELOC_Restart");
    check(state.back() == 100 * rank + 2, "the restored state");
    check(VELOC_Finalize(1) == VELOC_SUCCESS, "VELOC_Finalize");
}

} // namespace

int main(int argc, char **argv)
{
    return run(argc, argv, save);
}
