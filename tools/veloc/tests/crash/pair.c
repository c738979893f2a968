/*
 * Two slots, and a word that says which of them counts. A crash that comes between the two must not be seen. With TWO the word
 * is in another file, which is opened for a crash of the process, and not flushed.
 */
#include <stdint.h>
#include <stdio.h>
#include "veloc.h"

#ifndef CRASH
#define CRASH VELOC_CRASH_POWER
#endif

enum { WORDS = 16, ITERATIONS = 30 };

int main(void)
{
    VELOC_Pmem *pmem;
    VELOC_Array *data, *where;
#ifdef TWO
    VELOC_Pmem *other;
    if (VELOC_Pmem_open("other", 1 << 16, VELOC_CRASH_PROCESS, &other))
        return 3;
#else
#define other pmem
#endif
    int64_t iteration;
    if (VELOC_Pmem_open("arrays", 1 << 16, CRASH, &pmem)
        || VELOC_Pmem_array(pmem, "data", 8, WORDS, 2, &data)
        || VELOC_Pmem_array(other, "head", 8, 1, 1, &where) || VELOC_Pmem_recover(pmem, &iteration))
        return 3;
    volatile uint64_t *head = VELOC_Pmem_at(where, 0);
    for (uint64_t i = *head + 1; i <= ITERATIONS; i++) {
        const uint64_t *old = VELOC_Pmem_at(data, i - 1);
        uint64_t *new = VELOC_Pmem_at(data, i);
        for (int n = 0; n < WORDS; n++)
            new[n] = old[n] * 3 + old[(n + 9) % WORDS] + i + n;
#ifndef NO_FLUSH
        VELOC_Pmem_flush(pmem, new, 8 * WORDS); /* data */
#endif
        VELOC_Pmem_drain(pmem); /* between */
        *head = i;
#ifndef TWO
        VELOC_Pmem_flush(pmem, (void *)head, 8); /* head */
#endif
#ifdef MORE
        VELOC_Pmem_drain(pmem); /* mark drains as well */
#endif
        VELOC_Pmem_mark(pmem, i, NULL, 0); /* mark */
    }
    const uint64_t *last = VELOC_Pmem_at(data, ITERATIONS);
    for (int n = 0; n < WORDS; n++)
        printf("%llu\n", (unsigned long long)last[n]);
    return 0;
}
