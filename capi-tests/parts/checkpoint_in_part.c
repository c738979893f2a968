/*
 * Checkpoints in the middle of a part: what the checkpoint library says to its other processes is no
 * call of the part, so a replay without the checkpoints is the same part.
 *
 * checkpoint_in_part CONFIGURATION [parts=0]
 *
 * With `parts=0` the same without a part. Either way the ids of regions that have the log are refused.
 */
#include "parts.h"
#include "veloc.h"

static int state, version;

static void run_part(int stores)
{
    int turn, sum;
    for (turn = 0; turn < 3; turn++) {
        MPI(MPI_Allreduce(&state, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        state = sum + rank + turn;
        saw_int(state);
        if (stores)
            EQUAL(VELOC_Checkpoint("state", ++version), 0);
    }
}

static void refuse_id(int id)
{
    EQUAL(VELOC_Mem_protect(id, &state, 1, sizeof state), -1);
    CHECK(strstr(VELOC_Last_error(), "the library uses the ids -2147483647 to -2146435071") != NULL);
    EQUAL(VELOC_Region_protect(id, &state, 1, sizeof state, "own"), -1);
}

static void replay(void)
{
    seen = 0;
    replay_begin(1);
    state = rank;
    run_part(0);
    replay_end(1);
    CHECK(seen == seen_first);
}

int main(int argc, char **argv)
{
    begin_program(&argc, &argv);
    CHECK(argc > 1);
    EQUAL(VELOC_Init(MPI_COMM_WORLD, argv[1]), 0);
    EQUAL(VELOC_Mem_protect(0, &state, 1, sizeof state), 0);
    refuse_id(-2147483647);
    refuse_id(-2147483646);
    refuse_id(-2146435071);
    EQUAL(VELOC_Mem_protect(-2146435070, &state, 1, sizeof state), 0);
    EQUAL(VELOC_Mem_unprotect(-2146435070), 0);
    state = rank;
    if (number(argc, argv, "parts", 1)) {
        part_begin(1, 0);
        run_part(1);
        part_end(1);
        seen_first = seen;
        in_turns(replay);
        /* A snapshot of the state has the log of then. The log of now stays when it is restored. */
        state = rank;
        EQUAL(VELOC_Checkpoint("before", 1), 0);
        seen = 0;
        part_begin(1, 0);
        run_part(1);
        part_end(1);
        EQUAL(seen, seen_first);
        EQUAL(VELOC_Restart("before", 1), 0);
        EQUAL(state, rank);
        in_turns(replay);
        EMPTY_LOG();
    } else {
        run_part(1);
    }
    EQUAL(VELOC_Finalize(1), 0);
    return end_program();
}
