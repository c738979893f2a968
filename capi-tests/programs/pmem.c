/*
 * Arrays in persistent memory: pmem <configuration> <what> [key=value ...]
 *
 *   path=FILE      the file of arrays
 *   refused        what cannot be is refused by name, and changes nothing
 *   found          arrays, marks and invariants, found again
 *   domain         prints what a crash leaves of the file; crash=N asks for more [0]
 *   sums           blocks and matrices, and their sums
 *   trusted        iterations of an array with slots=N [1], with invariants=N [0], are found again
 *   storm          a child that is killed at any moment, rounds=N times [200], by seed=N
 *   steps          iterations to=N, with a checkpoint each keep=N; die=N: SIGKILL behind iteration N;
 *                  lose=N: iterations after N do not hold any more. Prints "iteration i" and "version v"
 *
 * Compiled with MPI, each process is a rank with a file of its own.
 */
/* For anonymous memory. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1500, SLOTS = 3, BLOCK = 100, ROOM = 200000 };

static char path[512];

/* What an iteration is made of, and its invariants. */
struct arrays {
    VELOC_Pmem *pmem;
    VELOC_Array *state, *sums;
    long lost, asked;
};

static int sums_hold(int64_t iteration, const double *scalars, int n, void *context)
{
    struct arrays *arrays = context;
    (void)scalars;
    if (n != 1)
        return VELOC_INVARIANT_UNKNOWN;
    return VELOC_Pmem_blocks_hold(VELOC_Pmem_at(arrays->state, iteration), WORDS, BLOCK,
                                  VELOC_Pmem_at(arrays->sums, iteration), NULL);
}

static int is_not_lost(int64_t iteration, const double *scalars, int n, void *context)
{
    struct arrays *arrays = context;
    (void)n;
    arrays->asked++;
    CHECK(scalars[0] == 0.5 * (double)iteration);
    return iteration > arrays->lost ? VELOC_INVARIANT_FAILS : VELOC_INVARIANT_HOLDS;
}

static void open_arrays(struct arrays *arrays, int crash)
{
    const size_t blocks = (WORDS + BLOCK - 1) / BLOCK;
    OK(VELOC_Pmem_open(path, ROOM, crash, &arrays->pmem));
    OK(VELOC_Pmem_array(arrays->pmem, "state", 8, WORDS, SLOTS, &arrays->state));
    OK(VELOC_Pmem_array(arrays->pmem, "sums", 8, blocks, SLOTS, &arrays->sums));
    OK(VELOC_Pmem_invariant(arrays->pmem, "sums", sums_hold, arrays));
    OK(VELOC_Pmem_invariant(arrays->pmem, "not lost", is_not_lost, arrays));
    arrays->lost = INT32_MAX;
    arrays->asked = 0;
}

static void iterate(struct arrays *arrays, int64_t iteration)
{
    void *state = VELOC_Pmem_at(arrays->state, iteration);
    uint64_t *sums = VELOC_Pmem_at(arrays->sums, iteration);
    const double scalar = 0.5 * (double)iteration;
    fill(state, WORDS * 8, 1, (int)iteration);
    OK(VELOC_Pmem_block_sums(state, WORDS, BLOCK, sums));
    OK(VELOC_Pmem_flush(arrays->pmem, sums, (WORDS + BLOCK - 1) / BLOCK * 8));
    OK(VELOC_Pmem_mark(arrays->pmem, iteration, &scalar, 1));
}

static int answers_7(int64_t iteration, const double *scalars, int n, void *context)
{
    (void)iteration, (void)scalars, (void)n, (void)context;
    return 7;
}

static int never_holds(int64_t iteration, const double *scalars, int n, void *context)
{
    (void)scalars, (void)n, (void)context;
    /* The library is not to be called from here. */
    REFUSED(VELOC_Checkpoint("x", 1), "invariant must not call the library");
    return iteration % 2 ? VELOC_INVARIANT_FAILS : VELOC_INVARIANT_UNKNOWN;
}

