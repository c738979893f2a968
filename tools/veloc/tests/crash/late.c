/*
 * An array that each iteration computes as a whole and writes back, and a mark that says that it is there. With
 * -DMARK_FIRST the mark is there before the array is. With the others only a crash of the process counts: with -DSTORE_LAST the
 * mark is there before the last word is, with -DSTORE_FIRST the iteration before is gone before the mark is there.
 */
#include <stdint.h>
#include <stdio.h>
#include "veloc.h"

#if defined STORE_LAST || defined STORE_FIRST
#define CRASH VELOC_CRASH_PROCESS
#else
#define CRASH VELOC_CRASH_POWER
#endif

enum { WORDS = 4096, SLOTS = 3, ITERATIONS = 12 };

int main(void)
{
    VELOC_Pmem *pmem;
    VELOC_Array *data;
    int64_t done;
    uint64_t sum = 0;
    if (VELOC_Pmem_open("arrays", SLOTS * 8 * WORDS, CRASH, &pmem)
        || VELOC_Pmem_array(pmem, "data", 8, WORDS, SLOTS, &data)
        || VELOC_Pmem_recover(pmem, &done))
        return 3;
    for (int64_t i = done + 1; i < ITERATIONS; i++) {
        uint64_t *new = VELOC_Pmem_at(data, i);
        const uint64_t *old = i > 0 ? VELOC_Pmem_at(data, i - 1) : new;
        for (int n = 0; n < WORDS; n++)
            new[n] = (i > 0 ? old[n] * 3 + old[(n + 9) % WORDS] : 0) + (uint64_t)(i + n);
#ifdef STORE_LAST
        const uint64_t last = new[WORDS - 1];
        new[WORDS - 1] = 0;
        VELOC_Pmem_mark(pmem, i, NULL, 0);
        new[WORDS - 1] = last;
#elif defined STORE_FIRST
        if (i > 0)
            ((uint64_t *)VELOC_Pmem_at(data, i - 1))[WORDS - 1] = 0;
        VELOC_Pmem_mark(pmem, i, NULL, 0);
#elif defined MARK_FIRST
        VELOC_Pmem_mark(pmem, i, NULL, 0);
        VELOC_Pmem_flush(pmem, new, 8 * WORDS);
        VELOC_Pmem_drain(pmem);
#else
        VELOC_Pmem_flush(pmem, new, 8 * WORDS);
        VELOC_Pmem_drain(pmem);
        VELOC_Pmem_mark(pmem, i, NULL, 0);
#endif
    }
    const uint64_t *last = VELOC_Pmem_at(data, ITERATIONS - 1);
    for (int n = 0; n < WORDS; n++)
        sum = sum * 31 + last[n];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
