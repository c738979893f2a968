/*
 * What a callback of VELOC_Adjoint_run does to what is the run's: callback_misuse <configuration> [key=value ...]
 *
 *   kill=N      the process is killed after N steps
 *   finalize=N  after N steps the job is ended, and the run fails for that reason alone
 *   child=N     after N steps a child goes on as if it were the process, and fails for that reason alone
 *   grown=1     the state has a cell more, as in another computation: what is left is refused
 *   discard=1   what is left is removed before; what another name has, which is not a run's, is not
 *
 * Each callback tries everything that must be refused, in every call: the run, and the next one after a
 * kill, goes on as if nothing had been tried. The state moves between two places all the time, which is
 * allowed. Prints "done", or "ended" after a `finalize`.
 */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 60, CELLS = 4, SIZE = CELLS * sizeof(double), NAMES = 3 };

static const char *const names[NAMES] = {"meddle", "meddle.adjoint", "meddle.hashes"};
static double places[2][CELLS + 1], gradient[CELLS], more[2 * CELLS];
static double *state = places[0];
static size_t cells = CELLS; /* that are protected */
static long steps, kill_at, finalize_at, child_at;
static int options_alone; /* nothing else is tried, so that only the run says anything */

static void step(double *x, int64_t number)
{
    int i;
    for (i = 0; i < CELLS; i++)
        x[i] += 1e-2 * x[i] * (1 - x[(i + 1) % CELLS]) + 1e-3 * (double)number;
}

static void back(double *adjoint, const double *x, int64_t number)
{
    int i;
    for (i = 0; i < CELLS; i++)
        adjoint[i] = (number == STEPS ? 1 : adjoint[i]) * (1 + 1e-2 * (1 - 2 * x[i]));
}

static void begin(double *x)
{
    int i;
    for (i = 0; i < CELLS; i++)
        x[i] = 0.1 * (i + 1);
}

/* Sizes and ids stay, and so does the protection. */
static void change_regions(void)
{
    int i;
    REFUSED(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 3, state, CELLS / 2, 8),
            "\"meddle\" is under way|region 3 of \"meddle\" has 32 bytes, not 16");
    REFUSED(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 3, more, 2 * CELLS, 8), "32 bytes, not 64");
    REFUSED(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 3, NULL, 0, 8), "32 bytes, not 0");
    REFUSED(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 5, more, 1, 8), "\"meddle\" has no region 5");
    REFUSED(VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 3, more, 1, 8),
            "\"meddle.adjoint\" has no region 3");
    REFUSED(VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, gradient, 1, 8), "32 bytes, not 8");
    REFUSED(VELOC_Region_protect(3, more, 2 * CELLS, 8, "meddle"), "32 bytes, not 64");
    for (i = 0; i < NAMES; i++) {
        REFUSED(VELOC_Region_protect(7, more, 1, 8, names[i]), "under way|meddle");
        REFUSED(VELOC_Region_protect(INT32_MIN, more, 1, 8, names[i]), "under way|meddle");
        REFUSED(VELOC_Region_unprotect(3, names[i]), "under way|region 3 of|must stay");
        REFUSED(VELOC_Region_unprotect(INT32_MIN, names[i]), "under way|must stay");
        REFUSED(VELOC_Region_clear(names[i]), "under way|all regions of|must stay");
    }
    /* Those of all names are none of the run's. */
    OK(VELOC_Mem_protect(3, more, 2, 8));
    OK(VELOC_Mem_protect(9, more, CELLS, 8));
    OK(VELOC_Mem_unprotect(9));
    OK(VELOC_Mem_clear());
}

static void change_checkpoints(void)
{
    int i, version;
    OK(VELOC_Mem_protect(3, more, CELLS, 8));
    for (i = 0; i < NAMES; i++) {
        for (version = 0; version < 9; version += 4) {
            REFUSED(VELOC_Checkpoint(names[i], version), "\"meddle\" is under way|belongs to it|version");
            REFUSED(VELOC_Checkpoint_begin(names[i], version), "under way|belongs to it|version");
            REFUSED(VELOC_Restart(names[i], version), "under way|belongs to it|version");
            REFUSED(VELOC_Restart_begin(names[i], version), "under way|belongs to it|version");
        }
        REFUSED(VELOC_Cleanup(names[i]), "under way|belongs to it");
    }
    REFUSED(VELOC_Adjoint_discard("meddle"), "\"meddle\" is under way|belongs to it");
    /* Others are the application's. */
    OK(VELOC_Checkpoint("other", 1));
    OK(VELOC_Restart("other", 1));
    OK(VELOC_Cleanup("other"));
    OK(VELOC_Mem_clear());
}

static void move_state(void)
{
    double *next = places[state == places[0]];
    memcpy(next, state, SIZE);
    memset(state, 0xee, SIZE);
    state = next;
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 3, state, CELLS, 8));
}

static void go_on_as_a_child(void)
{
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0)
        return;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    child_at = 0;
}

