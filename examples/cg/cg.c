/*
 * Conjugate gradients whose vectors are in persistent memory and survive a crash there, without copies or a log: after
 * Yang et al., "Algorithm-directed crash consistence in non-volatile memory for HPC".
 *
 *   cg --class S|W|A|B|C | --matrix FILE.mtx  [--file PATH] [--crash process|power|page] [--slots N]
 *      [--iterations N] [--solves N] [--plain] [--check]
 *
 * The vectors p, q, r and z of the last iterations are kept, and of each iteration one line is written back. Caches let
 * the rest go to memory when they like. So after a crash some vectors are there, some in part, some not at all; which
 * iteration is whole, the equations of the method tell.
 */
#include "solver.h"

#include <math.h>

/* A matrix of a file: the residual to stop at, by that in the beginning. */
static const double STOP = 1e-10;
/* How far the solution may be from that of an undisturbed run. */
static const double CHECK = 1e-8;

/* What does not depend on crashes. */
static void print(const struct cg *cg, const struct class *class, int64_t k)
{
    int64_t n = cg->a->n, rounds = cg->iterations + 1;
    const double *z = at(&cg->z, k), *b = at(&cg->b, k / rounds), *r = at(&cg->r, k);
    double residual = sqrt(dot(r, r, n) / dot(b, b, n));
    printf("order %lld, nonzeros %lld\n", (long long)n, (long long)cg->a->start[n]);
    printf("iterations %lld\n", (long long)(k - k / rounds));
    printf("norm of the solution %.10e\n", sqrt(dot(z, z, n)));
    if (class != NULL) {
        double zeta = class->shift + 1 / dot(b, z, n);
        printf("zeta %.10f\n", zeta);
        if (cg->iterations == 25 && cg->solves == class->solves)
            puts(fabs(zeta - class->zeta) <= 1e-10 * class->zeta ? "as published" : "NOT as published");
    } else {
        puts(residual <= STOP ? "converged" : "not converged");
    }
}

/* Whether the solution is that of an undisturbed run, in ordinary memory. */
static int is_undisturbed(const struct cg *cg, int64_t k)
{
    struct cg other = *cg;
    const double *z = at(&cg->z, k), *expected;
    double sum = 0;
    int64_t i;
    set_up(&other, NULL, 1);
    expected = at(&other.z, solve(&other, -1));
    for (i = 0; i < cg->a->n; i++)
        sum += (z[i] - expected[i]) * (z[i] - expected[i]);
    sum = sqrt(sum / dot(expected, expected, cg->a->n));
    fprintf(stderr, "the solution is off by %.1e\n", sum);
    tear_down(&other);
    return sum <= CHECK;
}

int main(int argc, char **argv)
{
    const char *file = "cg.pmem", *crash = "process", *class_name = NULL, *matrix_file = NULL;
    int64_t slots = 4, iterations = 0, solves = 0, k = -1;
    int plain = 0, check = 0, is_right;
    const struct option options[] = {
        {"--class", NULL, &class_name, NULL},       {"--matrix", NULL, &matrix_file, NULL},
        {"--file", NULL, &file, NULL},              {"--crash", NULL, &crash, NULL},
        {"--slots", &slots, NULL, NULL},            {"--solves", &solves, NULL, NULL},
        {"--iterations", &iterations, NULL, NULL},  {"--plain", NULL, NULL, &plain},
        {"--check", NULL, NULL, &check},            {NULL, NULL, NULL, NULL},
    };
    const struct class *class = NULL;
    struct matrix a;
    struct cg cg = {0};
    VELOC_Pmem *pmem = NULL;

    read_options(argc, argv, options);
    if ((class_name == NULL) == (matrix_file == NULL))
        refuse("--class or --matrix is needed", argv[0]);
    if (class_name != NULL && (class = class_named(class_name)) == NULL)
        refuse("there are classes S, W, A, B and C", class_name);
    if (slots < 2 || slots > 64)
        refuse("2 to 64 slots are possible", "--slots");
    a = class != NULL ? make_matrix(class) : read_matrix(matrix_file);
    cg.a = &a;
    cg.iterations = iterations > 0 ? iterations : class != NULL ? 25 : 10 * a.n;
    cg.solves = solves > 0 ? solves : class != NULL ? class->solves : 1;
    cg.stop = class != NULL ? 0 : STOP;
    if (!plain)
        must(VELOC_Pmem_open(file, 5 * room((size_t)a.n, sizeof(double), (size_t)slots),
                             crash_named(crash), &pmem));
    set_up(&cg, pmem, (int)slots);
    if (pmem != NULL) {
        add_invariants(&cg);
        k = recover(pmem);
    }
    k = solve(&cg, k);
    print(&cg, class, k);
    is_right = !check || is_undisturbed(&cg, k);
    if (pmem != NULL)
        must(VELOC_Pmem_close(pmem));
    tear_down(&cg);
    free_matrix(&a);
    return !is_right;
}
