/*
 * Checkpoints that are copied after the call has returned (host_capture):
 *
 *   deferred_capture <configuration> [bytes=N] [versions=N] [alone=1] [kill=1] [lose=1] [may_fail=1] [storm=1]
 *                    [newest=1] [heap=1]
 *
 * Takes versions of memory that it changes, unmaps, maps again or makes read-only as soon as each call has
 * returned, and restores all of them: each must be what it was at the call. Meanwhile wait(-1), the handler of
 * SIGCHLD, and whoever reads the process's output must not notice a process that the library has made.
 *
 *   alone=1    the library starts no backend, so there is no child at all
 *   kill=1     kills itself after the last call
 *   may_fail=1 a version whose memory goes before it is copied may fail, by its name
 *   heap=1     a version of the whole heap, in which the library has its own: the call returns
 *   storm=1    takes versions until it is killed, and says which calls have returned; with may_fail, one may fail
 *              whose copying process was killed
 *   newest=1   says which version is there, and that all of it is what it was
 *   lose=1     kills the process that copies instead: the version fails by its name, and the next one is whole
 *
 * All of that with memory that a forked process has as a copy. Before, versions of memory that it has not:
 * shared, of a file that is written to after the call, and with the advice MADV_DONTFORK or MADV_WIPEONFORK, for
 * all of it or the last page.
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

static unsigned char *map_as(int kind, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static unsigned char *map(size_t bytes)
{
    return map_as(MAP_PRIVATE, bytes);
}

/* Memory of a file, of which no page was written: a process that copies later finds what the file has then. */
static void of_a_file(size_t bytes)
{
    FILE *file = tmpfile();
    unsigned char *content = map(bytes), *memory;
    CHECK(file != NULL);
    fill(content, bytes, 1, 7);
    EQUAL(fwrite(content, 1, bytes, file), bytes);
    OK(fflush(file));
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    CHECK(memory != MAP_FAILED);
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    OK(VELOC_Checkpoint("file", 7));
    memset(content, 0, bytes);
    EQUAL(pwrite(fileno(file), content, bytes, 0), (ssize_t)bytes);
    OK(VELOC_Restart("file", 7));
    CONTENT(memory, bytes, 1, 7);
    OK(munmap(content, bytes));
    OK(munmap(memory, bytes));
    fclose(file);
}

static void not_as_a_copy(size_t bytes)
{
    static const int advice[] = {MADV_NORMAL, MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTFORK, MADV_WIPEONFORK};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int version;
    bytes = (bytes + page - 1) / page * page;
    for (version = 0; version < 5; version++) {
        unsigned char *memory = map_as(version == 0 ? MAP_SHARED : MAP_PRIVATE, bytes);
        const size_t without = version < 3 ? 0 : bytes - page;
        OK(madvise(memory + without, bytes - without, advice[version]));
        fill(memory, bytes, 1, version);
        OK(VELOC_Mem_protect(1, memory, bytes, 1));
        /* As the key says, which is no promise that nobody else writes to it. */
        OK(VELOC_Mem_capture(1, VELOC_CAPTURE_AUTO));
        OK(VELOC_Checkpoint("apart", version));
        memset(memory, 0, bytes);
        OK(VELOC_Restart("apart", version));
        CONTENT(memory, bytes, 1, version);
        OK(munmap(memory, bytes));
    }
    of_a_file(bytes);
    OK(VELOC_Mem_unprotect(1));
    OK(VELOC_Checkpoint_wait());
}

/* The process that copies, if there is one: the only child of a program whose library starts no backend. */
static long child(void)
{
    long found = 0;
    FILE *list = fopen("/proc/thread-self/children", "r");
    CHECK(list != NULL);
    if (fscanf(list, "%ld", &found) != 1)
        found = 0;
    fclose(list);
    return found;
}

static void storm(size_t bytes, int may_fail)
{
    unsigned char *memory = map(bytes);
    int version;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    for (version = 1;; version++) {
        fill(memory, bytes, 1, version);
        if (VELOC_Checkpoint("storm", version) == VELOC_SUCCESS)
            printf("returned %d\n", version);
        else
            CHECK(may_fail && strstr(VELOC_Last_error(), "storm") != NULL);
        fflush(stdout);
        memset(memory, 0, bytes);
    }
}

