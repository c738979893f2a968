/* Every collective call in a part, blocking and non-blocking, replayed without communication: what
 * is sent in the replay is wrong, and what is received is what the first run received. */
#include "check.h"

enum { N = 3, MOST = 8 };

static int rank, size;

/* The arguments of all calls, and room for what they receive. */
struct arguments {
    int out[N * MOST], in[14][N * MOST + MOST];
    int counts[MOST], places[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
    MPI_Aint addresses[MOST];
};

static void fill(struct arguments *a, int run) {
    memset(a, 0, sizeof *a);
    memset(a->in, -1, sizeof a->in);
    for (int i = 0; i < N * size; i++) {
        a->out[i] = run == 0 ? 100 * rank + i : -9;
    }
    for (int i = 0; i < size; i++) {
        a->counts[i] = N;
        a->places[i] = (N + 1) * i; /* with gaps */
        a->bytes[i] = (int)sizeof(int) * a->places[i];
        a->addresses[i] = a->bytes[i];
        a->types[i] = MPI_INT;
    }
}

/* What is expected is what the first run had, gaps included. */
static void compare(const struct arguments *first, const struct arguments *again) {
    for (int i = 0; i < 14; i++) {
        if (memcmp(first->in[i], again->in[i], sizeof first->in[i]) != 0) {
            fprintf(stderr, "rank %d: call %d differs\n", rank, i);
            CHECK(0);
        }
    }
}

static void blocking(struct arguments *a, int run) {
    MPI_Comm world = MPI_COMM_WORLD;
    int root = size - 1, sum = run == 0 ? rank + 1 : -4;
    begin(1, run);
    MPI_Barrier(world);
    if (rank == root) {
        memcpy(a->in[0], a->out, sizeof a->out);
    }
    MPI_Bcast(a->in[0], N, MPI_INT, root, world);
    MPI_Gather(a->out, N, MPI_INT, a->in[1], N, MPI_INT, root, world);
    MPI_Gatherv(a->out, N, MPI_INT, a->in[2], a->counts, a->places, MPI_INT, root, world);
    MPI_Scatter(a->out, N, MPI_INT, a->in[3], N, MPI_INT, root, world);
    MPI_Scatterv(a->out, a->counts, a->places, MPI_INT, a->in[4], N, MPI_INT, 0, world);
    MPI_Allgather(a->out, N, MPI_INT, a->in[5], N, MPI_INT, world);
    MPI_Allgatherv(a->out, N, MPI_INT, a->in[6], a->counts, a->places, MPI_INT, world);
    MPI_Alltoall(a->out, N, MPI_INT, a->in[7], N, MPI_INT, world);
    MPI_Alltoallv(a->out, a->counts, a->places, MPI_INT, a->in[8], a->counts, a->places, MPI_INT,
                  world);
    MPI_Alltoallw(a->out, a->counts, a->bytes, a->types, a->in[9], a->counts, a->bytes, a->types,
                  world);
    MPI_Reduce(a->out, a->in[10], N, MPI_INT, MPI_SUM, root, world);
    memcpy(a->in[11], a->out, sizeof a->out);
    MPI_Allreduce(MPI_IN_PLACE, a->in[11], N, MPI_INT, MPI_MAX, world);
    MPI_Scan(&sum, &a->in[12][0], 1, MPI_INT, MPI_SUM, world);
    MPI_Exscan(&sum, &a->in[12][1], 1, MPI_INT, MPI_SUM, world);
    MPI_Reduce_scatter(a->out, &a->in[12][2], a->counts, MPI_INT, MPI_SUM, world);
    MPI_Reduce_scatter_block(a->out, a->in[13], N, MPI_INT, MPI_SUM, world);
    end(1, run);
    if (rank == root) {
        memset(a->in[0], 0, sizeof a->in[0]);
    } else {
        CHECK(a->in[0][1] == 100 * root + 1);
    }
    CHECK(a->in[5][N] == 100 && a->in[6][N] == -1 && a->in[12][0] == (rank + 1) * (rank + 2) / 2);
    if (rank != 0) {
        CHECK(a->in[12][1] == rank * (rank + 1) / 2);
    }
    memset(&a->in[11][N], 0, sizeof a->in[11] - N * sizeof(int));
}

/* All at once, and waited for in another order. Two of them straddle the part's ends. */
static void nonblocking(struct arguments *a, int run) {
    enum { CALLS = 15 };
    MPI_Comm world = MPI_COMM_WORLD;
    static MPI_Request before, after[2];
    static int straddling[2];
    int root = size - 1;
    MPI_Request r[CALLS], earlier;
    int one = 1;
    if (run == 0) {
        one = rank + 1;
        MPI_Iallreduce(&one, &straddling[0], 1, MPI_INT, MPI_SUM, world, &before);
    }
    earlier = before;
    if (run == 1) {
        straddling[0] = straddling[1] = -1;
    }
    begin(2, run);
    if (rank == root) {
        memcpy(a->in[0], a->out, sizeof a->out);
    }
    MPI_Ibcast(a->in[0], N, MPI_INT, root, world, &r[0]);
    MPI_Igather(a->out, N, MPI_INT, a->in[1], N, MPI_INT, root, world, &r[1]);
    MPI_Igatherv(a->out, N, MPI_INT, a->in[2], a->counts, a->places, MPI_INT, root, world, &r[2]);
    MPI_Iscatter(a->out, N, MPI_INT, a->in[3], N, MPI_INT, root, world, &r[3]);
    MPI_Iscatterv(a->out, a->counts, a->places, MPI_INT, a->in[4], N, MPI_INT, 0, world, &r[4]);
    MPI_Iallgather(a->out, N, MPI_INT, a->in[5], N, MPI_INT, world, &r[5]);
    MPI_Iallgatherv(a->out, N, MPI_INT, a->in[6], a->counts, a->places, MPI_INT, world, &r[6]);
    MPI_Ialltoall(a->out, N, MPI_INT, a->in[7], N, MPI_INT, world, &r[7]);
    MPI_Ialltoallv(a->out, a->counts, a->places, MPI_INT, a->in[8], a->counts, a->places, MPI_INT,
                   world, &r[8]);
    MPI_Ialltoallw(a->out, a->counts, a->bytes, a->types, a->in[9], a->counts, a->bytes, a->types,
                   world, &r[9]);
    MPI_Ireduce(a->out, a->in[10], N, MPI_INT, MPI_SUM, root, world, &r[10]);
    MPI_Iallreduce(a->out, a->in[11], N, MPI_INT, MPI_MAX, world, &r[11]);
    MPI_Ireduce_scatter(a->out, a->in[12], a->counts, MPI_INT, MPI_SUM, world, &r[12]);
    MPI_Ireduce_scatter_block(a->out, a->in[13], N, MPI_INT, MPI_SUM, world, &r[13]);
    MPI_Ibarrier(world, &r[14]);
    for (int i = 0; i < CALLS; i++) {
        CHECK(r[i] != MPI_REQUEST_NULL);
    }
    MPI_Wait(&earlier, MPI_STATUS_IGNORE);
    MPI_Waitall(3, &r[12], MPI_STATUSES_IGNORE);
    for (int i = 11; i-- > 4;) {
        MPI_Wait(&r[i], MPI_STATUS_IGNORE);
    }
    int index, flag = 0;
    for (int i = 0; i < 4; i++) {
        MPI_Waitany(4, r, &index, MPI_STATUS_IGNORE);
        CHECK(index >= 0 && index < 4);
    }
    while (!flag) {
        MPI_Test(&r[11], &flag, MPI_STATUS_IGNORE);
    }
    MPI_Iallreduce(a->out, &straddling[1], 1, MPI_INT, MPI_SUM, world, &after[run]);
    end(2, run);
    for (int i = 0; i < CALLS; i++) {
        CHECK(r[i] == MPI_REQUEST_NULL);
    }
    CHECK(straddling[0] == size * (size + 1) / 2);
    if (run == 0) {
        MPI_Wait(&after[0], MPI_STATUS_IGNORE);
        CHECK(straddling[1] == 100 * size * (size - 1) / 2);
    } else {
        MPI_Wait(&after[1], MPI_STATUS_IGNORE);
        CHECK(straddling[1] == -1);
    }
    if (rank == root) {
        memset(a->in[0], 0, sizeof a->in[0]);
    }
}

static void neighbors(struct arguments *a, int run) {
    static MPI_Comm ring;
    int periodic = 1, length = size;
    MPI_Request request;
    begin(3, run);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &length, &periodic, 0, &ring);
    MPI_Neighbor_allgather(a->out, N, MPI_INT, a->in[0], N, MPI_INT, ring);
    MPI_Neighbor_allgatherv(a->out, N, MPI_INT, a->in[1], a->counts, a->places, MPI_INT, ring);
    MPI_Neighbor_alltoall(a->out, N, MPI_INT, a->in[2], N, MPI_INT, ring);
    MPI_Neighbor_alltoallv(a->out, a->counts, a->places, MPI_INT, a->in[3], a->counts, a->places,
                           MPI_INT, ring);
    MPI_Ineighbor_alltoallw(a->out, a->counts, a->addresses, a->types, a->in[4], a->counts,
                            a->addresses, a->types, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    end(3, run);
    CHECK(a->in[0][0] == 100 * ((rank + size - 1) % size) && a->in[1][N] == -1);
    if (run == 1) {
        MPI_Comm_free(&ring);
    }
}

/* Two groups and the communicator between them. */
static void between(struct arguments *a, int run) {
    static MPI_Comm half, inter;
    int colour = rank % 2, in_half, root;
    begin(4, run);
    MPI_Comm_split(MPI_COMM_WORLD, colour, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - colour, 1, &inter);
    MPI_Comm_rank(half, &in_half);
    root = colour == 1 ? 0 : in_half == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Bcast(colour == 1 ? a->in[0] : a->out, N, MPI_INT, root, inter);
    MPI_Gather(a->out, N, MPI_INT, a->in[1], N, MPI_INT, root, inter);
    MPI_Scatter(a->out, N, MPI_INT, a->in[2], N, MPI_INT, root, inter);
    MPI_Allgather(a->out, N, MPI_INT, a->in[3], N, MPI_INT, inter);
    MPI_Reduce(a->out, a->in[4], N, MPI_INT, MPI_SUM, root, inter);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    end(4, run);
    if (colour == 1) {
        CHECK(a->in[0][1] == 1 && a->in[2][0] == N * in_half);
    } else if (in_half == 0) {
        CHECK(a->in[1][0] == 100 && a->in[4][0] >= 100);
    }
}

int main(int argc, char **argv) {
    static struct arguments first, again;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size >= 2 && size <= MOST);
    void (*const groups[])(struct arguments *, int) = {blocking, nonblocking, neighbors, between};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        fill(&first, 0);
        groups[i](&first, 0);
        /* A replay that communicates would disturb this, or be disturbed. */
        if (rank == 0) {
            MPI_Send(&rank, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        } else if (rank == 1) {
            int one;
            MPI_Recv(&one, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        fill(&again, 1);
        groups[i](&again, 1);
        compare(&first, &again);
        check_empty();
    }
    MPI_Finalize();
    return 0;
}
