/*
 * A checkpoint behind a part with VELOC_PART_RESEND that is not right-tight: process 1 is still in the
 * part, and stays there until it has a message that process 0 sends behind its checkpoint.
 *
 * checkpoint_not_right_tight CONFIGURATION
 */
#include "parts.h"
#include "veloc.h"

static int state;

static void run_part(void)
{
    part_begin(7, VELOC_PART_RESEND);
    if (rank == 1)
        MPI(MPI_Recv(&state, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    part_end(7);
}

static void replay(void)
{
    state = 0;
    replay_begin(7);
    if (rank == 1)
        MPI(MPI_Recv(&state, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    replay_end(7);
    EQUAL(state, rank == 1 ? 9 : 0);
}

int main(int argc, char **argv)
{
    const int sent = 9;
    begin_program(&argc, &argv);
    CHECK(argc > 1);
    EQUAL(VELOC_Init(MPI_COMM_WORLD, argv[1]), 0);
    EQUAL(VELOC_Mem_protect(0, &state, 1, sizeof state), 0);
    run_part();
    EQUAL(VELOC_Checkpoint("state", 1), 0);
    if (rank == 0)
        MPI(MPI_Send(&sent, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
    in_turns(replay);
    EMPTY_LOG();
    EQUAL(VELOC_Finalize(1), 0);
    return end_program();
}
