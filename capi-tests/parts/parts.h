/*
 * What every program of the message log's tests shares: checks that say where they failed and why, a
 * record of everything that was seen, and replays that are made to show when they communicate.
 *
 * One executable runs with the library preloaded and without any: then a part is nothing, and a
 * replay runs the calls again, as careless checkpointing does. Compiled with PARTS_LINKED it is
 * linked with the library.
 */
#ifndef PARTS_H
#define PARTS_H

#define _POSIX_C_SOURCE 200809L

#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "veloc-mpi.h"

#ifdef PARTS_LINKED
static inline int has_library(void)
{
    return 1;
}
#else
#pragma weak VELOC_Part_begin
#pragma weak VELOC_Part_end
#pragma weak VELOC_Part_replay_begin
#pragma weak VELOC_Part_replay_end
#pragma weak VELOC_Part_free
#pragma weak VELOC_Part_error
#pragma weak VELOC_Part_get_figures
static inline int has_library(void)
{
    return VELOC_Part_begin != NULL;
}
#endif

static int rank, ranks;

/* ---- checks ---- */

/* The process ends at once, and its job with it: a test that failed has nothing to clean up. */
static inline void failed(const char *file, int line, const char *what, const char *detail)
{
    printf("rank %d: %s:%d: %s\n  %s\n  VELOC_Part_error: %s\n", rank, file, line, what, detail,
           has_library() ? VELOC_Part_error() : "there is no library");
    fflush(stdout);
    _Exit(1);
}

