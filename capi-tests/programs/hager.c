/*
 * The example hager, as it is, but that it dies: hager <its arguments>, with these in the environment
 *
 *   DIE_AT   by SIGKILL, after so many steps were computed, forward or reverse
 *   DIE_ON   in this process of an MPI job alone
 *   SECONDS  its time limit
 *
 * It prints how many steps it has computed and where it began: "began <state>", "first <step>" (the
 * adjoint's), "computed <steps>". With MPI every process computes the same by itself, nothing keeps
 * them in step, and the first one alone prints; that all have begun, stopped and ended alike is checked.
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
static long long computed, first, die_at = -1;

static int count(long long steps_more)
{
    if (die_at >= 0 && computed + steps_more >= die_at)
        raise(SIGKILL);
    /* Where steps are slow, it can be seen that they are done. */
    if (computed / 20000 != (computed + steps_more) / 20000)
        fprintf(stderr, "%lld steps\n", computed + steps_more);
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
    int status;
    if (first == 0) {
        first = step;
        printf("first %lld\n", first);
        fflush(stdout);
    }
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

#ifdef CHECK_WITH_MPI
/* What has come out of it is the same everywhere. */
static int is_same(int status)
{
    struct {
        double lambda[2], slope[MODES];
        long long first, computed, status;
    } mine = {{0}, {0}, first, computed, status}, of_first;
    memcpy(mine.lambda, gradient.lambda, sizeof mine.lambda);
    memcpy(mine.slope, gradient.slope, sizeof mine.slope);
    of_first = mine;
    MPI_Bcast(&of_first, sizeof of_first, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (memcmp(&mine, &of_first, sizeof mine) == 0)
        return 1;
    fprintf(stderr, "first %lld, computed %lld, lambda %a\n", first, computed, mine.lambda[0]);
    return 0;
}
#endif

int main(int argc, char **argv)
{
    int status;
#ifdef CHECK_WITH_MPI
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank > 0 && freopen("/dev/null", "w", stdout) == NULL)
        return 1;
#endif
    status = hager(argc, argv);
#ifdef CHECK_WITH_MPI
    if (!is_same(status))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
#endif
    if (status == 0)
        puts("done");
    return status;
}
