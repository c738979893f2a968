/*
 * What MPI allows and few programs do, in parts: each case is run, and then replayed by each process
 * alone.
 *
 * corners case=CASE, or no case for all of them
 */
#include "parts.h"

enum { LENGTH = 6 };

static int to[LENGTH], from[4 * LENGTH];
static int left, right;

/* What is sent, and what memory holds before something is received. */
static void prepare(int first)
{
    int i;
    for (i = 0; i < LENGTH; i++)
        to[i] = first + 100 * rank + i;
    for (i = 0; i < 4 * LENGTH; i++)
        from[i] = -7;
}

static void saw_from(void)
{
    saw(from, sizeof from);
}

static void saw_wait(MPI_Request *request)
{
    MPI_Status status;
    MPI(MPI_Wait(request, &status));
    CHECK(*request == MPI_REQUEST_NULL);
    saw_status(&status);
}

/* ---- sends and receives ---- */

static char attached[4096];

static void every_send(void)
{
    MPI_Request request, receive;
    MPI_Status status;
    void *detached;
    int size, kind;
    MPI(MPI_Buffer_attach(attached, sizeof attached));
    for (kind = 0; kind < 8; kind++) {
        prepare(kind);
        /* A ready send needs its receive to be there. */
        MPI(MPI_Irecv(from, LENGTH, MPI_INT, left, kind, MPI_COMM_WORLD, &receive));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        request = MPI_REQUEST_NULL;
        switch (kind) {
        case 0: MPI(MPI_Send(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD)); break;
        case 1: MPI(MPI_Ssend(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD)); break;
        case 2: MPI(MPI_Bsend(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD)); break;
        case 3: MPI(MPI_Rsend(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD)); break;
        case 4: MPI(MPI_Isend(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD, &request)); break;
        case 5: MPI(MPI_Issend(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD, &request)); break;
        case 6: MPI(MPI_Ibsend(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD, &request)); break;
        case 7: MPI(MPI_Irsend(to, LENGTH, MPI_INT, right, kind, MPI_COMM_WORLD, &request)); break;
        }
        if (kind >= 4) {
            CHECK(request != MPI_REQUEST_NULL);
            MPI(MPI_Wait(&request, &status));
        }
        saw_wait(&receive);
        saw_from();
    }
    MPI(MPI_Buffer_detach(&detached, &size));
    CHECK(detached == attached);
}

static void sendrecv(void)
{
    MPI_Status status;
    prepare(1);
    MPI(MPI_Sendrecv(to, 3, MPI_INT, right, 1, from, 9, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                     MPI_COMM_WORLD, &status));
    saw_status(&status);
    MPI(MPI_Sendrecv_replace(to, LENGTH, MPI_INT, right, 2, left, 2, MPI_COMM_WORLD, &status));
    saw_status(&status);
    saw(to, sizeof to);
    MPI(MPI_Sendrecv(to, 3, MPI_INT, MPI_PROC_NULL, 1, from + 9, 9, MPI_INT, MPI_PROC_NULL, 1,
                     MPI_COMM_WORLD, &status));
    saw_status(&status);
    saw_from();
}

