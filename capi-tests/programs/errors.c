/*
 * What becomes of errors: errors <configuration> case=fork|texts
 *
 *   fork   children are forked while a thread's calls fail, and are printed, all the time
 *   texts  the texts of several failing calls in one statement
 */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 200

static volatile int ended;

static void *fails(void *unused)
{
    while (!ended)
        (void)VELOC_Recover_mem();
    return unused;
}

static void forks(void)
{
    pthread_t thread;
    int i;
    EQUAL(pthread_create(&thread, NULL, fails, NULL), 0);
    for (i = 0; i < CHILDREN; ++i) {
        int status = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* A child that hangs is ended; nobody waits for it on purpose. */
            alarm(60);
            _exit(VELOC_Checkpoint_wait() == VELOC_FAILURE ? 0 : 1);
        }
        EQUAL(waitpid(child, &status, 0), child);
        EQUAL(status, 0);
    }
    ended = 1;
    EQUAL(pthread_join(thread, NULL), 0);
}

/* The text of a failing call that names a version. */
static const char *text_of(int version)
{
    CHECK(VELOC_Restart("x", version) == VELOC_FAILURE);
    return VELOC_Last_error();
}

static void texts(void)
{
    char line[4096];
    int version;
    const char *first = text_of(101);
    for (version = 102; version < 108; ++version)
        (void)text_of(version);
    CHECK(strstr(first, "version 101") != NULL);
    snprintf(line, sizeof line, "%s %s %s", text_of(1), text_of(2), text_of(3));
    for (version = 1; version <= 3; ++version) {
        char words[32];
        snprintf(words, sizeof words, "version %d ", version);
        CHECK(strstr(line, words) != NULL);
    }
}

int main(int argc, char **argv)
{
    int as_fork = argc > 2 && strcmp(argv[2], "case=fork") == 0;
    OK(VELOC_Init_single(0, argv[1]));
    if (as_fork)
        forks();
    else
        texts();
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
