/*
 * An adjoint whose stored states are compressed (VELOC_Adjoint_compress), and the Taylor test of its gradient:
 *
 *   taylor <configuration> [bits=0] [bound=0] [kill=STEP] [check=1] [slots=10] [device=1] [refuse=1]
 *
 * A field of doubles grows and spreads, u' = u + dt (u_xx + u (1 - u)), and the gradient is that of half its mean square at
 * the end, to the field at the beginning. `check=1` computes the gradient again with all states kept as they are, and
 * prints, in direction d:
 *
 *   error E         the difference of the two gradients, as a part of the exact one
 *   forward N M     forward steps of this call, and slots that they had
 *   rest H R        |J(u + H d) - J(u) - H g.d| for smaller and smaller H
 *
 *   bits=0      the states are not compressed; 64: without loss
 *   kill=STEP   kills itself when the adjoint comes to this step
 *   device=1    the state is in device memory, with a copy on the host that computes
 *   refuse=1    what cannot be, instead
 *
 * With MPI every process computes the same, and the last of several has a state of two fields, the second as it is: in
 * its room there are fewer slots.
 */
#include "cuda.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

enum { CELLS = 4000, STEPS = 200, SEEN = 7 };

static const double DT = 0.01;
static double field[CELLS], second[CELLS], gradient[CELLS], first[CELLS], scratch[CELLS];
static CUdeviceptr on_device;
static long bits, kill_at, computed;
static double bound;
static int refuses, rank;

static void set_first(void)
{
    size_t i;
    for (i = 0; i < CELLS; i++)
        first[i] = 0.3 + 0.25 * sin((double)i * 0.005) + 0.05 * cos((double)i * 0.11);
}

static void step_forward(double *u)
{
    size_t i;
    for (i = 0; i < CELLS; i++) {
        double left = u[(i + CELLS - 1) % CELLS], right = u[(i + 1) % CELLS];
        scratch[i] = u[i] + DT * (left - 2 * u[i] + right + u[i] * (1 - u[i]));
    }
    memcpy(u, scratch, sizeof scratch);
}

/* The adjoint's step from the state behind it to the one before, which is `u`. */
static void step_back(const double *u, double *adjoint)
{
    size_t i;
    for (i = 0; i < CELLS; i++) {
        double left = adjoint[(i + CELLS - 1) % CELLS], right = adjoint[(i + 1) % CELLS];
        scratch[i] = adjoint[i] + DT * (left - 2 * adjoint[i] + right + (1 - 2 * u[i]) * adjoint[i]);
    }
    memcpy(adjoint, scratch, sizeof scratch);
}

static double half_mean_square(const double *u)
{
    double sum = 0;
    size_t i;
    for (i = 0; i < CELLS; i++)
        sum += u[i] * u[i];
    return sum / 2 / CELLS;
}

/* J of the first field and a part of a direction. */
static double objective(double part, const double *direction)
{
    static double u[CELLS];
    int i;
    for (i = 0; i < CELLS; i++)
        u[i] = first[i] + part * direction[i];
    for (i = 0; i < STEPS; i++)
        step_forward(u);
    return half_mean_square(u);
}

static void get(void)
{
    if (on_device != 0)
        CU(cuMemcpyDtoH_v2(field, on_device, sizeof field));
}

static void put(void)
{
    if (on_device != 0)
        CU(cuMemcpyHtoD_v2(on_device, field, sizeof field));
}

static int protect(void *user)
{
    void *state = on_device != 0 ? as_pointer(on_device) : field;
    (void)user;
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, state, CELLS, sizeof *field));
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, gradient, CELLS, sizeof *gradient));
    if (refuses) {
        REFUSED(VELOC_Adjoint_compress(1, VELOC_COMPRESS_8, 1), "region 1");
        REFUSED(VELOC_Adjoint_compress(0, 7, 1), "region 0|mode is 7");
        REFUSED(VELOC_Adjoint_compress(0, VELOC_COMPRESS_8, -1), "region 0|bound");
    }
    if (rank > 0)
        OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 1, second, CELLS, sizeof *second));
    if (bits != 0)
        OK(VELOC_Adjoint_compress(0, (int)bits, bound));
    return VELOC_SUCCESS;
}

