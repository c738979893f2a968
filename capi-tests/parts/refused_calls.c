/*
 * What cannot be replayed is refused inside a part, by its name, and done outside.
 *
 * refused_calls [case=CASE]
 *   threads   MPI with MPI_THREAD_MULTIPLE has no parts
 *   fatal     with the error handler that MPI begins with: the job ends
 */
#include "parts.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

/* Open MPI has persistent collective calls before it has those of the standard. */
#ifdef OMPI_HAVE_MPI_EXT_PCOLLREQ
#define ALLREDUCE_INIT MPIX_Allreduce_init
#define ALLREDUCE_INIT_NAME "MPIX_Allreduce_init"
#elif MPI_VERSION >= 4
#define ALLREDUCE_INIT MPI_Allreduce_init
#define ALLREDUCE_INIT_NAME "MPI_Allreduce_init"
#endif

#define REFUSES(call, name)                                    \
    do {                                                       \
        CHECK((call) != MPI_SUCCESS);                          \
        check_words(__FILE__, __LINE__, #call, name "|part 5"); \
    } while (0)

static const char *path;
static int memory[16];

static void windows(int inside)
{
    MPI_Win window = MPI_WIN_NULL;
    void *base;
    MPI_Info none = MPI_INFO_NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    if (!inside) {
        MPI(MPI_Win_create(memory, sizeof memory, sizeof(int), none, world, &window));
        MPI(MPI_Win_fence(0, window));
        MPI(MPI_Put(&ranks, 1, MPI_INT, rank, 3, 1, MPI_INT, window));
        MPI(MPI_Win_fence(0, window));
        EQUAL(memory[3], ranks);
        part_begin(5, 0);
        REFUSES(MPI_Put(&ranks, 1, MPI_INT, rank, 3, 1, MPI_INT, window), "MPI_Put");
        REFUSES(MPI_Get(&ranks, 1, MPI_INT, rank, 3, 1, MPI_INT, window), "MPI_Get");
        REFUSES(MPI_Accumulate(&ranks, 1, MPI_INT, rank, 3, 1, MPI_INT, MPI_SUM, window),
                "MPI_Accumulate");
        REFUSES(MPI_Win_fence(0, window), "MPI_Win_fence");
        REFUSES(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window), "MPI_Win_lock");
        REFUSES(MPI_Win_free(&window), "MPI_Win_free");
        part_end(5);
        MPI(MPI_Win_free(&window));
        return;
    }
    REFUSES(MPI_Win_create(memory, sizeof memory, sizeof(int), none, world, &window),
            "MPI_Win_create");
    REFUSES(MPI_Win_allocate(64, 4, none, world, &base, &window), "MPI_Win_allocate");
    REFUSES(MPI_Win_allocate_shared(64, 4, none, world, &base, &window), "MPI_Win_allocate_shared");
    REFUSES(MPI_Win_create_dynamic(none, world, &window), "MPI_Win_create_dynamic");
}

