/*
 * Adjoint computations that fail on one process: all are told which one and why, and go on together.
 * Each process has a scratch directory of its own, DIR/scratch-<rank>.
 *
 * adjoint_failures CONFIGURATION dir=DIR [steps=N] [slots=N] [distance=N] [adjoint=N] [verify=1] [key=value ...]
 *   lone=1       the steps of a process need nothing of the others': nothing keeps them in step
 *   pace=US      each step takes so many microseconds more, on the last process twice as many
 *   times=N      so many runs are to fail, at places that follow from seed=N, at most `within` steps
 *                from where they begin; then one comes to the end
 *   kinds=WORDS  how: of these letters. c: a callback fails. s: files cannot be written. d: a state is
 *                not the same when it is computed again. m: MPI fails, by itself. b: a bit changes in a
 *                file, that of the second state stored. k: the process is killed
 *   at=N         after so many steps instead, by process 0
 *   leave=1      no run comes to the end
 *   abort=1      who has failed ends the job, after it has written what it was told to DIR/told
 *   own=N        before the first run and after each, so many checkpoints "own" are taken, from version 0 on
 *   stop=RANK:N  this process asks for a stop after N steps, again and again until the end
 *   device=1     the state is in device memory
 *   bytes=N      the state has so many more, which follow from its number
 *   narrow=K     the last process has a host buffer of so many KiB
 *   memory=1     there are no scratch directories
 *   discard=1    before, what an earlier job has left is refused by a run with another tag, and removed, by
 *                one process after the other, with reverse=1 by the last one first
 *   behind=1     each process removes what a failed run has left as soon as that has ended there
 *   mine=NAME    before, a checkpoint of this name of the last process's own is in the way of a run: it is
 *                refused, nothing is removed, and the checkpoint is not said to be
 *   refused=R:W  the one run fails: on process R with the words W, and on the others with its number. What process
 *                R could not write by then stays unwritten
 *   differ=1     runs before, for which the last process is asked for something else: none begins
 *
 * State and adjoint are numbers; with a ring, each step takes the number of the process to the left.
 * The result is compared with that of a computation that keeps all states. Prints how many runs have
 * failed or stopped, the steps of the last run ("computed") and the first that its adjoint has taken, and
 * "done".
 */
#include "../programs/cuda.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 20000 };

static struct {
    long steps, pace, within, at, stop, bytes;
    int lone, stopper, device;
    const char *directory;
} options;

static VELOC_Adjoint what;
static struct {
    int64_t number;
    uint64_t value;
} state;
static unsigned char *content; /* of the state */
static CUdeviceptr on_device;
static uint64_t gradient;
static int rank, size;
static long computed;           /* steps */
static long first;              /* of the adjoint in this run */
static long fault_at = -1;      /* of these; on this process alone */
static char fault;              /* how */
static int turned, drifted;     /* in this run the adjoint has begun; a state was changed */
static long communicators;      /* made of MPI_COMM_WORLD, and not freed */

static int copied(MPI_Comm comm, int key, void *extra, void *from, void *to, int *keep)
{
    (void)comm, (void)key, (void)extra, (void)from;
    communicators++;
    *(void **)to = NULL;
    *keep = 1;
    return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    communicators--;
    return MPI_SUCCESS;
}

static void fetch(void)
{
    if (options.device)
        CU(cuMemcpyDtoH_v2(&state, on_device, sizeof state));
}

static void put(void)
{
    if (options.device)
        CU(cuMemcpyHtoD_v2(on_device, &state, sizeof state));
}

static void wait_us(long microseconds)
{
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    if (microseconds > 0)
        nanosleep(&time, NULL);
}

