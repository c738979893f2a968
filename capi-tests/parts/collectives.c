/*
 * Collective operations in parts.
 *
 * collectives case=CASE, or no case for all of them
 *   allreduce   is called within the part by some processes, behind its end by others
 *   ibcast      begins and is waited for before, within or behind the part
 *   order       reductions that never come to the same result twice
 *   all         every operation, in place too, with gaps between blocks; blocking
 *   all-i       the same, non-blocking
 *   neighbours  the same on a ring
 */
#include "parts.h"

enum { BLOCK = 3, MOST_RANKS = 4, ROOM = 64 };

/* ---- at the end of a part ---- */

static double value, sum;
static MPI_Request request;

static void straddling_allreduce(void)
{
    value += rank + 1;
    if (rank % 2 == 0) {
        MPI(MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        saw(&sum, sizeof sum);
        value = sum;
    }
    saw(&value, sizeof value);
}

static void replay_allreduce(void)
{
    value = sum = 0;
    replay_body();
}

static void allreduce(void)
{
    value = 0;
    seen = 0;
    part_begin(1, 0);
    straddling_allreduce();
    part_end(1);
    seen_first = seen;
    if (rank % 2 == 1)
        MPI(MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, ranks * (ranks + 1) / 2.0);
    replayed_body = straddling_allreduce;
    in_turns(replay_allreduce);
    EMPTY_LOG();
}

static double news[ROOM];

static void begin_ibcast(void)
{
    MPI(MPI_Ibcast(news, ROOM, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request));
    CHECK(request != MPI_REQUEST_NULL);
}

static void wait_ibcast(void)
{
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
}

/* Each process by a way of its own. */
static void straddling_ibcast(void)
{
    if (rank == 0 || rank == 1)
        begin_ibcast();
    if (rank == 0 || rank == 2)
        wait_ibcast();
    if (rank == 0 || rank == 2)
        saw(news, sizeof news);
}

static void start_news(double first)
{
    int i;
    for (i = 0; i < ROOM; i++)
        news[i] = first + i;
}

static void replay_ibcast(void)
{
    /* The root's own memory is as it was; what others have got since is lost. */
    start_news(rank == 0 ? 1 : -1);
    replay_body();
}

static void ibcast(void)
{
    EQUAL(ranks, 4);
    start_news(rank == 0 ? 1 : 0);
    seen = 0;
    if (rank == 2)
        begin_ibcast();
    part_begin(1, 0);
    straddling_ibcast();
    part_end(1);
    seen_first = seen;
    if (rank == 3)
        begin_ibcast();
    if (rank == 1 || rank == 3)
        wait_ibcast();
    SAME(news[ROOM - 1], ROOM);
    replayed_body = straddling_ibcast;
    in_turns(replay_ibcast);
    EMPTY_LOG();
}

/* ---- reductions ---- */

static MPI_Op noisy;

/* A sum with an error that is another each time, as that of a sum in another order. */
static void noisy_sum(void *in, void *inout, int *length, MPI_Datatype *type)
{
    struct timespec now;
    double *from = in, *to = inout;
    int i;
    (void)type;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (i = 0; i < *length; i++)
        to[i] += from[i] + (double)now.tv_nsec * 1e-16;
}

static void order(void)
{
    double own[MOST_RANKS], all[MOST_RANKS];
    int ones[MOST_RANKS] = {1, 1, 1, 1};
    int i;
    for (i = 0; i < MOST_RANKS; i++)
        own[i] = 1.0 / (1 + rank + i);
    MPI(MPI_Allreduce(own, all, ranks, MPI_DOUBLE, noisy, MPI_COMM_WORLD));
    saw(all, sizeof *all * (size_t)ranks);
    memcpy(own, all, sizeof *all * (size_t)ranks);
    MPI(MPI_Scan(own, all, ranks, MPI_DOUBLE, noisy, MPI_COMM_WORLD));
    saw(all, sizeof *all * (size_t)ranks);
    MPI(MPI_Reduce_scatter(all, own, ones, MPI_DOUBLE, noisy, MPI_COMM_WORLD));
    saw(own, sizeof *own);
    MPI(MPI_Iallreduce(own, all, 1, MPI_DOUBLE, noisy, MPI_COMM_WORLD, &request));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    saw(all, sizeof *all);
    MPI(MPI_Allreduce(MPI_IN_PLACE, all, 1, MPI_DOUBLE, noisy, MPI_COMM_WORLD));
    saw(all, sizeof *all);
}

/* ---- all of them ---- */

static int nonblocking;
static int in[ROOM], out[ROOM];
/* What memory holds before an operation. It is another in a replay, so that it is seen whether what
 * MPI leaves alone is left alone. */
static int poison = 0x5eed0000;

static void prepare(void)
{
    int i;
    for (i = 0; i < ROOM; i++) {
        in[i] = 1000 * rank + i;
        out[i] = poison;
    }
}

static void saw_out(void)
{
    int i;
    for (i = 0; i < ROOM; i++)
        saw_int(out[i] == poison ? -1 : out[i]);
}

#define CALL(blocking, begin, ...)                                \
    do {                                                          \
        prepare();                                                \
        PLACE;                                                    \
        if (nonblocking) {                                        \
            MPI(MPI_##begin(__VA_ARGS__, &request));              \
            CHECK(request != MPI_REQUEST_NULL);                   \
            MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));           \
        } else {                                                  \
            MPI(MPI_##blocking(__VA_ARGS__));                     \
        }                                                         \
        saw_out();                                                \
    } while (0)

/* Contributions that stand in place. */
static void place(int from, int count)
{
    int i;
    for (i = from; i < from + count; i++)
        out[i] = 100 * rank + i;
}

/* Blocks of different lengths with gaps between, in an order of their own. */
static int counts[MOST_RANKS], gaps[MOST_RANKS], out_gaps[MOST_RANKS], bytes[MOST_RANKS];
static MPI_Datatype types[MOST_RANKS], strided;

static void make_blocks(int processes)
{
    int i;
    for (i = 0; i < processes; i++) {
        counts[i] = i + 1;
        gaps[i] = 7 * (processes - 1 - i) + 1;
        out_gaps[i] = 9 * i + 2;
        bytes[i] = out_gaps[i] * (int)sizeof(int);
        types[i] = MPI_INT;
    }
}

static void rooted(int root)
{
    MPI_Comm world = MPI_COMM_WORLD;
    int at_root = rank == root;
#define PLACE (void)0
    CALL(Gather, Igather, in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, root, world);
    CALL(Gather, Igather, in, BLOCK, MPI_INT, out, 1, strided, root, world);
    CALL(Gatherv, Igatherv, in, rank + 1, MPI_INT, out, counts, gaps, MPI_INT, root, world);
    CALL(Scatter, Iscatter, in, BLOCK, MPI_INT, out, 1, strided, root, world);
    CALL(Scatterv, Iscatterv, in, counts, gaps, MPI_INT, out + 5, rank + 1, MPI_INT, root, world);
    CALL(Scatter, Iscatter, in, BLOCK, MPI_INT, at_root ? MPI_IN_PLACE : out, BLOCK, MPI_INT, root,
         world);
    CALL(Reduce, Ireduce, in, out, BLOCK, MPI_INT, MPI_MAX, root, world);
#undef PLACE
#define PLACE place(BLOCK * rank, BLOCK)
    CALL(Gather, Igather, at_root ? MPI_IN_PLACE : in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, root,
         world);
#undef PLACE
#define PLACE place(0, 2 * BLOCK)
    CALL(Bcast, Ibcast, out, BLOCK, MPI_INT, root, world);
    CALL(Bcast, Ibcast, out, 1, strided, root, world);
    CALL(Reduce, Ireduce, at_root ? MPI_IN_PLACE : out, out, BLOCK, MPI_INT, MPI_SUM, root, world);
#undef PLACE
}

static void unrooted(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    int ones[MOST_RANKS] = {1, 1, 1, 1}, own[MOST_RANKS] = {0};
    int i;
    for (i = 0; i < ranks; i++)
        own[i] = rank + 1;
#define PLACE (void)0
    CALL(Allgather, Iallgather, in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, world);
    CALL(Allgather, Iallgather, in, BLOCK, MPI_INT, out, 1, strided, world);
    CALL(Allgatherv, Iallgatherv, in, rank + 1, MPI_INT, out, counts, gaps, MPI_INT, world);
    CALL(Alltoall, Ialltoall, in, BLOCK, MPI_INT, out, 1, strided, world);
    CALL(Alltoallv, Ialltoallv, in, counts, gaps, MPI_INT, out, own, out_gaps, MPI_INT, world);
    CALL(Alltoallw, Ialltoallw, in, counts, bytes, types, out, own, bytes, types, world);
    CALL(Allreduce, Iallreduce, in, out, BLOCK, MPI_INT, MPI_SUM, world);
    CALL(Reduce_scatter, Ireduce_scatter, in, out, counts, MPI_INT, MPI_SUM, world);
    CALL(Reduce_scatter_block, Ireduce_scatter_block, in, out, BLOCK, MPI_INT, MPI_SUM, world);
    CALL(Scan, Iscan, in, out, BLOCK, MPI_INT, MPI_SUM, world);
    /* The first process gets nothing. */
    CALL(Exscan, Iexscan, in, out, BLOCK, MPI_INT, MPI_SUM, world);
#undef PLACE
#define PLACE place(BLOCK * rank, BLOCK)
    CALL(Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_INT, out, BLOCK, MPI_INT, world);
#undef PLACE
#define PLACE place(gaps[rank], counts[rank])
    CALL(Allgatherv, Iallgatherv, MPI_IN_PLACE, 0, MPI_INT, out, counts, gaps, MPI_INT, world);
#undef PLACE
#define PLACE place(0, BLOCK * ranks)
    CALL(Alltoall, Ialltoall, MPI_IN_PLACE, 0, MPI_INT, out, BLOCK, MPI_INT, world);
    CALL(Allreduce, Iallreduce, MPI_IN_PLACE, out, BLOCK, MPI_INT, MPI_SUM, world);
    CALL(Reduce_scatter_block, Ireduce_scatter_block, MPI_IN_PLACE, out, BLOCK, MPI_INT, MPI_SUM,
         world);
    CALL(Reduce_scatter, Ireduce_scatter, MPI_IN_PLACE, out, ones, MPI_INT, MPI_SUM, world);
    CALL(Scan, Iscan, MPI_IN_PLACE, out, BLOCK, MPI_INT, MPI_SUM, world);
    CALL(Exscan, Iexscan, MPI_IN_PLACE, out, BLOCK, MPI_INT, MPI_SUM, world);
#undef PLACE
}

static void all(void)
{
    int root;
    poison++;
    for (root = 0; root < 2; root++)
        rooted(root);
    unrooted();
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static MPI_Comm ring;

static void neighbours(void)
{
    int two[2] = {2, 3}, at[2] = {10, 1};
    MPI_Aint far[2] = {40, 4};
    poison++;
    for (nonblocking = 0; nonblocking < 2; nonblocking++) {
#define PLACE (void)0
        CALL(Neighbor_allgather, Ineighbor_allgather, in, BLOCK, MPI_INT, out, 1, strided, ring);
        CALL(Neighbor_allgatherv, Ineighbor_allgatherv, in, 2, MPI_INT, out, (int[]){2, 2}, at,
             MPI_INT, ring);
        CALL(Neighbor_alltoall, Ineighbor_alltoall, in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, ring);
        CALL(Neighbor_alltoallv, Ineighbor_alltoallv, in, two, at, MPI_INT, out, (int[]){3, 2}, at,
             MPI_INT, ring);
        CALL(Neighbor_alltoallw, Ineighbor_alltoallw, in, two, far, types, out, (int[]){3, 2}, far,
             types, ring);
#undef PLACE
    }
}

static const char *only;

static int is(const char *name)
{
    return only == NULL || strcmp(only, name) == 0;
}

int main(int argc, char **argv)
{
    int periodic = 1;
    only = option(argc, argv, "case", NULL);
    begin_program(&argc, &argv);
    CHECK(ranks <= MOST_RANKS);
    make_blocks(ranks);
    MPI(MPI_Type_vector(BLOCK, 1, 2, MPI_INT, &strided));
    MPI(MPI_Type_commit(&strided));
    MPI(MPI_Op_create(noisy_sum, 1, &noisy));
    MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring));
    if (is("allreduce"))
        allreduce();
    if (is("ibcast"))
        ibcast();
    if (is("order"))
        run_and_replay(order);
    if (is("all"))
        run_and_replay(all);
    nonblocking = 1;
    if (is("all-i"))
        run_and_replay(all);
    if (is("neighbours"))
        run_and_replay(neighbours);
    MPI(MPI_Comm_free(&ring));
    MPI(MPI_Op_free(&noisy));
    MPI(MPI_Type_free(&strided));
    return end_program();
}
