/*
 * Adjoint computations of one's own making: sweep <configuration> [key=value ...]
 *
 *   steps, slots, distance, adjoint, rule, tag, verify   as in VELOC_Adjoint
 *   mtbf, write, turn   as well, without a fraction
 *   bytes=N    the state has so many more, which follow from its number
 *   second=1   it has a second region, of 9 bytes
 *   id=N       the region of the state, and that of its adjoint, have this id
 *   device=1   the state is in device memory
 *   hash=1     the state is hashed by the application
 *   limit=T    the time limit, in milliseconds
 *   stop=N     VELOC_Adjoint_stop is called after N steps
 *   slow=MS    each step takes so many milliseconds
 *   fail=N     the callback fails after N steps
 *   unhashed=N the callback that hashes fails after N steps
 *   unsteady=N the callback that hashes gives another hash each time, after N steps
 *   drift=N    step N gives another state each time
 *   drifted=1  it gives the same wrong one each time
 *   gone=N     after N steps the file or directory scratch=PATH is removed
 *   full=N     after N steps no file can be written any more, though read
 *   wait=N     after N steps, and before the others of these, all that is being written is waited for
 *   shell=C    this command of a shell is run after at=N steps
 *   ahead=1    each step of the adjoint waits until the state that is restored next has come to memory
 *              from its file; none is then read from a file into the state. There are as many slots as
 *              steps, and the store has all states
 *   own=N      after N steps the application takes a checkpoint of its own
 *   unwritten=W  VELOC_Finalize is to fail, with the words W
 *   again=1    a run that has failed is made once more, and succeeds
 *   runs=N     so often, one after the other, in one job; the store is left empty by each
 *   versions=1 runs of structures of other sizes before
 *   misuse=1   whatever must be refused is tried in the callbacks
 *   expect=W   the run must fail, with the words W ('|' between them; '_' for a blank)
 *
 * States are numbers that follow from each other, and so is the adjoint: a state that is wrong, or
 * one for another, changes the result, which is compared with that of a computation which keeps all
 * states. Prints "computed <steps>" and "began <state>", "adjoints <n>", which is how many a schedule of
 * the same settings has stored by then, and in the end "done", or "stopped" before it.
 */
#include "cuda.h"

#include "chain.h"

#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

static struct {
    long steps, bytes, second, id, stop, fail, drift, drifted, misuse;
    long gone, full, own, wait, at, ahead, unhashed, unsteady;
    const char *scratch, *shell;
    int device;
} options;

static VELOC_Adjoint what;
static unsigned char *memory; /* the state on the host: its number, its value, and content */
static char second[9];
static CUdeviceptr on_device;
static uint64_t adjoint_value;
static uint64_t hashes; /* that were not what they should be */
static long computed, drifts, began = -1;
static struct timespec slow; /* what each step takes */

static size_t size(void)
{
    return 16 + (size_t)options.bytes;
}

static void fetch(void)
{
    if (options.device)
        CU(cuMemcpyDtoH_v2(memory, on_device, size()));
}

static void put(void)
{
    if (options.device)
        CU(cuMemcpyHtoD_v2(on_device, memory, size()));
}

static void set(int64_t number, uint64_t value)
{
    memcpy(memory, &number, 8);
    memcpy(memory + 8, &value, 8);
    fill(memory + 16, (size_t)options.bytes, 3, (int)number);
    put();
}

/* The value of the state that the application has, which must be this one. */
static uint64_t get(int64_t number)
{
    int64_t found;
    uint64_t value;
    fetch();
    memcpy(&found, memory, 8);
    memcpy(&value, memory + 8, 8);
    EQUAL(found, number);
    CONTENT(memory + 16, (size_t)options.bytes, 3, (int)number);
    return value;
}

static void remove_scratch(void)
{
    char gone[VELOC_MAX_NAME], command[VELOC_MAX_NAME + 16];
    CHECK(options.scratch != NULL);
    snprintf(gone, sizeof gone, "%s.gone", options.scratch);
    /* All at once, as files come to it meanwhile. */
    CHECK(rename(options.scratch, gone) == 0);
    snprintf(command, sizeof command, "rm -rf '%s'", gone);
    CHECK(system(command) == 0);
}

