/*
 * Communicators, types and persistent requests that are made and freed around a part and within it.
 *
 * handles case=CASE, or no case for all of them
 */
#include "corners.h"

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

/* Half of the processes each, and a communicator between. */
static void with_communicators(void (*body)(void))
{
    MPI(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 12, &bridge));
    run_and_replay(body);
    MPI(MPI_Comm_free(&bridge));
    MPI(MPI_Comm_free(&half));
}

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

/* Its type is freed while an older part is logged, which goes before the receive is completed, as does
 * the handle. */
static MPI_Request pending;

static void complete_pending(void)
{
    MPI_Request own = pending;
    saw_wait(&own);
    saw(from, 8 * sizeof *from);
}

static void complete_pending_again(void)
{
    prepare(1);
    replay_body();
}

static void stale_type(void (*body)(void))
{
    MPI_Datatype type;
    prepare(1);
    part_begin(2, 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    part_end(2);
    MPI(MPI_Type_vector(3, 1, 2, MPI_INT, &type));
    MPI(MPI_Type_commit(&type));
    MPI(MPI_Irecv(from, 1, type, left, 1, MPI_COMM_WORLD, &pending));
    MPI(MPI_Type_free(&type));
    PART(VELOC_Part_free(2));
    MPI(MPI_Type_contiguous(7, MPI_DOUBLE, &type));
    MPI(MPI_Type_commit(&type));
    MPI(MPI_Send(to, 3, MPI_INT, right, 1, MPI_COMM_WORLD));
    seen = 0;
    part_begin(1, 0);
    body();
    part_end(1);
    seen_first = seen;
    replayed_body = body;
    in_turns(complete_pending_again);
    MPI(MPI_Type_free(&type));
    EMPTY_LOG();
}

/* Types and persistent requests in snapshots of inner parts, and made and freed within them, in every
 * step. */
static void inner_handles(void (*body)(void))
{
    enum { STEPS = 40 };
    MPI_Datatype types[STEPS], own;
    MPI_Request receives[STEPS], receive;
    int step, run;
    (void)body;
    part_begin(1, 0);
    for (step = 0; step < STEPS; step++) {
        MPI(MPI_Type_vector(2, 1, 2, MPI_INT, &types[step]));
        MPI(MPI_Type_commit(&types[step]));
        MPI(MPI_Recv_init(from, 1, types[step], left, step, MPI_COMM_WORLD, &receives[step]));
        own = types[step];
        receive = receives[step];
        for (run = 0; run < 2; run++) {
            /* In the first run of the outer part, or within its replay. */
            prepare(step);
            if (run == 0)
                part_begin(2, 0);
            else
                replay_begin(2);
            own = types[step];
            receive = receives[step];
            MPI(MPI_Start(&receive));
            MPI(MPI_Sendrecv(to, 1, own, right, STEPS, from + 6, 1, own, left, STEPS,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MPI(MPI_Send(to + 1, 2, MPI_INT, right, step, MPI_COMM_WORLD));
            MPI(MPI_Wait(&receive, MPI_STATUS_IGNORE));
            MPI(MPI_Type_free(&own));
            MPI(MPI_Request_free(&receive));
            if (run == 0)
                part_end(2);
            else
                replay_end(2);
            EQUAL(from[0], step + 100 * left + 1);
            EQUAL(from[1], -7);
            EQUAL(from[2], step + 100 * left + 2);
            EQUAL(from[6], step + 100 * left);
            EQUAL(from[8], step + 100 * left + 2);
        }
    }
    part_end(1);
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
}

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

static const struct corner corners[] = {
    {"communicators", communicators, with_communicators},
    {"intercommunicator", intercommunicator, with_communicators},
    {"made_communicators", made_communicators, with_communicators},
    {"stale_handles", use_handles, stale_handles},
    {"stale_type", complete_pending, stale_type},
    {"inner_handles", NULL, inner_handles},
};

int main(int argc, char **argv)
{
    return run_corners(argc, argv, corners, sizeof corners / sizeof *corners);
}
