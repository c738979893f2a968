/*
 * The library over a communicator: what every process must agree on.
 *
 * agreement CONFIGURATION scratch=DIR case=...
 *   together   versions that all processes have; Finalize after MPI_Finalize
 *   single     before MPI_Init: VELOC_Init is refused, VELOC_Init_single works
 *   misfit     one process has a configuration that is missing: none starts, none waits for ever
 */
#include "../programs/check.h"

#include <unistd.h>

enum { COUNT = 1000 };

static int data[COUNT];
static int rank;

static void take(int version)
{
    fill(data, sizeof data, rank, version);
    OK(VELOC_Checkpoint("together", version));
}

static void together(const char *configuration, const char *scratch)
{
    char path[VELOC_MAX_NAME];
    int version;
    OK(VELOC_Init(MPI_COMM_WORLD, configuration));
    REFUSED(VELOC_Init(MPI_COMM_WORLD, configuration), "initialised already");
    OK(VELOC_Mem_protect(0, data, COUNT, sizeof data[0]));
    for (version = 1; version <= 3; version++)
        take(version);
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Finalize(1));
    MPI_Barrier(MPI_COMM_WORLD);

    /* The newest version of one process is gone: then it is nobody's newest. */
    if (rank == 1) {
        snprintf(path, sizeof path, "%s/together-1-3.dat", scratch);
        CHECK(unlink(path) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(VELOC_Init(MPI_COMM_WORLD, configuration));
    OK(VELOC_Mem_protect(0, data, COUNT, sizeof data[0]));
    EQUAL(VELOC_Restart_test("together", 0), 2);
    EQUAL(VELOC_Restart_test("together", 1), 1);
    EQUAL(VELOC_Restart_test("nobody", 0), -1);
    REFUSED(VELOC_Restart("together", 3), "version 3");
    OK(VELOC_Restart("together", 2));
    CONTENT(data, sizeof data, rank, 2);
    MPI_Finalize();
    OK(VELOC_Finalize(0));
}

static void misfit(const char *configuration)
{
    const VELOC_Option options[] = {{"mode", "sync"}, {"ephemeral", "true"}};
    VELOC_Option own_mode[] = {options[0], options[1], options[0]};
    const char *own = rank == 1 ? "there-is-no-such.cfg" : configuration;
    REFUSED(VELOC_Init(MPI_COMM_WORLD, own),
            rank == 1 ? "there-is-no-such.cfg" : "process 1: |there-is-no-such.cfg");
    REFUSED(VELOC_Init(MPI_COMM_NULL, configuration), "MPI_COMM_NULL");
    /* Nor if it is options that do not fit. */
    REFUSED(VELOC_Init_options(MPI_COMM_WORLD, own_mode, rank == 1 ? 3 : 2),
            rank == 1 ? "mode is given twice" : "process 1: |mode is given twice");
    OK(VELOC_Init_options(MPI_COMM_WORLD, options, 2));
    OK(VELOC_Finalize(1));
    OK(VELOC_Init(MPI_COMM_WORLD, configuration));
    OK(VELOC_Finalize(1));
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    const char *what = option(argc, argv, "case", "");
    if (strcmp(what, "single") == 0) {
        REFUSED(VELOC_Init(MPI_COMM_WORLD, argv[1]), "MPI_Init");
        OK(VELOC_Init_single(0, argv[1]));
        OK(VELOC_Finalize(1));
        puts("done");
        return 0;
    }
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(what, "together") == 0)
        together(argv[1], option(argc, argv, "scratch", "."));
    else
        misfit(argv[1]);
    if (rank == 0)
        puts("done");
    return 0;
}
