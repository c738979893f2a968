/*
 * Goes in front of calls of MPI and makes it take buffers in device memory, as a CUDA-aware MPI does:
 * data goes through host memory. It has the calls that the programs use and no more. Threads without
 * a context use the primary one of the first device.
 *
 * It has to lie behind the library under test, which calls MPI by the names of the profiling
 * interface: LD_PRELOAD names it second.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define REAL(call) ((__typeof__(&PMPI_##call))dlsym(RTLD_NEXT, "PMPI_" #call))

enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE = 2 };

typedef unsigned long long address_t;

static struct {
    int (*pointer_attribute)(void *value, int attribute, address_t pointer);
    int (*to_host)(void *to, address_t from, size_t bytes);
    int (*from_host)(address_t to, const void *from, size_t bytes);
    int (*current)(void **context);
    int (*set_current)(void *context);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*state)(int device, unsigned *flags, int *active);
} cuda;

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)(void *)&cuda.pointer_attribute = dlsym(library, "cuPointerGetAttribute");
    *(void **)(void *)&cuda.to_host = dlsym(library, "cuMemcpyDtoH_v2");
    *(void **)(void *)&cuda.from_host = dlsym(library, "cuMemcpyHtoD_v2");
    *(void **)(void *)&cuda.current = dlsym(library, "cuCtxGetCurrent");
    *(void **)(void *)&cuda.set_current = dlsym(library, "cuCtxSetCurrent");
    *(void **)(void *)&cuda.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)(void *)&cuda.release = dlsym(library, "cuDevicePrimaryCtxRelease_v2");
    *(void **)(void *)&cuda.state = dlsym(library, "cuDevicePrimaryCtxGetState");
}

static void must(const char *what, int status)
{
    if (status != 0) {
        fprintf(stderr, "the staging of device memory: %s returned %d\n", what, status);
        abort();
    }
}

/* Whether the thread has been given a context, which `leave` takes from it. */
static int enter(void)
{
    void *context = NULL;
    unsigned flags;
    int active = 0;
    if (cuda.current(&context) != 0 || context != NULL)
        return 0;
    if (cuda.state(0, &flags, &active) != 0 || !active)
        return 0;
    must("cuDevicePrimaryCtxRetain", cuda.retain(&context, 0));
    must("cuCtxSetCurrent", cuda.set_current(context));
    return 1;
}

static void leave(int entered)
{
    if (entered) {
        must("cuCtxSetCurrent", cuda.set_current(NULL));
        must("cuDevicePrimaryCtxRelease", cuda.release(0));
    }
}

static int is_device(const void *buffer)
{
    unsigned type = 0, managed = 0;
    address_t at = (address_t)(size_t)buffer;
    int entered, known;
    if (cuda.pointer_attribute == NULL)
        return 0;
    entered = enter();
    known = cuda.pointer_attribute(&type, MEMORY_TYPE, at) == 0
            && cuda.pointer_attribute(&managed, IS_MANAGED, at) == 0;
    leave(entered);
    return known && type == DEVICE && !managed;
}

/* A buffer and, if it is in device memory, what stands in for it. */
struct stage {
    char *device, *host, *buffer;
    size_t bytes;
};

/* All that elements may have bytes in, with what is there now: gaps stay as they are. */
static struct stage stage(const void *buffer, int count, MPI_Datatype type)
{
    struct stage own = {NULL, NULL, (char *)(size_t)buffer, 0};
    MPI_Aint lb, extent, true_lb, true_extent;
    int entered;
    if (buffer == MPI_IN_PLACE || count == 0 || !is_device(buffer))
        return own;
    PMPI_Type_get_extent(type, &lb, &extent);
    PMPI_Type_get_true_extent(type, &true_lb, &true_extent);
    own.device = own.buffer + true_lb;
    own.bytes = (size_t)(extent * (count - 1) + true_extent);
    own.host = malloc(own.bytes);
    own.buffer = own.host - true_lb;
    entered = enter();
    must("cuMemcpyDtoH_v2", cuda.to_host(own.host, (address_t)(size_t)own.device, own.bytes));
    leave(entered);
    return own;
}

static void arrived(const struct stage *own)
{
    int entered;
    if (own->device == NULL)
        return;
    entered = enter();
    must("cuMemcpyHtoD_v2", cuda.from_host((address_t)(size_t)own->device, own->host, own->bytes));
    leave(entered);
}

static void done(struct stage *own)
{
    free(own->host);
    own->host = NULL;
    own->device = NULL;
}

/* Requests under way, and persistent ones. */
enum { MOST = 32 };

static struct {
    MPI_Request request;
    struct stage sent, received;
    int is_persistent, is_used;
} pending[MOST];

