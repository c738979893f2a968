/*
 * What the programs of what MPI allows and few programs do have in common: each case is run as a
 * part, and then replayed by each process alone.
 */
#ifndef CORNERS_H
#define CORNERS_H

#include "parts.h"

enum { LENGTH = 6 };

static int to[LENGTH], from[4 * LENGTH];
static int left, right;

/* What is sent, and what memory holds before something is received. */
static inline void prepare(int first)
{
    int i;
    for (i = 0; i < LENGTH; i++)
        to[i] = first + 100 * rank + i;
    for (i = 0; i < 4 * LENGTH; i++)
        from[i] = -7;
}

static inline void saw_from(void)
{
    saw(from, sizeof from);
}

static inline void saw_wait(MPI_Request *request)
{
    MPI_Status status;
    MPI(MPI_Wait(request, &status));
    CHECK(*request == MPI_REQUEST_NULL);
    saw_status(&status);
}

struct corner {
    const char *name;
    void (*body)(void);
    void (*run)(void (*body)(void));
};

/* The same with messages that may be sent again: all replay together. */
static inline void run_and_send_again(void (*body)(void))
{
    seen = 0;
    part_begin(1, VELOC_PART_RESEND);
    body();
    part_end(1);
    seen_first = seen;
    replayed_body = body;
    replay_body();
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    EMPTY_LOG();
}

/* Runs the case of the option `case`, or all of them; with `resend=1` as parts whose messages may be
 * sent again. */
static inline int run_corners(int argc, char **argv, const struct corner *corners, size_t count)
{
    const char *name = option(argc, argv, "case", NULL);
    int done = 0;
    size_t i;
    begin_program(&argc, &argv);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    for (i = 0; i < count; i++)
        if (name == NULL || strcmp(name, corners[i].name) == 0) {
            if (number(argc, argv, "resend", 0) && corners[i].run == run_and_replay)
                run_and_send_again(corners[i].body);
            else
                corners[i].run(corners[i].body);
            done++;
        }
    CHECK(done > 0);
    return end_program();
}

#endif
