/*
 * Messages from and to device memory, which the host cannot touch, under an MPI that takes it
 * (preload/aware.c): the log has their bytes, and a replay writes them where they belong.
 *
 * device [case=received|resent|unwritten|contexts|bare|fatal]
 */
#include "parts.h"

#include <dlfcn.h>
#include <pthread.h>

enum { FEW = 6, MANY = 100000, MOST = MANY, ATTACH_GLOBAL = 1, OUT_OF_MEMORY = 2 };

typedef unsigned long long address_t;

static struct {
    int (*cuInit)(unsigned flags);
    int (*cuDeviceGet)(int *device, int ordinal);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuDevicePrimaryCtxRelease_v2)(int device);
    int (*cuCtxCreate_v2)(void **context, unsigned flags, int device);
    int (*cuCtxDestroy_v2)(void *context);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuCtxGetCurrent)(void **context);
    int (*cuMemAlloc_v2)(address_t *pointer, size_t bytes);
    int (*cuMemAllocManaged)(address_t *pointer, size_t bytes, unsigned flags);
    int (*cuMemcpyHtoD_v2)(address_t to, const void *from, size_t bytes);
    int (*cuMemcpyDtoH_v2)(void *to, address_t from, size_t bytes);
    int (*softcuda_inject)(const char *specification);
    uint64_t (*softcuda_call_count)(const char *name);
} cuda;

#define FIND(name) \
    (*(void **)(void *)&cuda.name = dlsym(library, #name), CHECK(cuda.name != NULL))

/* A call of the driver that must go well. */
#define CUDA(call) EQUAL(cuda.call, 0)

static void *context;
/* What a process sends and what it receives, on the device; and memory of both sides. */
static int *out, *in, *managed;
static int host[MOST];

static void *allocate(size_t bytes)
{
    address_t pointer;
    CUDA(cuMemAlloc_v2(&pointer, bytes));
    return (void *)(size_t)pointer;
}

static void begin_device(void)
{
    address_t pointer;
    int device;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != NULL);
    FIND(cuInit);
    FIND(cuDeviceGet);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuDevicePrimaryCtxRelease_v2);
    FIND(cuCtxCreate_v2);
    FIND(cuCtxDestroy_v2);
    FIND(cuCtxSetCurrent);
    FIND(cuCtxGetCurrent);
    FIND(cuMemAlloc_v2);
    FIND(cuMemAllocManaged);
    FIND(cuMemcpyHtoD_v2);
    FIND(cuMemcpyDtoH_v2);
    FIND(softcuda_inject);
    FIND(softcuda_call_count);
    CUDA(cuInit(0));
    CUDA(cuDeviceGet(&device, 0));
    CUDA(cuCtxCreate_v2(&context, 0, device));
    out = allocate(sizeof host);
    in = allocate(sizeof host);
    CUDA(cuMemAllocManaged(&pointer, sizeof host, ATTACH_GLOBAL));
    managed = (int *)(size_t)pointer;
}

static void fill(int *device, int count, int first)
{
    int i;
    for (i = 0; i < count; i++)
        host[i] = first + i;
    CUDA(cuMemcpyHtoD_v2((address_t)(size_t)device, host, (size_t)count * sizeof *host));
}

/* What lies on the device belongs to what is seen. */
static void look(const int *device, int count)
{
    CUDA(cuMemcpyDtoH_v2(host, (address_t)(size_t)device, (size_t)count * sizeof *host));
    saw(host, (size_t)count * sizeof *host);
}

static int left(void)
{
    return (rank + ranks - 1) % ranks;
}

static int right(void)
{
    return (rank + 1) % ranks;
}