#define CHECK(expression) \
    ((expression) ? (void)0 : failed(__FILE__, __LINE__, #expression, "is not so"))

static inline void check_equal(const char *file, int line, const char *what, long long got,
                               long long wanted)
{
    char detail[96];
    if (got != wanted) {
        snprintf(detail, sizeof detail, "is %lld, not %lld", got, wanted);
        failed(file, line, what, detail);
    }
}

#define EQUAL(got, wanted) \
    check_equal(__FILE__, __LINE__, #got, (long long)(got), (long long)(wanted))

/* To the last bit: two numbers that print alike may differ. */
static inline void check_same(const char *file, int line, const char *what, double got,
                              double wanted)
{
    char detail[96];
    if (memcmp(&got, &wanted, sizeof got) != 0) {
        snprintf(detail, sizeof detail, "is %.17g, not %.17g", got, wanted);
        failed(file, line, what, detail);
    }
}

#define SAME(got, wanted) check_same(__FILE__, __LINE__, #got, (got), (wanted))

/* A call of MPI that must go well. */
#define MPI(call) check_equal(__FILE__, __LINE__, #call, (call), MPI_SUCCESS)

/* `words`: parts that the library's error text must have, separated by '|'. */
static inline void check_words(const char *file, int line, const char *what, const char *words)
{
    char list[512];
    char detail[640];
    char *word, *rest;
    snprintf(list, sizeof list, "%s", words);
    /* Not strtok: its place in the list is one for all threads. */
    for (word = strtok_r(list, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest)) {
        if (strstr(VELOC_Part_error(), word) == NULL) {
            snprintf(detail, sizeof detail, "the error is without \"%s\"", word);
            failed(file, line, what, detail);
        }
    }
}

/* A call of the library that must be refused. */
static inline void check_refused(const char *file, int line, const char *what, int status,
                                 const char *words)
{
    check_equal(file, line, what, status, -1);
    check_words(file, line, what, words);
}

#define REFUSED(call, words) check_refused(__FILE__, __LINE__, #call, (call), (words))

/* ---- parts ---- */

#define PART(call) (has_library() ? check_equal(__FILE__, __LINE__, #call, (call), 0) : (void)0)

static inline void part_begin(int id, int flags)
{
    PART(VELOC_Part_begin(id, flags));
}

static inline void part_end(int id)
{
    PART(VELOC_Part_end(id));
}

static inline void replay_begin(int id)
{
    PART(VELOC_Part_replay_begin(id));
}

static inline void replay_end(int id)
{
    PART(VELOC_Part_replay_end(id));
}

static inline VELOC_Part_figures logged(void)
{
    VELOC_Part_figures now;
    memset(&now, 0, sizeof now);
    PART(VELOC_Part_get_figures(&now, sizeof now));
    return now;
}

/* Nothing may be left in the log. */
static inline void check_empty(const char *file, int line)
{
    check_equal(file, line, "bytes logged", (long long)logged().logged, 0);
    check_equal(file, line, "events logged", (long long)logged().events, 0);
    check_equal(file, line, "parts in the log", (long long)logged().parts, 0);
}

#define EMPTY_LOG() check_empty(__FILE__, __LINE__)

/* ---- what was seen ---- */

/* A digest of everything that a run has seen, in order. */
static uint64_t seen;

static inline void saw(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    size_t i;
    for (i = 0; i < length; i++)
        seen = (seen ^ at[i]) * UINT64_C(0x100000001b3) + length;
}

static inline void saw_int(int value)
{
    saw(&value, sizeof value);
}

/* Everything that a status says. MPI sets the error in those of several requests alone. */
static inline void saw_status(const MPI_Status *status)
{
    int bytes, cancelled;
    MPI_Status own = *status;
    MPI(MPI_Get_count(&own, MPI_BYTE, &bytes));
    MPI(MPI_Test_cancelled(&own, &cancelled));
    saw_int(status->MPI_SOURCE);
    saw_int(status->MPI_TAG);
    saw_int(bytes);
    saw_int(cancelled);
}

/* ---- time ---- */

static inline void pause_us(long microseconds)
{
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* Another delay on every run, process and call. */
static inline void random_pause(long most_us)
{
    static uint64_t state;
    if (state == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        state = ((uint64_t)now.tv_nsec * 2654435761u ^ (uint64_t)getpid() << 32) | 1;
    }
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    pause_us((long)((state >> 33) % (uint64_t)most_us));
}

/* ---- the program ---- */

/* The value of the argument `key=value`, or `otherwise`. */
static inline const char *option(int argc, char **argv, const char *key, const char *otherwise)
{
    size_t length = strlen(key);
    int i;
    for (i = 1; i < argc; i++)
        if (strncmp(argv[i], key, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

static inline long number(int argc, char **argv, const char *key, long otherwise)
{
    const char *text = option(argc, argv, key, NULL);
    return text == NULL ? otherwise : strtol(text, NULL, 10);
}

static inline void hangs(int signal)
{
    static const char text[] = "hangs\n";
    (void)signal;
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    _Exit(14);
}

/* `watchdog=S`: a run that is expected to hang says so after S seconds. */
static inline void watch(int argc, char **argv)
{
    signal(SIGALRM, hangs);
    alarm((unsigned)number(argc, argv, "watchdog", 0));
}

static inline void begin_program(int *argc, char ***argv)
{
    MPI(MPI_Init(argc, argv));
    MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    watch(*argc, *argv);
}

static inline int end_program(void)
{
    MPI(MPI_Finalize());
    if (rank == 0)
        puts("done");
    return 0;
}

/* ---- replays ---- */

/* One process after the other, while all others wait elsewhere: whoever communicates in `turn` with
 * another process waits for ever. */
static inline void in_turns(void (*turn)(void))
{
    static MPI_Comm apart = MPI_COMM_NULL;
    int process;
    if (apart == MPI_COMM_NULL)
        MPI(MPI_Comm_dup(MPI_COMM_WORLD, &apart));
    for (process = 0; process < ranks; process++) {
        MPI(MPI_Barrier(apart));
        if (process == rank)
            turn();
    }
    MPI(MPI_Barrier(apart));
}

static void (*replayed_body)(void);
static uint64_t seen_first;

static inline void replay_body(void)
{
    seen = 0;
    replay_begin(1);
    replayed_body();
    replay_end(1);
    if (seen != seen_first)
        failed(__FILE__, __LINE__, "the replay", "saw something else than the first run");
}

/* Runs `body` as a part and replays it, each process alone. The replay must see what the first run
 * has seen. */
static inline void run_and_replay(void (*body)(void))
{
    seen = 0;
    part_begin(1, 0);
    body();
    part_end(1);
    seen_first = seen;
    replayed_body = body;
    in_turns(replay_body);
    EMPTY_LOG();
}

#endif
