/*
 * A program that knows nothing of checkpoints: steps STEPS OUT
 *
 * Each step goes through what an image has of a process: memory, a thread, a child behind pipes, shared memory, a file
 * without a name that is written in place, and a file that grows. Prints a line for each 10 steps, the last one for all of
 * it. What it prints depends on the number of steps alone. While there is a file "held" it does not end.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held.h"

enum { WORDS = 20000, BLOCK = 4096 };

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static pthread_barrier_t barrier;
static uint64_t *words;
static int steps;

static uint64_t mix(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

static void *work(void *unused)
{
    for (int step = 0; step < steps; step++) {
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < WORDS; i++)
            words[i] = mix(words[i] + (uint64_t)step);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

/* Answers each number by another one, until there are no more. */
static void child(int from, int to)
{
    uint64_t number, sum = 1;
    while (read(from, &number, sizeof number) == sizeof number) {
        sum = mix(sum + number);
        CHECK(write(to, &sum, sizeof sum) == sizeof sum);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int to[2], from[2], status;
    CHECK(argc == 3);
    steps = atoi(argv[1]);
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint64_t)i + 1;
    pid_t pid = fork();
    if (pid == 0) {
        close(to[1]);
        close(from[0]);
        child(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    char name[] = "unnamed-XXXXXX";
    int unnamed = mkstemp(name);
    CHECK(pid > 0 && unnamed >= 0 && unlink(name) == 0);
    FILE *out = fopen(argv[2], "w");
    CHECK(out != NULL);
    pthread_t thread;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, work, NULL) == 0);
    uint64_t sum = 0, answer, block[BLOCK / sizeof(uint64_t)] = {0};
    CHECK(pwrite(unnamed, block, sizeof block, 0) == sizeof block);
    for (int step = 0; step < steps; step++) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        sum = mix(sum + words[step % WORDS]);
        CHECK(write(to[1], &sum, sizeof sum) == sizeof sum && read(from[0], &answer, sizeof answer) == sizeof answer);
        CHECK(pread(unnamed, block, sizeof block, 0) == sizeof block);
        for (size_t i = 0; i < BLOCK / sizeof *block; i++)
            block[i] = mix(block[i] + answer + i);
        CHECK(pwrite(unnamed, block, sizeof block, 0) == sizeof block);
        fprintf(out, "%d %016" PRIx64 " %016" PRIx64 "\n", step, answer, block[step % (BLOCK / sizeof *block)]);
        if (step % 10 == 9) {
            printf("%d %016" PRIx64 "\n", step, answer);
            fflush(stdout);
        }
        usleep(2000);
    }
    wait_while_held();
    close(to[1]);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0 && pthread_join(thread, NULL) == 0);
    CHECK(fclose(out) == 0);
    puts("done");
    return 0;
}
