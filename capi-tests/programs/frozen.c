/*
 * Checkpoints that are copied after the call has returned (host_capture):
 *
 *   frozen <configuration> [bytes=N] [versions=N] [alone=1] [kill=1]
 *
 * Takes versions of memory that it changes, unmaps, maps again or makes read-only as soon as each call has
 * returned, and restores all of them: each must be what it was at the call. Meanwhile wait(-1), the handler of
 * SIGCHLD, and whoever reads the process's output must not notice a process that the library has made.
 *
 *   alone=1    the library starts no backend, so there is no child at all
 *   kill=1     kills itself after the last call
 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t heard;

static void hear(int signal)
{
    (void)signal;
    heard++;
}

static unsigned char *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)number(argc, argv, "bytes", 8000000);
    int version, versions = (int)number(argc, argv, "versions", 8);
    int alone = (int)number(argc, argv, "alone", 0);
    struct sigaction action;
    static unsigned char fixed[100000];
    unsigned char *memory = map(bytes);
    CHECK(argc > 1);
    memset(&action, 0, sizeof action);
    action.sa_handler = hear;
    OK(VELOC_Init_single(0, argv[1]));
    if (alone)
        OK(sigaction(SIGCHLD, &action, NULL));
    OK(VELOC_Mem_protect(2, fixed, sizeof fixed, 1));
    for (version = 0; version < versions; version++) {
        fill(memory, bytes, 1, version);
        fill(fixed, sizeof fixed, 2, version);
        OK(VELOC_Mem_protect(1, memory, bytes, 1));
        OK(VELOC_Checkpoint("frozen", version));
        if (alone) {
            EQUAL(waitpid(-1, NULL, WNOHANG), -1);
            EQUAL(errno, ECHILD);
        }
        if (version == versions - 1 && number(argc, argv, "kill", 0)) {
            fflush(stdout);
            raise(SIGKILL);
        }
        memset(fixed, 0, sizeof fixed);
        switch (version % 4) {
        case 0:
            memset(memory, 0, bytes);
            break;
        case 1:
            OK(munmap(memory, bytes));
            memory = map(bytes);
            break;
        case 2:
            OK(madvise(memory, bytes, MADV_DONTNEED));
            break;
        default:
            CHECK(mremap(memory, bytes, bytes / 2, 0) != MAP_FAILED);
            OK(munmap(memory, bytes / 2));
            memory = map(bytes);
        }
    }
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    for (version = versions - 1; version >= 0; version--) {
        OK(VELOC_Restart("frozen", version));
        CONTENT(memory, bytes, 1, version);
        CONTENT(fixed, sizeof fixed, 2, version);
    }
    EQUAL(heard, 0);
    OK(VELOC_Finalize(1));
    EQUAL(heard, 0);
    puts("done");
    return 0;
}
