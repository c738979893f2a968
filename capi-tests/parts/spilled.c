/*
 * A log that is larger than its memory and larger than the host buffer: parts that are replayed in
 * reverse order, with parts inside them, and one that is kept and replayed three times.
 *
 * spilled CONFIGURATION SCRATCH [open=1] [early=1] [again=1] [unread=1] [quit=1]
 *         [roomy=1] [full=1] [damage=1] [die=PART]
 *
 * open=1     a checkpoint is open while the log grows, and a restart while it is read
 * early=1    VELOC_Finalize comes before the replays
 * again=1    and another job between them
 * unread=1   nothing is replayed
 * quit=1     the process ends after VELOC_Finalize, without MPI_Finalize
 * roomy=1    the host buffer has room for all of it, and need not be written
 * full=1     no file can be written
 * damage=1   a file is changed: the replay that reads it fails, and the others do not
 * die=PART   all processes are killed in this part, after a checkpoint; without it the program goes on
 *            from that checkpoint, if there is one
 */
#include "parts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "veloc.h"

enum { PARTS = 12, TURNS = 8, WORDS = 32768, KEPT = 5, INNER = 4 };

static const char *scratch;
static double out[WORDS], in[WORDS];

/* Where the program is, and all that it needs to go on there. */
static struct {
    int part, turn, is_inside;
    double state[TURNS];
    double before[PARTS][TURNS];
    uint64_t seen, seen_in[PARTS], seen_kept;
} at;

/* The files that the log of some process has in scratch; or those that are complete, which have no
 * number behind that of the process. */
static int count_files(int complete)
{
    struct dirent *entry;
    int count = 0;
    DIR *directory = opendir(scratch);
    CHECK(directory != NULL);
    while ((entry = readdir(directory)) != NULL)
        count += strncmp(entry->d_name, ".+log-", 6) == 0 &&
                 (!complete || strcmp(strrchr(entry->d_name, '-'), "-0") == 0);
    closedir(directory);
    return count;
}

static int files(void)
{
    return count_files(0);
}

