/*
 * An object that passes for one of MPI's interfaces for Fortran: it receives by the profiling interface
 * or, compiled with BLIND, in no way that could be seen.
 */
#include <mpi.h>

int standin_receive(int *value, int source);

int standin_receive(int *value, int source)
{
#ifdef BLIND
    return *value + source;
#else
    return PMPI_Recv(value, 1, MPI_INT, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
}
