/*
 * Conjugate gradients: the method, what of it is marked, and what tells whether a state is whole.
 */
#include "solver.h"

#include <math.h>

/* How much may be left by rounding of what ought to be 0, by the size of what it is the difference of. */
static const double ORTHOGONAL = 1e-11, RESIDUAL = 1e-11;

/* What a mark says of its state besides its number: r.r, the sum of the bits of z, and r.r before. */
enum { R_R, Z_BITS, BEFORE, SCALARS };

double dot(const double *x, const double *y, int64_t n)
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
double begin(const struct cg *cg, int64_t k)
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
double iterate(const struct cg *cg, int64_t k, double rho)
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

int64_t solve(const struct cg *cg, int64_t k)
{
    int64_t n = cg->a->n, rounds = cg->iterations + 1;
    double rho, end = 0, began = seconds();
    int64_t done = 0;
    if (k < 0) {
        set_right_hand_side(cg, 0, NULL);
        rho = begin(cg, k = 0);
    } else {
        double said[SCALARS];
        must(VELOC_Pmem_scalars(cg->pmem, said, SCALARS));
        rho = said[R_R];
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

void set_up(struct cg *cg, VELOC_Pmem *pmem, int slots)
{
    size_t n = (size_t)cg->a->n;
    cg->pmem = pmem;
    cg->b = array_of(pmem, "b", n, sizeof(double), slots);
    cg->p = array_of(pmem, "p", n, sizeof(double), slots);
    cg->q = array_of(pmem, "q", n, sizeof(double), slots);
    cg->r = array_of(pmem, "r", n, sizeof(double), slots);
    cg->z = array_of(pmem, "z", n, sizeof(double), slots);
}

void tear_down(struct cg *cg)
{
    free_array(&cg->b), free_array(&cg->p), free_array(&cg->q);
    free_array(&cg->r), free_array(&cg->z);
}

void add_invariants(struct cg *cg)
{
    must(VELOC_Pmem_invariant(cg->pmem, "orthogonal", is_orthogonal, cg));
    must(VELOC_Pmem_invariant(cg->pmem, "residual", is_residual, cg));
}
