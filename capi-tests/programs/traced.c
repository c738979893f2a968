/*
 * What an application may do while it is traced: traced <configuration> case=...
 *
 *   limit  files get a largest size, which the trace reaches
 *   fork   children that end, that run a program, and that stay longer than the job
 *   again  many jobs, one after the other: none leaves a descriptor or a thread behind
 *   retry  a job that cannot start (bad=CONFIGURATION) before one that does
 */
#include "check.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4000, VERSIONS = 2000, JOBS = 50, LIMIT = 20000 };

static char data[BYTES];

static void take(int first, int count)
{
    int version;
    OK(VELOC_Mem_protect(0, data, BYTES, 1));
    for (version = first; version < first + count; version++)
        OK(VELOC_Checkpoint("traced", version));
}

static void limit(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = LIMIT;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    take(0, VERSIONS);
}

static void forked(void)
{
    int status = 1, hold[2];
    pid_t child;
    take(0, 10);
    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        REFUSED(VELOC_Checkpoint("traced", 99), "forked");
        /* With everything that an exit runs. */
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "ls -l /proc/self/fd", (char *)NULL);
        _Exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
    CHECK(pipe(hold) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char end;
        close(hold[1]);
        _Exit(read(hold[0], &end, 1) != 0);
    }
    take(10, 10);
    OK(VELOC_Finalize(1));
    puts("finalized");
    fflush(stdout);
    /* The child lives until standard input ends. */
    CHECK(getchar() == EOF);
    close(hold[1]);
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
}

static int entries(const char *folder)
{
    DIR *open = opendir(folder);
    int count = 0;
    CHECK(open != NULL);
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

/* A thread that was waited for is in the folder until the system has done with it. */
static void comes_to(const char *folder, int count)
{
    const struct timespec pause = {0, 10000000};
    int looks;
    for (looks = 0; entries(folder) != count && looks < 6000; looks++)
        nanosleep(&pause, NULL);
    EQUAL(entries(folder), count);
}

static void again(const char *configuration)
{
    const int threads = entries("/proc/self/task");
    int job, descriptors = 0;
    for (job = 0; job < JOBS; job++) {
        OK(VELOC_Init_single(0, configuration));
        take(0, 5);
        OK(VELOC_Finalize(1));
        if (job == 0)
            descriptors = entries("/proc/self/fd");
    }
    EQUAL(entries("/proc/self/fd"), descriptors);
    comes_to("/proc/self/task", threads);
}

int main(int argc, char **argv)
{
    const char *what = option(argc, argv, "case", "");
    if (strcmp(what, "again") == 0) {
        again(argv[1]);
        puts("done");
        return 0;
    }
    if (strcmp(what, "retry") == 0)
        REFUSED(VELOC_Init_single(0, option(argc, argv, "bad", "")), "scratch");
    OK(VELOC_Init_single(0, argv[1]));
    if (strcmp(what, "limit") == 0) {
        limit();
        OK(VELOC_Finalize(1));
    } else if (strcmp(what, "fork") == 0) {
        forked();
    } else {
        take(0, 10);
        OK(VELOC_Finalize(1));
    }
    puts("done");
    return 0;
}
