/*
 * Host memory that is copied after the call has returned is what it was at the call:
 *
 *   deferred_capture_writers <configuration> [threads=N] [versions=N] [bytes=N] [huge=1] [lone=1] [forbid=1]
 *
 * Takes versions of a region whose ends are within pages. As soon as a call has returned, all threads write to it,
 * each to its own share, by stores and by read(2); another thread writes all the time to the bytes before and
 * behind it, on the same pages. All versions are restored at the end.
 *
 *   lone=1     the region has whole pages, and a file is mapped before and behind it
 *   forbid=1   the system has neither clone3 nor userfaultfd, as in some containers
 */
#define _GNU_SOURCE
#include "check.h"
#include "forbid.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t before = 100, behind = 77;
static unsigned char *memory, *region;
static size_t bytes;
static int threads, turn, done, ended;

static int now(const int *what)
{
    return __atomic_load_n(what, __ATOMIC_ACQUIRE);
}

static void *beside(void *unused)
{
    size_t at = 0;
    (void)unused;
    while (!now(&ended) && before > 0) {
        memory[at % before] = (unsigned char)at;
        region[bytes + at % behind] = (unsigned char)at;
        at++;
    }
    return NULL;
}

static void *share(void *number)
{
    const int own = *(int *)number;
    const size_t from = bytes / (size_t)threads * (size_t)own;
    const size_t to = own + 1 == threads ? bytes : bytes / (size_t)threads * (size_t)(own + 1);
    const int zero = open("/dev/zero", O_RDONLY);
    int last = 0;
    CHECK(zero >= 0);
    for (;;) {
        size_t at;
        while (now(&turn) == last && !now(&ended))
            sched_yield();
        if (now(&ended))
            break;
        last++;
        /* Backwards, so that they meet the copy that goes forwards. */
        for (at = to; at > from;) {
            size_t len = at - from < 50000 ? at - from : 50000;
            at -= len;
            if ((at / 50000) % 2)
                memset(region + at, 0xee, len);
            else
                EQUAL(read(zero, region + at, len), len);
        }
        __atomic_add_fetch(&done, 1, __ATOMIC_ACQ_REL);
    }
    close(zero);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t writers[16], other;
    int numbers[16];
    int version, i, versions = (int)number(argc, argv, "versions", 6);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole;
    CHECK(argc > 1);
    threads = (int)number(argc, argv, "threads", 3);
    bytes = (size_t)number(argc, argv, "bytes", 21000003);
    CHECK(threads <= 16);
    if (number(argc, argv, "lone", 0)) {
        before = behind = 0;
        bytes -= bytes % page;
    }
    whole = before + bytes + behind;
    memory = mmap(NULL, page + whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory += page;
    if (before == 0) {
        const int file = open(argv[1], O_RDONLY);
        CHECK(file >= 0);
        CHECK(mmap(memory - page, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) != MAP_FAILED);
        CHECK(mmap(memory + whole, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) != MAP_FAILED);
        close(file);
    }
    if (number(argc, argv, "huge", 0))
        OK(madvise(memory, whole, MADV_HUGEPAGE));
    region = memory + before;
    if (number(argc, argv, "forbid", 0))
        forbid();
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, region, bytes, 1));
    OK(pthread_create(&other, NULL, beside, NULL));
    for (i = 0; i < threads; i++) {
        numbers[i] = i;
        OK(pthread_create(&writers[i], NULL, share, &numbers[i]));
    }
    for (version = 0; version < versions; version++) {
        /* Not the last pages of the first version: nobody has ever written to them. */
        fill(region, version == 0 ? bytes / 2 : bytes, 1, version);
        OK(VELOC_Checkpoint("exact", version));
        __atomic_store_n(&done, 0, __ATOMIC_RELEASE);
        __atomic_add_fetch(&turn, 1, __ATOMIC_ACQ_REL);
        while (now(&done) < threads)
            sched_yield();
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    for (i = 0; i < threads; i++)
        OK(pthread_join(writers[i], NULL));
    OK(pthread_join(other, NULL));
    for (version = versions - 1; version >= 0; version--) {
        size_t at = version == 0 ? bytes / 2 : bytes;
        OK(VELOC_Restart("exact", version));
        CONTENT(region, at, 1, version);
        for (; at < bytes; at++)
            EQUAL(region[at], 0);
    }
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
