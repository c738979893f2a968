/*
 * Goes in front of calls of MPI, one of which fails on one process alone, without having done anything:
 *
 *   MPI_FAULT=CALL:RANK:FIRST:TIMES   process RANK's call number FIRST (from 1) of the function CALL,
 *                                     and so many in all
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library calls MPI by the names of the profiling interface. */
#define REAL(call) ((__typeof__(&PMPI_##call))dlsym(RTLD_NEXT, "PMPI_" #call))

enum { CALLS = 5 };

static const char *const names[CALLS] = {"MPI_Iallreduce", "MPI_Iallgather", "MPI_Test", "MPI_Wait",
                                         "MPI_Allreduce"};

/* Whether this call fails. `call` is its place among the names. */
static int fails(int call)
{
    static int made[CALLS];
    const char *fault = getenv("MPI_FAULT");
    char name[32];
    int rank, faulty, first, times, own = ++made[call];
    if (fault == NULL || sscanf(fault, "%31[^:]:%d:%d:%d", name, &faulty, &first, &times) != 4)
        return 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return strcmp(name, names[call]) == 0 && rank == faulty && own >= first && own < first + times;
}

int PMPI_Iallreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    return fails(0) ? MPI_ERR_OTHER : REAL(Iallreduce)(mine, all, count, type, op, comm, request);
}

int PMPI_Iallgather(const void *mine, int count, MPI_Datatype type, void *all, int each,
                   MPI_Datatype type_of_all, MPI_Comm comm, MPI_Request *request)
{
    return fails(1) ? MPI_ERR_OTHER
                    : REAL(Iallgather)(mine, count, type, all, each, type_of_all, comm, request);
}

int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    return fails(2) ? MPI_ERR_OTHER : REAL(Test)(request, done, status);
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    return fails(3) ? MPI_ERR_OTHER : REAL(Wait)(request, status);
}

int PMPI_Allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return fails(4) ? MPI_ERR_OTHER : REAL(Allreduce)(mine, all, count, type, op, comm);
}
