/*
 * A log that is larger than its memory and larger than the host buffer: parts that are replayed in
 * reverse order, with parts inside them, and one that is kept and replayed three times.
 *
 * spilled_log CONFIGURATION SCRATCH [open=1] [early=1] [again=1] [full=1] [die=PART]
 *
 * open=1     a checkpoint is open while the log grows, and a restart while it is read
 * early=1    VELOC_Finalize comes before the replays
 * again=1    and another job between them
 * full=1     no file can be made
 * die=PART   all processes are killed in this part, after a checkpoint; without it the program goes on
 *            from that checkpoint, if there is one
 */
#include "parts.h"

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

/* The files without a name in scratch that this process has mapped. */
static int files(void)
{
    char line[8192];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, scratch) != NULL && strstr(line, "(deleted)") != NULL;
    fclose(maps);
    return count;
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

static void limit_files(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = 100 << 10;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* Where the log is, whatever job there is. */
static void check_places(int full)
{
    CHECK(logged().logged > 20 << 20);
    EQUAL(logged().memory + logged().stored, logged().logged);
    if (full) {
        CHECK(logged().stored == 0 && files() == 0);
    } else {
        /* The limit is 2 MiB; a chunk more may be what MPI packs. */
        CHECK(files() > 0 && logged().memory < 3 << 20);
    }
}

/* The job ends before the replays. */
static void end_job(int full, const char *configuration, int again)
{
    int i;
    for (i = 0; i <= again; i++) {
        EQUAL(VELOC_Finalize(i), 0);
        check_places(full);
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
    check_places(full);
    if (early)
        end_job(full, argv[1], number(argc, argv, "again", 0));
    if (is_open)
        EQUAL(VELOC_Restart_begin("while", 1), 0);
    in_turns(replays);
    PART(VELOC_Part_free(KEPT));
    EMPTY_LOG();
    EQUAL(logged().memory + logged().stored, 0);
    if (rank == 0 && goes_on)
        puts("goes on");
    if (!early)
        EQUAL(VELOC_Finalize(1), 0);
    /* The chunk that the next message goes to is kept. */
    CHECK(files() <= 1);
    return end_program();
}