static void begins(MPI_Request request, struct stage sent, struct stage received, int is_persistent)
{
    int n;
    if (sent.device == NULL && received.device == NULL)
        return;
    for (n = 0; n < MOST; n++) {
        if (!pending[n].is_used) {
            pending[n].request = request;
            pending[n].sent = sent;
            pending[n].received = received;
            pending[n].is_persistent = is_persistent;
            pending[n].is_used = 1;
            return;
        }
    }
    must("a table of requests", MOST);
}

static void ends(MPI_Request request)
{
    int n;
    for (n = 0; n < MOST; n++) {
        if (pending[n].is_used && pending[n].request == request) {
            arrived(&pending[n].received);
            if (!pending[n].is_persistent) {
                done(&pending[n].sent);
                done(&pending[n].received);
                pending[n].is_used = 0;
            }
            return;
        }
    }
}

static const struct stage none = {NULL, NULL, NULL, 0};

int PMPI_Init(int *argc, char ***argv)
{
    load();
    return REAL(Init)(argc, argv);
}

int PMPI_Send(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    struct stage own = stage(buffer, count, type);
    int code = REAL(Send)(own.buffer, count, type, dest, tag, comm);
    done(&own);
    return code;
}

int PMPI_Isend(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    struct stage own = stage(buffer, count, type);
    int code = REAL(Isend)(own.buffer, count, type, dest, tag, comm, request);
    begins(*request, own, none, 0);
    return code;
}

int PMPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    struct stage own = stage(buffer, count, type);
    int code = REAL(Recv)(own.buffer, count, type, source, tag, comm, status);
    arrived(&own);
    done(&own);
    return code;
}

int PMPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    struct stage own = stage(buffer, count, type);
    int code = REAL(Irecv)(own.buffer, count, type, source, tag, comm, request);
    begins(*request, none, own, 0);
    return code;
}

int PMPI_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    struct stage own = stage(buffer, count, type);
    int code = REAL(Recv_init)(own.buffer, count, type, source, tag, comm, request);
    begins(*request, none, own, 1);
    return code;
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    MPI_Request before = *request;
    int code = REAL(Wait)(request, status);
    ends(before);
    return code;
}

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    MPI_Request before = *request;
    int code = REAL(Test)(request, flag, status);
    if (*flag)
        ends(before);
    return code;
}

int PMPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    MPI_Request before[MOST];
    int n, code;
    for (n = 0; n < count && n < MOST; n++)
        before[n] = requests[n];
    code = REAL(Waitany)(count, requests, index, status);
    if (*index != MPI_UNDEFINED)
        ends(before[*index]);
    return code;
}

int PMPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    MPI_Request before[MOST];
    int n, code;
    for (n = 0; n < count && n < MOST; n++)
        before[n] = requests[n];
    code = REAL(Waitall)(count, requests, statuses);
    for (n = 0; n < count && n < MOST; n++)
        ends(before[n]);
    return code;
}

int PMPI_Request_free(MPI_Request *request)
{
    int n;
    for (n = 0; n < MOST; n++) {
        if (pending[n].is_used && pending[n].request == *request) {
            done(&pending[n].sent);
            done(&pending[n].received);
            pending[n].is_used = 0;
        }
    }
    return REAL(Request_free)(request);
}

int PMPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct stage own = stage(buffer, count, type);
    int code = REAL(Bcast)(own.buffer, count, type, root, comm);
    arrived(&own);
    done(&own);
    return code;
}

int PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct stage out = stage(from, count, type), in = stage(to, count, type);
    int code = REAL(Allreduce)(out.buffer, in.buffer, count, type, op, comm);
    arrived(&in);
    done(&out);
    done(&in);
    return code;
}

int PMPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    struct stage out = stage(from, count, type), in = stage(to, count, type);
    int code = REAL(Iallreduce)(out.buffer, in.buffer, count, type, op, comm, request);
    begins(*request, out, in, 0);
    return code;
}

int PMPI_Pack(const void *from, int count, MPI_Datatype type, void *to, int size, int *position,
             MPI_Comm comm)
{
    struct stage own = stage(from, count, type);
    int code = REAL(Pack)(own.buffer, count, type, to, size, position, comm);
    done(&own);
    return code;
}

int PMPI_Unpack(const void *from, int size, int *position, void *to, int count, MPI_Datatype type,
               MPI_Comm comm)
{
    struct stage own = stage(to, count, type);
    int code = REAL(Unpack)(from, size, position, own.buffer, count, type, comm);
    arrived(&own);
    done(&own);
    return code;
}

/* Without the library under test the program calls MPI by its other names. */
#define ALSO(call) extern __typeof__(PMPI_##call) MPI_##call __attribute__((alias("PMPI_" #call)))

ALSO(Init);
ALSO(Send);
ALSO(Isend);
ALSO(Recv);
ALSO(Irecv);
ALSO(Recv_init);
ALSO(Wait);
ALSO(Test);
ALSO(Waitany);
ALSO(Waitall);
ALSO(Request_free);
ALSO(Bcast);
ALSO(Allreduce);
ALSO(Iallreduce);