static void forbid_files(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static int passed(void)
{
    nanosleep(&slow, NULL);
    computed++;
    if (computed == options.wait)
        OK(VELOC_Checkpoint_wait());
    if (computed == options.gone)
        remove_scratch();
    if (computed == options.at)
        CHECK(system(options.shell) == 0);
    if (computed == options.full)
        forbid_files();
    if (computed == options.own)
        OK(VELOC_Checkpoint("own", 1));
    if (computed == options.stop)
        OK(VELOC_Adjoint_stop());
    return computed == options.fail ? VELOC_FAILURE : VELOC_SUCCESS;
}

static int forward(void *user, int64_t from, int64_t to)
{
    uint64_t value = get(from);
    int64_t step;
    CHECK(user == &options && from < to && to < options.steps);
    if (began < 0)
        began = (long)from;
    if (options.misuse) {
        REFUSED(VELOC_Adjoint_run(&what), "under way|sweep");
        REFUSED(VELOC_Adjoint_protect(2, 0, memory, 1, 1), "what = 2");
        REFUSED(VELOC_Adjoint_protect(0, INT32_MIN, memory, 1, 1), "under way|-2147483648");
        REFUSED(VELOC_Adjoint_protect(0, 1, NULL, 1, 1), "NULL");
    }
    for (step = from + 1; step <= to; step++) {
        value = next(value, step);
        if (step == options.drift)
            value += options.drifted ? 1 : (uint64_t)drifts++;
        if (passed() != VELOC_SUCCESS)
            return VELOC_FAILURE;
    }
    set(to, value);
    return VELOC_SUCCESS;
}

static VELOC_Metrics metrics(void)
{
    VELOC_Metrics metrics;
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    return metrics;
}

/* The adjoint goes back from `step`: has the state that is restored next in memory before it is. When the
 * run began all were in files alone, but the last, which is computed. */
static void await_next(int64_t step)
{
    static uint64_t direct; /* bytes read from files into the state */
    static int first = 1;
    struct timespec pause = {0, 1000000};
    long patience = 60000; /* of these: only where nothing is fetched it comes to an end */
    VELOC_Metrics now = metrics();
    if (first)
        /* The first one may have been asked for before it was fetched. */
        direct = now.hops[VELOC_HOP_FTOA].bytes;
    first = 0;
    CHECK(now.hops[VELOC_HOP_FTOA].bytes == direct);
    /* States steps - 2 down to step - 2. */
    while (step > 1 && now.hops[VELOC_HOP_FTOH].count < (uint64_t)(options.steps - step + 1)
           && patience-- > 0) {
        nanosleep(&pause, NULL);
        now = metrics();
    }
}

static int adjoint(void *user, int64_t step)
{
    CHECK(user == &options);
    if (options.ahead)
        await_next(step);
    if (step == options.steps)
        adjoint_value = 1;
    adjoint_value = back(adjoint_value, get(step - 1), step);
    set(-1, 0);
    return passed();
}

static int protect(void *user)
{
    void *state = options.device ? (void *)(uintptr_t)on_device : memory;
    CHECK(user == &options);
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, (int)options.id, state, size(), 1));
    if (options.second)
        OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 6, second, sizeof second, 1));
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, (int)options.id, &adjoint_value, 1, 8));
    return VELOC_SUCCESS;
}

static int protect_half(void *user)
{
    (void)user;
    return VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, memory, size(), 1);
}

static int protect_what_is_not(void *user)
{
    (void)user;
    return VELOC_Adjoint_protect(7, 3, memory, size(), 1);
}

static int protect_nothing(void *user)
{
    (void)user;
    return VELOC_FAILURE;
}

static int hash(void *user, uint64_t *word)
{
    CHECK(user == &options);
    fetch();
    memcpy(word, memory + 8, 8);
    if (options.unsteady >= 0 && computed >= options.unsteady)
        *word += ++hashes;
    return computed == options.unhashed ? VELOC_FAILURE : VELOC_SUCCESS;
}

static int no_hash(void *user, uint64_t *word)
{
    (void)user, (void)word;
    return VELOC_FAILURE;
}

/* How many adjoints have been stored when so many steps are computed from the beginning. */
static long adjoints_after(long steps)
{
    VELOC_Schedule *schedule;
    VELOC_Action action;
    long stored = 0;
    /* There need not be a schedule of settings that were refused. */
    if (steps == 0)
        return 0;
    OK(VELOC_Schedule_create(what.steps, what.slots, &schedule));
    if (what.resilience_distance > 0)
        OK(VELOC_Schedule_set_resilience_distance(schedule, what.resilience_distance));
    if (what.mtbf > 0)
        OK(VELOC_Schedule_set_failures(schedule, what.mtbf, what.write_cost, what.turn_cost));
    else if (what.adjoint_distance > 0)
        OK(VELOC_Schedule_set_adjoint_distance(schedule, what.adjoint_distance));
    while (steps > 0) {
        OK(VELOC_Schedule_next(schedule, &action));
        if (action.kind == VELOC_ACTION_TERMINATE)
            break;
        if (action.kind == VELOC_ACTION_ADVANCE)
            steps -= (long)(action.to - action.from);
        if (action.kind == VELOC_ACTION_FIRSTURN || action.kind == VELOC_ACTION_YOUTURN)
            steps--;
        if (action.kind == VELOC_ACTION_YOUTURN_WITH_CHECK)
            stored += --steps > 0;
    }
    OK(VELOC_Schedule_free(schedule));
    return stored;
}

