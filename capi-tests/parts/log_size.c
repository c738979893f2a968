/*
 * What the log holds: every byte received once, however many parts are nested, nothing of what is
 * sent, and nothing at all when everything has been replayed.
 *
 * log_size
 */
#include "parts.h"

enum { LENGTH = 25, BYTES = LENGTH * sizeof(int), LOOPS = 50 };

static int message[LENGTH], received[10 * LENGTH];

/* Round the ring, with a content that tells which turn it is. */
static void pass(int turn)
{
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    int i;
    for (i = 0; i < LENGTH; i++) {
        message[i] = 1000 * turn + 10 * rank + i;
        received[i] = -1;
    }
    MPI(MPI_Sendrecv(message, LENGTH, MPI_INT, right, 3, received, LENGTH, MPI_INT, left, 3,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (i = 0; i < LENGTH; i++)
        EQUAL(received[i], 1000 * turn + 10 * left + i);
}

static void loop(void)
{
    int turn;
    for (turn = 0; turn < LOOPS; turn++) {
        part_begin(1, 0);
        pass(turn);
        part_end(1);
        EQUAL(logged().logged, (turn + 1) * BYTES);
        EQUAL(logged().parts, turn + 1);
    }
    while (turn-- > 0) {
        replay_begin(1);
        pass(turn);
        replay_end(1);
        EQUAL(logged().logged, turn * BYTES);
        EQUAL(logged().parts, turn);
    }
    EMPTY_LOG();
    CHECK(logged().peak >= LOOPS * BYTES);
}

/* Parts within parts, before and after a replay that has other ones. */
static void nested(void)
{
    part_begin(1, 0);
    pass(0);
    part_begin(2, 0);
    pass(1);
    part_begin(3, 0);
    pass(2);
    part_end(3);
    part_end(2);
    pass(3);
    part_end(1);
    EQUAL(logged().logged, 4 * BYTES);
    EQUAL(logged().parts, 3);
    replay_begin(1);
    pass(0);
    part_begin(2, 0);
    pass(1);
    pass(2);
    part_end(2);
    part_begin(4, 0);
    pass(3);
    part_end(4);
    EQUAL(logged().logged, 4 * BYTES);
    replay_end(1);
    /* Of the first pass nothing is needed any more. */
    EQUAL(logged().logged, 3 * BYTES);
    replay_begin(4);
    pass(3);
    replay_end(4);
    EQUAL(logged().logged, 2 * BYTES);
    replay_begin(2);
    pass(1);
    replay_begin(3);
    pass(2);
    replay_end(3);
    EQUAL(logged().logged, 2 * BYTES);
    pass(2);
    replay_end(2);
    EMPTY_LOG();
}

static void kept(void)
{
    int round;
    part_begin(1, VELOC_PART_KEEP);
    pass(5);
    part_begin(2, VELOC_PART_KEEP);
    pass(6);
    part_end(2);
    part_end(1);
    for (round = 0; round < 3; round++) {
        replay_begin(1);
        pass(5);
        pass(6);
        replay_end(1);
        replay_begin(2);
        pass(6);
        replay_end(2);
        EQUAL(logged().logged, 2 * BYTES);
    }
    PART(VELOC_Part_free(1));
    EQUAL(logged().logged, BYTES);
    replay_begin(2);
    pass(6);
    replay_end(2);
    PART(VELOC_Part_free(2));
    EMPTY_LOG();
}

/* A part that is replayed inside the replay of the one around it, at its place, is a step of it. One
 * that is recorded there takes the place of the one before, each time. */
static void within(void)
{
    int round;
    part_begin(1, 0);
    pass(0);
    part_begin(2, 0);
    pass(1);
    part_end(2);
    pass(2);
    part_end(1);
    replay_begin(1);
    pass(0);
    replay_begin(2);
    pass(1);
    replay_end(2);
    pass(2);
    replay_end(1);
    EMPTY_LOG();
    part_begin(1, VELOC_PART_KEEP);
    pass(3);
    pass(4);
    part_end(1);
    for (round = 0; round < 3; round++) {
        replay_begin(1);
        /* An empty one begins at the same place. */
        part_begin(2, 0);
        part_end(2);
        part_begin(2, 0);
        pass(3);
        part_end(2);
        pass(4);
        replay_end(1);
        EQUAL(logged().parts, 3);
        EQUAL(logged().logged, 2 * BYTES);
    }
    replay_begin(2);
    pass(3);
    replay_end(2);
    replay_begin(2);
    replay_end(2);
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
}

/* What is sent again is given up when all processes have heard of it, and not before it is replayed. */
static void sent_again(void)
{
    const uint64_t dropped = logged().dropped;
    int turns = 0, is_enough, all;
    do {
        part_begin(1, VELOC_PART_RESEND);
        pass(turns++);
        part_end(1);
        EQUAL(logged().logged + logged().dropped - dropped, turns * BYTES);
        is_enough = logged().dropped - dropped >= 5 * BYTES;
        MPI(MPI_Allreduce(&is_enough, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    } while (!all);
    for (all = turns; turns-- > 0;) {
        replay_begin(1);
        pass(turns);
        replay_end(1);
    }
    EQUAL(logged().resent, all * BYTES);
    EMPTY_LOG();
}

/* Of a large receive, only what came; of a type with gaps, only what it has. */
static void elements(void)
{
    MPI_Datatype gaps;
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI(MPI_Type_vector(5, 1, 4, MPI_INT, &gaps));
    MPI(MPI_Type_commit(&gaps));
    part_begin(1, 0);
    MPI(MPI_Sendrecv(message, 3, MPI_INT, right, 3, received, 10 * LENGTH, MPI_INT, left, 3,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EQUAL(logged().logged, 3 * sizeof(int));
    MPI(MPI_Sendrecv(message, 1, gaps, right, 3, received, 2, gaps, left, 3, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    EQUAL(logged().logged, 8 * sizeof(int));
    MPI(MPI_Sendrecv(NULL, 0, MPI_INT, right, 3, received, LENGTH, MPI_INT, left, 3, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    EQUAL(logged().logged, 8 * sizeof(int));
    part_end(1);
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
    MPI(MPI_Type_free(&gaps));
}

/* A loop that asks a million times costs no more than one that asks once. */
static void polls(void)
{
    uint64_t events;
    int i, flag;
    part_begin(1, 0);
    for (i = 0; i < 100000; i++) {
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    part_end(1);
    events = logged().events;
    CHECK(events <= 2);
    replay_begin(1);
    for (i = 0; i < 50000; i++)
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    /* A part may begin in the middle of them. */
    part_begin(2, 0);
    for (i = 50000; i < 100000; i++)
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    part_end(2);
    replay_end(1);
    replay_begin(2);
    for (i = 50000; i < 100000; i++) {
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    replay_end(2);
    EMPTY_LOG();
}

int main(int argc, char **argv)
{
    VELOC_Part_figures few;
    begin_program(&argc, &argv);
    EMPTY_LOG();
    loop();
    nested();
    kept();
    within();
    sent_again();
    elements();
    polls();
    /* A caller with an older header gets what it knows. */
    memset(&few, -1, sizeof few);
    PART(VELOC_Part_get_figures(&few, sizeof few.logged));
    EQUAL(few.logged, 0);
    EQUAL(few.peak, -1);
    return end_program();
}