static uint64_t from_left(uint64_t value)
{
    uint64_t left = value;
    if (!options.lone)
        MPI_Sendrecv(&value, 8, MPI_BYTE, (rank + 1) % size, 0, &left, 8, MPI_BYTE,
                     (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return left;
}

static uint64_t next(uint64_t value, int64_t step)
{
    return (value ^ from_left(value) << 1 ^ (uint64_t)step) * 6364136223846793005u + 12345u;
}

static uint64_t back(uint64_t adjoint, uint64_t value, int64_t step)
{
    return (adjoint + from_left(value + adjoint) * 31u) * 2862933555777941757u + (uint64_t)step;
}

static uint64_t first_value(void)
{
    return 42 + (uint64_t)rank;
}

static uint64_t with_all_states(void)
{
    static uint64_t values[MOST];
    uint64_t adjoint = 1;
    int64_t step;
    values[0] = first_value();
    for (step = 1; step < options.steps; step++)
        values[step] = next(values[step - 1], step);
    for (step = options.steps; step > 0; step--)
        adjoint = back(adjoint, values[step - 1], step);
    return adjoint;
}

/* Whether files can be written. Reading goes on, as on a file system that is full. */
static void set_full(int full)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = full ? 0 : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static int passed(void)
{
    wait_us(options.pace * (rank == size - 1 ? 2 : 1));
    computed++;
    if (options.stop > 0 && rank == options.stopper && computed % options.stop == 0)
        OK(VELOC_Adjoint_stop());
    if (computed != fault_at)
        return VELOC_SUCCESS;
    if (fault == 's')
        set_full(1);
    if (fault == 'k')
        raise(SIGKILL);
    return fault == 'c' ? VELOC_FAILURE : VELOC_SUCCESS;
}

static int forward(void *user, int64_t from, int64_t to)
{
    int64_t step;
    (void)user;
    fetch();
    EQUAL(state.number, from);
    CONTENT(content, (size_t)options.bytes, rank, (int)from);
    for (step = from + 1; step <= to; step++) {
        state.value = next(state.value, step);
        if (fault == 'd' && fault_at >= 0 && computed >= fault_at && turned && !drifted) {
            state.value ^= 1;
            drifted = 1;
        }
        if (passed() != VELOC_SUCCESS)
            return VELOC_FAILURE;
    }
    state.number = to;
    fill(content, (size_t)options.bytes, rank, (int)to);
    put();
    return VELOC_SUCCESS;
}

static const char *second_state(void)
{
    static char path[2 * VELOC_MAX_NAME];
    snprintf(path, sizeof path, "%s/scratch-%d/%s-%d-1.dat", options.directory, rank, what.name, rank);
    return path;
}

/* The last byte of a state's file is one of its value. */
static void change_a_bit(const char *path)
{
    FILE *file = fopen(path, "r+b");
    int last;
    CHECK(file != NULL && fseek(file, -1, SEEK_END) == 0 && (last = fgetc(file)) != EOF);
    CHECK(fseek(file, -1, SEEK_END) == 0 && fputc(last ^ 4, file) != EOF);
    CHECK(fclose(file) == 0);
}

static int adjoint(void *user, int64_t step)
{
    (void)user;
    if (fault == 'b' && fault_at >= 0 && !turned)
        change_a_bit(second_state());
    fetch();
    EQUAL(state.number, step - 1);
    CONTENT(content, (size_t)options.bytes, rank, (int)step - 1);
    if (!turned)
        first = (long)step;
    turned = 1;
    if (step == options.steps)
        gradient = 1;
    gradient = back(gradient, state.value, step);
    state.number = -1;
    fill(content, (size_t)options.bytes, rank, -1);
    put();
    return passed();
}

static int protect(void *user)
{
    void *memory = options.device ? (void *)(uintptr_t)on_device : (void *)&state;
    (void)user;
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, memory, 1, sizeof state));
    if (options.bytes > 0)
        OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 1, content, (size_t)options.bytes, 1));
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, &gradient, 1, sizeof gradient));
    return VELOC_SUCCESS;
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static int run(void)
{
    int status;
    state.number = 0;
    state.value = first_value();
    fill(content, (size_t)options.bytes, rank, 0);
    put();
    turned = drifted = 0;
    status = VELOC_Adjoint_run(&what);
    set_full(0);
    return status;
}