/* Would never come to an end. */
static int calls(int64_t iteration, const double *scalars, int n, void *pmem)
{
    (void)scalars, (void)n;
    REFUSED(VELOC_Pmem_recover(pmem, &iteration), "invariant");
    REFUSED(VELOC_Pmem_forget(pmem), "invariant");
    REFUSED(VELOC_Pmem_mark(pmem, iteration + 1, NULL, 0), "invariant");
    return VELOC_INVARIANT_HOLDS;
}


static void refused(void)
{
    struct arrays arrays;
    VELOC_Pmem *pmem = NULL;
    VELOC_Array *array = NULL, *typed = NULL;
    VELOC_Tried tried[4];
    VELOC_Domain domain;
    double scalars[6] = {0};
    int64_t iteration = 99;
    int version = 99;
    char own[600];

    REFUSED(VELOC_Pmem_open(NULL, ROOM, 0, &pmem), "path is NULL");
    REFUSED(VELOC_Pmem_open(path, ROOM, 0, NULL), "pmem is NULL");
    REFUSED(VELOC_Pmem_open(path, 0, 0, &pmem), "0 bytes");
    REFUSED(VELOC_Pmem_open(path, SIZE_MAX, 0, &pmem), "no file for");
    REFUSED(VELOC_Pmem_open(path, (size_t)1 << 60, 0, &pmem), "room for");
    REFUSED(VELOC_Pmem_open(path, ROOM, 3, &pmem), "crash = 3");
    REFUSED(VELOC_Pmem_open("/proc/arrays", ROOM, 0, &pmem), "/proc/arrays");
    REFUSED(VELOC_Pmem_open("/nowhere/arrays", ROOM, 0, &pmem), "/nowhere/arrays");
    REFUSED(VELOC_Pmem_open("/dev/null", ROOM, 0, &pmem), "/dev/null");
    CHECK(access(path, F_OK) != 0);
    snprintf(own, sizeof own, "%s.new", path);
    CHECK(access(own, F_OK) != 0);

    open_arrays(&arrays, VELOC_CRASH_PROCESS);
    pmem = arrays.pmem;
    REFUSED(VELOC_Pmem_open(path, ROOM, 0, &arrays.pmem), "it is open already");
    REFUSED(VELOC_Pmem_array(pmem, "state", 8, WORDS + 1, SLOTS, &array), "\"state\" has 1500 elements");
    REFUSED(VELOC_Pmem_array(pmem, "state", 4, WORDS, SLOTS, &array), "\"state\"|8 bytes");
    REFUSED(VELOC_Pmem_array(pmem, "state", 8, WORDS, 2, &array), "\"state\"|in 3 slots");
    /* What is said of an array of which nothing was said does not count. */
    OK(VELOC_Pmem_array_of(pmem, "state", 'i', 8, WORDS, SLOTS, &array));
    CHECK(array == arrays.state);
    OK(VELOC_Pmem_array_of(pmem, "typed", 'f', 8, 8, 1, &typed));
    array = NULL;
    REFUSED(VELOC_Pmem_array_of(pmem, "typed", 'i', 8, 8, 1, &array),
            "VELOC_Pmem_array_of|\"typed\"|kind 'f', not 'i'");
    REFUSED(VELOC_Pmem_array_of(pmem, "typed", 'f', 4, 8, 1, &array), "\"typed\"|8 bytes");
    REFUSED(VELOC_Pmem_array_of(NULL, "x", 'f', 8, 8, 1, &array), "pmem is NULL");
    REFUSED(VELOC_Pmem_array(pmem, "none", 8, 0, 1, &array), "\"none\"|0 elements");
    REFUSED(VELOC_Pmem_array(pmem, "none", 0, 8, 1, &array), "\"none\"|0 bytes");
    REFUSED(VELOC_Pmem_array(pmem, "large", 8, ROOM, 1, &array), "\"large\"|bytes are left");
    REFUSED(VELOC_Pmem_array(pmem, "large", SIZE_MAX, 3, 1, &array), "\"large\"");
    REFUSED(VELOC_Pmem_array(pmem, "none", 8, 8, 0, &array), "0 slots");
    REFUSED(VELOC_Pmem_array(pmem, "none", 8, 8, -1, &array), "-1 slots");
    REFUSED(VELOC_Pmem_array(pmem, "none", 8, 8, 65, &array), "65 slots");
    REFUSED(VELOC_Pmem_array(pmem, "", 8, 8, 1, &array), "0 bytes");
    REFUSED(VELOC_Pmem_array(pmem, NULL, 8, 8, 1, &array), "name is NULL");
    REFUSED(VELOC_Pmem_array(NULL, "x", 8, 8, 1, &array), "pmem is NULL");
    REFUSED(VELOC_Pmem_array(pmem, "x", 8, 8, 1, NULL), "array is NULL");
    memset(own, 'x', 64);
    own[64] = '\0';
    REFUSED(VELOC_Pmem_array(pmem, own, 8, 8, 1, &array), "64 bytes");
    CHECK(array == NULL);
    CHECK(VELOC_Pmem_at(NULL, 0) == NULL && VELOC_Pmem_at(arrays.state, -1) == NULL);

    REFUSED(VELOC_Pmem_mark(pmem, -1, NULL, 0), "-1");
    REFUSED(VELOC_Pmem_mark(pmem, INT64_MAX, NULL, 0), "iteration 9223372036854775807|too large");
    REFUSED(VELOC_Pmem_mark(pmem, 0, NULL, 2), "2 scalars are given, but the pointer to them is NULL");
    REFUSED(VELOC_Pmem_mark(pmem, 0, scalars, 6), "6 scalars");
    REFUSED(VELOC_Pmem_mark(pmem, 0, scalars, -6), "-6");
    REFUSED(VELOC_Pmem_mark(NULL, 0, NULL, 0), "pmem is NULL");
    OK(VELOC_Pmem_mark(pmem, 7, NULL, 0));
    REFUSED(VELOC_Pmem_mark(pmem, 7, NULL, 0), "iteration 7|not after 7");
    REFUSED(VELOC_Pmem_mark(pmem, 6, NULL, 0), "iteration 6|not after 7");
    REFUSED(VELOC_Pmem_mark(pmem, 11, NULL, 0), "iteration 11|leaves out 3");
    OK(VELOC_Pmem_mark(pmem, 10, NULL, 0));
    REFUSED(VELOC_Pmem_flush(pmem, own, 8), "8 bytes at|not within");
    REFUSED(VELOC_Pmem_flush(pmem, VELOC_Pmem_at(arrays.state, 0), 2 * ROOM), "not within");
    REFUSED(VELOC_Pmem_flush(pmem, VELOC_Pmem_at(arrays.state, 0), SIZE_MAX), "bytes at");
    REFUSED(VELOC_Pmem_flush(NULL, own, 8), "pmem is NULL");
    REFUSED(VELOC_Pmem_drain(NULL), "pmem is NULL");
    REFUSED(VELOC_Pmem_domain(pmem, NULL), "domain is NULL");
    REFUSED(VELOC_Pmem_domain(NULL, &domain), "pmem is NULL");
    REFUSED(VELOC_Pmem_invariant(pmem, "none", NULL, NULL), "\"none\"|NULL");
    REFUSED(VELOC_Pmem_invariant(pmem, NULL, never_holds, NULL), "name is NULL");
    REFUSED(VELOC_Pmem_invariant(pmem, "", never_holds, NULL), "0 bytes");
    REFUSED(VELOC_Pmem_recover(pmem, NULL), "iteration is NULL");
    REFUSED(VELOC_Pmem_forget(NULL), "pmem is NULL");
    REFUSED(VELOC_Pmem_restart(NULL, "x", &iteration, &version), "pmem is NULL");
    REFUSED(VELOC_Pmem_restart(pmem, NULL, &iteration, &version), "name is NULL");
    REFUSED(VELOC_Pmem_restart(pmem, "a name", &iteration, &version), "a name");
    REFUSED(VELOC_Pmem_restart(pmem, "x", &iteration, NULL), "version is NULL");

    /* An invariant that answers what is no answer, and one that never holds: the marks stay. */
    OK(VELOC_Pmem_invariant(pmem, "sums", answers_7, NULL));
    REFUSED(VELOC_Pmem_recover(pmem, &iteration), "\"sums\" answered 7 for iteration 10");
    OK(VELOC_Pmem_invariant(pmem, "sums", never_holds, NULL));
    REFUSED(VELOC_Pmem_recover(pmem, &iteration), "arrays|10: \"sums\" cannot tell");
    EQUAL(VELOC_Pmem_report(pmem, NULL, 0), 1);
    EQUAL(iteration, 99);
    OK(VELOC_Pmem_mark(pmem, 11, NULL, 0));
    REFUSED(VELOC_Pmem_recover(pmem, &iteration), "11: \"sums\" fails, 10: \"sums\" cannot tell");
    EQUAL(VELOC_Pmem_report(pmem, tried, 4), 2);
    CHECK(tried[0].iteration == 11 && tried[0].answer == VELOC_INVARIANT_FAILS);
    CHECK(tried[1].iteration == 10 && tried[1].answer == VELOC_INVARIANT_UNKNOWN);
    CHECK(strcmp(tried[1].invariant, "sums") == 0);
    REFUSED(VELOC_Pmem_report(NULL, tried, 4), "pmem is NULL");
    REFUSED(VELOC_Pmem_scalars(NULL, scalars, 6), "pmem is NULL");
    REFUSED(VELOC_Pmem_restart(pmem, "x", &iteration, &version), "arrays|11: \"sums\" fails");
    CHECK(iteration == 99 && version == 99);
    OK(VELOC_Pmem_invariant(pmem, "sums", calls, pmem));
    OK(VELOC_Pmem_invariant(pmem, "not lost", calls, pmem));
    OK(VELOC_Pmem_recover(pmem, &iteration));
    EQUAL(iteration, 11);
    OK(VELOC_Pmem_forget(pmem));
    OK(VELOC_Pmem_recover(pmem, &iteration));
    EQUAL(iteration, -1);
    EQUAL(VELOC_Pmem_report(pmem, NULL, 0), 0);
    OK(VELOC_Pmem_close(pmem));
    REFUSED(VELOC_Pmem_close(NULL), "pmem is NULL");
    REFUSED(VELOC_Pmem_open(path, 2 * ROOM, 0, &pmem), "has 233472 bytes|400000");
    OK(truncate(path, 100));
    REFUSED(VELOC_Pmem_open(path, ROOM, 0, &pmem), "has 100 bytes|cut off");
    snprintf(own, sizeof own, "%s.link", path);
    OK(symlink("nowhere", own));
    REFUSED(VELOC_Pmem_open(own, ROOM, 0, &pmem), "the link|.link");
}

