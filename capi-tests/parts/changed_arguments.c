/*
 * Replays that differ from the first run in one argument of one call, of the kinds of calls that
 * diverging_replays.c has not. Each process communicates with itself alone.
 *
 * changed_arguments case=CASE, or no case for all of them
 * differ sent=compared|free: in the bytes that are sent, which is noticed, or is not
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

/* ---- what is sent: `to`, all of which a call sends ---- */

enum { SENT = 8 };

/* Eight columns of a matrix of two, of which the second is not sent. */
static int columns[2 * SENT];
static MPI_Datatype column;
static MPI_Request sends;

static void receive(void)
{
    DO(MPI_Recv(from, SENT, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void by_send(void)
{
    DO(MPI_Send(to, SENT, MPI_INT, rank, 1, MPI_COMM_WORLD));
    receive();
}

static void by_isend(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    DO(MPI_Isend(to, SENT, MPI_INT, rank, 1, MPI_COMM_WORLD, &request));
    receive();
    DO(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void by_sendrecv(void)
{
    DO(MPI_Sendrecv(to, SENT, MPI_INT, rank, 1, from, SENT, MPI_INT, rank, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
}

static void by_sendrecv_replace(void)
{
    memcpy(from, to, sizeof from);
    DO(MPI_Sendrecv_replace(from, SENT, MPI_INT, rank, 1, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void by_start(void)
{
    DO(MPI_Start(&sends));
    receive();
    DO(MPI_Wait(&sends, MPI_STATUS_IGNORE));
}

static void by_startall(void)
{
    MPI_Request both[2] = {receives[0], sends};
    DO(MPI_Startall(2, both));
    DO(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
}

static void with_gaps(void)
{
    int i;
    for (i = 0; i < SENT; i++)
        columns[2 * i] = to[i];
    DO(MPI_Send(columns, 1, column, rank, 1, MPI_COMM_WORLD));
    receive();
}

static void by_bcast(void)
{
    DO(MPI_Bcast(to, SENT, MPI_INT, 0, MPI_COMM_SELF));
}

static void by_gather(void)
{
    DO(MPI_Gather(to, SENT, MPI_INT, from, SENT, MPI_INT, 0, MPI_COMM_SELF));
}

static void by_scatter(void)
{
    DO(MPI_Scatter(to, SENT, MPI_INT, from, SENT, MPI_INT, 0, MPI_COMM_SELF));
}

static void by_allgather(void)
{
    DO(MPI_Allgather(to, SENT, MPI_INT, from, SENT, MPI_INT, MPI_COMM_SELF));
}

static void by_alltoall(void)
{
    DO(MPI_Alltoall(to, SENT, MPI_INT, from, SENT, MPI_INT, MPI_COMM_SELF));
}

static void by_reduce(void)
{
    DO(MPI_Reduce(to, from, SENT, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF));
}

static void by_iallreduce(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    DO(MPI_Iallreduce(to, from, SENT, MPI_INT, MPI_SUM, MPI_COMM_SELF, &request));
    DO(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void by_allreduce_in_place(void)
{
    memcpy(from, to, sizeof from);
    DO(MPI_Allreduce(MPI_IN_PLACE, from, SENT, MPI_INT, MPI_SUM, MPI_COMM_SELF));
}

static void by_exscan(void)
{
    DO(MPI_Exscan(to, from, SENT, MPI_INT, MPI_SUM, MPI_COMM_SELF));
}

static const struct {
    const char *name;
    void (*body)(void);
    const char *words;
} sent[] = {
    {"by_send", by_send, "call 1 is MPI_Send(MPI_COMM_WORLD, peer|tag 1, 8 elements of 4 bytes)"},
    {"by_isend", by_isend, "call 1 is MPI_Isend(MPI_COMM_WORLD, peer|tag 1"},
    {"by_sendrecv", by_sendrecv, "the send of MPI_Sendrecv("},
    {"by_sendrecv_replace", by_sendrecv_replace, "the send of MPI_Sendrecv_replace("},
    {"by_start", by_start, "call 1 is MPI_Start(MPI_COMM_WORLD, peer|tag 1"},
    {"by_startall", by_startall, "MPI_Startall(MPI_COMM_WORLD, peer|tag 1"},
    {"with_gaps", with_gaps, "MPI_Send(|1 element of 32 bytes"},
    {"by_bcast", by_bcast, "MPI_Bcast(MPI_COMM_SELF"},
    {"by_gather", by_gather, "MPI_Gather("},
    {"by_scatter", by_scatter, "MPI_Scatter("},
    {"by_allgather", by_allgather, "MPI_Allgather("},
    {"by_alltoall", by_alltoall, "MPI_Alltoall("},
    {"by_reduce", by_reduce, "MPI_Reduce("},
    {"by_iallreduce", by_iallreduce, "MPI_Iallreduce("},
    {"by_allreduce_in_place", by_allreduce_in_place, "MPI_Allreduce("},
    {"by_exscan", by_exscan, "MPI_Exscan("},
};

/* The same bytes may be sent again, and those in gaps are not sent; other ones are noticed, or not. */
static void differ_in_bytes(int are_compared, const char *only)
{
    size_t i;
    MPI(MPI_Type_vector(SENT, 1, 2, MPI_INT, &column));
    MPI(MPI_Type_commit(&column));
    MPI(MPI_Send_init(to, SENT, MPI_INT, rank, 1, MPI_COMM_WORLD, &sends));
    for (i = 0; i < sizeof sent / sizeof *sent; i++) {
        if (only != NULL && strcmp(only, sent[i].name) != 0)
            continue;
        differs = failures = to[SENT - 1] = columns[1] = 0;
        part_begin(2, VELOC_PART_KEEP);
        sent[i].body();
        part_end(2);
        columns[1] = 1;
        replay_begin(2);
        sent[i].body();
        replay_end(2);
        EQUAL(failures, 0);
        differs = to[SENT - 1] = 1;
        replay_begin(2);
        sent[i].body();
        if (!are_compared) {
            EQUAL(failures, 0);
            replay_end(2);
        } else if (failures == 0) {
            failed(__FILE__, __LINE__, sent[i].name, "goes unnoticed");
        } else {
            check_words(__FILE__, __LINE__, sent[i].name, sent[i].words);
            check_words(__FILE__, __LINE__, sent[i].name, "part 2|has sent other bytes then");
        }
        PART(VELOC_Part_free(2));
        EMPTY_LOG();
    }
    MPI(MPI_Request_free(&sends));
    MPI(MPI_Type_free(&column));
}

int main(int argc, char **argv)
{
    const char *only = option(argc, argv, "case", NULL);
    const char *what = option(argc, argv, "sent", NULL);
    size_t i;
    begin_program(&argc, &argv);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (i = 0; i < 2; i++)
        MPI(MPI_Recv_init(&from[4 * i], what ? 8 : 3, MPI_INT, rank, 1 + (int)i, MPI_COMM_WORLD,
                          &receives[i]));
    if (what != NULL)
        differ_in_bytes(strcmp(what, "compared") == 0, only);
    for (i = 0; what == NULL && i < sizeof cases / sizeof *cases; i++) {
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