/* A run with a fault on one process: what it says everywhere. */
static int run_with_fault(uint32_t *seed, const char *kinds, int abort)
{
    static const char *const words[] = {"the callback |returned -1", "File too large",
                                        "is not what it was the first time",
                                        "MPI_|failed with code",
                                        "was damaged there|it is removed", ""};
    const char *letters = "csdmbk";
    int struck = options.at > 0 ? 0 : (int)draw(seed, (uint32_t)size);
    long at = options.at > 0 ? options.at : 1 + (long)draw(seed, (uint32_t)options.within);
    const char *text;
    char by[32];
    int status;
    fault = kinds[draw(seed, (uint32_t)strlen(kinds))];
    if (fault == 'd' || fault == 'b') {
        /* What is the first time is known of a run from the beginning, which has stored all states. */
        fault_at = -1;
        OK(run());
    }
    fault_at = rank == struck ? computed + at : -1;
    text = words[strchr(letters, fault) - letters];
    status = run();
    fault_at = -1;
    if (status != VELOC_FAILURE)
        return status;
    if (abort && rank == struck) {
        /* To a file: what is printed last may be lost with the job. */
        char path[4096];
        FILE *told;
        snprintf(path, sizeof path, "%s/told", options.directory);
        CHECK((told = fopen(path, "a")) != NULL);
        fprintf(told, "%d: %s\n", rank, VELOC_Last_error());
        CHECK(fclose(told) == 0);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    check_refused(__FILE__, __LINE__, "the run with a fault", status,
                  rank == struck ? text : "failed after|its own message says why");
    /* The others are told who has failed, and no other process; its own message alone says why. */
    snprintf(by, sizeof by, "process %d failed after ", struck);
    CHECK((strstr(VELOC_Last_error(), by) != NULL) == (rank != struck));
    if (rank != struck)
        CHECK(strstr(VELOC_Last_error(), "process ") == strstr(VELOC_Last_error(), by));
    if (fault == 'b' && rank == struck)
        CHECK(access(second_state(), F_OK) != 0);
    return status;
}

static int fails(void *user)
{
    (void)user;
    return VELOC_FAILURE;
}

/* The last process is asked for something else, or for what cannot be: all are told what, and who. */
static void differ(void)
{
    const VELOC_Adjoint good = what;
    const int last = rank == size - 1;
#define DIFFER(change, words)                      \
    do {                                           \
        what = good;                               \
        if (last)                                  \
            what.change;                           \
        REFUSED(VELOC_Adjoint_run(&what), words);  \
    } while (0)
    EQUAL(size, 2);
    DIFFER(name = "other", "name = \"ring\" (process 0), \"other\" (process 1)");
    DIFFER(steps = 301, "steps = 300 (process 0), 301 (process 1)");
    DIFFER(slots = 9, "slots = 8 (process 0), 9 (process 1)");
    DIFFER(resilience_distance = 0, "resilience_distance = 60 (process 0), 0 (process 1)");
    DIFFER(adjoint_distance = 3, "adjoint_distance = 25 (process 0), 3 (process 1)");
    DIFFER(rule = VELOC_RULE_MONOTONE, "rule = 0 (process 0), 2 (process 1)");
    DIFFER(flags = VELOC_VERIFY_REPLAY, "VELOC_VERIFY_REPLAY = 0 (process 0), 1 (process 1)");
    DIFFER(tag = 5, "tag = 0 (process 0), 5 (process 1)");
    DIFFER(time_limit = 1.5, "time_limit = 0 (process 0), 1.5 (process 1)");
    DIFFER(mtbf = 100, "mtbf = 0 (process 0), 100 (process 1)");
    DIFFER(size = 8, last ? "size = 8" : "process 1: size = 8");
    DIFFER(rule = 7, last ? "rule 7" : "process 1: rule 7");
    DIFFER(name = NULL, last ? "NULL" : "process 1: name is NULL");
    DIFFER(forward = NULL, last ? "forward" : "process 1: the callback forward is NULL");
    DIFFER(protect = fails, last ? "protect" : "process 1: the callback protect returned -1");
    what = good;
    REFUSED(VELOC_Adjoint_run(last ? NULL : &what), last ? "NULL" : "process 1: what is NULL");
    /* And what is wrong everywhere. */
    what.steps = 0;
    REFUSED(VELOC_Adjoint_run(&what), "steps = 0");
    what = good;
}

/* What an earlier job has left. The processes come to that one after the other, the first or the last first. */
static void discard(int reverse)
{
    int turn;
    what.tag++;
    REFUSED(VELOC_Adjoint_run(&what), "of another computation|VELOC_Adjoint_discard");
    what.tag--;
    for (turn = 0; turn < size; turn++) {
        if (rank == (reverse ? size - 1 - turn : turn))
            OK(VELOC_Adjoint_discard("ring"));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(VELOC_Adjoint_discard("ring"));
}

/* A checkpoint of the last process's own under a name of the run's: nobody is sent to where it is refused. */
static void meet_mine(const char *name)
{
    const int last = rank == size - 1;
    const char *said;
    if (last)
        OK(VELOC_Checkpoint(name, 3));
    REFUSED(VELOC_Adjoint_run(&what), "version 3 is one of the application's own");
    said = VELOC_Last_error();
    CHECK(strstr(said, "VELOC_Adjoint_discard removes") == NULL);
    CHECK(strstr(said, "another name") != NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (last)
        REFUSED(VELOC_Adjoint_discard("ring"), "version 3 is one of the application's own");
}

/* Checkpoints of the application's own, which all take. */
static void take_own(long count)
{
    static int version;
    while (count-- > 0) {
        OK(VELOC_Checkpoint("own", version++));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* Before files cannot be written. */
    OK(VELOC_Checkpoint_wait());
}

/* A run that fails on process `who` by itself, with these words. */
static void run_refused(int who, const char *words)
{
    char by[32];
    int status = run();
    snprintf(by, sizeof by, "process %d", who);
    check_refused(__FILE__, __LINE__, "the run that is refused", status, rank == who ? words : by);
}

int main(int argc, char **argv)
{
    const char *refused = option(argc, argv, "refused", NULL);
    const char *kinds = option(argc, argv, "kinds", "");
    const char *stop = option(argc, argv, "stop", "0:0");
    long times = number(argc, argv, "times", 0);
    long own = number(argc, argv, "own", 0);
    int abort = (int)number(argc, argv, "abort", 0);
    uint32_t seed = (uint32_t)number(argc, argv, "seed", 1);
    char text[VELOC_MAX_NAME];
    int status, key, failed = 0, stopped = 0;
    long before;

    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    signal(SIGXFSZ, SIG_IGN);
    options.steps = number(argc, argv, "steps", 300);
    options.pace = number(argc, argv, "pace", 0);
    options.at = number(argc, argv, "at", 0);
    options.within = number(argc, argv, "within", 1000);
    options.lone = number(argc, argv, "lone", 0) != 0;
    options.device = number(argc, argv, "device", 0) != 0;
    options.bytes = number(argc, argv, "bytes", 0);
    CHECK((content = malloc((size_t)options.bytes + 1)) != NULL);
    CHECK(sscanf(stop, "%d:%ld", &options.stopper, &options.stop) == 2);
    CHECK(options.steps < MOST);
    what.size = sizeof what;
    what.name = "ring";
    what.steps = options.steps;
    what.slots = number(argc, argv, "slots", 8);
    what.resilience_distance = number(argc, argv, "distance", 60);
    what.adjoint_distance = number(argc, argv, "adjoint", 25);
    what.flags = number(argc, argv, "verify", 0) ? VELOC_VERIFY_REPLAY : VELOC_DEFAULT;
    what.protect = protect;
    what.forward = forward;
    what.adjoint = adjoint;
    options.directory = option(argc, argv, "dir", ".");
    snprintf(text, sizeof text, "%s/scratch-%d", options.directory, rank);
    if (!number(argc, argv, "memory", 0))
        setenv("VELOC_SCRATCH", text, 1);
    if (rank == size - 1 && number(argc, argv, "narrow", 0) > 0) {
        snprintf(text, sizeof text, "%ldK", number(argc, argv, "narrow", 0));
        setenv("VELOC_HOST_CACHE_SIZE", text, 1);
    }
    if (options.device) {
        cuda_start();
        on_device = device_memory(sizeof state);
    }
    MPI_Comm_create_keyval(copied, deleted, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    before = communicators;
    OK(VELOC_Mem_protect(0, &rank, 1, sizeof rank));
    take_own(own);
    if (number(argc, argv, "differ", 0))
        differ();
    if (number(argc, argv, "discard", 0))
        discard((int)number(argc, argv, "reverse", 0));
    if (*option(argc, argv, "mine", "") != '\0')
        meet_mine(option(argc, argv, "mine", ""));
    while (times-- > 0) {
        status = run_with_fault(&seed, kinds, abort);
        failed += status == VELOC_FAILURE;
        if (status == VELOC_FAILURE && number(argc, argv, "behind", 0))
            OK(VELOC_Adjoint_discard("ring"));
        /* A state of the run may have failed behind it: the next call would say so. */
        if (status == VELOC_FAILURE && own > 0)
            (void)VELOC_Checkpoint_wait();
        take_own(own);
        if (status == VELOC_SUCCESS)
            CHECK(gradient == with_all_states());
    }
    if (refused != NULL) {
        run_refused(atoi(refused), strchr(refused, ':') + 1);
        failed++;
    } else if (!number(argc, argv, "leave", 0)) {
        computed = 0;
        while ((status = run()) == VELOC_STOPPED)
            CHECK(++stopped < 10000);
        OK(status);
        CHECK(gradient == with_all_states());
    }
    EQUAL(communicators, before);
    status = VELOC_Finalize(1);
    CHECK(status == VELOC_SUCCESS || (refused != NULL && rank == atoi(refused)));
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    MPI_Finalize();
    if (rank == 0)
        printf("failed %d\nstopped %d\ncomputed %ld\nfirst %ld\ndone\n", failed, stopped, computed,
               first);
    return 0;
}