/* As programs have it that were compiled with another version of the header. */
static void other_versions(void)
{
    struct {
        VELOC_Adjoint known;
        double later[2];
    } newer;
    VELOC_Adjoint older = what;
    older.size = offsetof(VELOC_Adjoint, mtbf);
    older.mtbf = -1;
    OK(VELOC_Adjoint_run(&older));
    memset(&newer, 0, sizeof newer);
    newer.known = what;
    newer.known.size = sizeof newer;
    set(0, 42);
    OK(VELOC_Adjoint_run(&newer.known));
    newer.later[1] = 1;
    REFUSED(VELOC_Adjoint_run(&newer.known), "not zero");
    CHECK(adjoint_value == with_all_states(42, options.steps));
}

/* Each member that can be wrong, one after the other. Nothing is stored by any. */
static void refuse(void)
{
    VELOC_Adjoint bad;
    char name[121] = "";
    REFUSED(VELOC_Adjoint_run(NULL), "NULL");
    REFUSED(VELOC_Adjoint_protect(0, 0, memory, 1, 1), "no adjoint computation");
#define BAD(change, words)                           \
    do {                                             \
        bad = what;                                  \
        bad.change;                                  \
        REFUSED(VELOC_Adjoint_run(&bad), words);     \
    } while (0)
    BAD(size = 8, "size = 8");
    BAD(size = offsetof(VELOC_Adjoint, mtbf) + 4, "size = ");
    BAD(size = SIZE_MAX, "size = ");
    BAD(name = NULL, "name|NULL");
    BAD(name = "a b", "the name \"a b\" of");
    BAD(name = "", "the name \"\" of");
    /* With the ending of stored adjoints no name of a checkpoint is longer. */
    memset(name, 'n', 120);
    BAD(name = name, "has 120 bytes|119 are possible");
    name[119] = '\0';
    BAD(name = name; bad.steps = 0, "steps = 0");
    BAD(steps = 0, "steps = 0");
    BAD(steps = -4, "steps = -4");
    BAD(slots = 0, "slots = 0");
    BAD(slots = -1, "slots = -1");
    BAD(slots = INT64_MAX, "slots = 9223372036854775807");
    BAD(steps = INT64_MAX, "steps = 9223372036854775807");
    BAD(resilience_distance = -1, "resilience_distance = -1: it must be 0 (any number of steps) or more");
    BAD(resilience_distance = 1, "resilience distance of 1");
    BAD(adjoint_distance = -3, "adjoint_distance = -3: it must be 0 (the resilience distance) or more");
    BAD(mtbf = 100, "write_cost = 0: mtbf, write_cost and turn_cost must be");
    BAD(mtbf = -INFINITY, "mtbf = -inf: ");
    BAD(turn_cost = NAN, "mtbf = 0: mtbf, write_cost and turn_cost must be");
    bad = what;
    bad.mtbf = bad.write_cost = bad.turn_cost = 100;
    REFUSED(VELOC_Adjoint_run(&bad), "adjoint_distance = 12 and mtbf = 100");
    bad = what;
    bad.adjoint_distance = 0;
    bad.write_cost = 2;
    REFUSED(VELOC_Adjoint_run(&bad), "mtbf = 0");
    bad.mtbf = 100;
    REFUSED(VELOC_Adjoint_run(&bad), "turn_cost = 0");
    BAD(rule = 4, "VELOC_Adjoint_run does not take VELOC_RULE_MIXED");
    BAD(rule = 5, "rule 5");
    BAD(flags = 2, "flags are 2");
    BAD(rule = -1, "rule -1");
    BAD(time_limit = NAN, "time_limit = NaN seconds");
    BAD(time_limit = -1, "time_limit = -1 seconds: it must be 0 (no limit) or more");
    BAD(protect = NULL, "protect|NULL");
    BAD(forward = NULL, "forward|NULL");
    BAD(adjoint = NULL, "adjoint|NULL");
    BAD(protect = protect_half, "no memory of the adjoint");
    BAD(protect = protect_nothing, "protect returned -1");
    CHECK(strstr(VELOC_Last_error(), "; ") == NULL);
    BAD(protect = protect_what_is_not, "protect returned -1; VELOC_Adjoint_protect: region 3: what = 7");
    bad.flags = VELOC_VERIFY_REPLAY;
    bad.protect = protect;
    bad.hash = no_hash;
    REFUSED(VELOC_Adjoint_run(&bad), "the callback hash, of state 0, returned -1");
    OK(VELOC_Checkpoint_begin("other", 1));
    REFUSED(VELOC_Adjoint_run(&what), "\"other\" version 1 is open");
    OK(VELOC_Checkpoint_end(0));
}

