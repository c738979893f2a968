/*
 * Sums alone do not tell a slot that was never written: zeros have the sum of zeros; nor one that has the data of another
 * iteration. With MORE, the sum may not be 0, and is in the mark. With GIVE_UP it ends where no iteration is consistent, and
 * says so.
 */
#include <stdint.h>
#include <stdio.h>
#include "veloc.h"

enum { WORDS = 64, BLOCK = 16, ITERATIONS = 20 };
static VELOC_Array *data, *sums;

static int holds(int64_t i, const double *scalars, int n, void *context)
{
    const uint64_t *of = VELOC_Pmem_at(sums, i);
    (void)scalars, (void)n, (void)context;
#ifdef MORE
    if (of[0] == 0 || n != 1 || (double)of[0] != scalars[0])
        return VELOC_INVARIANT_FAILS;
#endif
    return VELOC_Pmem_blocks_hold(VELOC_Pmem_at(data, i), WORDS, BLOCK, of, NULL);
}

int main(void)
{
    VELOC_Pmem *pmem;
    int64_t iteration;
    if (VELOC_Pmem_open("arrays", 1 << 16, VELOC_CRASH_POWER, &pmem)
        || VELOC_Pmem_array(pmem, "data", 8, WORDS, 3, &data) || VELOC_Pmem_array(pmem, "sums", 8, WORDS / BLOCK, 3, &sums)
        || VELOC_Pmem_invariant(pmem, "sums", holds, NULL))
        return 3;
    if (VELOC_Pmem_recover(pmem, &iteration)) {
#ifdef GIVE_UP
        fprintf(stderr, "gives up: %s\n", VELOC_Last_error());
        return 4;
#endif
        VELOC_Pmem_forget(pmem);
        iteration = -1;
    }
    for (int64_t i = iteration + 1; i <= ITERATIONS; i++) {
        uint64_t *new = VELOC_Pmem_at(data, i);
        const uint64_t *old = VELOC_Pmem_at(data, i - (i > 0));
        for (int n = 0; n < WORDS; n++)
            new[n] = i == 0 ? (uint64_t)n : old[n] * 3 + old[(n + 7) % WORDS] + i;
        VELOC_Pmem_block_sums(new, WORDS, BLOCK, VELOC_Pmem_at(sums, i));
#ifdef MORE
        const double sum = (double)*(const uint64_t *)VELOC_Pmem_at(sums, i);
        VELOC_Pmem_mark(pmem, i, &sum, 1);
#else
        VELOC_Pmem_mark(pmem, i, NULL, 0);
#endif
    }
    const uint64_t *last = VELOC_Pmem_at(data, ITERATIONS);
    uint64_t sum = 0;
    for (int n = 0; n < WORDS; n++)
        sum = sum * 7 + last[n];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
