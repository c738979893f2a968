/*
 * Adjoint computations whose forward steps are not the same again, and a right one:
 * replay_verification <configuration> <case>
 *
 * steps=N, verify=1 (VELOC_VERIFY_REPLAY), refused=W (the run is to fail, with the words W, '_' for a blank).
 */
#include "check.h"

enum { SIZE = 100 };

static const char *what;
static double state[SIZE], gradient[SIZE], unprotected[SIZE], second[SIZE];
static double *now = state, *next = second;
static long calls;
static uint64_t seed = 1;

static int is(const char *name)
{
    return strcmp(what, name) == 0;
}

static void step(int64_t number, int is_first)
{
    double *to = is("nothing") ? unprotected : is("two-buffers") ? next : state;
    int i;
    for (i = 0; i < SIZE; i++) {
        double change = 1e-3 * (double)number + 1e-2 * now[i];
        if (is("counter"))
            change += 1e-3 * (double)calls;
        if (is("partly"))
            change += 1e-3 * (unprotected[i] += now[i]);
        if (is("random"))
            change += 1e-6 * (double)(next_random(&seed) >> 40);
        if (is("first-step") && is_first)
            change *= 0.5;
        to[i] = now[i] + change;
    }
    if (is("two-buffers")) {
        next = now;
        now = to;
    }
}

static int protect(void *user)
{
    (void)user;
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, state, SIZE, sizeof(double)));
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, gradient, SIZE, sizeof(double)));
    return 0;
}

static int forward(void *user, int64_t from, int64_t to)
{
    int64_t number;
    (void)user;
    calls++;
    for (number = from + 1; number <= to; number++)
        step(number, number == from + 1);
    return 0;
}

static int adjoint(void *user, int64_t number)
{
    int i;
    (void)user;
    (void)number;
    for (i = 0; i < SIZE; i++)
        gradient[i] += now[i];
    return 0;
}

int main(int argc, char **argv)
{
    VELOC_Adjoint run;
    int i;
    CHECK(argc > 2);
    what = argv[2];
    for (i = 0; i < SIZE; i++)
        state[i] = i;
    OK(VELOC_Init_single(0, argv[1]));
    memset(&run, 0, sizeof run);
    run.size = sizeof run;
    run.name = "replays";
    run.steps = number(argc, argv, "steps", 400);
    run.slots = 8;
    run.protect = protect;
    run.forward = forward;
    run.adjoint = adjoint;
    if (number(argc, argv, "verify", 0))
        run.flags = VELOC_VERIFY_REPLAY;
    if (option(argc, argv, "refused", NULL) != NULL) {
        char words[128], *at;
        snprintf(words, sizeof words, "%s", option(argc, argv, "refused", ""));
        while ((at = strchr(words, '_')) != NULL)
            *at = ' ';
        REFUSED(VELOC_Adjoint_run(&run), words);
    } else
        OK(VELOC_Adjoint_run(&run));
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
