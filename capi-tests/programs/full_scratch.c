/*
 * A scratch that has no room: full_scratch <configuration> <case> [key=value ...]
 *
 *   async       a checkpoint does not fit into scratch; once there is room it gets there
 *   sync        the same with mode = sync
 *   unwritable  scratch=PATH loses its permission to write after the start; mode = async
 *   refused     it has none at the start
 *
 *   filler=PATH a file to remove when there is to be room. Without it, the largest size of a file
 *               is limited until then.
 */
#include "check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 100000, LARGE = 3000000, LIMIT = 1000000 };

static unsigned char memory[LARGE];
static const char *configuration;

static void take(size_t bytes, int version)
{
    fill(memory, bytes, 1, version);
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
}

static void check_restore(size_t bytes, int version)
{
    memset(memory, 0, sizeof memory);
    OK(VELOC_Mem_protect(1, memory, sizeof memory, 1));
    OK(VELOC_Restart("full", version));
    CONTENT(memory, bytes, 1, version);
}

static void limit_files(int on)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = on ? LIMIT : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void make_room(const char *filler)
{
    if (filler[0] != '\0')
        CHECK(unlink(filler) == 0);
    else
        limit_files(0);
}

static void fill_up_async(const char *filler)
{
    take(SMALL, 1);
    OK(VELOC_Checkpoint("full", 1));
    OK(VELOC_Checkpoint_wait());
    take(LARGE, 2);
    OK(VELOC_Checkpoint("full", 2));
    REFUSED(VELOC_Checkpoint_wait(), "full|version 2|full-0-2.dat");
    /* Nothing is lost: it is in memory, and stays there. */
    check_restore(LARGE, 2);
    check_restore(SMALL, 1);
    EQUAL(VELOC_Restart_test("full", 0), 2);
    REFUSED(VELOC_Checkpoint_wait(), "full-0-2.dat");
    /* A small one still gets through, and is not held up by the other. */
    take(SMALL, 3);
    OK(VELOC_Checkpoint("full", 3));
    REFUSED(VELOC_Checkpoint_wait(), "full-0-2.dat");
    make_room(filler);
    OK(VELOC_Checkpoint_wait());
    EQUAL(VELOC_Checkpoint_finished(), 1);
    check_restore(LARGE, 2);
    check_restore(SMALL, 3);
}

/* What cannot be added to a checkpoint leaves it as it was: in memory, and for the next job. */
static void in_parts(void)
{
    int small = 1, both[] = {2, 3};
    static unsigned char other[SMALL];
    take(SMALL, 5);
    fill(other, SMALL, 2, 5);
    OK(VELOC_Mem_protect(2, other, SMALL, 1));
    OK(VELOC_Mem_protect(3, memory, LARGE, 1));
    OK(VELOC_Checkpoint_begin("parts", 5));
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, &small, 1));
    REFUSED(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, both, 2), "parts-0-5.dat");
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Mem_unprotect(2));
    OK(VELOC_Mem_unprotect(3));
    OK(VELOC_Finalize(1));
    OK(VELOC_Init_single(0, configuration));
    EQUAL(VELOC_Restart_test("parts", 0), 5);
    memset(memory, 0, sizeof memory);
    OK(VELOC_Mem_protect(1, memory, sizeof memory, 1));
    OK(VELOC_Restart_begin("parts", 5));
    EQUAL(VELOC_Recover_size(1), SMALL);
    CHECK(VELOC_Recover_size(2) <= 0);
    OK(VELOC_Recover_mem());
    OK(VELOC_Restart_end(1));
    CONTENT(memory, SMALL, 1, 5);
    OK(VELOC_Cleanup("parts"));
}

static void fill_up_sync(const char *filler)
{
    take(SMALL, 1);
    OK(VELOC_Checkpoint("full", 1));
    /* It has to be in its file before the next one fills the disk. */
    OK(VELOC_Checkpoint_wait());
    take(LARGE, 2);
    REFUSED(VELOC_Checkpoint("full", 2), "full-0-2.dat");
    EQUAL(VELOC_Restart_test("full", 0), 1);
    /* The older content of a version stays when the newer does not fit. */
    take(LARGE, 1);
    fill(memory, LARGE, 1, 9);
    REFUSED(VELOC_Checkpoint("full", 1), "full-0-1.dat");
    check_restore(SMALL, 1);
    in_parts();
    make_room(filler);
    take(LARGE, 2);
    OK(VELOC_Checkpoint("full", 2));
    check_restore(LARGE, 2);
    take(SMALL, 3);
    OK(VELOC_Checkpoint("full", 3));
}

static void unwritable(void)
{
    take(SMALL, 1);
    OK(VELOC_Checkpoint("full", 1));
    REFUSED(VELOC_Checkpoint_wait(), "full-0-1.dat|ermission");
    check_restore(SMALL, 1);
    take(SMALL, 2);
    OK(VELOC_Checkpoint("full", 2));
    check_restore(SMALL, 2);
    check_restore(SMALL, 1);
    REFUSED(VELOC_Finalize(1), "full-0-");
}

int main(int argc, char **argv)
{
    const char *filler = option(argc, argv, "filler", "");
    CHECK(argc > 2);
    configuration = argv[1];
    if (filler[0] == '\0')
        limit_files(1);
    if (strcmp(argv[2], "refused") == 0) {
        REFUSED(VELOC_Init_single(0, argv[1]), "scratch|Permission denied");
        puts("done");
        return 0;
    }
    OK(VELOC_Init_single(0, argv[1]));
    if (strcmp(argv[2], "unwritable") == 0) {
        CHECK(chmod(option(argc, argv, "scratch", ""), 0555) == 0);
        unwritable();
    } else {
        if (strcmp(argv[2], "async") == 0)
            fill_up_async(filler);
        else
            fill_up_sync(filler);
        OK(VELOC_Finalize(1));
    }
    /* What the library did about the signal of that limit is no business of the application's. */
    {
        sigset_t signals;
        sigprocmask(SIG_BLOCK, NULL, &signals);
        CHECK(!sigismember(&signals, SIGXFSZ));
        sigpending(&signals);
        CHECK(!sigismember(&signals, SIGXFSZ));
    }
    puts("done");
    return 0;
}