static void found(void)
{
    struct arrays arrays;
    VELOC_Array *again;
    VELOC_Tried tried[8];
    double scalars[2] = {-1, -1};
    int64_t iteration = 99;
    int i;
    open_arrays(&arrays, VELOC_CRASH_PROCESS);
    OK(VELOC_Pmem_recover(arrays.pmem, &iteration));
    EQUAL(iteration, -1);
    EQUAL(VELOC_Pmem_scalars(arrays.pmem, scalars, 2), 0);
    for (i = 0; i <= 200; i++)
        iterate(&arrays, i);
    OK(VELOC_Pmem_array(arrays.pmem, "state", 8, WORDS, SLOTS, &again));
    CHECK(again == arrays.state);
    OK(VELOC_Pmem_close(arrays.pmem));

    open_arrays(&arrays, VELOC_CRASH_PROCESS);
    for (i = 198; i <= 200; i++)
        CONTENT(VELOC_Pmem_at(arrays.state, i), WORDS * 8, 1, i);
    CHECK((uintptr_t)VELOC_Pmem_at(arrays.sums, 1) % 4096 == 0);
    CHECK(VELOC_Pmem_at(arrays.state, 0) == VELOC_Pmem_at(arrays.state, SLOTS));
    /* One word of the newest is another: the one before it serves, and iterations go on behind it. */
    ((uint64_t *)VELOC_Pmem_at(arrays.state, 200))[777] ^= 1;
    OK(VELOC_Pmem_recover(arrays.pmem, &iteration));
    EQUAL(iteration, 199);
    EQUAL(VELOC_Pmem_scalars(arrays.pmem, NULL, 9), 1);
    EQUAL(VELOC_Pmem_scalars(arrays.pmem, scalars, 0), 1);
    CHECK(scalars[0] == -1);
    EQUAL(VELOC_Pmem_scalars(arrays.pmem, scalars, 2), 1);
    CHECK(scalars[0] == 0.5 * 199 && scalars[1] == -1);
    EQUAL(VELOC_Pmem_report(arrays.pmem, tried, 8), 2);
    CHECK(tried[0].iteration == 200 && strcmp(tried[0].invariant, "sums") == 0);
    CHECK(tried[1].answer == VELOC_INVARIANT_HOLDS && tried[1].invariant[0] == '\0');
    /* The first invariant that fails ends the question. */
    EQUAL(arrays.asked, 1);
    REFUSED(VELOC_Pmem_mark(arrays.pmem, 199, NULL, 0), "not after 199");
    iterate(&arrays, 200);
    EQUAL(VELOC_Pmem_scalars(arrays.pmem, scalars, 1), 1);
    CHECK(scalars[0] == 0.5 * 200);
    /* Nothing older than the slots is tried, whatever else is marked. */
    arrays.lost = 0;
    REFUSED(VELOC_Pmem_recover(arrays.pmem, &iteration), "200: \"not lost\" fails|198: \"not lost\" fails");
    EQUAL(VELOC_Pmem_report(arrays.pmem, NULL, 0), SLOTS);
    arrays.lost = 198;
    OK(VELOC_Pmem_recover(arrays.pmem, &iteration));
    EQUAL(iteration, 198);
    OK(VELOC_Pmem_close(arrays.pmem));
}

