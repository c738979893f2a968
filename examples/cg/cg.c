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
#include "../persistent.h"
#include "matrix.h"

#include <math.h>

/* How much may be left by rounding of what ought to be 0, by the size of what it is the difference of. */
static const double ORTHOGONAL = 1e-11, RESIDUAL = 1e-11;
/* A matrix of a file: the residual to stop at, by that in the beginning. */
static const double STOP = 1e-10;
/* How far the solution may be from that of an undisturbed run. */
static const double CHECK = 1e-8;

/* What a mark says of its state besides its number: r.r, the sum of the bits of z, and r.r before. */
enum { R_R, Z_BITS, BEFORE, SCALARS };

/*
 * States are numbered through: those of solve s are s * (iterations + 1) + i, in which i iterations are done. State k is
 * r(k), z(k), p(k), and q(k) = A p(k - 1), which nothing reads any more but the check of p(k).
 */
struct cg {
    const struct matrix *a;
    int64_t iterations, solves;
    double stop; /* 0: all iterations */
    VELOC_Pmem *pmem; /* NULL: ordinary memory, and nothing is marked */
    struct array p, q, r, z;
    struct array b; /* the right-hand side, by solves */
};

/* Eight sums, as one would wait for each addition. The same for the same numbers, whoever asks. */
static double dot(const double *x, const double *y, int64_t n)
{
    double sum[8] = {0};
    int64_t i;
    int k;
    for (i = 0; i + 8 <= n; i += 8)
        for (k = 0; k < 8; k++)
            sum[k] += x[i + k] * y[i + k];
    for (k = 0; i < n; i++, k++)
        sum[k] += x[i] * y[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static void multiply(const struct matrix *a, const double *x, double *y)
{
    int64_t i, e;
    for (i = 0; i < a->n; i++) {
        double sum = 0;
        for (e = a->start[i]; e < a->start[i + 1]; e++)
            sum += a->value[e] * x[a->column[e]];
        y[i] = sum;
    }
}

/*
 * The sum of the words, in 53 bits, which a double has. In the end z changes less in an iteration than z.z would tell, or
 * r = b - A z. This tells the last bits.
 */
static double bits_of(const double *x, int64_t n)
{
    uint64_t sum;
    must(VELOC_Pmem_block_sums(x, (size_t)n, (size_t)n, &sum));
    return (double)(sum & ((UINT64_C(1) << 53) - 1));
}

/*
 * Once this returns, the state's number and what is said of it outlive a crash; its vectors do if it so happens. An old
 * state in the place of a new one satisfies all equations as well, and has another r.r.
 */
static void mark(const struct cg *cg, int64_t k, double rho, double before)
{
    double said[SCALARS];
    if (cg->pmem == NULL)
        return;
    said[R_R] = rho;
    said[Z_BITS] = bits_of(at(&cg->z, k), cg->a->n);
    said[BEFORE] = before;
    must(VELOC_Pmem_mark(cg->pmem, k, said, SCALARS));
}

/* The first state of a solve, whose right-hand side is there. Returns r.r, as the next. */
static double begin(const struct cg *cg, int64_t k)
{
    size_t bytes = (size_t)cg->a->n * sizeof(double);
    const double *b = at(&cg->b, k / (cg->iterations + 1));
    double rho = dot(b, b, cg->a->n);
    memcpy(at(&cg->r, k), b, bytes);
    memcpy(at(&cg->p, k), b, bytes);
    memset(at(&cg->z, k), 0, bytes);
    mark(cg, k, rho, rho);
    return rho;
}

/* From state k to the next. In ordinary memory both are in the same place. */
static double iterate(const struct cg *cg, int64_t k, double rho)
{
    const double *p = at(&cg->p, k), *r = at(&cg->r, k), *z = at(&cg->z, k);
    double *next_p = at(&cg->p, k + 1), *next_r = at(&cg->r, k + 1), *next_z = at(&cg->z, k + 1);
    double *q = at(&cg->q, k + 1), alpha, beta, next_rho;
    int64_t n = cg->a->n, i;
    multiply(cg->a, p, q);
    alpha = rho / dot(p, q, n);
    for (i = 0; i < n; i++)
        next_z[i] = z[i] + alpha * p[i];
    for (i = 0; i < n; i++)
        next_r[i] = r[i] - alpha * q[i];
    next_rho = dot(next_r, next_r, n);
    beta = next_rho / rho;
    for (i = 0; i < n; i++)
        next_p[i] = next_r[i] + beta * p[i];
    mark(cg, k + 1, next_rho, rho);
    return next_rho;
}

/*
 * Whether p(k) is what follows r(k) and p(k - 1): p(k).q(k) = 0 and p(k).r(k) = r(k).r(k), and r.r is that of the mark,
 * bit for bit. Rounding has left as much of p(k).q(k) as r(k - 1) was large: p(k) may be much smaller. Vectors that were
 * never written satisfy all of it, but for p > 0. What is compared is written so that a number that is none fails.
 */
static int is_orthogonal(int64_t k, const double *said, int n, void *context)
{
    const struct cg *cg = context;
    const double *p = at(&cg->p, k), *q = at(&cg->q, k), *r = at(&cg->r, k);
    int64_t size = cg->a->n;
    double pp = dot(p, p, size), rr = dot(r, r, size), qq;
    if (n != SCALARS || rr != said[R_R] || !(pp > 0)
        || !(fabs(dot(p, r, size) - rr) <= ORTHOGONAL * sqrt(pp * rr)))
        return VELOC_INVARIANT_FAILS;
    if (k % (cg->iterations + 1) == 0) /* there was no p before */
        return VELOC_INVARIANT_HOLDS;
    qq = dot(q, q, size);
    if (!(qq > 0)
        || !(fabs(dot(p, q, size)) <= ORTHOGONAL * sqrt(fmax(pp, said[BEFORE]) * qq)))
        return VELOC_INVARIANT_FAILS;
    return VELOC_INVARIANT_HOLDS;
}

/* Whether r(k) = b - A z(k), and z has the bits of the mark. */
static int is_residual(int64_t k, const double *said, int n, void *context)
{
    const struct cg *cg = context;
    const double *b = at(&cg->b, k / (cg->iterations + 1)), *r = at(&cg->r, k), *z = at(&cg->z, k);
    double wrong = 0, all = 0;
    int64_t i, e;
    if (n != SCALARS || bits_of(z, cg->a->n) != said[Z_BITS])
        return VELOC_INVARIANT_FAILS;
    for (i = 0; i < cg->a->n; i++) {
        double left = b[i] - r[i], size = fabs(b[i]);
        for (e = cg->a->start[i]; e < cg->a->start[i + 1]; e++) {
            double term = cg->a->value[e] * z[cg->a->column[e]];
            left -= term;
            size += fabs(term);
        }
        wrong += left * left;
        all += size * size;
    }
    return sqrt(wrong) <= RESIDUAL * sqrt(all) ? VELOC_INVARIANT_HOLDS : VELOC_INVARIANT_FAILS;
}

/*
 * The right-hand side of a solve: ones, and then the solution before, of length 1. Everything is computed from it for many
 * iterations, so it is written back; the first mark of its solve waits for that.
 */
static void set_right_hand_side(const struct cg *cg, int64_t solve, const double *z)
{
    double *b = at(&cg->b, solve), scale = z == NULL ? 1 : 1 / sqrt(dot(z, z, cg->a->n));
    int64_t i;
    for (i = 0; i < cg->a->n; i++)
        b[i] = z == NULL ? 1 : scale * z[i];
    if (cg->pmem != NULL)
        must(VELOC_Pmem_flush(cg->pmem, b, (size_t)cg->a->n * sizeof *b));
}

/* Goes on behind state k, or begins behind -1. Returns the last state. */
static int64_t solve(const struct cg *cg, int64_t k)
{
    int64_t n = cg->a->n, rounds = cg->iterations + 1;
    double rho, end = 0, began = seconds();
    int64_t done = 0;
    if (k < 0) {
        set_right_hand_side(cg, 0, NULL);
        rho = begin(cg, k = 0);
    } else {
        rho = dot(at(&cg->r, k), at(&cg->r, k), n);
    }
    for (;;) {
        const double *b = at(&cg->b, k / rounds);
        end = cg->stop * cg->stop * dot(b, b, n);
        while (k % rounds < cg->iterations && rho > end) {
            rho = iterate(cg, k++, rho);
            done++;
        }
        if (k / rounds + 1 >= cg->solves || k % rounds < cg->iterations)
            break;
        set_right_hand_side(cg, k / rounds + 1, at(&cg->z, k));
        rho = begin(cg, ++k);
    }
    fprintf(stderr, "%lld iterations in %.6f s\n", (long long)done, seconds() - began);
    return k;
}

/* Vectors in the file, or in ordinary memory if there is none. */
static void set_up(struct cg *cg, VELOC_Pmem *pmem, int slots)
{
    size_t n = (size_t)cg->a->n;
    cg->pmem = pmem;
    cg->b = array_of(pmem, "b", n, sizeof(double), slots);
    cg->p = array_of(pmem, "p", n, sizeof(double), slots);
    cg->q = array_of(pmem, "q", n, sizeof(double), slots);
    cg->r = array_of(pmem, "r", n, sizeof(double), slots);
    cg->z = array_of(pmem, "z", n, sizeof(double), slots);
}

static void tear_down(struct cg *cg)
{
    free_array(&cg->b), free_array(&cg->p), free_array(&cg->q);
    free_array(&cg->r), free_array(&cg->z);
}

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
        must(VELOC_Pmem_invariant(pmem, "orthogonal", is_orthogonal, &cg));
        must(VELOC_Pmem_invariant(pmem, "residual", is_residual, &cg));
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