int main(int argc, char **argv)
{
    const char *expect = option(argc, argv, "expect", NULL);
    const char *unwritten = option(argc, argv, "unwritten", NULL);
    long runs = number(argc, argv, "runs", 1);
    int status = VELOC_SUCCESS;
    CHECK(argc > 1);
    options.steps = number(argc, argv, "steps", 100);
    options.bytes = number(argc, argv, "bytes", 0);
    options.second = number(argc, argv, "second", 0);
    options.id = number(argc, argv, "id", 5);
    options.device = number(argc, argv, "device", 0) != 0;
    options.stop = number(argc, argv, "stop", -1);
    options.fail = number(argc, argv, "fail", -1);
    options.drift = number(argc, argv, "drift", -1);
    options.drifted = number(argc, argv, "drifted", 0);
    options.misuse = number(argc, argv, "misuse", 0);
    options.gone = number(argc, argv, "gone", -1);
    options.full = number(argc, argv, "full", -1);
    options.own = number(argc, argv, "own", -1);
    options.wait = number(argc, argv, "wait", -1);
    options.at = number(argc, argv, "at", -1);
    options.unhashed = number(argc, argv, "unhashed", -1);
    options.unsteady = number(argc, argv, "unsteady", -1);
    options.ahead = number(argc, argv, "ahead", 0);
    options.scratch = option(argc, argv, "scratch", NULL);
    options.shell = option(argc, argv, "shell", "");
    slow.tv_nsec = number(argc, argv, "slow", 0) * 1000000;
    signal(SIGXFSZ, SIG_IGN);
    what.size = sizeof what;
    what.name = "sweep";
    what.steps = options.steps;
    what.slots = number(argc, argv, "slots", 5);
    what.resilience_distance = number(argc, argv, "distance", 30);
    what.adjoint_distance = number(argc, argv, "adjoint", 12);
    what.rule = (int)number(argc, argv, "rule", 0);
    what.mtbf = (double)number(argc, argv, "mtbf", 0);
    what.write_cost = (double)number(argc, argv, "write", 0);
    what.turn_cost = (double)number(argc, argv, "turn", 0);
    what.tag = (uint64_t)number(argc, argv, "tag", 0);
    what.time_limit = (double)number(argc, argv, "limit", 0) / 1000;
    what.flags = number(argc, argv, "verify", 0) ? VELOC_VERIFY_REPLAY : VELOC_DEFAULT;
    what.user = &options;
    what.protect = protect;
    what.forward = forward;
    what.adjoint = adjoint;
    if (number(argc, argv, "hash", 0))
        what.hash = hash;
    memory = get_memory(size());
    if (options.misuse)
        REFUSED(VELOC_Adjoint_run(&what), "no job");
    if (options.device) {
        cuda_start();
        on_device = device_memory(size());
    }
    OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
    if (options.own >= 0)
        OK(VELOC_Mem_protect(1, &computed, 1, sizeof computed));
    if (options.misuse)
        refuse();
    if (number(argc, argv, "versions", 0)) {
        set(0, 42);
        other_versions();
    }
    while (runs-- > 0 && status == VELOC_SUCCESS) {
        set(0, 42);
        adjoint_value = 0;
        status = VELOC_Adjoint_run(&what);
        if (status == VELOC_SUCCESS)
            CHECK(adjoint_value == with_all_states(42, options.steps));
    }
    printf("began %ld\ncomputed %ld\nadjoints %ld\n", began, computed, adjoints_after(computed));
    if (expect != NULL) {
        char words[512];
        char *blank;
        snprintf(words, sizeof words, "%s", expect);
        while ((blank = strchr(words, '_')) != NULL)
            *blank = ' ';
        check_refused(__FILE__, __LINE__, "VELOC_Adjoint_run", status, words);
        if (strstr(words, "the adjoint is computed") != NULL)
            CHECK(adjoint_value == with_all_states(42, options.steps));
        if (number(argc, argv, "again", 0)) {
            set(0, 42);
            OK(VELOC_Adjoint_run(&what));
            CHECK(adjoint_value == with_all_states(42, options.steps));
        }
    } else if (status == VELOC_STOPPED) {
        puts("stopped");
    } else {
        OK(status);
    }
    if (unwritten == NULL)
        OK(VELOC_Finalize(1));
    else
        REFUSED(VELOC_Finalize(1), unwritten);
    if (options.device)
        check_no_misuse();
    puts("done");
    return 0;
}
