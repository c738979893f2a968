/*
 * Has a machine that gets its memory as it uses it get what is needed: grow <GiB>
 *
 * Touches memory bit by bit, and gives all of it back at its end. It keeps away from the last GiB that is
 * available; where that does not become more for a while, the machine has no more to give. Should the
 * system be short of memory all the same, this process is the first to be killed.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_POPULATE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PIECE = 64 /* MiB */, SPARE = 1024 /* MiB */, TRIES = 30, PAUSE = 100 /* ms */ };

/* A line of /proc/meminfo in MiB; 0 if there is none. */
static long meminfo(const char *key)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
            kib = atol(line + strlen(key) + 1);
    fclose(file);
    return kib >> 10;
}

/* Whether there is room for another piece, now or soon. */
static int room(void)
{
    const struct timespec pause = {0, PAUSE * 1000000L};
    int tries;
    for (tries = 0; tries < TRIES; tries++) {
        if (meminfo("MemAvailable") >= SPARE + PIECE)
            return 1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const long wanted = argc > 1 ? atol(argv[1]) << 10 : 0, before = meminfo("MemTotal");
    long touched = 0;
    FILE *file;
    if (wanted <= 0) {
        fprintf(stderr, "grow: how many GiB?\n");
        return 2;
    }
    file = fopen("/proc/self/oom_score_adj", "w");
    if (file != NULL) {
        fputs("1000", file);
        fclose(file);
    }
    while (touched < wanted && room()) {
        void *piece = mmap(NULL, (size_t)PIECE << 20, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (piece == MAP_FAILED)
            break;
        touched += PIECE;
    }
    printf("touched %ld MiB of %ld; the machine had %ld MiB and has %ld\n", touched, wanted, before,
           meminfo("MemTotal"));
    return 0;
}
