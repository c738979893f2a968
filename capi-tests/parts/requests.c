/*
 * The life of a request, in parts and across their borders.
 *
 * requests case=CASE, or no case for all of them
 */
#include "corners.h"

static void cancelled(void)
{
    MPI_Request request, other;
    MPI_Status status;
    int flag;
    prepare(1);
    MPI(MPI_Irecv(from, LENGTH, MPI_INT, left, 1, MPI_COMM_WORLD, &request));
    MPI(MPI_Irecv(from, LENGTH, MPI_INT, left, 2, MPI_COMM_WORLD, &other));
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 2, MPI_COMM_WORLD));
    MPI(MPI_Cancel(&request));
    MPI(MPI_Wait(&request, &status));
    MPI(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    saw_wait(&other);
    /* Too late. */
    MPI(MPI_Irecv(from, LENGTH, MPI_INT, left, 3, MPI_COMM_WORLD, &request));
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 3, MPI_COMM_WORLD));
    do
        MPI(MPI_Request_get_status(request, &flag, &status));
    while (!flag);
    MPI(MPI_Cancel(&request));
    saw_wait(&request);
    saw_from();
}

/* Whether a send can still be taken back, the MPI library decides; a replay hears the same. */
static void cancelled_send(void)
{
    MPI_Request request;
    MPI_Status status;
    int is_cancelled, theirs = -1;
    prepare(1);
    MPI(MPI_Isend(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &request));
    MPI(MPI_Cancel(&request));
    MPI(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    MPI(MPI_Test_cancelled(&status, &is_cancelled));
    saw_int(is_cancelled);
    MPI(MPI_Sendrecv(&is_cancelled, 1, MPI_INT, right, 2, &theirs, 1, MPI_INT, left, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    saw_int(theirs);
    if (!theirs)
        MPI(MPI_Recv(from, LENGTH, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    saw_from();
}

static void freed(void)
{
    MPI_Request request;
    MPI_Status status;
    prepare(1);
    MPI(MPI_Isend(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &request));
    MPI(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    MPI(MPI_Recv(from, LENGTH, MPI_INT, left, 1, MPI_COMM_WORLD, &status));
    saw_status(&status);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    saw_from();
}

static void persistent(void)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int i, flag, index;
    MPI(MPI_Recv_init(from, LENGTH, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Send_init(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]));
    MPI(MPI_Ssend_init(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[2]));
    for (i = 0; i < 4; i++) {
        prepare(i);
        MPI(MPI_Start(&requests[0]));
        MPI(MPI_Start(&requests[1 + i % 2]));
        switch (i) {
        case 0:
            MPI(MPI_Wait(&requests[0], &statuses[0]));
            break;
        case 1:
            do
                MPI(MPI_Test(&requests[0], &flag, &statuses[0]));
            while (!flag);
            break;
        case 2: /* Inactive requests do not count. */
            MPI(MPI_Waitany(1, requests, &index, &statuses[0]));
            EQUAL(index, 0);
            break;
        case 3:
            MPI(MPI_Waitall(3, requests, statuses));
            break;
        }
        MPI(MPI_Wait(&requests[1 + i % 2], MPI_STATUS_IGNORE));
        saw_status(&statuses[0]);
        saw_from();
        for (index = 0; index < 3; index++)
            CHECK(requests[index] != MPI_REQUEST_NULL);
    }
    for (i = 0; i < 3; i++) {
        MPI(MPI_Request_free(&requests[i]));
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
}

/* A persistent send of every kind, to a receive that is there before, as a ready one needs it. */
static void persistent_sends(void)
{
    static char attached[4096];
    MPI_Request receive, sends[4];
    MPI_Status status;
    void *detached;
    int size, kind, turn;
    MPI(MPI_Buffer_attach(attached, sizeof attached));
    MPI(MPI_Recv_init(from, LENGTH, MPI_INT, left, 1, MPI_COMM_WORLD, &receive));
    MPI(MPI_Send_init(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &sends[0]));
    MPI(MPI_Ssend_init(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &sends[1]));
    MPI(MPI_Bsend_init(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &sends[2]));
    MPI(MPI_Rsend_init(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD, &sends[3]));
    for (turn = 0; turn < 8; turn++) {
        kind = turn % 4;
        prepare(turn);
        MPI(MPI_Start(&receive));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        MPI(MPI_Start(&sends[kind]));
        MPI(MPI_Wait(&receive, &status));
        MPI(MPI_Wait(&sends[kind], MPI_STATUS_IGNORE));
        CHECK(receive != MPI_REQUEST_NULL && sends[kind] != MPI_REQUEST_NULL);
        EQUAL(from[LENGTH - 1], turn + 100 * left + LENGTH - 1);
        saw_status(&status);
        saw_from();
    }
    MPI(MPI_Buffer_detach(&detached, &size));
    MPI(MPI_Request_free(&receive));
    for (kind = 0; kind < 4; kind++)
        MPI(MPI_Request_free(&sends[kind]));
}

static MPI_Request crossing[6];

/* Before the part: receives of all kinds; within it: they complete, and others begin. */
static void cross(void)
{
    MPI_Status statuses[4];
    int i;
    MPI(MPI_Isend(to, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &crossing[4]));
    MPI(MPI_Isend(to + 1, 1, MPI_INT, right, 2, MPI_COMM_WORLD, &crossing[5]));
    MPI(MPI_Irecv(from + 2, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &crossing[2]));
    MPI(MPI_Send(to + 2, 1, MPI_INT, right, 3, MPI_COMM_WORLD));
    /* Behind the part it is waited for. */
    MPI(MPI_Irecv(from + 3, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &crossing[3]));
    MPI(MPI_Waitall(3, crossing, statuses));
    for (i = 0; i < 3; i++)
        saw_status(&statuses[i]);
    MPI(MPI_Wait(&crossing[4], MPI_STATUS_IGNORE));
    saw(from, 3 * sizeof *from);
}

static void crossing_replay(void)
{
    /* As a snapshot has it; what was waited for before the part is not in the log. */
    prepare(1);
    replay_body();
}

static void borders(void (*body)(void))
{
    MPI_Status status;
    int i;
    prepare(1);
    seen = 0;
    MPI(MPI_Irecv(from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &crossing[0]));
    MPI(MPI_Recv_init(from + 1, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &crossing[1]));
    MPI(MPI_Start(&crossing[1]));
    part_begin(1, 0);
    body();
    part_end(1);
    seen_first = seen;
    MPI(MPI_Send(to + 3, 1, MPI_INT, right, 4, MPI_COMM_WORLD));
    MPI(MPI_Wait(&crossing[3], &status));
    EQUAL(status.MPI_TAG, 4);
    MPI(MPI_Wait(&crossing[5], MPI_STATUS_IGNORE));
    for (i = 0; i < 4; i++)
        EQUAL(from[i], 1 + 100 * left + i);
    replayed_body = body;
    in_turns(crossing_replay);
    EMPTY_LOG();
    /* The persistent request is of use, and what the replay began and nobody waited for is not in
     * the way. */
    prepare(7);
    MPI(MPI_Start(&crossing[1]));
    MPI(MPI_Send(to, 1, MPI_INT, right, 2, MPI_COMM_WORLD));
    MPI(MPI_Wait(&crossing[1], &status));
    EQUAL(from[1], 7 + 100 * left);
    MPI(MPI_Request_free(&crossing[1]));
}

/* Begun before the part in every way, and completed within it. */
static void complete_all(void)
{
    MPI_Status statuses[6];
    int which[6], count, done = 0, i;
    MPI(MPI_Send(to, 3, MPI_INT, right, 1, MPI_COMM_WORLD));
    while (done < 5) {
        MPI(MPI_Waitsome(5, crossing, &count, which, statuses));
        for (i = 0; i < count; i++) {
            saw_int(which[i]);
            /* Of collective operations nothing is said. */
            if (which[i] < 3)
                saw_status(&statuses[i]);
            CHECK(crossing[which[i]] == MPI_REQUEST_NULL);
        }
        done += count;
    }
    saw_from();
}

static void begin_all(void)
{
    MPI_Datatype type;
    MPI_Message message;
    MPI(MPI_Type_vector(3, 1, 2, MPI_INT, &type));
    MPI(MPI_Type_commit(&type));
    MPI(MPI_Irecv(from, 1, type, left, 1, MPI_COMM_WORLD, &crossing[0]));
    MPI(MPI_Irecv(from, LENGTH, MPI_INT, left, 2, MPI_COMM_WORLD, &crossing[1]));
    MPI(MPI_Cancel(&crossing[1]));
    MPI(MPI_Isend(to, 2, MPI_INT, right, 3, MPI_COMM_WORLD, &crossing[5]));
    MPI(MPI_Mprobe(left, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    MPI(MPI_Imrecv(from + 6, 1, type, &message, &crossing[2]));
    MPI(MPI_Iallreduce(to, from + 12, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &crossing[3]));
    MPI(MPI_Ibcast(rank == 0 ? to : from + 15, 3, MPI_INT, 0, MPI_COMM_WORLD, &crossing[4]));
    /* Another type may have its handle now. */
    MPI(MPI_Type_free(&type));
    MPI(MPI_Type_contiguous(7, MPI_DOUBLE, &type));
    MPI(MPI_Type_commit(&type));
    MPI(MPI_Wait(&crossing[5], MPI_STATUS_IGNORE));
    MPI(MPI_Type_free(&type));
}

static void begun_before(void (*body)(void))
{
    prepare(1);
    begin_all();
    seen = 0;
    part_begin(1, 0);
    body();
    part_end(1);
    seen_first = seen;
    replayed_body = body;
    in_turns(crossing_replay);
    EMPTY_LOG();
}

/* Operations of one process are done when they begin, and a library may give them all one request. */
static void requests_alike(void)
{
    MPI_Request requests[4];
    MPI_Status status;
    int all[2] = {-1, -1};
    prepare(1);
    MPI(MPI_Iallreduce(to, all, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &requests[0]));
    MPI(MPI_Iallreduce(to + 1, all + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &requests[1]));
    MPI(MPI_Isend(to, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[2]));
    MPI(MPI_Isend(to + 1, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[3]));
    MPI(MPI_Recv(from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &status));
    saw_status(&status);
    MPI(MPI_Wait(&requests[3], MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    saw_int(all[1]);
    MPI(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    saw(all, sizeof all);
    saw_from();
}

/* The same begun before the part, some of them completed there. */
static MPI_Request alike[6];
static int results[3];

static void complete_alike(void)
{
    MPI_Request own[6];
    memcpy(own, alike, sizeof own);
    MPI(MPI_Wait(&own[4], MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&own[3], MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&own[0], MPI_STATUS_IGNORE));
    saw(results, sizeof results);
}

static void complete_alike_again(void)
{
    /* What was waited for before the part is in the snapshot. */
    results[0] = results[2] = -1;
    replay_body();
}

static void begun_alike(void (*body)(void))
{
    prepare(1);
    results[0] = results[1] = results[2] = -1;
    MPI(MPI_Iallreduce(to, results, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &alike[0]));
    MPI(MPI_Iallreduce(to + 1, results + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &alike[1]));
    MPI(MPI_Isend(to, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &alike[2]));
    MPI(MPI_Isend(to, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &alike[3]));
    MPI(MPI_Iallreduce(to + 2, results + 2, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &alike[4]));
    MPI(MPI_Irecv(from, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &alike[5]));
    MPI(MPI_Wait(&alike[5], MPI_STATUS_IGNORE));
    MPI(MPI_Recv(from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&alike[2], MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&alike[1], MPI_STATUS_IGNORE));
    seen = 0;
    part_begin(1, 0);
    body();
    part_end(1);
    seen_first = seen;
    replayed_body = body;
    in_turns(complete_alike_again);
    EMPTY_LOG();
}

/* Generalized requests: the program's own functions are called in a replay as in the first run. */
static int asked, done_with, asked_to_end;

static int query(void *extra, MPI_Status *status)
{
    asked++;
    MPI(MPI_Status_set_elements(status, MPI_INT, *(int *)extra));
    MPI(MPI_Status_set_cancelled(status, *(int *)extra == 4));
    status->MPI_SOURCE = 10 + *(int *)extra;
    status->MPI_TAG = 20 + *(int *)extra;
    return MPI_SUCCESS;
}

static int done(void *extra)
{
    done_with++;
    free(extra);
    return MPI_SUCCESS;
}

static int end(void *extra, int complete)
{
    (void)extra;
    asked_to_end += 1 + complete;
    return MPI_SUCCESS;
}

static MPI_Request general(int number)
{
    MPI_Request request;
    int *extra = malloc(sizeof *extra);
    *extra = number;
    MPI(MPI_Grequest_start(query, done, end, extra, &request));
    return request;
}

static void saw_calls(void)
{
    saw_int(asked);
    saw_int(done_with);
    saw_int(asked_to_end);
}

static void generalized(void)
{
    MPI_Request requests[4], own;
    MPI_Status statuses[4];
    int i, flag, index, count, which[4];
    prepare(1);
    asked = done_with = asked_to_end = 0;
    for (i = 0; i < 4; i++)
        requests[i] = general(1 + i);
    MPI(MPI_Test(&requests[0], &flag, &statuses[0]));
    CHECK(!flag);
    MPI(MPI_Grequest_complete(requests[0]));
    MPI(MPI_Request_get_status(requests[0], &flag, &statuses[0]));
    CHECK(flag);
    saw_calls();
    MPI(MPI_Waitany(4, requests, &index, &statuses[0]));
    EQUAL(index, 0);
    CHECK(requests[0] == MPI_REQUEST_NULL);
    saw_status(&statuses[0]);
    saw_calls();
    /* Beside messages, and not in their order. */
    MPI(MPI_Irecv(from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Send(to, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    MPI(MPI_Cancel(&requests[3]));
    MPI(MPI_Grequest_complete(requests[3]));
    MPI(MPI_Grequest_complete(requests[1]));
    MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MPI(MPI_Testsome(4, requests, &count, which, statuses));
    EQUAL(count, 2);
    for (i = 0; i < count; i++) {
        saw_int(which[i]);
        saw_status(&statuses[i]);
    }
    saw_calls();
    MPI(MPI_Grequest_complete(requests[2]));
    MPI(MPI_Waitall(4, requests, statuses));
    saw_status(&statuses[2]);
    saw_calls();
    /* Given up before it is done, and behind that. */
    own = requests[0] = general(7);
    MPI(MPI_Request_free(&requests[0]));
    CHECK(requests[0] == MPI_REQUEST_NULL);
    MPI(MPI_Grequest_complete(own));
    requests[0] = general(8);
    MPI(MPI_Grequest_complete(requests[0]));
    MPI(MPI_Request_free(&requests[0]));
    saw_calls();
    EQUAL(done_with, 6);
    saw_from();
}

/* Begun before the part, and done in it: nothing is left that the replay could complete. */
static MPI_Request beforehand, beforehand_own;

static void complete_beforehand(void)
{
    MPI_Status status;
    MPI_Request request = beforehand;
    MPI(MPI_Grequest_complete(beforehand_own));
    MPI(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    saw_status(&status);
}

static void generalized_before(void (*body)(void))
{
    asked = done_with = 0;
    beforehand = beforehand_own = general(5);
    run_and_replay(body);
    EQUAL(done_with, 1);
}

static const struct corner corners[] = {
    {"cancelled", cancelled, run_and_replay},
    {"cancelled_send", cancelled_send, run_and_replay},
    {"freed", freed, run_and_replay},
    {"persistent", persistent, run_and_replay},
    {"persistent_sends", persistent_sends, run_and_replay},
    {"requests_alike", requests_alike, run_and_replay},
    {"begun_alike", complete_alike, begun_alike},
    {"borders", cross, borders},
    {"begun_before", complete_all, begun_before},
    {"generalized", generalized, run_and_replay},
    {"generalized_before", complete_beforehand, generalized_before},
};

int main(int argc, char **argv)
{
    return run_corners(argc, argv, corners, sizeof corners / sizeof *corners);
}
