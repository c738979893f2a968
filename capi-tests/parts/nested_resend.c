/*
 * Parts with VELOC_PART_RESEND inside each other that are replayed inside each other as well, with
 * messages that begin in the inner one and end behind it: all processes do the same with each message,
 * or one waits for ever. And such parts in which a process has no call.
 *
 * nested_resend
 */
#include "parts.h"

/* The length is one that no library sends before it is received. */
enum { LENGTH = 300000, OUTER = 1, INNER = 2, OWN = 3, LATER = 4 };

enum way { SENT_INSIDE, POSTED_INSIDE, BOTH_INSIDE, LOOSE, WAYS };

static int to[LENGTH], from[LENGTH];
static enum way way;

/* Of the outer part, which is no longer right-tight then: process 1 sends it behind its end. */
static void receive_loose(void)
{
    int value = -1;
    if (way == LOOSE && rank == 0) {
        MPI(MPI_Recv(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EQUAL(value, 9);
    }
}

static void send_loose(void)
{
    int value = 9;
    if (way == LOOSE && rank == 1)
        MPI(MPI_Send(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD));
}

static void body(void (*begin)(int id), void (*end)(int id))
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int i, own = rank, other = -1;
    for (i = 0; i < LENGTH; i++) {
        to[i] = rank + i;
        from[i] = -1;
    }
    begin(INNER);
    if (rank == 0 && way != POSTED_INSIDE)
        MPI(MPI_Isend(to, LENGTH, MPI_INT, 1, 1, MPI_COMM_WORLD, &request));
    if (rank == 1 && (way == POSTED_INSIDE || way == LOOSE))
        MPI(MPI_Irecv(from, LENGTH, MPI_INT, 0, 1, MPI_COMM_WORLD, &request));
    if (way == BOTH_INSIDE)
        MPI(MPI_Sendrecv(&own, 1, MPI_INT, 1 - rank, 2, &other, 1, MPI_INT, 1 - rank, 2,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (way == LOOSE)
        MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    end(INNER);
    if (rank == 0 && way == POSTED_INSIDE)
        MPI(MPI_Send(to, LENGTH, MPI_INT, 1, 1, MPI_COMM_WORLD));
    if (rank == 1 && (way == SENT_INSIDE || way == BOTH_INSIDE)) {
        MPI(MPI_Recv(from, LENGTH, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
        saw_status(&status);
    }
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    receive_loose();
    saw_int(other);
    saw(from, sizeof from);
}

/* Parts in which a process has no call begin where the next one does. */
static void run_without_calls(int flags)
{
    static const int is_empty[] = {1, 1, 0, 1, 0};
    int replay, i, got;
    for (replay = 0; replay < (flags & VELOC_PART_KEEP ? 3 : 2); replay++) {
        if (replay == 0)
            part_begin(OUTER, flags);
        else
            replay_begin(OUTER);
        for (i = 0; i < 5; i++) {
            if (replay == 0)
                part_begin(INNER, flags);
            else
                replay_begin(INNER);
            if (!is_empty[i])
                MPI(MPI_Sendrecv(&i, 1, MPI_INT, 1 - rank, 3, &got, 1, MPI_INT, 1 - rank, 3,
                                 MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            EQUAL(is_empty[i] ? i : got, i);
            if (replay == 0)
                part_end(INNER);
            else
                replay_end(INNER);
        }
        if (replay == 0)
            part_end(OUTER);
        else
            replay_end(OUTER);
    }
    if (flags & VELOC_PART_KEEP) {
        PART(VELOC_Part_free(INNER));
        PART(VELOC_Part_free(OUTER));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    EMPTY_LOG();
}

static void record(int id)
{
    part_begin(id, VELOC_PART_RESEND);
}

/* Behind the parts all processes have heard what becomes of their messages, and have given them up. */
static void settle(void)
{
    int i;
    for (i = 0; i < 3; i++) {
        record(LATER);
        part_end(LATER);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    PART(VELOC_Part_free(LATER));
}

/* `has_own`: process 0 has a part of its own around both. */
static void run(int has_own)
{
    uint64_t resent = logged().resent;
    has_own = has_own && rank == 0;
    seen = 0;
    if (has_own)
        part_begin(OWN, 0);
    record(OUTER);
    body(record, part_end);
    part_end(OUTER);
    if (has_own)
        part_end(OWN);
    send_loose();
    seen_first = seen;
    settle();
    seen = 0;
    if (has_own)
        replay_begin(OWN);
    replay_begin(OUTER);
    body(replay_begin, replay_end);
    replay_end(OUTER);
    if (has_own)
        replay_end(OWN);
    CHECK(seen == seen_first);
    /* They are all closed in the outer part, or none is. */
    resent = logged().resent - resent;
    EQUAL(resent, way == LOOSE ? 0
                               : (rank == 0 ? sizeof to : 0)
                                     + (way == BOTH_INSIDE ? sizeof(int) : 0));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    EMPTY_LOG();
}

int main(int argc, char **argv)
{
    begin_program(&argc, &argv);
    EQUAL(ranks, 2);
    for (way = 0; way < WAYS; way++) {
        run(0);
        run(1);
    }
    run_without_calls(0);
    run_without_calls(VELOC_PART_KEEP);
    run_without_calls(VELOC_PART_RESEND);
    run_without_calls(VELOC_PART_RESEND | VELOC_PART_KEEP);
    return end_program();
}
