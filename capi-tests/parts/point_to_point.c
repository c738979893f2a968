/*
 * Messages of every kind: sends, receives, errors and types.
 *
 * point_to_point case=CASE, or no case for all of them
 */
#include "corners.h"

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

/* All send before they receive, and a buffered send waits for nobody, however long its message is. */
static void buffered(void)
{
    enum { LARGE = 300000, ROOM = LARGE * sizeof(int) + MPI_BSEND_OVERHEAD + 1024 };
    static int large[2][LARGE];
    static char room[ROOM];
    MPI_Request request;
    MPI_Status status;
    void *detached;
    int size, kind, i;
    for (kind = 0; kind < 3; kind++) {
        for (i = 0; i < LARGE; i++) {
            large[0][i] = kind + rank * LARGE + i;
            large[1][i] = -1;
        }
        MPI(MPI_Buffer_attach(room, ROOM));
        switch (kind) {
        case 0: MPI(MPI_Bsend(large[0], LARGE, MPI_INT, right, kind, MPI_COMM_WORLD)); break;
        case 1:
            MPI(MPI_Ibsend(large[0], LARGE, MPI_INT, right, kind, MPI_COMM_WORLD, &request));
            MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        case 2:
            MPI(MPI_Bsend_init(large[0], LARGE, MPI_INT, right, kind, MPI_COMM_WORLD, &request));
            MPI(MPI_Start(&request));
            MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
            MPI(MPI_Request_free(&request));
            break;
        }
        memset(large[0], 0, sizeof large[0]);
        MPI(MPI_Recv(large[1], LARGE, MPI_INT, left, kind, MPI_COMM_WORLD, &status));
        saw_status(&status);
        saw(large[1], sizeof large[1]);
        MPI(MPI_Buffer_detach(&detached, &size));
    }
}

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
    /* The status says whose it is; its error is of calls on several requests alone. */
    memset(statuses, -1, sizeof statuses);
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 4, MPI_COMM_WORLD));
    CHECK(MPI_Recv(from, 2, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &statuses[0])
          != MPI_SUCCESS);
    EQUAL(statuses[0].MPI_SOURCE, left);
    EQUAL(statuses[0].MPI_TAG, 4);
    EQUAL(statuses[0].MPI_ERROR, -1);
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

/* Receives of fewer elements than none fail, and take no message. */
static void negative(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    MPI_Status status;
    int code, class, kind;
    prepare(1);
    for (kind = 0; kind < 6; kind++) {
        MPI(MPI_Send(to, 2, MPI_INT, right, kind, MPI_COMM_WORLD));
        code = MPI_SUCCESS;
        switch (kind) {
        case 0:
            code = MPI_Recv(from, -1, MPI_INT, left, kind, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case 1:
            code = MPI_Recv(from, -1, MPI_INT, left, kind, MPI_COMM_WORLD, &status);
            break;
        case 2:
            code = MPI_Irecv(from, -1, MPI_INT, left, kind, MPI_COMM_WORLD, &request);
            break;
        case 3:
            code = MPI_Sendrecv(to, 1, MPI_INT, right, 9, from, -1, MPI_INT, left, kind,
                                MPI_COMM_WORLD, &status);
            break;
        case 4:
            code = MPI_Recv_init(from, -1, MPI_INT, left, kind, MPI_COMM_WORLD, &request);
            break;
        case 5:
            code = MPI_Bcast(from, -1, MPI_INT, 0, MPI_COMM_WORLD);
            break;
        }
        MPI(MPI_Error_class(code, &class));
        EQUAL(class, MPI_ERR_COUNT);
        MPI(MPI_Recv(from + 2 * kind, 2, MPI_INT, left, kind, MPI_COMM_WORLD, &status));
        saw_status(&status);
    }
    MPI(MPI_Send(to, 2, MPI_INT, right, 10, MPI_COMM_WORLD));
    MPI(MPI_Mprobe(left, 10, MPI_COMM_WORLD, &message, &status));
    MPI(MPI_Error_class(MPI_Mrecv(from, -1, MPI_INT, &message, &status), &class));
    EQUAL(class, MPI_ERR_COUNT);
    MPI(MPI_Mrecv(from, 2, MPI_INT, &message, &status));
    saw_status(&status);
    saw_from();
}

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

static const struct corner corners[] = {
    {"every_send", every_send, run_and_replay},
    {"sendrecv", sendrecv, run_and_replay},
    {"process_null", process_null, run_and_replay},
    {"empty_messages", empty_messages, run_and_replay},
    {"ignored_statuses", ignored_statuses, run_and_replay},
    {"own_and_large", own_and_large, run_and_replay},
    {"buffered", buffered, run_and_replay},
    {"truncated", truncated, run_and_replay},
    {"negative", negative, run_and_replay},
    {"types", types, run_and_replay},
    {"newer_calls", newer_calls, run_and_replay},
};

int main(int argc, char **argv)
{
    return run_corners(argc, argv, corners, sizeof corners / sizeof *corners);
}
