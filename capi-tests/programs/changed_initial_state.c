/*
 * An adjoint computation that is called again with another state 0: changed_initial_state CONFIGURATION [key=value ...]
 *
 *   steps=N    of the sweep
 *   bytes=N    the state has so many more, which no step changes or uses
 *   device=1   these are in device memory
 *   hash=1     the state is hashed by the application, without those bytes
 *   verify=1   VELOC_VERIFY_REPLAY
 *   once=N     before, a run of the first model in the same job, whose callback fails after N steps
 *   die=N      it is killed after N steps
 *   edit=N     the model is another one: the value of state 0 is greater by N
 *   noise=N    the last of those bytes is N, and not 0
 *   on=R       of both, on process R alone
 *   lose=PATH  the callback that hashes removes this file
 *   expect=W   the run must fail, with the words W ('|' between them; '_' for a blank). The state is what it was
 *   discard=1  then what is left is removed, and the same call made again
 *
 * The result is that of a computation which keeps all states: prints "right" or "wrong" and, if the run goes on
 * from what an earlier one has left, ", went on" behind it. With MPI each process computes by itself, from a state of its own.
 */
#include "cuda.h"

#include "chain.h"

#include <signal.h>
#include <unistd.h>
#ifdef CHECK_WITH_MPI
#include <mpi.h>
#endif

static struct {
    int64_t number;
    uint64_t value;
} state, at_the_call;
static unsigned char *content; /* those bytes, on the host */
static CUdeviceptr on_device;
static uint64_t gradient, first_value;
static long steps, bytes, computed, die = -1, fail = -1, began = -1;
static const char *lose;
static int device;

static int passed(void)
{
    computed++;
    if (computed == die)
        raise(SIGKILL);
    return computed == fail ? VELOC_FAILURE : VELOC_SUCCESS;
}

static int forward(void *user, int64_t from, int64_t to)
{
    int64_t step;
    (void)user;
    EQUAL(state.number, from);
    if (began < 0)
        began = (long)from;
    for (step = from + 1; step <= to; step++) {
        state.value = next(state.value, step);
        if (passed() != VELOC_SUCCESS)
            return VELOC_FAILURE;
    }
    state.number = to;
    return VELOC_SUCCESS;
}

static int adjoint(void *user, int64_t step)
{
    (void)user;
    EQUAL(state.number, step - 1);
    if (began < 0)
        began = (long)step;
    if (step == steps)
        gradient = 1;
    gradient = back(gradient, state.value, step);
    return passed();
}

static int protect(void *user)
{
    void *memory = device ? as_pointer(on_device) : content;
    (void)user;
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, &state, 1, sizeof state));
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 1, memory, (size_t)bytes, 1));
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, &gradient, 1, sizeof gradient));
    return VELOC_SUCCESS;
}

static int hash(void *user, uint64_t *word)
{
    (void)user;
    *word = state.value + (uint64_t)state.number;
    if (lose != NULL)
        unlink(lose);
    return VELOC_SUCCESS;
}

static void set(uint64_t value, int noise)
{
    state.number = 0;
    state.value = first_value = value;
    content[bytes - 1] = (unsigned char)noise;
    if (device)
        CU(cuMemcpyHtoD_v2(on_device, content, (size_t)bytes));
    at_the_call = state;
    computed = 0;
    began = -1;
}

/* The state is as it was at the call. */
static void check_state(int noise)
{
    CHECK(memcmp(&state, &at_the_call, sizeof state) == 0);
    if (device)
        CU(cuMemcpyDtoH_v2(content, on_device, (size_t)bytes));
    EQUAL(content[bytes - 1], noise);
}

int main(int argc, char **argv)
{
    const char *expect = option(argc, argv, "expect", NULL);
    VELOC_Adjoint what = {0};
    int rank = 0, status, noise;
    long on, once, edit;
#ifdef CHECK_WITH_MPI
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
    steps = number(argc, argv, "steps", 60);
    bytes = number(argc, argv, "bytes", 100);
    device = number(argc, argv, "device", 0) != 0;
    once = number(argc, argv, "once", -1);
    on = number(argc, argv, "on", rank);
    edit = on == rank ? number(argc, argv, "edit", 0) : 0;
    noise = (int)(on == rank ? number(argc, argv, "noise", 0) : 0);
    lose = option(argc, argv, "lose", NULL);
    CHECK(bytes > 0);
    what.size = sizeof what;
    what.name = "edited";
    what.steps = steps;
    what.slots = 4;
    what.tag = 7;
    what.resilience_distance = steps / 2;
    what.adjoint_distance = 5;
    what.flags = number(argc, argv, "verify", 0) ? VELOC_VERIFY_REPLAY : VELOC_DEFAULT;
    what.protect = protect;
    what.forward = forward;
    what.adjoint = adjoint;
    if (number(argc, argv, "hash", 0))
        what.hash = hash;
    content = get_memory((size_t)bytes);
    memset(content, 0, (size_t)bytes);
    if (device) {
        cuda_start();
        on_device = device_memory((size_t)bytes);
    }
#ifdef CHECK_WITH_MPI
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
#else
    OK(VELOC_Init_single(0, argv[1]));
#endif
    if (once >= 0) {
        set(42 + (uint64_t)rank, 0);
        fail = once;
        REFUSED(VELOC_Adjoint_run(&what), "returned -1");
        fail = -1;
    }
    die = number(argc, argv, "die", -1);
    set(42 + (uint64_t)rank + (uint64_t)edit, noise);
    status = VELOC_Adjoint_run(&what);
    if (expect != NULL) {
        char words[512];
        char *blank;
        snprintf(words, sizeof words, "%s", expect);
        while ((blank = strchr(words, '_')) != NULL)
            *blank = ' ';
        check_refused(__FILE__, __LINE__, "VELOC_Adjoint_run", status, words);
        if (began < 0)
            check_state(noise);
        if (number(argc, argv, "discard", 0)) {
            OK(VELOC_Adjoint_discard("edited"));
#ifdef CHECK_WITH_MPI
            MPI_Barrier(MPI_COMM_WORLD);
#endif
            OK(VELOC_Adjoint_run(&what));
            CHECK(gradient == with_all_states(first_value, steps));
        }
    } else {
        OK(status);
        printf("%s%s\n", gradient == with_all_states(first_value, steps) ? "right" : "wrong",
               began > 0 ? ", went on" : "");
    }
    OK(VELOC_Finalize(1));
    if (device)
        check_no_misuse();
#ifdef CHECK_WITH_MPI
    MPI_Finalize();
#endif
    /* In one piece: MPICH does not buffer what processes say, and puts writes the end of the line by itself. */
    fputs("done\n", stdout);
    return 0;
}