static void passed(void)
{
    steps++;
    if (steps == kill_at)
        raise(SIGKILL);
    if (steps == finalize_at)
        OK(VELOC_Finalize(1));
    if (steps == child_at)
        go_on_as_a_child();
}

static int forward(void *user, int64_t from, int64_t to)
{
    (void)user;
    if (!options_alone) {
        change_regions();
        change_checkpoints();
        move_state();
    }
    for (; from < to; from++) {
        step(state, from + 1);
        passed();
    }
    return VELOC_SUCCESS;
}

static int adjoint(void *user, int64_t number)
{
    (void)user;
    if (!options_alone) {
        change_regions();
        change_checkpoints();
        move_state();
    }
    back(gradient, state, number);
    passed();
    return VELOC_SUCCESS;
}

static int protect(void *user)
{
    int i;
    (void)user;
    /* What is not settled yet may change; what the library has beside it may not. */
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 3, more, 2 * CELLS, 8));
    for (i = 0; i < NAMES && !options_alone; i++) {
        REFUSED(VELOC_Region_clear(names[i]), "under way");
        REFUSED(VELOC_Region_unprotect(INT32_MIN, names[i]), "under way");
        REFUSED(VELOC_Checkpoint(names[i], 1), "belongs to it");
    }
    if (!options_alone)
        REFUSED(VELOC_Region_protect(3, more, 1, 8, names[2]), "its hashes as \"meddle.hashes\"");
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 3, state, cells, 8));
    return VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, gradient, CELLS, 8);
}

/* Checkpoints of the application's own stay, also under names that a run could have. */
static void discard(void)
{
    /* The id that a run's own region has where there is no such one. */
    static unsigned char bytes[96];
    OK(VELOC_Mem_protect(3, more, 1, 8));
    OK(VELOC_Mem_protect(INT32_MIN, bytes, sizeof bytes, 1));
    OK(VELOC_Checkpoint("own.adjoint", 4));
    OK(VELOC_Checkpoint("own.adjoint.x", 4));
    REFUSED(VELOC_Adjoint_discard("own"), "\"own.adjoint\" version 4|application's own");
    OK(VELOC_Restart("own.adjoint", 4));
    REFUSED(VELOC_Adjoint_discard(NULL), "NULL");
    REFUSED(VELOC_Adjoint_discard("a b"), "a b");
    OK(VELOC_Adjoint_discard("meddle"));
    OK(VELOC_Adjoint_discard("meddle"));
    EQUAL(VELOC_Restart_test("meddle", 0), VELOC_FAILURE);
    OK(VELOC_Restart("own.adjoint.x", 4));
    OK(VELOC_Mem_clear());
}

static void check_gradient(void)
{
    static double all[STEPS][CELLS];
    double wanted[CELLS];
    int64_t i;
    begin(all[0]);
    for (i = 1; i < STEPS; i++) {
        memcpy(all[i], all[i - 1], SIZE);
        step(all[i], i);
    }
    for (i = STEPS; i > 0; i--)
        back(wanted, all[i - 1], i);
    CHECK(memcmp(wanted, gradient, SIZE) == 0);
}

int main(int argc, char **argv)
{
    VELOC_Adjoint what = {.size = sizeof what, .name = "meddle", .steps = STEPS, .slots = 4,
                          .resilience_distance = 25, .adjoint_distance = 9,
                          .flags = VELOC_VERIFY_REPLAY, .protect = protect, .forward = forward,
                          .adjoint = adjoint};
    CHECK(argc > 1);
    kill_at = number(argc, argv, "kill", 0);
    finalize_at = number(argc, argv, "finalize", 0);
    child_at = number(argc, argv, "child", 0);
    options_alone = finalize_at > 0 || child_at > 0;
    begin(state);
    OK(VELOC_Init_single(0, argv[1]));
    if (number(argc, argv, "discard", 0)) {
        discard();
    } else if (number(argc, argv, "grown", 0)) {
        cells = CELLS + 1;
        REFUSED(VELOC_Adjoint_run(&what), "left as it is|32 bytes of region 3|VELOC_Adjoint_discard");
        OK(VELOC_Finalize(1));
        puts("refused");
        return 0;
    }
    if (child_at > 0) {
        pid_t self = getpid();
        int status = VELOC_Adjoint_run(&what);
        if (getpid() != self) {
            check_refused(__FILE__, __LINE__, "the child's run", status, "was forked from");
            _Exit(0);
        }
        OK(status);
    } else if (finalize_at > 0) {
        REFUSED(VELOC_Adjoint_run(&what), "no job");
        puts("ended");
        return 0;
    } else {
        OK(VELOC_Adjoint_run(&what));
    }
    check_gradient();
    /* Nothing of it holds any more. */
    OK(VELOC_Mem_protect(3, more, 1, 8));
    OK(VELOC_Checkpoint("meddle", 1));
    OK(VELOC_Restart("meddle", 1));
    OK(VELOC_Region_protect(3, more, 2, 8, "meddle"));
    OK(VELOC_Region_clear("meddle"));
    OK(VELOC_Cleanup("meddle"));
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
