/*
 * A job of several processes that is killed, and takes the same few version numbers in turn:
 * reused_versions <configuration> [numbers=N] [key=value ...]
 *
 * Each process prints its number "pid P". The job restores the newest version, which must be of one step on all
 * processes, and prints "restored S", the step (0: there was none). Then it takes one version for each step, with the
 * number S % N + 1, and prints "taken S" when all processes have taken it.
 *
 *   numbers=N   how many version numbers there are [2]
 *   last=1      restores only, and ends
 */
#include "../programs/check.h"

#include <mpi.h>
#include <unistd.h>

enum { BYTES = 150000 };

static int rank;

static void say(const char *what, int step)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s %d\n", what, step);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    unsigned char *memory = get_memory(BYTES);
    int step = 0, least, most, version, numbers;
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(argc > 1);
    numbers = (int)number(argc, argv, "numbers", 2);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    OK(VELOC_Mem_protect(1, &step, 1, sizeof step));
    OK(VELOC_Mem_protect(2, memory, BYTES, 1));
    version = VELOC_Restart_test("turns", 0);
    if (version > 0) {
        OK(VELOC_Restart("turns", version));
        EQUAL(step % numbers + 1, version);
        CONTENT(memory, BYTES, rank, step);
    }
    MPI_Allreduce(&step, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&step, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EQUAL(least, most);
    say("restored", step);
    while (!number(argc, argv, "last", 0)) {
        step++;
        fill(memory, BYTES, rank, step);
        OK(VELOC_Checkpoint("turns", step % numbers + 1));
        say("taken", step);
        if (step % 3 == 0)
            OK(VELOC_Checkpoint_wait());
    }
    OK(VELOC_Finalize(1));
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    return 0;
}