static int forward(void *user, int64_t from, int64_t to)
{
    (void)user;
    if (refuses)
        REFUSED(VELOC_Adjoint_compress(0, VELOC_COMPRESS_NONE, 0), "region 0|is compressed cannot change any more");
    get();
    for (; from < to; from++, computed++)
        step_forward(field);
    put();
    return VELOC_SUCCESS;
}

static int adjoint(void *user, int64_t step)
{
    size_t i;
    (void)user;
    if (step == kill_at)
        kill(getpid(), SIGKILL);
    get();
    if (step == STEPS) {
        static double last[CELLS];
        memcpy(last, field, sizeof last);
        step_forward(last);
        for (i = 0; i < CELLS; i++)
            gradient[i] = last[i] / CELLS;
    }
    step_back(field, gradient);
    return VELOC_SUCCESS;
}

static void start(int argc, char **argv)
{
#ifdef CHECK_WITH_MPI
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
#else
    (void)argc;
    OK(VELOC_Init_single(0, argv[1]));
#endif
}

static void finish(void)
{
    OK(VELOC_Finalize(1));
#ifdef CHECK_WITH_MPI
    CHECK(MPI_Finalize() == MPI_SUCCESS);
#endif
    puts("done");
}

static void exact(double *to)
{
    static double all[STEPS + 1][CELLS];
    int i;
    memcpy(all[0], first, sizeof first);
    for (i = 0; i < STEPS; i++) {
        memcpy(all[i + 1], all[i], sizeof first);
        step_forward(all[i + 1]);
    }
    for (i = 0; i < CELLS; i++)
        to[i] = all[STEPS][i] / CELLS;
    for (i = STEPS; i > 0; i--)
        step_back(all[i - 1], to);
}

static void check(void)
{
    static double right[CELLS], direction[CELLS];
    double difference = 0, all = 0, slope = 0, part = 1;
    uint64_t random = 5;
    int i;
    exact(right);
    for (i = 0; i < CELLS; i++) {
        difference += (gradient[i] - right[i]) * (gradient[i] - right[i]);
        all += right[i] * right[i];
        direction[i] = (double)(next_random(&random) >> 40) / (1 << 24);
        slope += gradient[i] * direction[i];
    }
    printf("error %.3e\n", sqrt(difference / all));
    for (i = 0; i < SEEN; i++, part /= 10)
        printf("rest %.0e %.3e\n", part, fabs(objective(part, direction) - objective(0, direction) - part * slope));
}

int main(int argc, char **argv)
{
    VELOC_Adjoint what = {.size = sizeof what, .name = "taylor", .steps = STEPS};
    what.slots = number(argc, argv, "slots", 10);
    what.protect = protect;
    what.forward = forward;
    what.adjoint = adjoint;
    bits = number(argc, argv, "bits", 0);
    bound = strtod(option(argc, argv, "bound", "0"), NULL);
    kill_at = number(argc, argv, "kill", -1);
    refuses = number(argc, argv, "refuse", 0) != 0;
    set_first();
    memcpy(field, first, sizeof field);
    if (number(argc, argv, "device", 0)) {
        (void)cuda_start();
        on_device = device_memory(sizeof field);
        put();
    }
    start(argc, argv);
    REFUSED(VELOC_Adjoint_compress(0, VELOC_COMPRESS_8, 1), "no adjoint computation is under way");
    if (refuses) {
        what.flags = VELOC_VERIFY_REPLAY;
        REFUSED(VELOC_Adjoint_run(&what), "VELOC_VERIFY_REPLAY|VELOC_Adjoint_compress");
        what.flags = 0;
    }
    OK(VELOC_Adjoint_run(&what));
    printf("forward %ld\n", computed);
    if (number(argc, argv, "check", 0))
        check();
    finish();
    return 0;
}