static void process_null(void)
{
    MPI_Request requests[2];
    MPI_Message matched;
    MPI_Status status;
    int flag;
    prepare(1);
    MPI(MPI_Send(to, LENGTH, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    MPI(MPI_Recv(from, LENGTH, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    saw_status(&status);
    EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    EQUAL(status.MPI_TAG, MPI_ANY_TAG);
    MPI(MPI_Isend(to, LENGTH, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Irecv(from, LENGTH, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]));
    saw_wait(&requests[1]);
    MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MPI(MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &status));
    CHECK(flag);
    saw_status(&status);
    MPI(MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    saw_status(&status);
    MPI(MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &matched, &status));
    CHECK(matched == MPI_MESSAGE_NO_PROC);
    saw_status(&status);
    MPI(MPI_Mrecv(from, LENGTH, MPI_INT, &matched, &status));
    CHECK(matched == MPI_MESSAGE_NULL);
    saw_status(&status);
    saw_from();
}

static void empty_messages(void)
{
    MPI_Request request;
    MPI_Status status;
    prepare(1);
    MPI(MPI_Irecv(NULL, 0, MPI_INT, left, 1, MPI_COMM_WORLD, &request));
    MPI(MPI_Send(NULL, 0, MPI_INT, right, 1, MPI_COMM_WORLD));
    saw_wait(&request);
    MPI(MPI_Send(to, 0, MPI_DOUBLE, right, 2, MPI_COMM_WORLD));
    MPI(MPI_Recv(from, LENGTH, MPI_INT, left, 2, MPI_COMM_WORLD, &status));
    saw_status(&status);
    MPI(MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD));
    MPI(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    saw_from();
}

static void ignored_statuses(void)
{
    MPI_Request requests[3];
    int which[3], count, i, flag;
    prepare(1);
    for (i = 0; i < 3; i++)
        MPI(MPI_Irecv(from + i, 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]));
    for (i = 0; i < 3; i++)
        MPI(MPI_Send(to + i, 1, MPI_INT, right, i, MPI_COMM_WORLD));
    MPI(MPI_Waitsome(3, requests, &count, which, MPI_STATUSES_IGNORE));
    saw(which, sizeof *which * (size_t)count);
    MPI(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    saw_from();
    MPI(MPI_Send(to, 1, MPI_INT, right, 9, MPI_COMM_WORLD));
    MPI(MPI_Probe(left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Iprobe(left, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(flag);
    MPI(MPI_Recv(from, 1, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    /* Nothing is under way now. */
    MPI(MPI_Waitsome(3, requests, &count, which, MPI_STATUSES_IGNORE));
    EQUAL(count, MPI_UNDEFINED);
    MPI(MPI_Waitany(3, requests, &count, MPI_STATUS_IGNORE));
    EQUAL(count, MPI_UNDEFINED);
    MPI(MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    MPI(MPI_Wait(requests, MPI_STATUS_IGNORE));
    saw_from();
}

/* Messages to oneself, and one that no library sends at once. */
static void own_and_large(void)
{
    enum { LARGE = 300000 };
    static int large[2][LARGE];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int i;
    prepare(1);
    MPI(MPI_Irecv(from, LENGTH, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]));
    MPI(MPI_Send(to, LENGTH, MPI_INT, 0, 1, MPI_COMM_SELF));
    saw_wait(&requests[0]);
    for (i = 0; i < LARGE; i++) {
        large[0][i] = rank * LARGE + i;
        large[1][i] = -1;
    }
    MPI(MPI_Irecv(large[1], LARGE, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Isend(large[0], LARGE, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]));
    MPI(MPI_Waitall(2, requests, statuses));
    saw_status(&statuses[0]);
    saw(large[1], sizeof large[1]);
    saw_from();
}

/* ---- the life of a request ---- */

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

/* ---- errors ---- */

static void truncated(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int code, class, i;
    prepare(1);
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD));
    code = MPI_Recv(from, 2, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS);
    MPI(MPI_Error_class(code, &class));
    EQUAL(class, MPI_ERR_TRUNCATE);
    MPI(MPI_Irecv(from, LENGTH, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Irecv(from + LENGTH, 2, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[1]));
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 2, MPI_COMM_WORLD));
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 3, MPI_COMM_WORLD));
    memset(statuses, 0, sizeof statuses);
    code = MPI_Waitall(2, requests, statuses);
    MPI(MPI_Error_class(code, &class));
    EQUAL(class, MPI_ERR_IN_STATUS);
    for (i = 0; i < 2; i++) {
        MPI(MPI_Error_class(statuses[i].MPI_ERROR, &class));
        EQUAL(class, i == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
    saw_status(&statuses[0]);
    saw(from, LENGTH * sizeof *from);
}

/* ---- types ---- */

static void types(void)
{
    MPI_Datatype column, late;
    MPI_Request request, other;
    MPI_Status status;
    int elements, i;
    prepare(1);
    MPI(MPI_Type_vector(3, 1, 2, MPI_INT, &column));
    MPI(MPI_Type_commit(&column));
    MPI(MPI_Irecv(from, 2, column, left, 1, MPI_COMM_WORLD, &request));
    MPI(MPI_Isend(to, 1, column, right, 1, MPI_COMM_WORLD, &other));
    /* It goes on without the type, whose handle may become another's. */
    MPI(MPI_Type_free(&column));
    MPI(MPI_Type_contiguous(2, MPI_DOUBLE, &late));
    MPI(MPI_Type_commit(&late));
    saw_wait(&request);
    MPI(MPI_Wait(&other, MPI_STATUS_IGNORE));
    MPI(MPI_Type_free(&late));
    saw_from();
    /* Addresses in the type, not in the call. */
    prepare(2);
    {
        int lengths[2] = {2, 1};
        MPI_Aint addresses[2];
        MPI_Datatype kinds[2] = {MPI_INT, MPI_INT};
        MPI(MPI_Get_address(from + 1, &addresses[0]));
        MPI(MPI_Get_address(from + 8, &addresses[1]));
        MPI(MPI_Type_create_struct(2, lengths, addresses, kinds, &column));
        MPI(MPI_Type_commit(&column));
        MPI(MPI_Sendrecv(to, 3, MPI_INT, right, 2, MPI_BOTTOM, 1, column, left, 2, MPI_COMM_WORLD,
                         &status));
        MPI(MPI_Type_free(&column));
    }
    saw_status(&status);
    saw_from();
    /* An element that came in part. */
    MPI(MPI_Type_vector(2, 1, 3, MPI_INT, &column));
    MPI(MPI_Type_commit(&column));
    MPI(MPI_Sendrecv(to, 5, MPI_INT, right, 3, from, 4, column, left, 3, MPI_COMM_WORLD, &status));
    MPI(MPI_Get_elements(&status, column, &elements));
    EQUAL(elements, 5);
    for (i = 0; i < 5; i++)
        saw_int(from[i / 2 * 4 + i % 2 * 3]);
    MPI(MPI_Type_free(&column));
}

/* ---- communicators ---- */

static MPI_Comm half, bridge;

static void communicators(void)
{
    MPI_Status status;
    MPI_Comm copy, part;
    int own, members, i;
    int colour = rank % 2;
    prepare(1);
    MPI(MPI_Comm_size(half, &members));
    MPI(MPI_Comm_rank(half, &own));
    MPI(MPI_Sendrecv(to, LENGTH, MPI_INT, (own + 1) % members, 1, from, LENGTH, MPI_INT,
                     (own + members - 1) % members, 1, half, &status));
    saw_status(&status);
    MPI(MPI_Allreduce(to, from + LENGTH, LENGTH, MPI_INT, MPI_SUM, half));
    saw_from();
    /* Made and freed within the part. */
    for (i = 0; i < 2; i++) {
        MPI(MPI_Comm_dup(half, &copy));
        MPI(MPI_Comm_split(MPI_COMM_WORLD, colour, -rank, &part));
        MPI(MPI_Comm_rank(part, &own));
        saw_int(own);
        prepare(i);
        MPI(MPI_Bcast(from, LENGTH, MPI_INT, 0, copy));
        MPI(MPI_Allgather(to, 2, MPI_INT, from, 2, MPI_INT, part));
        saw_from();
        MPI(MPI_Comm_free(&copy));
        CHECK(copy == MPI_COMM_NULL);
        MPI(MPI_Comm_free(&part));
    }
}

static void intercommunicator(void)
{
    MPI_Status status;
    int others;
    prepare(1);
    MPI(MPI_Comm_remote_size(bridge, &others));
    if (rank / 2 < others) {
        MPI(MPI_Sendrecv(to, LENGTH, MPI_INT, rank / 2, 1, from, LENGTH, MPI_INT, rank / 2, 1,
                         bridge, &status));
        saw_status(&status);
    }
    MPI(MPI_Allreduce(to, from + LENGTH, LENGTH, MPI_INT, MPI_SUM, bridge));
    MPI(MPI_Bcast(rank == 0 ? to : from, LENGTH, MPI_INT,
                  rank % 2 == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, bridge));
    saw_from();
}

static void make_communicators(void)
{
    MPI(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 12, &bridge));
}

/* ---- across the borders ---- */

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

/* ---- handles that are no more ---- */

static struct {
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Request receive, send;
} handles, handles_then;

/* With what a replay finds in a snapshot: a communicator, a type and requests of before the part. */
static void use_handles(void)
{
    MPI_Status status;
    int own;
    prepare(1);
    MPI(MPI_Comm_rank(handles.comm, &own));
    saw_int(own);
    MPI(MPI_Sendrecv(to, 1, handles.type, right, 1, from, 2, handles.type, left, 1, handles.comm,
                     &status));
    saw_status(&status);
    MPI(MPI_Bcast(from, 1, handles.type, 0, handles.comm));
    MPI(MPI_Start(&handles.receive));
    MPI(MPI_Start(&handles.send));
    MPI(MPI_Wait(&handles.receive, &status));
    MPI(MPI_Wait(&handles.send, MPI_STATUS_IGNORE));
    CHECK(handles.receive != MPI_REQUEST_NULL);
    saw_status(&status);
    saw_from();
}

static void use_handles_again(void)
{
    handles = handles_then;
    replay_body();
    handles = handles_then;
    replay_begin(2);
    MPI(MPI_Type_free(&handles.type));
    MPI(MPI_Request_free(&handles.receive));
    MPI(MPI_Comm_free(&handles.comm));
    CHECK(handles.type == MPI_DATATYPE_NULL && handles.comm == MPI_COMM_NULL
          && handles.receive == MPI_REQUEST_NULL);
    replay_end(2);
}

/* They are freed behind the part, some within another part. */
static void stale_handles(void (*body)(void))
{
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &handles.comm));
    MPI(MPI_Type_vector(3, 1, 2, MPI_INT, &handles.type));
    MPI(MPI_Type_commit(&handles.type));
    MPI(MPI_Recv_init(from + 2 * LENGTH, 1, handles.type, left, 5, handles.comm, &handles.receive));
    MPI(MPI_Send_init(to, 3, MPI_INT, right, 5, handles.comm, &handles.send));
    handles_then = handles;
    seen = 0;
    part_begin(1, 0);
    body();
    part_end(1);
    seen_first = seen;
    part_begin(2, 0);
    MPI(MPI_Type_free(&handles.type));
    MPI(MPI_Request_free(&handles.receive));
    MPI(MPI_Comm_free(&handles.comm));
    part_end(2);
    MPI(MPI_Request_free(&handles.send));
    replayed_body = body;
    in_turns(use_handles_again);
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

/* ---- communicators made within the part ---- */

static void use_made(MPI_Comm made)
{
    int own, members, sum = 0;
    if (made == MPI_COMM_NULL) {
        saw_int(-1);
        return;
    }
    MPI(MPI_Comm_rank(made, &own));
    MPI(MPI_Comm_size(made, &members));
    MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made));
    saw_int(own);
    saw_int(members);
    saw_int(sum);
    MPI(MPI_Comm_free(&made));
    CHECK(made == MPI_COMM_NULL);
}

static void made_communicators(void)
{
    MPI_Comm made, parent;
    MPI_Group group, first;
    int none = 0, one = 1;
    MPI(MPI_Comm_group(MPI_COMM_WORLD, &group));
    MPI(MPI_Group_incl(group, 1, &none, &first));
    MPI(MPI_Comm_create(MPI_COMM_WORLD, first, &made));
    use_made(made);
    if (rank == 0) {
        MPI(MPI_Comm_create_group(MPI_COMM_WORLD, first, 4, &made));
        use_made(made);
    }
    MPI(MPI_Group_free(&first));
    MPI(MPI_Group_free(&group));
    MPI(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &made));
    use_made(made);
    MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made));
    use_made(made);
    MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &one, 0, &parent));
    MPI(MPI_Cart_sub(parent, &one, &made));
    use_made(made);
    use_made(parent);
    MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &one, 1, &right, &one,
                                       MPI_INFO_NULL, 0, &made));
    prepare(3);
    MPI(MPI_Neighbor_allgather(to, 2, MPI_INT, from, 2, MPI_INT, made));
    saw_from();
    use_made(made);
    MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 13, &parent));
    MPI(MPI_Intercomm_merge(parent, rank % 2, &made));
    use_made(made);
    MPI(MPI_Comm_free(&parent));
}

