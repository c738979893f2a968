/*
 * Replays that do something else than the first run. Each must say what was called and what was
 * logged, must leave the application's memory alone, and must go on failing until it is given up.
 *
 * diverging_replays [case=fatal] [case=poll]
 *   fatal   with the error handler that MPI begins with: the job ends
 *   poll    a program that does not look at what its calls return, and polls on
 */
#include "parts.h"

static int numbers[8];
static double doubles[8];
static MPI_Request requests[2];
static MPI_Comm other, named;

static void receive(int count, int peer, int tag)
{
    MPI(MPI_Recv(numbers, count, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* The first run: two processes in turns. What the second one does is replayed. */
static void first_run(int id)
{
    int i;
    for (i = 0; i < 8; i++)
        numbers[i] = rank == 0 ? 50 + i : 0;
    part_begin(id, 0);
    if (rank == 0) {
        MPI(MPI_Send(numbers, 3, MPI_INT, 1, 5, MPI_COMM_WORLD));
        receive(2, 1, 6);
        MPI(MPI_Send(numbers, 4, MPI_INT, 1, 7, MPI_COMM_WORLD));
        MPI(MPI_Send(numbers, 1, MPI_INT, 1, 8, MPI_COMM_WORLD));
    } else {
        receive(3, 0, 5);
        MPI(MPI_Send(numbers, 2, MPI_INT, 0, 6, MPI_COMM_WORLD));
        MPI(MPI_Irecv(numbers, 4, MPI_INT, 0, 7, MPI_COMM_WORLD, &requests[0]));
        MPI(MPI_Irecv(numbers + 4, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &requests[1]));
        MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    MPI(MPI_Bcast(doubles, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD));
    part_end(id);
}

/* The replay up to one of its calls. */
static void replay_up_to(int id, int calls)
{
    replay_begin(id);
    if (calls > 0)
        receive(3, 0, 5);
    if (calls > 1)
        MPI(MPI_Send(numbers, 2, MPI_INT, 0, 6, MPI_COMM_WORLD));
    if (calls > 2) {
        MPI(MPI_Irecv(numbers, 4, MPI_INT, 0, 7, MPI_COMM_WORLD, &requests[0]));
        MPI(MPI_Irecv(numbers + 4, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &requests[1]));
    }
    if (calls > 3)
        MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    if (calls > 4)
        MPI(MPI_Bcast(doubles, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD));
    memset(numbers, -1, sizeof numbers);
    memset(doubles, -1, sizeof doubles);
}

static void check_memory(int line)
{
    int i;
    for (i = 0; i < 8; i++) {
        check_equal(__FILE__, line, "memory of a call that failed", numbers[i], -1);
        if (memcmp(&doubles[i], numbers, sizeof(int)) != 0)
            failed(__FILE__, line, "memory of a call that failed", "was written to");
    }
}

/* Both calls are named, and every call from then on fails in the same way. */
#define DIVERGES(call, words)                                                       \
    do {                                                                            \
        char first[512];                                                            \
        CHECK((call) != MPI_SUCCESS);                                               \
        check_words(__FILE__, __LINE__, #call, words);                              \
        check_memory(__LINE__);                                                     \
        snprintf(first, sizeof first, "%s", VELOC_Part_error());                    \
        CHECK(MPI_Recv(numbers, 3, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE) \
              != MPI_SUCCESS);                                                      \
        CHECK(strcmp(first, VELOC_Part_error()) == 0);                              \
        REFUSED(VELOC_Part_replay_end(id), "part ");                                \
        PART(VELOC_Part_free(id));                                                  \
        EMPTY_LOG();                                                                \
    } while (0)

/* Each process alone, so whoever communicates waits for ever. */
static int which, id = 3;

static void diverge(void)
{
    int flag;
    MPI_Status status;
    MPI_Comm world = MPI_COMM_WORLD;
    if (rank != 1)
        return;
    switch (which) {
    case 0: /* another peer */
        replay_up_to(id, 0);
        DIVERGES(MPI_Recv(numbers, 3, MPI_INT, MPI_ANY_SOURCE, 5, world, &status),
                 "part 3|MPI_Recv|MPI_COMM_WORLD|peer 0|peer MPI_ANY_SOURCE|tag 5|3 elements");
        break;
    case 1: /* another tag */
        replay_up_to(id, 0);
        DIVERGES(MPI_Recv(numbers, 3, MPI_INT, 0, 6, world, &status),
                 "MPI_Recv|peer 0|tag 5|tag 6|3 elements");
        break;
    case 2: /* another count */
        replay_up_to(id, 0);
        DIVERGES(MPI_Recv(numbers, 4, MPI_INT, 0, 5, world, &status),
                 "MPI_Recv|tag 5|3 elements|4 elements");
        break;
    case 3: /* another type */
        replay_up_to(id, 0);
        DIVERGES(MPI_Recv(doubles, 3, MPI_DOUBLE, 0, 5, world, &status),
                 "MPI_Recv|3 elements of 4 bytes|3 elements of 8 bytes");
        break;
    case 4: /* another communicator */
        replay_up_to(id, 0);
        DIVERGES(MPI_Recv(numbers, 3, MPI_INT, 0, 5, other, &status),
                 "MPI_Recv|MPI_COMM_WORLD|the 1st duplicate of MPI_COMM_WORLD");
        break;
    case 5: /* another call */
        replay_up_to(id, 0);
        DIVERGES(MPI_Probe(0, 5, world, &status), "MPI_Probe|MPI_Recv|peer 0|tag 5|3 elements");
        break;
    case 6: /* a send to another */
        replay_up_to(id, 1);
        DIVERGES(MPI_Send(numbers, 2, MPI_INT, 1, 6, world), "MPI_Send|peer 0|peer 1|tag 6|2 elements");
        break;
    case 7: /* a send of another kind */
        replay_up_to(id, 1);
        DIVERGES(MPI_Isend(numbers, 2, MPI_INT, 0, 6, world, requests),
                 "MPI_Isend|MPI_Send|peer 0|tag 6|2 elements");
        break;
    case 8: /* the receives in another order */
        replay_up_to(id, 2);
        DIVERGES(MPI_Irecv(numbers + 4, 1, MPI_INT, 0, 8, world, requests),
                 "MPI_Irecv|tag 7|tag 8|4 elements|1 element of");
        break;
    case 9: /* fewer requests */
        replay_up_to(id, 3);
        DIVERGES(MPI_Waitall(1, requests, MPI_STATUSES_IGNORE),
                 "MPI_Waitall|1 request)|2 requests");
        break;
    case 10: /* another way to complete them */
        replay_up_to(id, 3);
        DIVERGES(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE),
                 "MPI_Testall|MPI_Waitall|2 requests");
        break;
    case 11: /* another root */
        replay_up_to(id, 4);
        DIVERGES(MPI_Bcast(doubles, 3, MPI_DOUBLE, 1, world), "MPI_Bcast|peer 0|peer 1|3 elements");
        break;
    case 12: /* another collective operation */
        replay_up_to(id, 4);
        DIVERGES(MPI_Allreduce(MPI_IN_PLACE, doubles, 3, MPI_DOUBLE, MPI_SUM, world),
                 "MPI_Allreduce|MPI_Bcast|peer 0|3 elements");
        break;
    case 13: /* one call too many */
        replay_up_to(id, 5);
        DIVERGES(MPI_Recv(numbers, 1, MPI_INT, 0, 9, world, &status),
                 "MPI_Recv|peer 0|tag 9|1 element of|the part had ended");
        break;
    case 14: /* the last call is missing: one that comes behind the end does not get its result */
        replay_up_to(id, 4);
        REFUSED(VELOC_Part_replay_end(id), "part 3|MPI_Bcast|MPI_COMM_WORLD|peer 0|3 elements");
        DIVERGES(MPI_Bcast(doubles, 3, MPI_DOUBLE, 0, world), "part 3|ends too early|MPI_Bcast");
        break;
    case 15: /* all calls are missing */
        replay_up_to(id, 0);
        REFUSED(VELOC_Part_replay_end(id), "part 3|MPI_Recv|peer 0|tag 5|3 elements");
        PART(VELOC_Part_free(id));
        EMPTY_LOG();
        break;
    case 16: /* within a part that is recorded in the replay */
        replay_up_to(id, 0);
        part_begin(4, 0);
        receive(3, 0, 5);
        CHECK(MPI_Send(numbers, 2, MPI_INT, 0, 7, world) != MPI_SUCCESS);
        check_words(__FILE__, __LINE__, "MPI_Send", "part 3|MPI_Send|tag 6|tag 7");
        REFUSED(VELOC_Part_replay_end(id), "part 3|part 4");
        PART(VELOC_Part_free(4));
        REFUSED(VELOC_Part_replay_end(id), "part 3|tag 7");
        PART(VELOC_Part_free(id));
        EMPTY_LOG();
        break;
    case 17: /* one that the application has named */
        replay_up_to(id, 0);
        DIVERGES(MPI_Recv(numbers, 3, MPI_INT, 0, 5, named, &status),
                 "MPI_Recv|MPI_COMM_WORLD|\"halo\" (the 1st MPI_Comm_split of "
                 "the 1st duplicate of MPI_COMM_WORLD)");
        break;
    case 18: /* this process alone */
        replay_up_to(id, 0);
        DIVERGES(MPI_Recv(numbers, 3, MPI_INT, 0, 5, MPI_COMM_SELF, &status),
                 "MPI_Recv|MPI_COMM_WORLD|MPI_COMM_SELF");
        break;
    }
}

/* The same calls on another request: its bytes are not where the first run had them. */
static void another_request(void)
{
    MPI_Request both[2];
    int got[2], run, i;
    for (run = 0; run < 2; run++) {
        got[0] = got[1] = -1;
        if (run == 0)
            part_begin(1, 0);
        else
            replay_begin(1);
        for (i = 0; i < 2; i++)
            MPI(MPI_Irecv(&got[i], 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD, &both[i]));
        for (i = 0; i < 2; i++)
            MPI(MPI_Send(&rank, 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD));
        if (run == 0) {
            MPI(MPI_Wait(&both[0], MPI_STATUS_IGNORE));
            MPI(MPI_Wait(&both[1], MPI_STATUS_IGNORE));
            part_end(1);
        } else {
            CHECK(MPI_Wait(&both[1], MPI_STATUS_IGNORE) != MPI_SUCCESS);
            check_words(__FILE__, __LINE__, "MPI_Wait", "request 0 of MPI_Wait|first run");
            EQUAL(got[1], -1);
            PART(VELOC_Part_free(1));
        }
    }
    EMPTY_LOG();
}

/* Brackets that do not fit. They change nothing. */
static void brackets(void)
{
    REFUSED(VELOC_Part_end(1), "part 1|innermost");
    REFUSED(VELOC_Part_replay_begin(1), "part 1");
    REFUSED(VELOC_Part_replay_end(1), "part 1|innermost");
    REFUSED(VELOC_Part_free(1), "part 1");
    REFUSED(VELOC_Part_begin(1, 64), "part 1|the flags 64;");
    REFUSED(VELOC_Part_get_figures(NULL, sizeof(VELOC_Part_figures)), "figures");
    part_begin(1, 0);
    part_begin(2, 0);
    REFUSED(VELOC_Part_end(1), "part 1|part 2");
    REFUSED(VELOC_Part_replay_begin(1), "part 1|open");
    REFUSED(VELOC_Part_replay_end(2), "part 2");
    REFUSED(VELOC_Part_free(1), "part 1|open");
    part_end(2);
    part_end(1);
    replay_begin(1);
    REFUSED(VELOC_Part_end(1), "part 1");
    REFUSED(VELOC_Part_replay_begin(1), "part 1");
    part_begin(2, 0);
    REFUSED(VELOC_Part_replay_end(1), "part 1|part 2");
    part_end(2);
    replay_end(1);
    replay_begin(2);
    replay_end(2);
    EMPTY_LOG();
}

static void poll_on(void)
{
    int flag, i;
    first_run(id);
    if (rank == 1) {
        replay_begin(id);
        for (i = 0; i < 100; i++)
            CHECK(MPI_Iprobe(0, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    }
    PART(VELOC_Part_free(id));
}

int main(int argc, char **argv)
{
    begin_program(&argc, &argv);
    EQUAL(ranks, 2);
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    MPI(MPI_Comm_split(other, 0, 0, &named));
    MPI(MPI_Comm_set_name(named, "halo"));
    if (strcmp(option(argc, argv, "case", ""), "fatal") == 0) {
        first_run(id);
        replay_begin(id);
        if (rank == 1)
            receive(3, 0, 6);
        printf("rank %d goes on\n", rank);
        return end_program();
    }
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_set_errhandler(named, MPI_ERRORS_RETURN));
    if (strcmp(option(argc, argv, "case", ""), "poll") == 0) {
        poll_on();
        return end_program();
    }
    for (which = 0; which <= 18; which++) {
        first_run(id);
        in_turns(diverge);
        if (rank == 0)
            PART(VELOC_Part_free(id));
    }
    another_request();
    brackets();
    /* The processes go on. */
    first_run(id);
    PART(VELOC_Part_free(id));
    MPI(MPI_Comm_free(&named));
    MPI(MPI_Comm_free(&other));
    return end_program();
}
