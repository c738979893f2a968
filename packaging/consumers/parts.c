/*
 * Logs what a part of the program receives, and replays it: parts-c <anything>
 *
 * Prints "done" if everything was as it should be, on every process.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <veloc-mpi.h>

static int rank, ranks;

static void check(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "%s: %s\n", what, VELOC_Part_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* What the left neighbour has, which can be asked for once. */
static int from_left(void)
{
    int got = -1, left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    static int own = 1000;
    own += 1;
    MPI_Sendrecv(&own, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return got;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(VELOC_Part_begin(1, 0) == VELOC_SUCCESS, "VELOC_Part_begin");
    check(from_left() == 1001, "what was received");
    check(VELOC_Part_end(1) == VELOC_SUCCESS, "VELOC_Part_end");
    check(VELOC_Part_replay_begin(1) == VELOC_SUCCESS, "VELOC_Part_replay_begin");
    check(from_left() == 1001, "what the log gives");
    check(VELOC_Part_replay_end(1) == VELOC_SUCCESS, "VELOC_Part_replay_end");
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    return 0;
}