static void blocking(int count)
{
    MPI_Status status;
    MPI_Request request;
    fill(out, count, 100 * rank);
    fill(in, count, -count);
    MPI(MPI_Isend(out, count, MPI_INT, right(), 1, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(in, count, MPI_INT, left(), 1, MPI_COMM_WORLD, &status));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    saw_status(&status);
    look(in, count);
    EQUAL(host[count - 1], 100 * left() + count - 1);
}

/* Two at once, one of which has less than there is room for. */
static void together(void)
{
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int index, n;
    fill(out, 2 * FEW, 200 + rank);
    fill(in, 2 * FEW, -50);
    MPI(MPI_Irecv(in, FEW, MPI_INT, left(), 2, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Irecv(in + FEW, FEW, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests[1]));
    MPI(MPI_Isend(out, FEW - 2, MPI_INT, right(), 2, MPI_COMM_WORLD, &requests[2]));
    MPI(MPI_Isend(out + FEW, FEW, MPI_INT, right(), 3, MPI_COMM_WORLD, &requests[3]));
    MPI(MPI_Waitall(4, requests, statuses));
    saw_status(&statuses[0]);
    saw_status(&statuses[1]);
    look(in, 2 * FEW);
    EQUAL(host[FEW - 3], 200 + left() + FEW - 3);
    EQUAL(host[FEW - 1], -50 + FEW - 1);
    EQUAL(host[FEW], 200 + left() + FEW);
    MPI(MPI_Irecv(in, FEW, MPI_INT, left(), 4, MPI_COMM_WORLD, &requests[0]));
    MPI(MPI_Irecv(managed, FEW, MPI_INT, left(), 5, MPI_COMM_WORLD, &requests[1]));
    MPI(MPI_Send(out, FEW, MPI_INT, right(), 5, MPI_COMM_WORLD));
    MPI(MPI_Send(out, FEW, MPI_INT, right(), 4, MPI_COMM_WORLD));
    for (n = 0; n < 2; n++) {
        MPI(MPI_Waitany(2, requests, &index, &statuses[0]));
        saw_int(index);
        saw_status(&statuses[0]);
        look(in, FEW);
    }
    saw(managed, FEW * sizeof *managed);
    EQUAL(managed[1], 200 + left() + 1);
}

/* Every second element; what lies between stays. */
static void with_gaps(void)
{
    MPI_Datatype comb;
    MPI_Request request;
    MPI(MPI_Type_vector(FEW, 1, 2, MPI_INT, &comb));
    MPI(MPI_Type_commit(&comb));
    fill(out, 2 * FEW, 300 + rank);
    fill(in, 2 * FEW, -90);
    MPI(MPI_Isend(out, 1, comb, right(), 6, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(in, 1, comb, left(), 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI(MPI_Type_free(&comb));
    look(in, 2 * FEW);
    EQUAL(host[2], 300 + left() + 2);
    EQUAL(host[3], -90 + 3);
}

static void persistent(void)
{
    MPI_Request request;
    int turn;
    fill(in, FEW, -120);
    MPI(MPI_Recv_init(in, FEW, MPI_INT, left(), 7, MPI_COMM_WORLD, &request));
    for (turn = 0; turn < 3; turn++) {
        fill(out, FEW, 400 + 10 * turn + rank);
        MPI(MPI_Start(&request));
        MPI(MPI_Send(out, FEW, MPI_INT, right(), 7, MPI_COMM_WORLD));
        MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        look(in, FEW);
        EQUAL(host[0], 400 + 10 * turn + left());
    }
    MPI(MPI_Request_free(&request));
}

static void collective(void)
{
    MPI_Request request;
    fill(in, FEW, rank == 0 ? 500 : -130);
    MPI(MPI_Bcast(in, FEW, MPI_INT, 0, MPI_COMM_WORLD));
    look(in, FEW);
    EQUAL(host[1], 501);
    fill(out, FEW, 600 + rank);
    MPI(MPI_Allreduce(out, in, FEW, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    look(in, FEW);
    EQUAL(host[0], 600 + ranks - 1);
    MPI(MPI_Allreduce(MPI_IN_PLACE, out, FEW, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    look(out, FEW);
    EQUAL(host[0], 600);
    MPI(MPI_Iallreduce(out, in, FEW, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    look(in, FEW);
    EQUAL(host[0], 600 * ranks);
}

static void all(void)
{
    blocking(FEW);
    blocking(MANY);
    together();
    with_gaps();
    persistent();
    collective();
}

static uint64_t copies(void)
{
    return cuda.softcuda_call_count("cuMemcpyDtoHAsync_v2");
}

/* Memory of both sides is as good as the host's own. */
static void to_managed(void)
{
    MPI_Request request;
    uint64_t before = copies();
    MPI(MPI_Isend(out, FEW, MPI_INT, right(), 8, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(managed, FEW, MPI_INT, left(), 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EQUAL(copies(), before);
    saw(managed, FEW * sizeof *managed);
}

static void received(void)
{
    uint64_t before = copies();
    run_and_replay(all);
    CHECK(!has_library() || copies() > before);
    /* One stream serves all messages of a context. */
    CHECK(!has_library() || cuda.softcuda_call_count("cuStreamCreate") == 1);
    run_and_replay(to_managed);
}

/* Messages that are sent again are taken from device memory and received there. */
static void resent(void)
{
    part_begin(2, VELOC_PART_RESEND);
    blocking(FEW);
    part_end(2);
    fill(in, FEW, -1);
    replay_begin(2);
    blocking(FEW);
    replay_end(2);
    EQUAL(logged().resent, FEW * sizeof(int));
    EMPTY_LOG();
}

static void *other;

static void in_another(void)
{
    void *current;
    MPI_Request request;
    CUDA(cuCtxSetCurrent(other));
    MPI(MPI_Isend(&rank, 1, MPI_INT, right(), 9, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(in, 1, MPI_INT, left(), 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CUDA(cuCtxGetCurrent(&current));
    CHECK(current == other);
    CUDA(cuCtxSetCurrent(context));
    look(in, 1);
    EQUAL(host[0], left());
}

/* The thread's context is another than the buffer's; and contexts come and go. */
static void contexts(void)
{
    int device, round;
    CUDA(cuDeviceGet(&device, 0));
    for (round = 0; round < 3; round++) {
        CUDA(cuCtxCreate_v2(&other, 0, device));
        run_and_replay(in_another);
        CUDA(cuCtxDestroy_v2(context));
        context = other;
        CUDA(cuCtxSetCurrent(context));
        out = allocate(sizeof host);
        in = allocate(sizeof host);
    }
}

/* A replay that cannot write what is logged. */
static void unwritten(void)
{
    MPI_Request request;
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    part_begin(3, 0);
    MPI(MPI_Isend(out, 1, MPI_INT, right(), 10, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(in, 1, MPI_INT, left(), 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    part_end(3);
    EQUAL(cuda.softcuda_inject("cuMemcpyHtoDAsync_v2:1+=2"), 0);
    replay_begin(3);
    MPI(MPI_Isend(out, 1, MPI_INT, right(), 10, MPI_COMM_WORLD, &request));
    CHECK(MPI_Recv(in, 1, MPI_INT, left(), 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    check_words(__FILE__, __LINE__, "MPI_Recv", "MPI_Recv|cuMemcpyHtoDAsync_v2|OUT_OF_MEMORY");
    REFUSED(VELOC_Part_replay_end(3), "cuMemcpyHtoDAsync_v2");
    EQUAL(cuda.softcuda_inject(""), 0);
    PART(VELOC_Part_free(3));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

static void *without_context(void *work)
{
    (*(void (**)(void))work)();
    return NULL;
}

/* Messages of a thread without a context, to which the driver says nothing of any address. */
static void elsewhere(void (*work)(void))
{
    pthread_t thread;
    EQUAL(pthread_create(&thread, NULL, without_context, &work), 0);
    EQUAL(pthread_join(thread, NULL), 0);
}

static int bare_host[FEW];

static void bare_exchange(void)
{
    MPI_Request request;
    MPI(MPI_Isend(out, FEW, MPI_INT, right(), 11, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(in, FEW, MPI_INT, left(), 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI(MPI_Isend(out, FEW, MPI_INT, right(), 12, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(bare_host, FEW, MPI_INT, left(), 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void bare_part(void)
{
    fill(out, FEW, 700 + rank);
    fill(in, FEW, -1);
    memset(bare_host, 0, sizeof bare_host);
    elsewhere(bare_exchange);
    saw(bare_host, sizeof bare_host);
    look(in, FEW);
    EQUAL(host[0], 700 + left());
    EQUAL(bare_host[1], 700 + left() + 1);
}

/* The memory is that of a primary context, as programs of the runtime have it. */
static void bare(void)
{
    int device;
    void *primary, *own_out = out, *own_in = in;
    CUDA(cuDeviceGet(&device, 0));
    CUDA(cuDevicePrimaryCtxRetain(&primary, device));
    CUDA(cuCtxSetCurrent(primary));
    out = allocate(sizeof host);
    in = allocate(sizeof host);
    run_and_replay(bare_part);
    out = own_out;
    in = own_in;
    CUDA(cuCtxSetCurrent(context));
    CUDA(cuDevicePrimaryCtxRelease_v2(device));
}

/* What is received cannot be logged: the job must not go on as if it were. */
static void fatal(void)
{
    EQUAL(cuda.softcuda_inject("cuMemcpyDtoHAsync_v2:1+=2"), 0);
    part_begin(4, 0);
    blocking(FEW);
    part_end(4);
}

int main(int argc, char **argv)
{
    const char *only = option(argc, argv, "case", "");
    begin_program(&argc, &argv);
    begin_device();
    if (strcmp(only, "fatal") == 0)
        fatal();
    if (*only == '\0' || strcmp(only, "received") == 0)
        received();
    if (*only == '\0' || strcmp(only, "resent") == 0)
        resent();
    if (*only == '\0' || strcmp(only, "unwritten") == 0)
        unwritten();
    if (*only == '\0' || strcmp(only, "contexts") == 0)
        contexts();
    if (*only == '\0' || strcmp(only, "bare") == 0)
        bare();
    return end_program();
}
