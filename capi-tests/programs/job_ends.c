/*
 * Ends of all sorts, and what the next job finds.
 *
 * job_ends CONFIGURATION case=...
 *   fork       in a forked child every call fails, and the parent goes on, also after a child that has
 *              called nothing has exited
 *   exit       the process ends without VELOC_Finalize, with checkpoints under way
 *   next       a job that must find nothing of the one before
 *   wait       takes checkpoints, prints "taken" and waits to be killed
 *   relative   scratch is a relative path, and the working directory changes
 *   wild       memory that is none is refused when it is protected
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "check.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 200000, VERSIONS = 30 };

static char data[BYTES];

static void take_all(void)
{
    int version;
    OK(VELOC_Mem_protect(0, data, BYTES, 1));
    for (version = 0; version < VERSIONS; version++) {
        fill(data, BYTES, 0, version);
        OK(VELOC_Checkpoint("ends", version));
    }
}

static void in_child(void)
{
    REFUSED(VELOC_Checkpoint("ends", 99), "forked");
    REFUSED(VELOC_Restart("ends", 1), "forked");
    REFUSED(VELOC_Checkpoint_wait(), "forked");
    REFUSED(VELOC_Init_single(7, "veloc.cfg"), "forked");
    REFUSED(VELOC_Finalize(1), "forked");
    REFUSED(VELOC_Finalize(0), "forked");
    _Exit(0);
}

static void forked(void)
{
    int status = 1, version;
    pid_t child;
    take_all();
    fflush(stdout);
    for (version = 0; version < 2; version++) {
        child = fork();
        CHECK(child >= 0);
        if (child == 0 && version == 0)
            in_child();
        if (child == 0)
            exit(0);
        CHECK(waitpid(child, &status, 0) == child);
        EQUAL(status, 0);
    }
    for (version = VERSIONS - 1; version >= 0; version--) {
        OK(VELOC_Restart("ends", version));
        CONTENT(data, BYTES, 0, version);
    }
    OK(VELOC_Finalize(1));
}

static void next(void)
{
    OK(VELOC_Mem_protect(0, data, BYTES, 1));
    REFUSED(VELOC_Restart_test("ends", 0), "no checkpoint \"ends\", any version|rank 0|/scratch");
    REFUSED(VELOC_Restart("ends", 3), "no checkpoint \"ends\" version 3|rank 0|/scratch");
    OK(VELOC_Finalize(1));
}

static void wild(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK(munmap(page, 4096) == 0);
    REFUSED(VELOC_Mem_protect(5, page, 4096, 1), "region 5|neither host memory");
    OK(VELOC_Finalize(1));
}

int main(int argc, char **argv)
{
    const char *what = option(argc, argv, "case", "");
    OK(VELOC_Init_single(0, argv[1]));
    if (strcmp(what, "fork") == 0) {
        forked();
    } else if (strcmp(what, "exit") == 0) {
        take_all();
    } else if (strcmp(what, "next") == 0) {
        next();
    } else if (strcmp(what, "wait") == 0) {
        take_all();
        puts("taken");
        fflush(stdout);
        pause();
    } else if (strcmp(what, "relative") == 0) {
        CHECK(chdir("/") == 0);
        take_all();
        OK(VELOC_Finalize(1));
    } else {
        wild();
    }
    puts("done");
    return 0;
}
