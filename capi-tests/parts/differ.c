/*
 * Replays that differ from the first run in one argument of one call, of the kinds of calls that
 * diverge.c has not. Each process communicates with itself alone.
 *
 * differ case=CASE, or no case for all of them
 */
#include "empty.h"
#include "parts.h"

/* Whether this is the replay, and how many calls have failed in it. */
static int differs, failures;
static int to[8], from[8];
/* Made before all parts: receives from this process with the tags 1 and 2. */
static MPI_Request receives[2];

/* A call that goes well in the first run. */
#define DO(call)                 \
    do {                         \
        if ((call) != MPI_SUCCESS) { \
            CHECK(differs);      \
            failures++;          \
        }                        \
    } while (0)

static void send(int count, int tag)
{
    DO(MPI_Send(to, count, MPI_INT, rank, tag, MPI_COMM_WORLD));
}

static void tag_of_a_sendrecv(void)
{
    DO(MPI_Sendrecv(to, 2, MPI_INT, rank, 1, from, 4, MPI_INT, rank, 1 + differs, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
}

static void count_of_a_sendrecv(void)
{
    DO(MPI_Sendrecv(to, 2, MPI_INT, rank, 1, from, 4 - differs, MPI_INT, rank, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
}

static void sent_by_a_sendrecv_replace(void)
{
    DO(MPI_Sendrecv_replace(to, 2, MPI_INT, differs ? MPI_PROC_NULL : rank, 1, rank, 1,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void tag_of_an_iprobe(void)
{
    int flag;
    DO(MPI_Iprobe(rank, 5 + differs, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
}

static void requests_of_a_waitany(void)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int index;
    DO(MPI_Isend(to, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]));
    DO(MPI_Waitany(2 - differs, requests, &index, MPI_STATUS_IGNORE));
}

static void count_of_an_allgatherv(void)
{
    int count = 2 + differs, place = 0;
    DO(MPI_Allgatherv(to, count, MPI_INT, from, &count, &place, MPI_INT, MPI_COMM_SELF));
}

static void count_of_an_ialltoall(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    DO(MPI_Ialltoall(to, 2 + differs, MPI_INT, from, 2 + differs, MPI_INT, MPI_COMM_SELF, &request));
    DO(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void count_of_a_reduce_scatter(void)
{
    int count = 3 - differs;
    DO(MPI_Reduce_scatter(to, from, &count, MPI_INT, MPI_SUM, MPI_COMM_SELF));
}

static void communicator_of_a_barrier(void)
{
    DO(MPI_Barrier(differs ? MPI_COMM_WORLD : MPI_COMM_SELF));
}

static void communicator_that_is_made(void)
{
    MPI_Comm made = MPI_COMM_NULL;
    if (differs)
        DO(MPI_Comm_split(MPI_COMM_SELF, 0, 0, &made));
    else
        DO(MPI_Comm_dup(MPI_COMM_SELF, &made));
    if (made != MPI_COMM_NULL)
        DO(MPI_Comm_free(&made));
}

static void request_that_is_started(void)
{
    DO(MPI_Start(&receives[differs]));
    send(3, 1);
    DO(MPI_Wait(&receives[differs], MPI_STATUS_IGNORE));
}

/* What belongs to the one would come to the other. */
static void order_of_a_startall(void)
{
    MPI_Request both[2] = {receives[differs], receives[1 - differs]};
    DO(MPI_Startall(2, both));
    send(3, 1);
    send(3, 2);
    DO(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
}

static void count_of_an_mrecv(void)
{
    MPI_Message message;
    MPI_Request request;
    DO(MPI_Isend(to, 3, MPI_INT, rank, 1, MPI_COMM_WORLD, &request));
    DO(MPI_Mprobe(rank, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    DO(MPI_Mrecv(from, 3 + differs, MPI_INT, &message, MPI_STATUS_IGNORE));
    DO(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Two messages of one stream, of the same length: only their handles tell them apart. */
static void order_of_mrecvs(void)
{
    MPI_Message messages[2];
    MPI_Request requests[2];
    int i;
    for (i = 0; i < 2; i++)
        DO(MPI_Isend(&to[i], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[i]));
    for (i = 0; i < 2; i++)
        DO(MPI_Mprobe(rank, 1, MPI_COMM_WORLD, &messages[i], MPI_STATUS_IGNORE));
    for (i = 0; i < 2; i++)
        DO(MPI_Mrecv(&from[i], 1, MPI_INT, &messages[differs ? 1 - i : i], MPI_STATUS_IGNORE));
    DO(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
}

static void order_of_imrecvs(void)
{
    MPI_Message messages[2];
    MPI_Request requests[4];
    int i, flag;
    for (i = 0; i < 2; i++)
        DO(MPI_Isend(&to[i], 1, MPI_INT, rank, 1 + i, MPI_COMM_WORLD, &requests[i]));
    for (i = 0; i < 2; i++)
        do
            DO(MPI_Improbe(rank, 1 + i, MPI_COMM_WORLD, &flag, &messages[i], MPI_STATUS_IGNORE));
        while (!flag);
    for (i = 0; i < 2; i++)
        DO(MPI_Imrecv(&from[i], 1, MPI_INT, &messages[differs ? 1 - i : i], &requests[2 + i]));
    if (!differs)
        DO(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
}

static void message_of_nobody(void)
{
    MPI_Message messages[2] = {MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NO_PROC};
    MPI_Request request;
    DO(MPI_Isend(to, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &request));
    DO(MPI_Mprobe(rank, 1, MPI_COMM_WORLD, &messages[0], MPI_STATUS_IGNORE));
    DO(MPI_Mrecv(from, 1, MPI_INT, &messages[differs], MPI_STATUS_IGNORE));
    DO(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* A replay that waited for the other one would wait for ever. */
static void request_that_is_complete(void)
{
    MPI_Request requests[2], own[2];
    int i;
    for (i = 0; i < 2; i++) {
        DO(MPI_Grequest_start(empty_query, empty_free, empty_cancel, NULL, &requests[i]));
        own[i] = requests[i];
    }
    DO(MPI_Grequest_complete(own[differs]));
    DO(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    DO(MPI_Grequest_complete(own[1 - differs]));
    DO(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
}

static const struct {
    const char *name;
    void (*body)(void);
    const char *words;
} cases[] = {
    {"tag_of_a_sendrecv", tag_of_a_sendrecv, "call 2 is the receive of MPI_Sendrecv|tag 1|tag 2|4 elements"},
    {"count_of_a_sendrecv", count_of_a_sendrecv, "it was the receive of MPI_Sendrecv|tag 1|4 elements|3 elements"},
    {"sent_by_a_sendrecv_replace", sent_by_a_sendrecv_replace,
     "the send of MPI_Sendrecv_replace|peer MPI_PROC_NULL|tag 1|2 elements"},
    {"tag_of_an_iprobe", tag_of_an_iprobe, "MPI_Iprobe|tag 5|tag 6"},
    {"requests_of_a_waitany", requests_of_a_waitany, "MPI_Waitany|1 request)|2 requests"},
    {"count_of_an_allgatherv", count_of_an_allgatherv, "MPI_Allgatherv|2 elements|3 elements"},
    {"count_of_an_ialltoall", count_of_an_ialltoall, "MPI_Ialltoall|2 elements|3 elements"},
    {"count_of_a_reduce_scatter", count_of_a_reduce_scatter,
     "MPI_Reduce_scatter|3 elements|2 elements"},
    {"communicator_of_a_barrier", communicator_of_a_barrier,
     "MPI_Barrier|MPI_COMM_SELF|MPI_COMM_WORLD"},
    {"communicator_that_is_made", communicator_that_is_made, "MPI_Comm_dup|MPI_Comm_split"},
    {"request_that_is_started", request_that_is_started, "MPI_Start|tag 1|tag 2|3 elements"},
    {"order_of_a_startall", order_of_a_startall, "MPI_Startall|tag 1|tag 2|3 elements"},
    {"count_of_an_mrecv", count_of_an_mrecv, "MPI_Mrecv|3 elements|4 elements"},
    {"order_of_mrecvs", order_of_mrecvs,
     "call 5 is MPI_Mrecv(peer|tag 1|call 3, MPI_Mprobe(|call 4, MPI_Mprobe("},
    {"order_of_imrecvs", order_of_imrecvs, "MPI_Imrecv|tag 1|tag 2"},
    {"request_that_is_complete", request_that_is_complete,
     "call 3 is MPI_Grequest_complete|call 1, MPI_Grequest_start|call 2, MPI_Grequest_start"},
    {"message_of_nobody", message_of_nobody, "MPI_Mrecv|peer MPI_PROC_NULL|peer|tag 1"},
};

int main(int argc, char **argv)
{
    const char *only = option(argc, argv, "case", NULL);
    size_t i;
    begin_program(&argc, &argv);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (i = 0; i < 2; i++)
        MPI(MPI_Recv_init(&from[4 * i], 3, MPI_INT, rank, 1 + (int)i, MPI_COMM_WORLD, &receives[i]));
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (only != NULL && strcmp(only, cases[i].name) != 0)
            continue;
        differs = failures = 0;
        part_begin(1, 0);
        cases[i].body();
        part_end(1);
        differs = 1;
        replay_begin(1);
        cases[i].body();
        if (failures == 0)
            failed(__FILE__, __LINE__, cases[i].name, "goes unnoticed");
        check_words(__FILE__, __LINE__, cases[i].name, cases[i].words);
        check_words(__FILE__, __LINE__, cases[i].name, "part 1");
        REFUSED(VELOC_Part_replay_end(1), "part 1");
        PART(VELOC_Part_free(1));
        EMPTY_LOG();
    }
    for (i = 0; i < 2; i++)
        MPI(MPI_Request_free(&receives[i]));
    return end_program();
}
