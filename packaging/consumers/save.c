/*
 * Saves and restores: save-c <configuration>
 *
 * Prints "done" if everything was as it should be, on every process.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <veloc.h>

enum { CELLS = 10000 };

static double state[CELLS];

static void check(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "%s: %s\n", what, VELOC_Last_error());
#ifdef WITH_MPI
    MPI_Abort(MPI_COMM_WORLD, 1);
#endif
    exit(1);
}

int main(int argc, char **argv)
{
    const char *config = argc > 1 ? argv[1] : NULL;
    int rank = 0, version;
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(VELOC_Init(MPI_COMM_WORLD, config) == VELOC_SUCCESS, "VELOC_Init");
#else
    check(VELOC_Init_single(0, config) == VELOC_SUCCESS, "VELOC_Init_single");
#endif
    check(VELOC_Mem_protect(0, state, CELLS, sizeof state[0]) == VELOC_SUCCESS, "protect");
    for (version = 1; version <= 3; version++) {
        state[CELLS - 1] = 100 * rank + version;
        check(VELOC_Checkpoint("save", version) == VELOC_SUCCESS, "VELOC_Checkpoint");
    }
    check(VELOC_Restart_test("save", 0) == 3, "VELOC_Restart_test");
    check(VELOC_Restart("save", 2) == VELOC_SUCCESS, "VELOC_Restart");
    check(state[CELLS - 1] == 100 * rank + 2, "the restored state");
    check(VELOC_Finalize(1) == VELOC_SUCCESS, "VELOC_Finalize");
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    if (rank == 0)
        puts("done");
    return 0;
}