static void turn(int turn)
{
    int i, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (i = 0; i < WORDS; i++)
        out[i] = at.state[i % TURNS] + 0.25 * i + turn;
    MPI(MPI_Sendrecv(out, WORDS, MPI_DOUBLE, right, turn, in, WORDS, MPI_DOUBLE, left, turn,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    saw(in, sizeof in);
    at.state[turn % TURNS] = 0.5 * in[turn] + 0.125 * in[WORDS - 1];
}

static void kept(void)
{
    int i;
    seen = 0;
    for (i = 0; i < TURNS; i++)
        at.state[i] = rank + i;
    for (i = 0; i < 2 * TURNS; i++)
        turn(i);
}

/* What is in a part, from where the program is. */
static void body(int replays, int die)
{
    for (; at.turn < TURNS; at.turn++) {
        if (at.turn == 2)
            replays ? replay_begin(INNER) : part_begin(INNER, 0);
        turn(at.turn);
        if (at.turn == 4)
            replays ? replay_end(INNER) : part_end(INNER);
        if (!replays && at.part == die && at.turn == 6) {
            at.turn++;
            at.seen = seen;
            EQUAL(VELOC_Checkpoint("all", 1), 0);
            EQUAL(VELOC_Checkpoint_wait(), 0);
            MPI(MPI_Barrier(MPI_COMM_WORLD));
            raise(SIGKILL);
        }
    }
}

static void first_run(int die)
{
    for (; at.part < PARTS; at.part++) {
        if (!at.is_inside) {
            memcpy(at.before[at.part], at.state, sizeof at.state);
            at.turn = 0;
            seen = 0;
            at.is_inside = 1;
            part_begin(1, 0);
        }
        body(0, die);
        part_end(1);
        at.is_inside = 0;
        at.seen_in[at.part] = seen;
    }
}

static void replay_kept(void)
{
    replay_begin(KEPT);
    kept();
    replay_end(KEPT);
    CHECK(seen == at.seen_kept);
}

static void replays(void)
{
    int i;
    replay_kept();
    for (i = PARTS - 1; i >= 0; i--) {
        at.turn = 0;
        seen = 0;
        memcpy(at.state, at.before[i], sizeof at.state);
        replay_begin(1);
        body(1, -1);
        replay_end(1);
        CHECK(seen == at.seen_in[i]);
    }
    replay_kept();
    replay_kept();
}

/* Changes a byte in the file of the oldest chunk, which no memory has any more. */
static void damage(void)
{
    char path[4096];
    int file;
    off_t end;
    unsigned char byte;
    snprintf(path, sizeof path, "%s/.+log-%d-0.dat.tmp-%ld-0", scratch, rank, (long)getpid());
    file = open(path, O_RDWR);
    CHECK(file >= 0);
    end = lseek(file, 0, SEEK_END);
    CHECK(end > 5000 && pread(file, &byte, 1, end - 4000) == 1);
    byte ^= 1;
    CHECK(pwrite(file, &byte, 1, end - 4000) == 1);
    close(file);
}

static void replay_damaged(void)
{
    int status;
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    replay_begin(KEPT);
    status = MPI_Sendrecv(out, WORDS, MPI_DOUBLE, (rank + 1) % ranks, 0, in, WORDS, MPI_DOUBLE,
                          (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(status != MPI_SUCCESS);
    check_words(__FILE__, __LINE__, "the error", "MPI_Sendrecv|chunk 0|damaged");
    REFUSED(VELOC_Part_replay_end(KEPT), "chunk 0");
    PART(VELOC_Part_free(KEPT));
}

static void limit_files(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = 100 << 10;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* The job ends before the replays. The log is in its files, or in memory if there are none. */
static void end_job(int full, const char *configuration, int again)
{
    int i;
    for (i = 0; i <= again; i++) {
        EQUAL(VELOC_Finalize(i), 0);
        if (full) {
            EQUAL(logged().stored, 0);
            EQUAL(logged().memory, logged().logged);
        } else {
            CHECK(logged().stored > 0 && files() > 0);
            CHECK(logged().memory < 4 << 20);
        }
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (i < again)
            EQUAL(VELOC_Init(MPI_COMM_WORLD, configuration), 0);
    }
}

int main(int argc, char **argv)
{
    int full, die, early, is_open, goes_on = 0;
    begin_program(&argc, &argv);
    CHECK(argc > 2);
    scratch = argv[2];
    full = number(argc, argv, "full", 0);
    early = number(argc, argv, "early", 0);
    is_open = number(argc, argv, "open", 0);
    die = number(argc, argv, "die", -1);
    EQUAL(VELOC_Init(MPI_COMM_WORLD, argv[1]), 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    /* What a killed process has left is gone. */
    EQUAL(files(), 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (full)
        limit_files();
    EQUAL(VELOC_Mem_protect(0, &at, 1, sizeof at), 0);
    if (VELOC_Restart_test("all", 0) == 1) {
        EQUAL(VELOC_Restart("all", 1), 0);
        seen = at.seen;
        goes_on = 1;
    } else {
        part_begin(KEPT, VELOC_PART_KEEP);
        kept();
        part_end(KEPT);
        at.seen_kept = seen;
    }
    if (is_open)
        EQUAL(VELOC_Checkpoint_begin("while", 1), 0);
    first_run(die);
    if (is_open) {
        EQUAL(VELOC_Checkpoint_mem(), 0);
        EQUAL(VELOC_Checkpoint_end(1), 0);
    }
    CHECK(logged().logged > 20 << 20);
    if (full) {
        EQUAL(count_files(1), 0);
    } else {
        /* Files come when they come. */
        while ((files() == 0 && !number(argc, argv, "roomy", 0)) || logged().stored == 0)
            pause_us(1000);
        /* The limit is 2 MiB. What MPI packs or a replay reads is a chunk more each. */
        CHECK(logged().memory < 4 << 20);
    }
    if (early)
        end_job(full, argv[1], number(argc, argv, "again", 0));
    if (number(argc, argv, "quit", 0)) {
        puts("quits");
        exit(0);
    }
    if (is_open)
        EQUAL(VELOC_Restart_begin("while", 1), 0);
    if (number(argc, argv, "damage", 0)) {
        damage();
        in_turns(replay_damaged);
    } else if (!number(argc, argv, "unread", 0)) {
        in_turns(replays);
        PART(VELOC_Part_free(KEPT));
        EMPTY_LOG();
        EQUAL(logged().memory, 0);
        /* What is being written goes when that has ended. */
        while (logged().stored != 0 || files() != 0)
            pause_us(1000);
    }
    if (rank == 0 && goes_on)
        puts("goes on");
    if (!early)
        EQUAL(VELOC_Finalize(1), 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    /* A write that was given up leaves nothing, either. */
    if (!number(argc, argv, "unread", 0) && !number(argc, argv, "damage", 0))
        EQUAL(files(), 0);
    return end_program();
}
