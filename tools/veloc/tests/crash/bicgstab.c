/*
 * BiCGStab for a system of 3,000 equations with a band of three. An iteration needs x, r, p and v = A p of the one before,
 * and rho, alpha and omega, which are in its mark: beside them is the sum of the bits of the vectors, which are written back
 * by the cache alone. With -DWITHOUT_V the sum leaves out v.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "veloc.h"

enum { N = 3000, SLOTS = 2, ITERATIONS = 12 };
enum { RHO, ALPHA, OMEGA, BITS, SCALARS };

static VELOC_Array *x_kept, *r_kept, *p_kept, *v_kept;
static double b[N], s[N], t[N];

static double dot(const double *a, const double *c)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[i] * c[i];
    return sum;
}

static void multiply(const double *from, double *to)
{
    for (int i = 0; i < N; i++)
        to[i] = 3 * from[i] - (i > 0 ? from[i - 1] : 0) - (i + 1 < N ? 1.5 * from[i + 1] : 0);
}

static double bits(int64_t k)
{
    VELOC_Array *all[] = {x_kept, r_kept, p_kept, v_kept};
#ifdef WITHOUT_V
    const int count = 3;
#else
    const int count = 4;
#endif
    uint64_t sum = 0, one;
    for (int i = 0; i < count; i++) {
        VELOC_Pmem_block_sums(VELOC_Pmem_at(all[i], k), N, N, &one);
        sum += one;
    }
    return (double)(sum & ((UINT64_C(1) << 53) - 1));
}

static int has_its_bits(int64_t k, const double *said, int n, void *context)
{
    (void)context;
    return n == SCALARS && bits(k) == said[BITS];
}

int main(void)
{
    VELOC_Pmem *pmem;
    double said[SCALARS] = {1, 1, 1, 0};
    int64_t k;
    if (VELOC_Pmem_open("arrays", 4 * SLOTS * (8 * N + 4096), VELOC_CRASH_POWER, &pmem)
        || VELOC_Pmem_array(pmem, "x", 8, N, SLOTS, &x_kept)
        || VELOC_Pmem_array(pmem, "r", 8, N, SLOTS, &r_kept)
        || VELOC_Pmem_array(pmem, "p", 8, N, SLOTS, &p_kept)
        || VELOC_Pmem_array(pmem, "v", 8, N, SLOTS, &v_kept)
        || VELOC_Pmem_invariant(pmem, "bits", has_its_bits, NULL))
        return 3;
    for (int i = 0; i < N; i++)
        b[i] = 1 + 0.5 * sin(i);
    if (VELOC_Pmem_recover(pmem, &k)) {
        VELOC_Pmem_forget(pmem);
        k = -1;
    }
    if (k < 0) {
        k = 0;
        memset(VELOC_Pmem_at(x_kept, k), 0, 8 * N);
        memset(VELOC_Pmem_at(p_kept, k), 0, 8 * N);
        memset(VELOC_Pmem_at(v_kept, k), 0, 8 * N);
        memcpy(VELOC_Pmem_at(r_kept, k), b, 8 * N);
        said[BITS] = bits(k);
        VELOC_Pmem_mark(pmem, k, said, SCALARS);
    } else if (VELOC_Pmem_scalars(pmem, said, SCALARS) != SCALARS) {
        return 4;
    }
    for (; k < ITERATIONS; k++) {
        const double *x = VELOC_Pmem_at(x_kept, k), *r = VELOC_Pmem_at(r_kept, k);
        const double *p = VELOC_Pmem_at(p_kept, k), *v = VELOC_Pmem_at(v_kept, k);
        double *new_x = VELOC_Pmem_at(x_kept, k + 1), *new_r = VELOC_Pmem_at(r_kept, k + 1);
        double *new_p = VELOC_Pmem_at(p_kept, k + 1), *new_v = VELOC_Pmem_at(v_kept, k + 1);
        const double rho = dot(b, r), beta = rho / said[RHO] * said[ALPHA] / said[OMEGA];
        for (int i = 0; i < N; i++)
            new_p[i] = r[i] + beta * (p[i] - said[OMEGA] * v[i]);
        multiply(new_p, new_v);
        const double alpha = rho / dot(b, new_v);
        for (int i = 0; i < N; i++)
            s[i] = r[i] - alpha * new_v[i];
        multiply(s, t);
        const double omega = dot(t, s) / dot(t, t);
        for (int i = 0; i < N; i++)
            new_x[i] = x[i] + alpha * new_p[i] + omega * s[i];
        for (int i = 0; i < N; i++)
            new_r[i] = s[i] - omega * t[i];
        said[RHO] = rho, said[ALPHA] = alpha, said[OMEGA] = omega;
        said[BITS] = bits(k + 1);
        VELOC_Pmem_mark(pmem, k + 1, said, SCALARS);
    }
    const double *x = VELOC_Pmem_at(x_kept, k), *r = VELOC_Pmem_at(r_kept, k);
    printf("%.17g\n%.17g\n", dot(x, x), dot(r, r));
    return 0;
}
