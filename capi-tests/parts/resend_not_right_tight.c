/*
 * A part with VELOC_PART_RESEND that is not right-tight because of what lies before it: process 1
 * receives B before its part, which process 0 sends behind its own. So in the backward sweep process 0
 * waits for the adjoint of B before it comes to its replay, and process 1 has that when its replay is
 * over: if A were sent again in the replays, both would wait for ever.
 *
 * resend_not_right_tight
 */
#include "parts.h"

enum { A = 1, B };

static double state, then;

static double pass(int from, int tag, double value)
{
    if (rank == from)
        MPI(MPI_Send(&value, 1, MPI_DOUBLE, 1 - from, tag, MPI_COMM_WORLD));
    else
        MPI(MPI_Recv(&value, 1, MPI_DOUBLE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return value;
}

static void run_part(void)
{
    state = pass(0, A, state * 3) + rank;
}

int main(int argc, char **argv)
{
    double after;
    begin_program(&argc, &argv);
    EQUAL(ranks, 2);
    state = 1 + rank;
    if (rank == 1)
        state += pass(0, B, 0);
    then = state;
    part_begin(7, VELOC_PART_RESEND);
    run_part();
    part_end(7);
    after = state;
    if (rank == 0)
        pass(0, B, state);
    else
        SAME(state, 4);
    /* Backward. */
    if (rank == 0)
        SAME(pass(1, B, 0), 6);
    state = then;
    replay_begin(7);
    run_part();
    replay_end(7);
    SAME(state, after);
    if (rank == 1)
        pass(1, B, then + 1);
    EQUAL(logged().resent, 0);
    EMPTY_LOG();
    return end_program();
}
