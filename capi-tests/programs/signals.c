/*
 * An application that waits for its signals in calls: signals CONFIGURATION
 *
 * It blocks SIGTERM before VELOC_Init, so that what the library starts could inherit that, and SIGUSR1
 * after it. With checkpoints under way it sends itself SIGUSR1 and waits for it, often: a thread of the
 * library's that took it would end the process. Prints "ready" when all threads are there, "done" once
 * there is something to read.
 */
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 3000000, TIMES = 300, EACH = 10 };

static char data[BYTES];

/* The mask of a thread that "/proc/self/task/NUMBER/status" tells of; 0 if it has ended. `name` is its name. */
static unsigned long long mask_of(const char *number, char *name, size_t size)
{
    char path[300], line[200];
    unsigned long long mask = 0;
    FILE *status;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", number);
    status = fopen(path, "r");
    *name = '\0';
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "Name:\t", 6) == 0)
            snprintf(name, size, "%.*s", (int)strcspn(line + 6, "\n"), line + 6);
        sscanf(line, "SigBlk: %llx", &mask);
    }
    if (status != NULL)
        fclose(status);
    return mask;
}

static int has(unsigned long long mask, int signal)
{
    return (mask >> (signal - 1) & 1) != 0;
}

/* What a thread of the library's takes: what its own instructions raise, and a profiler's ticks. */
static int belongs_to_threads(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL
           || signal == SIGTRAP || signal == SIGSYS || signal == SIGPROF;
}

/* A signal that the mask has and should not have, or the other way round; 0 if there is none. */
static int wrong_in(unsigned long long mask)
{
    int signal;
    for (signal = 1; signal < 32; signal++)
        if (signal != SIGKILL && signal != SIGSTOP && has(mask, signal) == belongs_to_threads(signal))
            return signal;
    return 0;
}

/* How many threads of the library's there are; each takes nothing else. The C library blocks all signals of a
 * thread that begins or ends, which is waited for. */
static int look_at_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int found = 0;
    CHECK(tasks != NULL);
    while ((task = readdir(tasks)) != NULL) {
        char name[64];
        unsigned long long mask;
        int wrong = 0, times = 0;
        const struct timespec pause = {0, 1000000};
        do {
            mask = mask_of(task->d_name, name, sizeof name);
            if (strncmp(name, "veloc-", 6) != 0)
                break;
            wrong = wrong_in(mask);
        } while (wrong != 0 && ++times < 10000 && nanosleep(&pause, NULL) == 0);
        if (strncmp(name, "veloc-", 6) != 0)
            continue;
        if (wrong != 0)
            printf("%s, signal %d\n", name, wrong);
        EQUAL(wrong, 0);
        found++;
    }
    closedir(tasks);
    return found;
}

static void check_own_mask(const sigset_t *expected)
{
    sigset_t now;
    int signal;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    for (signal = 1; signal < 32; signal++)
        EQUAL(sigismember(&now, signal), sigismember(expected, signal));
}

int main(int argc, char **argv)
{
    sigset_t signals, before;
    int time, taken;
    CHECK(argc >= 2);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &before) == 0);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, data, BYTES, 1));
    check_own_mask(&before);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
    for (time = 0; time < TIMES; time++) {
        if (time % EACH == 0) {
            fill(data, BYTES, 1, time);
            OK(VELOC_Checkpoint("x", time));
        }
        CHECK(kill(getpid(), SIGUSR1) == 0);
        CHECK(sigwait(&signals, &taken) == 0);
        EQUAL(taken, SIGUSR1);
    }
    OK(VELOC_Checkpoint_wait());
    /* Writing, persisting, touching or the link to the backend, the trace. */
    CHECK(look_at_threads() >= 4);
    memset(data, 0, BYTES);
    OK(VELOC_Restart("x", TIMES - EACH));
    CONTENT(data, BYTES, 1, TIMES - EACH);
    CHECK(look_at_threads() >= 4);
    puts("ready");
    fflush(stdout);
    CHECK(getchar() != EOF);
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