static void sums(void)
{
    uint64_t matrix[5][8], rows[5], columns[7], blocks[3];
    double words[25];
    int64_t row = 9, column = 9, wrong = 9;
    int i, j;
    for (i = 0; i < 5; i++)
        for (j = 0; j < 8; j++)
            matrix[i][j] = content_word(i, j, 3);
    OK(VELOC_Pmem_matrix_sums(matrix, 5, 7, 8, rows, columns));
    EQUAL(VELOC_Pmem_matrix_correct(matrix, 5, 7, 8, rows, columns, &row, &column),
          VELOC_INVARIANT_HOLDS);
    CHECK(row == -1 && column == -1);
    matrix[3][7] = 0;
    matrix[2][6] = 5;
    EQUAL(VELOC_Pmem_matrix_correct(matrix, 5, 7, 8, rows, columns, &row, &column),
          VELOC_INVARIANT_CORRECTED);
    CHECK(row == 2 && column == 6 && matrix[2][6] == content_word(2, 6, 3));
    matrix[2][6] = 5;
    matrix[2][5] = 5;
    EQUAL(VELOC_Pmem_matrix_correct(matrix, 5, 7, 8, rows, columns, NULL, NULL),
          VELOC_INVARIANT_FAILS);
    CHECK(matrix[2][6] == 5);
    REFUSED(VELOC_Pmem_matrix_correct(matrix, 5, 7, 6, rows, columns, NULL, NULL), "7 columns|6 words");
    REFUSED(VELOC_Pmem_matrix_sums(matrix, 0, 7, 8, rows, columns), "0 rows");
    REFUSED(VELOC_Pmem_matrix_sums(matrix, SIZE_MAX, 7, 8, rows, columns), "rows");
    REFUSED(VELOC_Pmem_matrix_sums(NULL, 5, 7, 8, rows, columns), "NULL");
    for (i = 0; i < 25; i++)
        words[i] = 0.1 * i;
    OK(VELOC_Pmem_block_sums(words, 25, 10, blocks));
    EQUAL(VELOC_Pmem_blocks_hold(words, 25, 10, blocks, &wrong), VELOC_INVARIANT_HOLDS);
    EQUAL(wrong, -1);
    words[24] = -words[24];
    EQUAL(VELOC_Pmem_blocks_hold(words, 25, 10, blocks, &wrong), VELOC_INVARIANT_FAILS);
    EQUAL(wrong, 2);
    REFUSED(VELOC_Pmem_block_sums(words, 25, 0, blocks), "block = 0");
    REFUSED(VELOC_Pmem_blocks_hold(NULL, 25, 10, blocks, NULL), "NULL");
}