static void files(int inside)
{
    MPI_File file;
    MPI_Status status;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    int text = 7;
    if (inside) {
        REFUSES(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "MPI_File_open");
        REFUSES(MPI_File_delete(path, MPI_INFO_NULL), "MPI_File_delete");
        return;
    }
    MPI(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    MPI(MPI_File_write_at(file, rank * 4, &text, 4, MPI_BYTE, &status));
    part_begin(5, 0);
    REFUSES(MPI_File_read_at(file, 0, &text, 4, MPI_BYTE, &status), "MPI_File_read_at");
    REFUSES(MPI_File_write_all(file, &text, 4, MPI_BYTE, &status), "MPI_File_write_all");
    REFUSES(MPI_File_close(&file), "MPI_File_close");
    part_end(5);
    MPI(MPI_File_close(&file));
}

/* What is begun outside must not end inside, if its result could not be given again. */
static void borders(void)
{
    MPI_File file;
    MPI_Request request;
    MPI_Comm copy;
    MPI_Status status;
    char own[512];
    int flag, index, mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    snprintf(own, sizeof own, "%s-%d", path, rank);
    MPI(MPI_File_open(MPI_COMM_SELF, own, mode, MPI_INFO_NULL, &file));
    MPI(MPI_File_write_at(file, 0, &ranks, 1, MPI_INT, &status));
    MPI(MPI_File_iread_at(file, 0, memory, 1, MPI_INT, &request));
    part_begin(5, 0);
    REFUSES(MPI_Wait(&request, &status), "MPI_File_iread_at|MPI_Wait");
    REFUSES(MPI_Testany(1, &request, &index, &flag, &status), "MPI_File_iread_at|MPI_Testany");
    part_end(5);
    MPI(MPI_Wait(&request, &status));
    MPI(MPI_File_close(&file));
    MPI(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request));
    part_begin(5, 0);
    REFUSES(MPI_Waitall(1, &request, &status), "MPI_Comm_idup|MPI_Waitall");
    part_end(5);
    MPI(MPI_Wait(&request, &status));
    MPI(MPI_Comm_free(&copy));
#ifdef ALLREDUCE_INIT
    MPI(ALLREDUCE_INIT(&rank, memory, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    part_begin(5, 0);
    REFUSES(MPI_Start(&request), ALLREDUCE_INIT_NAME "|MPI_Start");
    part_end(5);
    MPI(MPI_Start(&request));
    part_begin(5, 0);
    REFUSES(MPI_Wait(&request, &status), ALLREDUCE_INIT_NAME "|MPI_Wait");
    part_end(5);
    MPI(MPI_Wait(&request, &status));
    MPI(MPI_Request_free(&request));
#endif
}

#ifdef OMPI_HAVE_MPI_EXT_PCOLLREQ
static void persistent(void)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Datatype t = MPI_INT;
    const MPI_Datatype types[16] = {MPI_INT};
    const MPI_Info info = MPI_INFO_NULL;
    const int counts[16] = {0}, places[16] = {0};
    const MPI_Aint far[16] = {0};
    MPI_Request r;
    int *to = memory + 8, *from = memory;
    REFUSES(MPIX_Allgather_init(from, 1, t, to, 1, t, world, info, &r), "MPIX_Allgather_init");
    REFUSES(MPIX_Allgatherv_init(from, 0, t, to, counts, places, t, world, info, &r),
            "MPIX_Allgatherv_init");
    REFUSES(MPIX_Allreduce_init(from, to, 1, t, MPI_SUM, world, info, &r), "MPIX_Allreduce_init");
    REFUSES(MPIX_Alltoall_init(from, 1, t, to, 1, t, world, info, &r), "MPIX_Alltoall_init");
    REFUSES(MPIX_Alltoallv_init(from, counts, places, t, to, counts, places, t, world, info, &r),
            "MPIX_Alltoallv_init");
    REFUSES(MPIX_Alltoallw_init(from, counts, places, types, to, counts, places, types, world, info,
                                &r),
            "MPIX_Alltoallw_init");
    REFUSES(MPIX_Barrier_init(world, info, &r), "MPIX_Barrier_init");
    REFUSES(MPIX_Bcast_init(to, 1, t, 0, world, info, &r), "MPIX_Bcast_init");
    REFUSES(MPIX_Exscan_init(from, to, 1, t, MPI_SUM, world, info, &r), "MPIX_Exscan_init");
    REFUSES(MPIX_Gather_init(from, 1, t, to, 1, t, 0, world, info, &r), "MPIX_Gather_init");
    REFUSES(MPIX_Gatherv_init(from, 0, t, to, counts, places, t, 0, world, info, &r),
            "MPIX_Gatherv_init");
    REFUSES(MPIX_Neighbor_allgather_init(from, 1, t, to, 1, t, world, info, &r),
            "MPIX_Neighbor_allgather_init");
    REFUSES(MPIX_Neighbor_allgatherv_init(from, 0, t, to, counts, places, t, world, info, &r),
            "MPIX_Neighbor_allgatherv_init");
    REFUSES(MPIX_Neighbor_alltoall_init(from, 1, t, to, 1, t, world, info, &r),
            "MPIX_Neighbor_alltoall_init");
    REFUSES(MPIX_Neighbor_alltoallv_init(from, counts, places, t, to, counts, places, t, world, info,
                                         &r),
            "MPIX_Neighbor_alltoallv_init");
    REFUSES(MPIX_Neighbor_alltoallw_init(from, counts, far, types, to, counts, far, types, world,
                                         info, &r),
            "MPIX_Neighbor_alltoallw_init");
    REFUSES(MPIX_Reduce_init(from, to, 1, t, MPI_SUM, 0, world, info, &r), "MPIX_Reduce_init");
    REFUSES(MPIX_Reduce_scatter_block_init(from, to, 1, t, MPI_SUM, world, info, &r),
            "MPIX_Reduce_scatter_block_init");
    REFUSES(MPIX_Reduce_scatter_init(from, to, counts, t, MPI_SUM, world, info, &r),
            "MPIX_Reduce_scatter_init");
    REFUSES(MPIX_Scan_init(from, to, 1, t, MPI_SUM, world, info, &r), "MPIX_Scan_init");
    REFUSES(MPIX_Scatter_init(from, 1, t, to, 1, t, 0, world, info, &r), "MPIX_Scatter_init");
    REFUSES(MPIX_Scatterv_init(from, counts, places, t, to, 0, t, 0, world, info, &r),
            "MPIX_Scatterv_init");
}
#else
static void persistent(void)
{
}
#endif

/* A message in pieces, which the other process takes by each. */
static void partitioned(void)
{
#if MPI_VERSION >= 4
    enum { PIECES = 6 };
    const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    int listed[] = {1, 5};
    static int sent[PIECES], received[PIECES];
    MPI_Request requests[2];
    int i, flag, all;
    MPI(MPI_Psend_init(sent, PIECES, 1, MPI_INT, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, requests));
    MPI(MPI_Precv_init(received, PIECES, 1, MPI_INT, last, 3, MPI_COMM_WORLD, MPI_INFO_NULL,
                       requests + 1));
    for (i = 0; i < PIECES; i++) {
        sent[i] = 10 * rank + i;
        received[i] = -1;
    }
    MPI(MPI_Startall(2, requests));
    MPI(MPI_Pready(0, requests[0]));
    MPI(MPI_Pready_range(2, 4, requests[0]));
    part_begin(5, 0);
    REFUSES(MPI_Pready(1, requests[0]), "MPI_Pready");
    REFUSES(MPI_Pready_range(1, 1, requests[0]), "MPI_Pready_range");
    REFUSES(MPI_Pready_list(2, listed, requests[0]), "MPI_Pready_list");
    REFUSES(MPI_Parrived(requests[1], 0, &flag), "MPI_Parrived");
    REFUSES(MPI_Wait(requests, MPI_STATUS_IGNORE), "MPI_Psend_init|MPI_Wait");
    part_end(5);
    MPI(MPI_Pready_list(2, listed, requests[0]));
    do {
        for (all = 1, i = 0; i < PIECES; i++) {
            MPI(MPI_Parrived(requests[1], i, &flag));
            all = all && flag;
        }
    } while (!all);
    MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (i = 0; i < PIECES; i++)
        EQUAL(received[i], 10 * last + i);
    MPI(MPI_Request_free(&requests[0]));
    MPI(MPI_Request_free(&requests[1]));
#endif
}

static void processes(void)
{
    MPI_Comm children;
    MPI_Request request;
    char port[MPI_MAX_PORT_NAME] = "";
    char command[] = "no-such-command";
    REFUSES(MPI_Comm_spawn(command, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                           MPI_ERRCODES_IGNORE),
            "MPI_Comm_spawn");
    REFUSES(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children), "MPI_Comm_accept");
    REFUSES(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children),
            "MPI_Comm_connect");
    REFUSES(MPI_Comm_join(0, &children), "MPI_Comm_join");
    REFUSES(MPI_Comm_idup(MPI_COMM_WORLD, &children, &request), "MPI_Comm_idup");
}

