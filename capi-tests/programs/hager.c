/*
 * The example hager, as it is, but that it dies: hager <its arguments>, with these in the environment
 *
 *   DIE_AT   by SIGKILL, after so many steps were computed, forward or reverse
 *   DIE_ON   in this process of an MPI job alone
 *   SECONDS  its time limit
 *
 * It prints how many steps it has computed and where it began: "began <state>", "first <step>" (the
 * adjoint's), "computed <steps>".
 */
#define _POSIX_C_SOURCE 200809L
#ifndef CHECK_WITH_MPI
#define VELOC_NO_MPI
#else
#include <mpi.h>
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <veloc.h>

static VELOC_Adjoint real;
static long long computed, die_at = -1;

static int count(long long steps_more)
{
    if (die_at >= 0 && computed + steps_more >= die_at)
        raise(SIGKILL);
    computed += steps_more;
    return VELOC_SUCCESS;
}

static int dying_forward(void *user, int64_t from, int64_t to)
{
    if (computed == 0) {
        printf("began %lld\n", (long long)from);
        fflush(stdout);
    }
    count(to - from);
    return real.forward(user, from, to);
}

static int dying_adjoint(void *user, int64_t step)
{
    static int is_first = 1;
    int status;
    if (is_first) {
        printf("first %lld\n", (long long)step);
        fflush(stdout);
    }
    is_first = 0;
    status = real.adjoint(user, step);
    count(1);
    return status;
}

static int dying_run(const VELOC_Adjoint *what)
{
    VELOC_Adjoint dying = *what;
    const char *at = getenv("DIE_AT"), *on = getenv("DIE_ON"), *seconds = getenv("SECONDS");
    int status;
#ifdef CHECK_WITH_MPI
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (on != NULL && atoi(on) != rank)
        at = NULL;
#else
    (void)on;
#endif
    real = *what;
    if (at != NULL)
        die_at = atoll(at);
    if (seconds != NULL)
        dying.time_limit = atof(seconds);
    dying.forward = dying_forward;
    dying.adjoint = dying_adjoint;
    status = VELOC_Adjoint_run(&dying);
    printf("computed %lld\n", computed);
    return status;
}

#define VELOC_Adjoint_run dying_run
#define main hager
#ifdef CHECK_WITH_MPI
#define VELOC_Init_single(id, configuration) VELOC_Init(MPI_COMM_WORLD, configuration)
#endif
#include "../../examples/hager/hager.c"
#undef main

int main(int argc, char **argv)
{
    int status;
#ifdef CHECK_WITH_MPI
    MPI_Init(&argc, &argv);
#endif
    status = hager(argc, argv);
#ifdef CHECK_WITH_MPI
    MPI_Finalize();
#endif
    if (status == 0)
        puts("done");
    return status;
}