/* What the child of a storm has begun and what it has been told. */
struct progress {
    volatile int64_t begun, marked, opened;
};

static void be_killed(struct progress *progress, uint64_t seed)
{
    struct arrays arrays;
    VELOC_Array *more;
    char name[16];
    int64_t iteration, last;
    for (;;) {
        open_arrays(&arrays, VELOC_CRASH_PROCESS);
        OK(VELOC_Pmem_recover(arrays.pmem, &iteration));
        /* What was marked is there; what was begun may be. */
        CHECK(iteration == progress->marked || iteration == progress->begun);
        progress->marked = iteration;
        if (iteration >= 0)
            CONTENT(VELOC_Pmem_at(arrays.state, iteration), WORDS * 8, 1, (int)iteration);
        progress->opened++;
        snprintf(name, sizeof name, "more%d", (int)(next_random(&seed) % 8));
        OK(VELOC_Pmem_array(arrays.pmem, name, 1, 1000, 1, &more));
        for (last = iteration + 1 + (int64_t)(next_random(&seed) % 20); iteration < last;) {
            progress->begun = ++iteration;
            iterate(&arrays, iteration);
            progress->marked = iteration;
        }
        OK(VELOC_Pmem_close(arrays.pmem));
    }
}

static void storm(int argc, char **argv)
{
    const long rounds = number(argc, argv, "rounds", 200);
    uint64_t seed = (uint64_t)number(argc, argv, "seed", 1);
    struct progress *progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long round;
    CHECK(progress != MAP_FAILED);
    for (round = 0; round < rounds; round++) {
        struct timespec moment = {0, (long)(next_random(&seed) % 3000000)};
        uint64_t of_child = next_random(&seed);
        int status;
        pid_t child;
        /* Now and then it has to be made, too. */
        if (round % 8 == 0) {
            unlink(path);
            progress->begun = progress->marked = -1;
        }
        fflush(stdout);
        child = fork();
        CHECK(child >= 0);
        if (child == 0)
            be_killed(progress, of_child);
        nanosleep(&moment, NULL);
        kill(child, SIGKILL);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    CHECK(progress->marked > 0 || progress->opened > 0);
    printf("rounds %ld\nopened %lld\n", round, (long long)progress->opened);
}

static void steps(int argc, char **argv)
{
    const long to = number(argc, argv, "to", 10), keep = number(argc, argv, "keep", 4);
    const long die = number(argc, argv, "die", -1);
    struct arrays arrays;
    unsigned char *memory = get_memory(WORDS * 8);
    int64_t iteration = 99;
    int version = 99;
    open_arrays(&arrays, VELOC_CRASH_PROCESS);
    arrays.lost = number(argc, argv, "lose", INT32_MAX);
    OK(VELOC_Mem_protect(1, memory, WORDS, 8));
    OK(VELOC_Pmem_restart(arrays.pmem, "steps", &iteration, &version));
    printf("iteration %lld\nversion %d\n", (long long)iteration, version);
    fflush(stdout);
    if (version >= 0) {
        OK(VELOC_Restart("steps", version));
        memcpy(VELOC_Pmem_at(arrays.state, iteration), memory, WORDS * 8);
    }
    if (iteration >= 0)
        CONTENT(VELOC_Pmem_at(arrays.state, iteration), WORDS * 8, 1, (int)iteration);
    while (iteration < to) {
        iterate(&arrays, ++iteration);
        if (iteration % keep == 0 && iteration > 0) {
            memcpy(memory, VELOC_Pmem_at(arrays.state, iteration), WORDS * 8);
            OK(VELOC_Checkpoint("steps", (int)iteration));
            OK(VELOC_Checkpoint_wait());
        }
        if (iteration == die)
            raise(SIGKILL);
    }
    OK(VELOC_Pmem_close(arrays.pmem));
}

static int always_holds(int64_t iteration, const double *scalars, int n, void *context)
{
    (void)iteration, (void)scalars, (void)n, (void)context;
    return VELOC_INVARIANT_HOLDS;
}

static void trusted(int argc, char **argv)
{
    const int slots = (int)number(argc, argv, "slots", 1);
    VELOC_Pmem *pmem;
    VELOC_Array *array;
    int64_t iteration = 99;
    int i;
    for (i = 0; i < 2; i++) {
        OK(VELOC_Pmem_open(path, ROOM, VELOC_CRASH_PROCESS, &pmem));
        OK(VELOC_Pmem_array(pmem, "x", 8, 100, slots, &array));
        if (number(argc, argv, "invariants", 0) > 0)
            OK(VELOC_Pmem_invariant(pmem, "holds", always_holds, NULL));
        OK(VELOC_Pmem_recover(pmem, &iteration));
        EQUAL(iteration, i == 0 ? -1 : 1);
        OK(VELOC_Pmem_recover(pmem, &iteration));
        for (iteration++; iteration < 2; iteration++)
            OK(VELOC_Pmem_mark(pmem, iteration, NULL, 0));
        OK(VELOC_Pmem_close(pmem));
    }
}

static void say_domain(int argc, char **argv)
{
    static const char *const names[] = {"process", "power", "page"};
    VELOC_Pmem *pmem;
    VELOC_Array *array;
    VELOC_Domain domain;
    OK(VELOC_Pmem_open(path, ROOM, (int)number(argc, argv, "crash", 0), &pmem));
    OK(VELOC_Pmem_domain(pmem, &domain));
    OK(VELOC_Pmem_array(pmem, "x", 8, 1000, 1, &array));
    OK(VELOC_Pmem_flush(pmem, (char *)VELOC_Pmem_at(array, 0) + 100, 5000));
    OK(VELOC_Pmem_drain(pmem));
    OK(VELOC_Pmem_forget(pmem));
    OK(VELOC_Pmem_mark(pmem, 0, NULL, 0));
    printf("%s in %d bytes: %s\n", names[domain.crash], domain.granularity, domain.why);
    OK(VELOC_Pmem_close(pmem));
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    snprintf(path, sizeof path, "%s", option(argc, argv, "path", "arrays"));
    if (strcmp(what, "storm") == 0) {
        storm(argc, argv);
    } else if (strcmp(what, "sums") == 0) {
        sums();
    } else if (strcmp(what, "trusted") == 0) {
        trusted(argc, argv);
    } else if (strcmp(what, "domain") == 0) {
        say_domain(argc, argv);
    } else {
#ifdef CHECK_WITH_MPI
        int rank;
        char mine[32];
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        snprintf(mine, sizeof mine, "-%d", rank);
        strncat(path, mine, sizeof path - strlen(path) - 1);
        OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
#else
        OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
#endif
        if (strcmp(what, "refused") == 0)
            refused();
        else if (strcmp(what, "found") == 0)
            found();
        else if (strcmp(what, "steps") == 0)
            steps(argc, argv);
        else
            CHECK(!"a case of that name");
        OK(VELOC_Finalize(0));
#ifdef CHECK_WITH_MPI
        MPI_Finalize();
#endif
    }
    puts("done");
    return 0;
}