static void threads(int *argc, char ***argv)
{
    int provided;
    MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
    MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    EQUAL(provided, MPI_THREAD_MULTIPLE);
    REFUSED(VELOC_Part_begin(1, 0), "MPI_THREAD_MULTIPLE");
    REFUSED(VELOC_Part_replay_begin(1), "MPI_THREAD_MULTIPLE");
    /* Messages are none of the library's business then. */
    MPI(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 1, memory, 1, MPI_INT,
                     (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EQUAL(memory[0], (rank + ranks - 1) % ranks);
}

int main(int argc, char **argv)
{
    const char *what = option(argc, argv, "case", "");
    if (strcmp(what, "threads") == 0) {
        REFUSED(VELOC_Part_begin(1, 0), "MPI_Init");
        threads(&argc, &argv);
        return end_program();
    }
    path = option(argc, argv, "file", "/dev/null/none");
    begin_program(&argc, &argv);
    if (strcmp(what, "fatal") == 0) {
        part_begin(5, 0);
        windows(1);
        return end_program();
    }
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    windows(0);
    files(0);
    borders();
    partitioned();
    part_begin(5, 0);
    windows(1);
    files(1);
    processes();
    persistent();
    /* The part goes on. */
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    part_end(5);
    replay_begin(5);
    windows(1);
    files(1);
    processes();
    persistent();
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    replay_end(5);
    PART(VELOC_Part_free(5));
    EMPTY_LOG();
    return end_program();
}
