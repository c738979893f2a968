/*
 * Several threads call the library at once: threads <configuration>
 *
 * The calls are taken one after the other. Each thread checkpoints and restores a region of its
 * own, under a name of its own. Its bytes must be right, and so must be the text of its own last
 * error. And no job begins before the one before it has ended.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 4, VERSIONS = 25, BYTES = 60000 };

static unsigned char memory[THREADS][BYTES];

static void *work(void *argument)
{
    int me = *(int *)argument, version;
    char name[16], missing[16];
    int ids[1];
    ids[0] = me;
    snprintf(name, sizeof name, "thread%d", me);
    snprintf(missing, sizeof missing, "missing%d", me);
    for (version = 0; version < VERSIONS; version++) {
        fill(memory[me], BYTES, me, version);
        /* Only one thread can have a checkpoint open; the others are told so. */
        while (VELOC_Checkpoint_begin(name, version) != VELOC_SUCCESS) {
            CHECK(strstr(VELOC_Last_error(), "is open") != NULL);
            sched_yield();
        }
        OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1));
        OK(VELOC_Checkpoint_end(1));
        REFUSED(VELOC_Mem_unprotect(100 + me), me == 0   ? "region 100"
                                               : me == 1 ? "region 101"
                                               : me == 2 ? "region 102"
                                                         : "region 103");
    }
    for (version = VERSIONS - 1; version >= 0; version--) {
        memset(memory[me], 0xee, BYTES);
        if (version % 2 == 1) {
            /* Whatever the others have open. */
            VELOC_Region own = {0, NULL, BYTES, 1};
            own.id = me;
            own.ptr = memory[me];
            OK(VELOC_Restart_list(name, version, &own, 1, 1));
            CONTENT(memory[me], BYTES, me, version);
            continue;
        }
        while (VELOC_Restart(name, version) != VELOC_SUCCESS) {
            CHECK(strstr(VELOC_Last_error(), "is open") != NULL);
            sched_yield();
        }
        CONTENT(memory[me], BYTES, me, version);
        CHECK(VELOC_Restart_test(missing, 0) < 0);
    }
    return NULL;
}

static atomic_int began, began_early;

/* Keeps the job from ending, for a while in which another one has the time to begin. */
static int released(void)
{
    const struct timespec moment = {0, 10000000};
    int looks;
    for (looks = 0; looks < 30 && !began; looks++)
        nanosleep(&moment, NULL);
    began_early = began;
    return 0;
}

static void *begin_again(void *configuration)
{
    while (VELOC_Init_single(0, configuration) != VELOC_SUCCESS) {
        CHECK(strstr(VELOC_Last_error(), "initialised already") != NULL);
        sched_yield();
    }
    began = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], next;
    int numbers[THREADS], i;
    CHECK(argc > 1);
    OK(VELOC_Init_single(0, argv[1]));
    for (i = 0; i < THREADS; i++) {
        numbers[i] = i;
        OK(VELOC_Mem_protect(i, memory[i], BYTES, 1));
    }
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(VELOC_Finalize(1));

    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect_flags(0, memory[0], BYTES, 1, VELOC_READ_ONLY, released));
    CHECK(pthread_create(&next, NULL, begin_again, argv[1]) == 0);
    OK(VELOC_Checkpoint("last", 1));
    OK(VELOC_Finalize(0));
    CHECK(pthread_join(next, NULL) == 0);
    CHECK(!began_early);
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
