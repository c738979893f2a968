/*
 * A program that is never the same for long: meanwhile STEPS OUT
 *
 * A timer of each kind ticks, signals go from a thread to the process, children are made and replaced by other programs,
 * and each step waits for all of that. Prints a line for each step; what it prints depends on their number alone. While
 * there is a file "held" it does not end.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "held.h"

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s: %d\n", __LINE__, #what, errno); exit(1); } } while (0)

static volatile sig_atomic_t alarms, ticks, asked;
static volatile int ends;

static void count(int signal)
{
    if (signal == SIGALRM)
        alarms++;
    else if (signal == SIGUSR1)
        asked++;
    else
        ticks++;
}

static void *ask(void *unused)
{
    while (!ends) {
        kill(getpid(), SIGUSR1);
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const int steps = atoi(argv[1]);
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGRTMIN, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    struct itimerval every = {{0, 2000}, {0, 2000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec at = {{0, 3000000}, {0, 3000000}};
    timer_t timer;
    pthread_t thread;
    sigset_t blocked, before;
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &at, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
    FILE *out = fopen(argv[2], "w");
    CHECK(out != NULL);
    for (int step = 0; step < steps; step++) {
        int seen[] = {alarms, ticks, asked}, status;
        while (alarms == seen[0] || ticks == seen[1] || asked == seen[2])
            pause();
        /* A signal that is pending while the image is made. */
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR1);
        CHECK(sigprocmask(SIG_BLOCK, &blocked, &before) == 0 && raise(SIGUSR1) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            char code[12];
            snprintf(code, sizeof code, "exit %d", step % 100);
            execl("/bin/sh", "sh", "-c", code, NULL);
            _exit(127);
        }
        while (waitpid(child, &status, 0) < 0)
            CHECK(errno == EINTR);
        CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
        CHECK(WIFEXITED(status));
        fprintf(out, "%d %d\n", step, WEXITSTATUS(status));
        printf("%d %d\n", step, WEXITSTATUS(status));
        fflush(stdout);
    }
    wait_while_held();
    ends = 1;
    CHECK(pthread_join(thread, NULL) == 0 && fclose(out) == 0);
    puts("done");
    return 0;
}