/* ---- what MPI 4 has more ---- */

#if MPI_VERSION >= 4
static void newer_calls(void)
{
    MPI_Count counts[8], gaps_of_counts[8];
    MPI_Aint gaps[8], none[8] = {0};
    MPI_Datatype kinds[8];
    MPI_Request request, other;
    MPI_Status status;
    MPI_Message message;
    int i, flag;
    prepare(1);
    MPI(MPI_Isendrecv(to, 3, MPI_INT, right, 1, from, 5, MPI_INT, left, 1, MPI_COMM_WORLD, &request));
    saw_wait(&request);
    MPI(MPI_Isendrecv_replace(to, 4, MPI_INT, right, 2, left, 2, MPI_COMM_WORLD, &request));
    saw_wait(&request);
    saw(to, sizeof to);
    saw_from();
    prepare(2);
    MPI(MPI_Irecv_c(from, 9, MPI_INT, left, 3, MPI_COMM_WORLD, &request));
    MPI(MPI_Send_c(to, 4, MPI_INT, right, 3, MPI_COMM_WORLD));
    saw_wait(&request);
    MPI(MPI_Isend_c(to, 2, MPI_INT, right, 4, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv_c(from + 9, 2, MPI_INT, left, 4, MPI_COMM_WORLD, &status));
    saw_status(&status);
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI(MPI_Sendrecv_c(to, 1, MPI_INT, right, 5, from + 12, 2, MPI_INT, left, 5, MPI_COMM_WORLD,
                       &status));
    saw_status(&status);
    MPI(MPI_Send_c(to, 3, MPI_INT, right, 6, MPI_COMM_WORLD));
    do
        MPI(MPI_Improbe(left, 6, MPI_COMM_WORLD, &flag, &message, &status));
    while (!flag);
    MPI(MPI_Mrecv_c(from + 15, 3, MPI_INT, &message, &status));
    saw_status(&status);
    saw_from();
    MPI(MPI_Recv_init_c(from, 3, MPI_INT, left, 7, MPI_COMM_WORLD, &request));
    MPI(MPI_Send_init_c(to, 3, MPI_INT, right, 7, MPI_COMM_WORLD, &other));
    for (i = 0; i < 2; i++) {
        prepare(3 + i);
        MPI(MPI_Start(&request));
        MPI(MPI_Start(&other));
        MPI(MPI_Wait(&request, &status));
        MPI(MPI_Wait(&other, MPI_STATUS_IGNORE));
        saw_status(&status);
        saw_from();
    }
    MPI(MPI_Request_free(&request));
    MPI(MPI_Request_free(&other));
    /* Arrays of wider numbers. */
    for (i = 0; i < ranks; i++) {
        counts[i] = i + 1;
        gaps[i] = 5 * i + 1;
        gaps_of_counts[i] = 1;
        kinds[i] = MPI_INT;
    }
    prepare(5);
    MPI(MPI_Allgatherv_c(to, rank + 1, MPI_INT, from, counts, gaps, MPI_INT, MPI_COMM_WORLD));
    saw_from();
    prepare(6);
    MPI(MPI_Iallgatherv_c(to, rank + 1, MPI_INT, from, counts, gaps, MPI_INT, MPI_COMM_WORLD,
                          &request));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    saw_from();
    prepare(7);
    for (i = 0; i < ranks; i++)
        gaps[i] *= (MPI_Aint)sizeof(int);
    MPI(MPI_Alltoallw_c(to, gaps_of_counts, none, kinds, from, gaps_of_counts, gaps, kinds,
                        MPI_COMM_WORLD));
    saw_from();
    prepare(8);
    MPI(MPI_Reduce_scatter_c(to, from, gaps_of_counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MPI(MPI_Allreduce_c(to, from + 3, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MPI(MPI_Bcast_c(from + 6, 2, MPI_INT, 0, MPI_COMM_WORLD));
    saw_from();
}
#else
static void newer_calls(void)
{
}
#endif

/* ---- all of them ---- */

static const struct {
    const char *name;
    void (*body)(void);
    void (*run)(void (*body)(void));
} cases[] = {
    {"every_send", every_send, run_and_replay},
    {"sendrecv", sendrecv, run_and_replay},
    {"process_null", process_null, run_and_replay},
    {"empty_messages", empty_messages, run_and_replay},
    {"ignored_statuses", ignored_statuses, run_and_replay},
    {"own_and_large", own_and_large, run_and_replay},
    {"cancelled", cancelled, run_and_replay},
    {"freed", freed, run_and_replay},
    {"persistent", persistent, run_and_replay},
    {"truncated", truncated, run_and_replay},
    {"types", types, run_and_replay},
    {"communicators", communicators, run_and_replay},
    {"intercommunicator", intercommunicator, run_and_replay},
    {"newer_calls", newer_calls, run_and_replay},
    {"requests_alike", requests_alike, run_and_replay},
    {"made_communicators", made_communicators, run_and_replay},
    {"borders", cross, borders},
    {"begun_before", complete_all, begun_before},
    {"stale_handles", use_handles, stale_handles},
};

int main(int argc, char **argv)
{
    const char *name = option(argc, argv, "case", NULL);
    int done = 0;
    size_t i;
    begin_program(&argc, &argv);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    make_communicators();
    for (i = 0; i < sizeof cases / sizeof *cases; i++)
        if (name == NULL || strcmp(name, cases[i].name) == 0) {
            cases[i].run(cases[i].body);
            done++;
        }
    CHECK(done > 0);
    MPI(MPI_Comm_free(&bridge));
    MPI(MPI_Comm_free(&half));
    return end_program();
}
