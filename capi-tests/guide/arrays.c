#include "frame.h"

#include <math.h>
#include <veloc/pmem.h>

enum { n = 1000, last = 20 };

static const uint64_t bytes = n * sizeof(double);

static double sum_of(const double *x)
{
    double sum = 0;
    int k;
    for (k = 0; k < n; k++)
        sum += x[k];
    return sum;
}

static double step(double *next, const double *before)
{
    int k;
    for (k = 0; k < n; k++)
        next[k] = (before != NULL ? before[k] : k) + 1;
    return sum_of(next);
}

static
/* BLOCK 2 */

static int solve(int64_t expected)
{
    /* BLOCK 1 */
    EQUAL(done, expected);
    return 0;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    OK(solve(-1));
    OK(solve(last - 1));
    puts("done");
    return 0;
}
