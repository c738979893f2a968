/*
 * Lets a rank that waits for others sleep for moments: both MPIs would keep a processor busy, which the ranks that
 * are waited for, and other tests, need.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

/* The pauses double up to this. */
enum { SHORTEST = 20 * 1000, LONGEST = 500 * 1000 }; /* nanoseconds */

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void wait_a_moment(void)
{
    static _Thread_local long pause;
    static _Thread_local long long since;
    /* It has computed since, and waits for something else. */
    if (pause == 0 || now() - since > SHORTEST)
        pause = SHORTEST;
    struct timespec time = {0, pause};
    nanosleep(&time, NULL);
    pause = pause < LONGEST / 2 ? 2 * pause : LONGEST;
    since = now();
}

/* What Open MPI calls when it has nothing to do. */
int sched_yield(void)
{
    wait_a_moment();
    return 0;
}

/* What MPICH asks whether there is something to do. */
unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*original)(void *);
    static _Thread_local unsigned idle;
    if (!original)
        *(void **)&original = dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned progress = original(worker);
    idle = progress ? 0 : idle + 1;
    if (idle > 100)
        wait_a_moment();
    return progress;
}
