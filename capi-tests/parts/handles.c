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
};

int main(int argc, char **argv)
{
    return run_corners(argc, argv, corners, sizeof corners / sizeof *corners);
}
