/*
 * Several threads call the library at once: threads <configuration>
 *
 * The calls are taken one after the other. Each thread checkpoints and restores a region of its
 * own, under a name of its own. Its bytes must be right, and so must be the text of its own last
 * error.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>

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
        while (VELOC_Restart(name, version) != VELOC_SUCCESS) {
            CHECK(strstr(VELOC_Last_error(), "is open") != NULL);
            sched_yield();
        }
        CONTENT(memory[me], BYTES, me, version);
        CHECK(VELOC_Restart_test(missing, 0) < 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
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
    puts("done");
    return 0;
}
