/*
 * What goes wrong beneath the library, and must not end the process: memory that the log does not
 * get, and functions that the MPI library does not have.
 */
#define _GNU_SOURCE
#include "parts.h"

#include <dlfcn.h>
#include <sys/resource.h>

enum { LARGE = 64 << 20, SLACK = 24 << 20 };

static int handled, handled_code;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    handled_code = *code;
}

/* Lets the process have a little more memory than it has, or all it wants. */
static void limit(int is_limited)
{
    struct rlimit memory;
    long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    EQUAL(getrlimit(RLIMIT_AS, &memory), 0);
    memory.rlim_cur =
        is_limited ? (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + SLACK : memory.rlim_max;
    EQUAL(setrlimit(RLIMIT_AS, &memory), 0);
}

static unsigned char *large;

static void fill(int value)
{
    memset(large, value, LARGE);
}

static void check_filled(int value)
{
    size_t i;
    for (i = 0; i < LARGE; i += 4093)
        EQUAL(large[i], value);
    EQUAL(large[LARGE - 1], value);
}

static int receive_small(MPI_Comm comm, int tag)
{
    int value = 0;
    if (rank == 1) {
        MPI(MPI_Recv(&value, 1, MPI_INT, 0, tag, comm, MPI_STATUS_IGNORE));
        EQUAL(value, 100 + tag);
    }
    return value;
}

static void send_small(MPI_Comm comm, int tag)
{
    int value = 100 + tag;
    MPI(MPI_Send(&value, 1, MPI_INT, 1, tag, comm));
}

/* The call that the log has no memory for fails, with all data received. Parts that began before
 * cannot be replayed; those inside that had ended, and those that begin later, can. */
static void without_memory(MPI_Comm comm, int is_waited_for)
{
    MPI_Request request;
    MPI_Status status;
    int code, bytes;

    if (rank == 0) {
        send_small(comm, 2);
        fill(7);
        MPI(MPI_Send(large, LARGE, MPI_BYTE, 1, 1, comm));
        send_small(comm, 3);
        send_small(comm, 4);
        return;
    }
    handled = 0;
    fill(0);
    part_begin(1, 0);
    part_begin(2, 0);
    (void)receive_small(comm, 2);
    part_end(2);
    limit(1);
    if (is_waited_for) {
        MPI(MPI_Irecv(large, LARGE, MPI_BYTE, 0, 1, comm, &request));
        code = MPI_Waitall(1, &request, &status);
    } else {
        code = MPI_Recv(large, LARGE, MPI_BYTE, 0, 1, comm, &status);
    }
    CHECK(code != MPI_SUCCESS);
    EQUAL(handled, 1);
    EQUAL(handled_code, code);
    check_words(__FILE__, __LINE__, "the error", "memory|67108864 bytes");
    check_filled(7);
    MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
    EQUAL(bytes, LARGE);
    /* The part goes on, and is not told again. */
    (void)receive_small(comm, 3);
    part_begin(3, 0);
    (void)receive_small(comm, 4);
    part_end(3);
    part_end(1);
    limit(0);
    EQUAL(handled, 1);

    REFUSED(VELOC_Part_replay_begin(1), "part 1 cannot be replayed|memory");
    replay_begin(3);
    (void)receive_small(comm, 4);
    replay_end(3);
    replay_begin(2);
    (void)receive_small(comm, 2);
    replay_end(2);
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
}

/* Not all libraries have all functions that this one stands before. */
static void without_function(MPI_Comm comm)
{
    int (*barrier_init)(MPI_Comm, MPI_Info, MPI_Request *);
    MPI_Request request = MPI_REQUEST_NULL;
    int code;
    if (dlsym(RTLD_DEFAULT, "PMPI_Barrier_init") != NULL)
        return;
    *(void **)&barrier_init = dlsym(RTLD_DEFAULT, "MPI_Barrier_init");
    CHECK(barrier_init != NULL);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    code = barrier_init(comm, MPI_INFO_NULL, &request);
    CHECK(code != MPI_SUCCESS);
    check_words(__FILE__, __LINE__, "the error", "MPI_Barrier_init|MPI library");
    part_begin(1, 0);
    CHECK(barrier_init(comm, MPI_INFO_NULL, &request) != MPI_SUCCESS);
    part_end(1);
    PART(VELOC_Part_free(1));
}

static int class_of(int code)
{
    int class;
    MPI(PMPI_Error_class(code, &class));
    return class;
}

/* Calls that are not given a place for their requests: MPI refuses them as it does alone, outside a part,
 * in one, and in its replay. */
static void refuse_all(void)
{
    int flag, index;
    MPI_Status statuses[2];
#define ALIKE(call) EQUAL(class_of(MPI_##call), class_of(PMPI_##call))
    CHECK(MPI_Wait(NULL, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    ALIKE(Wait(NULL, MPI_STATUS_IGNORE));
    ALIKE(Test(NULL, &flag, statuses));
    ALIKE(Waitall(2, NULL, MPI_STATUSES_IGNORE));
    ALIKE(Testall(2, NULL, &flag, statuses));
    ALIKE(Waitany(2, NULL, &index, MPI_STATUS_IGNORE));
    ALIKE(Start(NULL));
    ALIKE(Startall(2, NULL));
    ALIKE(Cancel(NULL));
    ALIKE(Request_free(NULL));
    /* That is no mistake, for most. */
    ALIKE(Waitall(0, NULL, MPI_STATUSES_IGNORE));
    ALIKE(Startall(0, NULL));
#undef ALIKE
}

/* Also where requests are known. */
static void exchange(MPI_Comm comm)
{
    MPI_Request request;
    int value = rank, received = -1;
    MPI(MPI_Irecv(&received, 1, MPI_INT, rank, 7, comm, &request));
    refuse_all();
    MPI(MPI_Send(&value, 1, MPI_INT, rank, 7, comm));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EQUAL(received, rank);
}

static void without_a_place(MPI_Comm comm)
{
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    refuse_all();
    exchange(comm);
    part_begin(1, 0);
    refuse_all();
    exchange(comm);
    part_end(1);
    replay_begin(1);
    refuse_all();
    exchange(comm);
    replay_end(1);
    EMPTY_LOG();
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Errhandler own;
    begin_program(&argc, &argv);
    large = malloc(LARGE);
    CHECK(large != NULL);
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI(MPI_Comm_create_errhandler(handler, &own));
    MPI(MPI_Comm_set_errhandler(comm, own));
    MPI(MPI_Errhandler_free(&own));
    without_memory(comm, 0);
    without_memory(comm, 1);
    without_function(comm);
    without_a_place(comm);
    MPI(MPI_Comm_free(&comm));
    free(large);
    return end_program();
}
