/*
 * What a program may do with messages and hardly ever does.
 *
 * rare_calls case=CASE, or no case for all of them
 */
#include "corners.h"

#include <limits.h>

static int class_of(int code)
{
    int class;
    MPI(MPI_Error_class(code, &class));
    return class;
}

/* Calls on requests of which none is under way, or on no requests at all. */
static void nothing_under_way(void)
{
    MPI_Request none[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Request idle[2];
    MPI_Status statuses[3];
    int which[3], count, flag, index;
    prepare(1);
    MPI(MPI_Recv_init(from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &idle[0]));
    MPI(MPI_Send_init(to, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &idle[1]));
    MPI(MPI_Wait(&none[0], &statuses[0]));
    saw_status(&statuses[0]);
    MPI(MPI_Test(&none[0], &flag, &statuses[0]));
    CHECK(flag);
    MPI(MPI_Waitany(3, none, &index, &statuses[0]));
    EQUAL(index, MPI_UNDEFINED);
    saw_status(&statuses[0]);
    MPI(MPI_Testany(3, none, &index, &flag, &statuses[0]));
    CHECK(flag);
    EQUAL(index, MPI_UNDEFINED);
    MPI(MPI_Waitsome(3, none, &count, which, statuses));
    EQUAL(count, MPI_UNDEFINED);
    MPI(MPI_Testsome(3, none, &count, which, statuses));
    EQUAL(count, MPI_UNDEFINED);
    MPI(MPI_Waitall(3, none, statuses));
    saw_status(&statuses[2]);
    MPI(MPI_Testall(3, none, &flag, statuses));
    CHECK(flag);
    MPI(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    MPI(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    MPI(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
    EQUAL(index, MPI_UNDEFINED);
    MPI(MPI_Waitsome(0, NULL, &count, which, MPI_STATUSES_IGNORE));
    EQUAL(count, MPI_UNDEFINED);
    MPI(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &statuses[0]));
    CHECK(flag);
    /* Persistent ones that are not started. */
    MPI(MPI_Wait(&idle[0], &statuses[0]));
    saw_status(&statuses[0]);
    MPI(MPI_Waitany(2, idle, &index, MPI_STATUS_IGNORE));
    EQUAL(index, MPI_UNDEFINED);
    MPI(MPI_Testsome(2, idle, &count, which, MPI_STATUSES_IGNORE));
    EQUAL(count, MPI_UNDEFINED);
    MPI(MPI_Waitall(2, idle, MPI_STATUSES_IGNORE));
    CHECK(idle[0] != MPI_REQUEST_NULL && idle[1] != MPI_REQUEST_NULL);
    MPI(MPI_Request_free(&idle[0]));
    MPI(MPI_Request_free(&idle[1]));
}

/* Requests of all kinds in one call, null ones between. */
static void mixed(void)
{
    MPI_Request requests[9];
    MPI_Status statuses[9];
    int sum[2] = {-1, -1}, i;
    prepare(1);
    for (i = 0; i < 9; i++)
        requests[i] = MPI_REQUEST_NULL;
    MPI(MPI_Recv_init(from, 2, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Isend(to, 2, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[2]));
    MPI(MPI_Iallreduce(to, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]));
    MPI(MPI_Irecv(from + 6, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &requests[4]));
    MPI(MPI_Ibarrier(MPI_COMM_WORLD, &requests[5]));
    MPI(MPI_Isend(to + 1, 3, MPI_INT, 0, 7, MPI_COMM_SELF, &requests[6]));
    MPI(MPI_Irecv(from + 12, 3, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[7]));
    MPI(MPI_Ibcast(rank == 0 ? to : from + 18, 2, MPI_INT, 0, MPI_COMM_WORLD, &requests[8]));
    MPI(MPI_Start(&requests[0]));
    MPI(MPI_Waitall(9, requests, statuses));
    saw_status(&statuses[0]);
    saw_status(&statuses[4]);
    saw_status(&statuses[7]);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    for (i = 1; i < 9; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
    saw(sum, sizeof sum);
    saw_from();
    MPI(MPI_Start(&requests[0]));
    MPI(MPI_Isend(to + 2, 2, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[2]));
    MPI(MPI_Iallreduce(to, sum, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[3]));
    MPI(MPI_Waitall(9, requests, MPI_STATUSES_IGNORE));
    saw(sum, sizeof sum);
    saw_from();
    MPI(MPI_Request_free(&requests[0]));
}

/* Every way to complete a receive that has too little room. */
static void truncated(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int which[2], index = -1, count, flag, kind, code, i;
    for (kind = 0; kind < 9; kind++) {
        prepare(kind);
        memset(statuses, 0, sizeof statuses);
        /* Sent before it is received, so that it is there when it is asked for. */
        MPI(MPI_Irecv(from, 2, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]));
        requests[1] = MPI_REQUEST_NULL;
        MPI(MPI_Send(to, LENGTH, MPI_INT, right, 1, MPI_COMM_WORLD));
        code = MPI_SUCCESS;
        count = flag = 0;
        switch (kind) {
        case 0:
            code = MPI_Wait(&requests[0], &statuses[0]);
            break;
        case 1:
            do
                code = MPI_Test(&requests[0], &flag, &statuses[0]);
            while (code == MPI_SUCCESS && !flag);
            break;
        case 2:
            code = MPI_Waitany(2, requests, &index, &statuses[0]);
            break;
        case 3:
            do
                code = MPI_Testany(2, requests, &index, &flag, &statuses[0]);
            while (code == MPI_SUCCESS && !flag);
            break;
        case 4:
            code = MPI_Waitall(2, requests, statuses);
            break;
        case 5:
            do
                code = MPI_Testall(2, requests, &flag, statuses);
            while (code == MPI_SUCCESS && !flag);
            break;
        case 6:
            code = MPI_Waitsome(2, requests, &count, which, statuses);
            break;
        case 7:
            do
                code = MPI_Testsome(2, requests, &count, which, statuses);
            while (code == MPI_SUCCESS && count == 0);
            break;
        case 8: /* Some libraries say here that it has failed. */
            do
                code = MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
            while (code == MPI_SUCCESS && !flag);
            saw_int(class_of(code));
            code = MPI_Wait(&requests[0], &statuses[0]);
            break;
        }
        CHECK(code != MPI_SUCCESS);
        saw_int(class_of(code));
        if (class_of(code) == MPI_ERR_IN_STATUS)
            saw_int(class_of(statuses[0].MPI_ERROR));
        for (i = 0; i < 2; i++)
            saw_int(requests[i] == MPI_REQUEST_NULL);
        MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* Arguments that are wrong: the error is the same again. */
static void wrong_arguments(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm none = MPI_COMM_NULL;
    prepare(1);
    saw_int(class_of(MPI_Send(to, 1, MPI_INT, ranks + 5, 1, MPI_COMM_WORLD)));
    saw_int(class_of(MPI_Send(to, -1, MPI_INT, right, 1, MPI_COMM_WORLD)));
    saw_int(class_of(MPI_Recv(from, 1, MPI_INT, left, -77, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    saw_int(class_of(MPI_Irecv(from, 1, MPI_INT, ranks, 1, MPI_COMM_WORLD, &request)));
    saw_int(class_of(MPI_Isend(to, 1, MPI_INT, -17, 1, MPI_COMM_WORLD, &request)));
    saw_int(class_of(MPI_Bcast(to, 1, MPI_INT, ranks + 1, MPI_COMM_WORLD)));
    saw_int(class_of(MPI_Gather(to, -1, MPI_INT, from, -1, MPI_INT, 0, MPI_COMM_WORLD)));
    saw_int(class_of(MPI_Sendrecv(to, 1, MPI_INT, ranks, 1, from, 1, MPI_INT, left, 1,
                                  MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    saw_int(class_of(MPI_Comm_free(&none)));
    saw_from();
}

/* What is no type is an error of the call's communicator, and of no other. */
static void handler_of_others(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    CHECK(!"the error handler of another communicator is called");
}

static MPI_Comm own_copy;

static void no_types(void)
{
    MPI_Datatype none = MPI_DATATYPE_NULL;
    prepare(1);
    saw_int(class_of(MPI_Send(to, 1, none, right, 1, own_copy)));
    saw_int(class_of(MPI_Recv(from, 1, none, left, 1, own_copy, MPI_STATUS_IGNORE)));
    saw_int(class_of(MPI_Bcast(to, 1, none, 0, own_copy)));
    saw_int(class_of(MPI_Allgather(to, 1, MPI_INT, from, 1, none, own_copy)));
    saw_from();
}

static void free_no_type(void)
{
    MPI_Datatype none = MPI_DATATYPE_NULL;
    int class = class_of(MPI_Type_free(&none));
    CHECK(class != MPI_SUCCESS);
    saw_int(class);
}

static void without_types(void (*body)(void))
{
    MPI_Errhandler others;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &own_copy));
    MPI(MPI_Comm_create_errhandler(handler_of_others, &others));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, others));
    MPI(MPI_Errhandler_free(&others));
    run_and_replay(body);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_free(&own_copy));
    run_and_replay(free_no_type);
}

/* Elements whose bytes lie before their address, or that overlap, or have none. */
static void types(void)
{
    MPI_Datatype behind, back, none, part;
    MPI_Request request;
    MPI_Status status;
    int lengths[2] = {1, 2}, ints = (int)sizeof(int);
    MPI_Aint places[2] = {-2 * ints, 1 * ints};
    prepare(1);
    MPI(MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &part));
    MPI(MPI_Type_create_resized(part, -3 * ints, 7 * ints, &behind));
    MPI(MPI_Type_commit(&behind));
    MPI(MPI_Type_create_hvector(3, 1, -2 * ints, MPI_INT, &back));
    MPI(MPI_Type_commit(&back));
    MPI(MPI_Type_contiguous(0, MPI_INT, &none));
    MPI(MPI_Type_commit(&none));
    MPI(MPI_Sendrecv(to, LENGTH, MPI_INT, right, 1, from + 4, 2, behind, left, 1, MPI_COMM_WORLD,
                     &status));
    saw_status(&status);
    saw_from();
    MPI(MPI_Irecv(from + 20, 1, back, left, 2, MPI_COMM_WORLD, &request));
    MPI(MPI_Send(to + 4, 1, back, right, 2, MPI_COMM_WORLD));
    saw_wait(&request);
    saw_from();
    prepare(2);
    MPI(MPI_Bcast(rank == 0 ? to + 4 : from + 9, 1, back, 0, MPI_COMM_WORLD));
    MPI(MPI_Allgather(to, 3, MPI_INT, from + 4, 1, behind, MPI_COMM_WORLD));
    MPI(MPI_Ibcast(rank == 0 ? to + 3 : from + 9, 1, behind, 0, MPI_COMM_WORLD, &request));
    /* Freed under way. */
    MPI(MPI_Type_free(&behind));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    saw_from();
    MPI(MPI_Irecv(from, 5, none, left, 3, MPI_COMM_WORLD, &request));
    MPI(MPI_Send(to, 7, none, right, 3, MPI_COMM_WORLD));
    saw_wait(&request);
    MPI(MPI_Bcast(from, 3, none, 0, MPI_COMM_WORLD));
    saw_from();
    /* Every second element, and fewer than there is room for. */
    prepare(3);
    MPI(MPI_Type_free(&part));
    MPI(MPI_Type_create_resized(MPI_INT, 0, 2 * ints, &part));
    MPI(MPI_Type_commit(&part));
    MPI(MPI_Irecv(from, 10, part, left, 4, MPI_COMM_WORLD, &request));
    MPI(MPI_Type_free(&part));
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 4, MPI_COMM_WORLD));
    saw_wait(&request);
    saw_from();
    MPI(MPI_Type_free(&back));
    MPI(MPI_Type_free(&none));
}

/* Blocks that lie before the buffer's address. */
static void places_before(void)
{
    MPI_Datatype kinds[8];
    int counts[8], places[8], none[8] = {0}, i;
    for (i = 0; i < ranks; i++) {
        counts[i] = 1;
        places[i] = -2 * i;
        kinds[i] = MPI_INT;
    }
    prepare(1);
    MPI(MPI_Allgatherv(to, 1, MPI_INT, from + 20, counts, places, MPI_INT, MPI_COMM_WORLD));
    saw_from();
    for (i = 0; i < ranks; i++)
        places[i] *= (int)sizeof(int);
    prepare(2);
    MPI(MPI_Alltoallw(to, counts, none, kinds, from + 19, counts, places, kinds, MPI_COMM_WORLD));
    saw_from();
}

/* To oneself, in every way. */
static void to_oneself(void)
{
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message;
    int flag;
    prepare(1);
    MPI(MPI_Sendrecv(to, 2, MPI_INT, rank, 1, from, 4, MPI_INT, rank, 1, MPI_COMM_WORLD, &status));
    saw_status(&status);
    MPI(MPI_Sendrecv_replace(to, 3, MPI_INT, 0, 2, MPI_ANY_SOURCE, 2, MPI_COMM_SELF, &status));
    saw_status(&status);
    MPI(MPI_Isend(to, 3, MPI_INT, rank, 3, MPI_COMM_WORLD, &requests[0]));
    do
        MPI(MPI_Iprobe(rank, 3, MPI_COMM_WORLD, &flag, &status));
    while (!flag);
    saw_status(&status);
    MPI(MPI_Mprobe(rank, 3, MPI_COMM_WORLD, &message, &status));
    MPI(MPI_Imrecv(from + 6, 3, MPI_INT, &message, &requests[1]));
    MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MPI(MPI_Allreduce(to, from + 12, 2, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    MPI(MPI_Allgather(to + 2, 2, MPI_INT, from + 14, 2, MPI_INT, MPI_COMM_SELF));
    MPI(MPI_Exscan(to, from + 16, 2, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    MPI(MPI_Barrier(MPI_COMM_SELF));
    saw_from();
}

/* An error handler that communicates, and errors that it is called for. */
static int handled;

static void handler(MPI_Comm *comm, int *code, ...)
{
    int own, sum;
    (void)code;
    handled++;
    MPI(MPI_Comm_rank(*comm, &own));
    MPI(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    EQUAL(sum, own);
}

static void handlers(void)
{
    MPI_Comm copy;
    MPI_Errhandler own;
    prepare(1);
    handled = 0;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    MPI(MPI_Comm_create_errhandler(handler, &own));
    MPI(MPI_Comm_set_errhandler(copy, own));
    MPI(MPI_Errhandler_free(&own));
    MPI(MPI_Send(to, LENGTH, MPI_INT, right, 1, copy));
    CHECK(MPI_Recv(from, 2, MPI_INT, left, 1, copy, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    MPI(MPI_Sendrecv(to, 1, MPI_INT, right, 2, from + 9, 1, MPI_INT, left, 2, copy,
                     MPI_STATUS_IGNORE));
    saw(from + 9, sizeof *from);
    MPI(MPI_Comm_free(&copy));
}

/* A receive that is asked to end and given up, as programs do at their end. */
static void cancelled_and_freed(void)
{
    MPI_Request request;
    prepare(1);
    MPI(MPI_Irecv(from, 1, MPI_INT, left, 77, MPI_COMM_WORLD, &request));
    MPI(MPI_Cancel(&request));
    MPI(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    MPI(MPI_Sendrecv(to, 1, MPI_INT, right, 1, from + 1, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    saw_from();
}

/* When the bytes of a receive that is given up arrive, nobody can tell a replay. */
static void given_up(void)
{
    static int runs;
    int is_first = runs++ == 0;
    MPI_Request request, once;
    prepare(1);
    MPI(MPI_Irecv(from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv_init(from + 1, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &once));
    MPI(MPI_Start(&once));
    CHECK(MPI_Request_free(&request) != MPI_SUCCESS);
    if (is_first)
        check_words(__FILE__, __LINE__, "the error", "MPI_Request_free|MPI_Irecv|part 1");
    CHECK(MPI_Request_free(&once) != MPI_SUCCESS);
    if (is_first)
        check_words(__FILE__, __LINE__, "the error", "MPI_Request_free|MPI_Recv_init|part 1");
    MPI(MPI_Send(to, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    MPI(MPI_Send(to, 1, MPI_INT, right, 2, MPI_COMM_WORLD));
    saw_wait(&request);
    MPI(MPI_Wait(&once, MPI_STATUS_IGNORE));
    MPI(MPI_Request_free(&once));
    saw_from();
}

/* Every kind of collective call between two groups, and communicators of such a one. */
static void between_groups(void)
{
    MPI_Comm half, bridge, copy, whole;
    MPI_Request request;
    int colour = rank % 2, own, others, root, i;
    int counts[8], places[8];
    prepare(1);
    MPI(MPI_Comm_split(MPI_COMM_WORLD, colour, rank, &half));
    MPI(MPI_Comm_rank(half, &own));
    MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - colour, 14, &bridge));
    MPI(MPI_Comm_remote_size(bridge, &others));
    for (i = 0; i < others; i++) {
        counts[i] = 1;
        places[i] = 2 * i;
    }
    root = colour == 1 ? 0 : own == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI(MPI_Gather(to, 1, MPI_INT, from, 1, MPI_INT, root, bridge));
    MPI(MPI_Gatherv(to, 1, MPI_INT, from + 3, counts, places, MPI_INT, root, bridge));
    MPI(MPI_Scatter(to, 1, MPI_INT, from + 8, 1, MPI_INT, root, bridge));
    MPI(MPI_Reduce(to, from + 9, 2, MPI_INT, MPI_SUM, root, bridge));
    MPI(MPI_Allgather(to + 1, 1, MPI_INT, from + 11, 1, MPI_INT, bridge));
    MPI(MPI_Alltoall(to, 1, MPI_INT, from + 14, 1, MPI_INT, bridge));
    MPI(MPI_Allgatherv(to + 2, 1, MPI_INT, from + 17, counts, places, MPI_INT, bridge));
    MPI(MPI_Ibcast(colour == 1 ? from + 22 : to, 1, MPI_INT, root, bridge, &request));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    saw_from();
    MPI(MPI_Comm_dup(bridge, &copy));
    MPI(MPI_Barrier(copy));
    MPI(MPI_Intercomm_merge(copy, colour, &whole));
    MPI(MPI_Comm_rank(whole, &own));
    saw_int(own);
    MPI(MPI_Comm_disconnect(&whole));
    CHECK(whole == MPI_COMM_NULL);
    MPI(MPI_Comm_disconnect(&copy));
    MPI(MPI_Comm_free(&bridge));
    MPI(MPI_Comm_free(&half));
}

/* What a communicator's attributes are copied and deleted with may communicate. */
static int copies, deletions;

static int copy_attribute(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    int sum, one = 1;
    (void)comm, (void)key, (void)extra;
    MPI(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    copies += sum;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_attribute(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    MPI_Comm copy;
    int key, i, flag, *value;
    prepare(1);
    MPI(MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, NULL));
    MPI(MPI_Comm_set_attr(MPI_COMM_WORLD, key, to));
    for (i = 0; i < 3; i++) {
        MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        MPI(MPI_Comm_set_attr(copy, key, from + i));
        MPI(MPI_Comm_get_attr(copy, key, &value, &flag));
        CHECK(flag && value == from + i);
        MPI(MPI_Comm_free(&copy));
    }
    MPI(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    MPI(MPI_Comm_free_keyval(&key));
}

/* Types that are freed with an attribute, and whose handles other types get. */
static MPI_Datatype pair, spread;

static int delete_pair(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    MPI(MPI_Type_free(&pair));
    CHECK(pair == MPI_DATATYPE_NULL);
    return MPI_SUCCESS;
}

static void receive_pairs(void)
{
    prepare(1);
    MPI(MPI_Sendrecv(to, 1, pair, right, 1, from, 1, pair, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    saw_from();
}

static void receive_spread(void)
{
    prepare(2);
    MPI(MPI_Sendrecv(to, 3, MPI_INT, right, 1, from + 5, 1, spread, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    saw_from();
}

static void freed_with_attributes(void (*body)(void))
{
    MPI_Comm copy;
    int key;
    (void)body;
    MPI(MPI_Type_contiguous(2, MPI_INT, &pair));
    MPI(MPI_Type_commit(&pair));
    MPI(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_pair, &key, NULL));
    MPI(MPI_Comm_set_attr(copy, key, to));
    run_and_replay(receive_pairs);
    MPI(MPI_Comm_free(&copy));
    MPI(MPI_Comm_free_keyval(&key));
    CHECK(pair == MPI_DATATYPE_NULL);
    MPI(MPI_Type_vector(3, 1, 2, MPI_INT, &spread));
    MPI(MPI_Type_commit(&spread));
    run_and_replay(receive_spread);
    MPI(MPI_Type_free(&spread));
}

/* A communicator that is freed with an attribute of another one, and whose handle another one may get. A
 * replay of before still has it. */
static MPI_Comm inner, inner_then;
static int disconnects;

static int delete_inner(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    MPI(disconnects ? MPI_Comm_disconnect(&inner) : MPI_Comm_free(&inner));
    CHECK(inner == MPI_COMM_NULL);
    return MPI_SUCCESS;
}

static void receive_on_inner(void)
{
    int size;
    prepare(1);
    MPI(MPI_Sendrecv(to, 1, MPI_INT, right, 1, from, 1, MPI_INT, left, 1, inner_then,
                     MPI_STATUS_IGNORE));
    MPI(MPI_Comm_size(inner_then, &size));
    saw_int(size);
    saw_from();
}

static void comms_freed_with_attributes(void (*body)(void))
{
    MPI_Comm copy, other;
    int key;
    MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_inner, &key, NULL));
    for (disconnects = 0; disconnects < 2; disconnects++) {
        MPI(MPI_Comm_dup(MPI_COMM_WORLD, &inner));
        inner_then = inner;
        seen = 0;
        part_begin(1, 0);
        body();
        part_end(1);
        seen_first = seen;
        /* No replay has this one: it goes at once. */
        MPI(MPI_Comm_dup(MPI_COMM_SELF, &copy));
        MPI(MPI_Comm_set_attr(copy, key, to));
        MPI(MPI_Comm_free(&copy));
        CHECK(inner == MPI_COMM_NULL);
        MPI(MPI_Comm_dup(MPI_COMM_SELF, &other));
        replayed_body = body;
        in_turns(replay_body);
        MPI(MPI_Comm_free(&other));
        EMPTY_LOG();
    }
    MPI(MPI_Comm_free_keyval(&key));
}

/* A part inside itself, and ids of every kind. */
static int depth_of(int depth, int values[])
{
    MPI_Status status;
    int got = -1;
    MPI(MPI_Sendrecv(&values[depth], 1, MPI_INT, right, depth, &got, 1, MPI_INT, left, depth,
                     MPI_COMM_WORLD, &status));
    saw_int(got);
    return got;
}

static void recursive(int depth, int values[], int records)
{
    if (depth == 0)
        return;
    if (records)
        part_begin(INT_MIN, 0);
    (void)depth_of(depth, values);
    recursive(depth - 1, values, records);
    (void)depth_of(depth, values);
    if (records)
        part_end(INT_MIN);
}

static int sent[8];
static uint64_t digests[8];

/* The newest run is the outermost one's last inner run. */
static void replay_recursion(void)
{
    int depth;
    /* Runs of one id are a stack in the order in which they began. */
    for (depth = 1; depth <= 5; depth++) {
        memset(sent, -1, sizeof sent);
        seen = 0;
        replay_begin(INT_MIN);
        recursive(depth, sent, 0);
        replay_end(INT_MIN);
        CHECK(seen == digests[depth]);
    }
}

static void digest_of(int depth)
{
    int i;
    /* What a run of this depth sees. */
    seen = 0;
    for (i = depth; i >= 1; i--)
        saw_int(10 * left + i);
    for (i = 1; i <= depth; i++)
        saw_int(10 * left + i);
    digests[depth] = seen;
}

static void recursion(void (*body)(void))
{
    int i;
    (void)body;
    for (i = 0; i < 8; i++)
        sent[i] = 10 * rank + i;
    recursive(5, sent, 1);
    for (i = 1; i <= 5; i++)
        digest_of(i);
    in_turns(replay_recursion);
    EMPTY_LOG();
    /* Recorded inside its own replay. */
    for (i = 0; i < 8; i++)
        sent[i] = 10 * rank + i;
    recursive(3, sent, 1);
    PART(VELOC_Part_free(INT_MIN));
    EMPTY_LOG();
    recursive(2, sent, 0);
    part_begin(-1, 0);
    part_begin(0, 0);
    part_begin(INT_MAX, 0);
    recursive(2, sent, 0);
    part_end(INT_MAX);
    part_end(0);
    part_end(-1);
    for (i = -1; i <= 0; i++) {
        replay_begin(i);
        recursive(2, sent, 0);
        replay_end(i);
    }
    PART(VELOC_Part_free(INT_MAX));
    EMPTY_LOG();
}

/* An outer part that is kept, replayed with inner parts, without, and again. */
static void ring_step(int step, int *value, int records)
{
    MPI_Request request;
    int got, sum;
    if (records)
        part_begin(2, 0);
    MPI(MPI_Irecv(&got, 1, MPI_INT, left, step, MPI_COMM_WORLD, &request));
    if (records)
        part_begin(3, 0);
    MPI(MPI_Send(value, 1, MPI_INT, right, step, MPI_COMM_WORLD));
    MPI(MPI_Allreduce(value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (records)
        part_end(3);
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (records)
        part_end(2);
    *value += got + 3 * sum;
}

static int wanted;

static void replay_kept(void)
{
    int again, i;
    for (again = 0; again < 3; again++) {
        int value = rank + 7;
        replay_begin(1);
        for (i = 0; i < 5; i++)
            ring_step(i, &value, again == 1);
        replay_end(1);
        EQUAL(value, wanted);
    }
    PART(VELOC_Part_free(1));
    /* Each inner run has what the outer one had there, without the first value. */
    for (i = 0; i < 5; i++) {
        int value = 0;
        replay_begin(2);
        ring_step(4 - i, &value, 0);
        replay_end(2);
    }
    PART(VELOC_Part_free(3));
    EMPTY_LOG();
}

static void kept(void (*body)(void))
{
    int i, value = rank + 7;
    (void)body;
    part_begin(1, VELOC_PART_KEEP);
    for (i = 0; i < 5; i++)
        ring_step(i, &value, 0);
    part_end(1);
    wanted = value;
    in_turns(replay_kept);
}

/* Polls by the ten thousand are one event. */
static void polls(void (*body)(void))
{
    enum { POLLS = 20000 };
    MPI_Request request;
    int i, flag, got = -1, run;
    (void)body;
    for (run = 0; run < 2; run++) {
        got = -1;
        if (run == 0)
            part_begin(1, 0);
        else
            replay_begin(1);
        MPI(MPI_Irecv(&got, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request));
        for (i = 0; i < POLLS; i++) {
            MPI(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag);
        }
        for (i = 0; i < POLLS; i++) {
            MPI(MPI_Iprobe(rank, 6, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag);
        }
        MPI(MPI_Send(&rank, 1, MPI_INT, rank, 5, MPI_COMM_WORLD));
        MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        EQUAL(got, rank);
        if (run == 0) {
            part_end(1);
            EQUAL(logged().events, 5);
        } else {
            replay_end(1);
        }
    }
    EMPTY_LOG();
}

static const struct corner corners[] = {
    {"nothing_under_way", nothing_under_way, run_and_replay},
    {"mixed", mixed, run_and_replay},
    {"truncated", truncated, run_and_replay},
    {"wrong_arguments", wrong_arguments, run_and_replay},
    {"no_types", no_types, without_types},
    {"types", types, run_and_replay},
    {"places_before", places_before, run_and_replay},
    {"to_oneself", to_oneself, run_and_replay},
    {"handlers", handlers, run_and_replay},
    {"cancelled_and_freed", cancelled_and_freed, run_and_replay},
    {"given_up", given_up, run_and_replay},
    {"between_groups", between_groups, run_and_replay},
    {"attributes", attributes, run_and_replay},
    {"freed_with_attributes", NULL, freed_with_attributes},
    {"comms_freed_with_attributes", receive_on_inner, comms_freed_with_attributes},
    {"recursion", NULL, recursion},
    {"kept", NULL, kept},
    {"polls", NULL, polls},
};

int main(int argc, char **argv)
{
    return run_corners(argc, argv, corners, sizeof corners / sizeof *corners);
}
