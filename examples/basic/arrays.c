/* An iterative solver whose vector is in a file that survives a crash of the program. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <veloc/pmem.h>

enum { N = 4000, LAST = 60 };

/* Writes the next iteration, and returns its sum. */
static double relax(double *next, const double *before)
{
    double sum = 0;
    int k;
    for (k = 0; k < N; k++) {
        next[k] = before == NULL ? k % 7 : (before[k] + before[(k + 1) % N]) / 2;
        sum += next[k];
    }
    return sum;
}

/* What holds in each iteration: its numbers have the sum that was marked. */
static int sum_holds(int64_t iteration, const double *scalars, int n, void *array)
{
    const double *x = VELOC_Pmem_at(array, iteration);
    double sum = 0;
    int k;
    (void)n;
    for (k = 0; k < N; k++)
        sum += x[k];
    return fabs(sum - scalars[0]) <= 1e-9 * fabs(scalars[0]);
}

int main(void)
{
    VELOC_Pmem *pm;
    VELOC_Array *x;
    int64_t done, i;
    if (VELOC_Pmem_open("relax.pm", 1 << 20, VELOC_CRASH_PROCESS, &pm) != 0
        || VELOC_Pmem_array(pm, "x", sizeof(double), N, 3, &x) != 0
        || VELOC_Pmem_invariant(pm, "sum of x", sum_holds, x) != 0
        || VELOC_Pmem_recover(pm, &done) != 0)
        return 1;
    if (done >= 0)
        fprintf(stderr, "goes on behind iteration %d\n", (int)done);
    for (i = done + 1; i < LAST; i++) {
        double sum = relax(VELOC_Pmem_at(x, i), i > 0 ? VELOC_Pmem_at(x, i - 1) : NULL);
        if (VELOC_Pmem_mark(pm, i, &sum, 1) != 0)
            return 1;
    }
    printf("x[0] = %.15f\n", ((double *)VELOC_Pmem_at(x, LAST - 1))[0]);
    return VELOC_Pmem_close(pm) != 0;
}
