/*
 * The gradient of an optimal control problem, computed so that it survives: kill it at any moment,
 * start it again by the same line, and it goes on to the same bits.
 *
 *   hager [<configuration> [<steps> <slots> <resilience distance> <adjoint distance>]]
 *
 * Minimise x2(1) with x1' = x1/2 + u, x1(0) = 1, x2' = x1^2 + u^2/2, x2(0) = 0 (Hager). At the
 * optimal control u* the adjoint of x1 is -u*, and every derivative of x2(1) is zero.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <veloc.h>

enum { MODES = 8 };

static int64_t steps;
static double h;       /* the length of a step */
static double *u;      /* the control, at every half step */
static double x[2];    /* the state */
static struct {
    double lambda[2];    /* the adjoint of the state */
    double slope[MODES]; /* derivatives with respect to u += p[k] cos(k pi t) */
} gradient;

static void f(const double *y, double control, double *dy)
{
    dy[0] = 0.5 * y[0] + control;
    dy[1] = y[0] * y[0] + 0.5 * control * control;
}

/* The transposed derivatives of f, applied to a. */
static double by_state(const double *y, const double *a)
{
    return 0.5 * a[0] + 2 * y[0] * a[1];
}

static double by_control(double control, const double *a)
{
    return a[0] + control * a[1];
}

/* The state in the middle of a step that begins with y. */
static void middle(const double *y, int64_t step, double *m)
{
    double dy[2];
    f(y, u[2 * step - 2], dy);
    m[0] = y[0] + 0.5 * h * dy[0];
    m[1] = y[1] + 0.5 * h * dy[1];
}

static int forward(void *user, int64_t from, int64_t to)
{
    int64_t step;
    (void)user;
    for (step = from + 1; step <= to; step++) {
        double m[2], dy[2];
        middle(x, step, m);
        f(m, u[2 * step - 1], dy);
        x[0] += h * dy[0];
        x[1] += h * dy[1];
    }
    return VELOC_SUCCESS;
}

static int adjoint(void *user, int64_t step)
{
    double *lambda = gradient.lambda, m[2], a[2], at_begin, at_middle;
    int k;
    (void)user;
    if (step == steps) {
        memset(&gradient, 0, sizeof gradient);
        lambda[1] = 1;
    }
    middle(x, step, m);
    at_middle = h * by_control(u[2 * step - 1], lambda);
    a[0] = h * by_state(m, lambda);
    a[1] = 0;
    at_begin = 0.5 * h * by_control(u[2 * step - 2], a);
    lambda[0] += a[0] + 0.5 * h * by_state(x, a);
    for (k = 0; k < MODES; k++) {
        double angle = k * acos(-1) * h;
        gradient.slope[k] += at_begin * cos(angle * (double)(step - 1));
        gradient.slope[k] += at_middle * cos(angle * ((double)step - 0.5));
    }
    return VELOC_SUCCESS;
}

static int protect(void *user)
{
    (void)user;
    if (VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, x, 2, sizeof x[0]) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    return VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, &gradient, 1, sizeof gradient);
}

static int64_t number(int argc, char **argv, int place, int64_t otherwise)
{
    return argc > place ? strtoll(argv[place], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    VELOC_Adjoint what = {0};
    double e3 = exp(3);
    int64_t i;
    int status, k;

    steps = number(argc, argv, 2, 700000);
    what.size = sizeof what;
    what.name = "hager";
    what.steps = steps;
    what.slots = number(argc, argv, 3, 10);
    what.resilience_distance = number(argc, argv, 4, 100000);
    what.adjoint_distance = number(argc, argv, 5, 10000);
    what.protect = protect;
    what.forward = forward;
    what.adjoint = adjoint;

    u = malloc((size_t)(2 * steps + 1) * sizeof *u);
    if (u == NULL)
        return 1;
    h = 1 / (double)steps;
    for (i = 0; i <= 2 * steps; i++) {
        double t = 0.5 * h * (double)i;
        u[i] = 2 * (exp(3 * t) - e3) / (exp(1.5 * t) * (2 + e3));
    }
    x[0] = 1;

    if (VELOC_Init_single(0, argc > 1 ? argv[1] : "veloc.cfg") != VELOC_SUCCESS) {
        fprintf(stderr, "%s\n", VELOC_Last_error());
        return 1;
    }
    status = VELOC_Adjoint_run(&what);
    if (status == VELOC_FAILURE)
        fprintf(stderr, "%s\n", VELOC_Last_error());
    if (status == VELOC_STOPPED)
        puts("stopped; start it again");
    if (status == VELOC_SUCCESS) {
        printf("lambda %a, wrong by %.1e\n", gradient.lambda[0], gradient.lambda[0] + u[0]);
        for (k = 0; k < MODES; k++)
            printf("slope %a\n", gradient.slope[k]);
    }
    VELOC_Finalize(1);
    free(u);
    return status == VELOC_FAILURE;
}
