/* A communicator of all ranks in the reverse order, or, with an argument, of all but rank 0 in theirs. */
#include "../programs/check.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Comm comm;
    int rank, in_order = argc > 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, in_order && rank == 0, in_order ? rank : -rank, &comm);
    if (!in_order || rank > 0) {
        OK(VELOC_Init(comm, argv[1]));
        OK(VELOC_Finalize(0));
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    puts("done");
    return 0;
}
