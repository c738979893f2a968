/* Threads that each compute, flush and drain a part of the same array; with READ, COPY: stored by the system, by copies. */
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
#include <fcntl.h>
#include <pthread.h>
#include "veloc.h"

enum { WORDS = 4096, ITERATIONS = 30, THREADS = 4 };
static VELOC_Pmem *pmem;
static VELOC_Array *data;
static int64_t iteration;
static pthread_barrier_t barrier;

static void *work(void *which)
{
    int from = (int)(intptr_t)which * WORDS / THREADS, to = from + WORDS / THREADS;
    for (int64_t i = iteration + 1; i <= ITERATIONS; i++) {
        const uint64_t *old = VELOC_Pmem_at(data, i - 1);
        uint64_t *new = VELOC_Pmem_at(data, i);
#ifdef READ
        int zero = open("/dev/zero", O_RDONLY);
        if (read(zero, new + from, 8 * (to - from)) < 0) exit(5);
        close(zero);
#endif
#ifdef COPY
        uint64_t heap[WORDS];
        for (int n = from; n < to; n++)
            heap[n] = old[n] * 3 + old[(n + 9) % WORDS] + i + n;
        memcpy(new + from, heap + from, 8 * (to - from));
        memmove(new + from + 1, new + from, 8 * (to - from - 1));
        memset(new + from, (int)i, 64);
#else
        for (int n = from; n < to; n++)
            new[n] = old[n] * 3 + old[(n + 9) % WORDS] + i + n;
#endif
#ifndef NO_FLUSH
        VELOC_Pmem_flush(pmem, new + from, 8 * (to - from));
        VELOC_Pmem_drain(pmem);
#endif
        pthread_barrier_wait(&barrier);
        if (from == 0)
            VELOC_Pmem_mark(pmem, i, NULL, 0);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    if (VELOC_Pmem_open("arrays", 1 << 16, VELOC_CRASH_POWER, &pmem)
        || VELOC_Pmem_array(pmem, "data", 8, WORDS, 2, &data) || VELOC_Pmem_recover(pmem, &iteration))
        return 3;
    if (iteration < 0) {
        iteration = 0;
        memset(VELOC_Pmem_at(data, 0), 0, 8 * WORDS);
    }
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    for (intptr_t n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, work, (void *)n);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    const uint64_t *last = VELOC_Pmem_at(data, ITERATIONS);
    uint64_t sum = 0;
    for (int n = 0; n < WORDS; n++)
        sum = sum * 5 + last[n];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