static void newest(size_t bytes)
{
    unsigned char *memory = map(bytes);
    int version = VELOC_Restart_test("storm", 0);
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    printf("newest %d\n", version < 0 ? 0 : version);
    if (version < 0)
        return;
    OK(VELOC_Restart("storm", version));
    CONTENT(memory, bytes, 1, version);
}

static void heap(void)
{
    char line[256];
    unsigned long start = 0, end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "[heap]") != NULL)
            EQUAL(sscanf(line, "%lx-%lx", &start, &end), 2);
    fclose(maps);
    CHECK(start < end);
    OK(VELOC_Mem_protect(1, (void *)start, end - start, 1));
    OK(VELOC_Checkpoint("heap", 1));
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint("heap", 2));
}

static void lose(void)
{
    size_t bytes = 300000000;
    unsigned char *memory = map(bytes);
    int version, lost = 0;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    REFUSED(VELOC_Mem_capture(1, 9), "region 1|mode is 9|VELOC_CAPTURE_AUTO (0)|_COPY (1), _PROTECT (2), _FORK (3)");
    REFUSED(VELOC_Mem_capture(77, VELOC_CAPTURE_COPY), "region 77");
    REFUSED(VELOC_Snapshot_stats(NULL, 8), "stats is NULL");
    for (version = 0; !lost; version++) {
        long copies;
        CHECK(version < 50);
        fill(memory, bytes, 1, version);
        OK(VELOC_Checkpoint("lost", version));
        copies = child();
        /* It may have just ended. */
        if (copies > 0)
            kill((pid_t)copies, SIGKILL);
        if (VELOC_Checkpoint_wait() != VELOC_SUCCESS) {
            char words[64];
            snprintf(words, sizeof words, "\"lost\" version %d|copied|signal 9", version);
            REFUSED(VELOC_FAILURE, words);
            REFUSED(VELOC_Restart("lost", version), "lost");
            lost = 1;
        }
    }
    OK(VELOC_Checkpoint_wait());
    fill(memory, bytes, 1, version);
    OK(VELOC_Checkpoint("lost", version));
    memset(memory, 0, bytes);
    OK(VELOC_Restart("lost", version));
    CONTENT(memory, bytes, 1, version);
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)number(argc, argv, "bytes", 8000000);
    int version, versions = (int)number(argc, argv, "versions", 8);
    int alone = (int)number(argc, argv, "alone", 0);
    int may_fail = (int)number(argc, argv, "may_fail", 0);
    struct sigaction action;
    static unsigned char fixed[100000];
    unsigned char *memory = map(bytes);
    CHECK(argc > 1);
    memset(&action, 0, sizeof action);
    action.sa_handler = hear;
    OK(VELOC_Init_single(0, argv[1]));
    if (alone)
        OK(sigaction(SIGCHLD, &action, NULL));
    if (number(argc, argv, "storm", 0))
        storm(bytes, may_fail);
    if (number(argc, argv, "lose", 0) || number(argc, argv, "newest", 0) || number(argc, argv, "heap", 0)) {
        if (number(argc, argv, "lose", 0))
            lose();
        else if (number(argc, argv, "heap", 0))
            heap();
        else
            newest(bytes);
        OK(VELOC_Finalize(0));
        puts("done");
        return 0;
    }
    not_as_a_copy(bytes);
    OK(VELOC_Mem_protect(2, fixed, sizeof fixed, 1));
    for (version = 0; version < versions; version++) {
        fill(memory, bytes, 1, version);
        fill(fixed, sizeof fixed, 2, version);
        OK(VELOC_Mem_protect(1, memory, bytes, 1));
        while (VELOC_Checkpoint("frozen", version) != VELOC_SUCCESS) {
            /* An earlier one. */
            CHECK(may_fail);
            REFUSED(VELOC_FAILURE, "\"frozen\" version|unmapped or discarded");
        }
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
    while (VELOC_Checkpoint_wait() != VELOC_SUCCESS) {
        CHECK(may_fail);
        REFUSED(VELOC_FAILURE, "\"frozen\" version|unmapped or discarded");
    }
    for (version = versions - 1; version >= 0; version--) {
        if (may_fail && version % 4 != 0 && VELOC_Restart("frozen", version) != VELOC_SUCCESS) {
            REFUSED(VELOC_FAILURE, "\"frozen\"");
            continue;
        }
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
