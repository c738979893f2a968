/*
 * Erasure coding: each process has a scratch directory of its own, DIR/scratch-<rank>.
 *
 * erasure CONFIGURATION dir=DIR case=... [from=V] [to=V] [expect=V] [pause=MS] [seed=N] [strangers=N]
 *   take      takes the versions from..to, `pause` milliseconds apart, while each process has so many strangers
 *             on its port
 *   restore   the newest version that all can restore is `expect`, with the right content
 *   refused   no process can restore version `to`; the reason has `words`
 *   begin     restores version `to` without asking which there are
 *   route     the same as take, with a file of the application's own for each version
 *   reroute   the same as restore, for such files
 *   turns     takes 1, 2, which has what was written since, and 1 again
 *   turned    restores 2 of these
 *   cleanup   removes all versions of the name
 *   die       takes version `to`; process 1 is killed at once
 *   init      VELOC_Init is refused; the reason has `words`
 */
#include "../programs/check.h"
#include "strangers.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 3 << 20 };

static const char *directory;
static char *data;
static int rank;
static int seed; /* Tells contents of one version apart. */

/* Other lengths for every process and version; some of several blocks, one of nothing. */
static size_t length(int version)
{
    size_t bytes = ((size_t)rank * 377 + (size_t)version * 10007) * 51 % 300000;
    if (rank == 0 && version == 2)
        return 0;
    return version % 3 == 0 && rank % 2 == 1 ? LARGEST - bytes : bytes;
}

static void protect(int version)
{
    OK(VELOC_Mem_protect(0, data, length(version), 1));
    OK(VELOC_Mem_protect(1, &rank, 1, sizeof rank));
}

static void take(int version)
{
    protect(version);
    fill(data, length(version), rank, version + seed);
    OK(VELOC_Checkpoint("x", version));
}

static void restore(int version)
{
    protect(version);
    memset(data, 0xee, LARGEST);
    OK(VELOC_Restart("x", version));
    CONTENT(data, length(version), rank, version + seed);
}

static void wait_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* The file of the application's own. */
static void file_of(const char *path, int version, int write)
{
    FILE *file = fopen(path, write ? "wb" : "rb");
    CHECK(file != NULL);
    fill(data, length(version), rank, version + seed);
    if (write) {
        CHECK(fwrite(data, 1, length(version), file) == length(version));
    } else {
        memset(data, 0xee, LARGEST);
        CHECK(fread(data, 1, LARGEST, file) == length(version));
        CONTENT(data, length(version), rank, version + seed);
    }
    CHECK(fclose(file) == 0);
}

static void route(int version, int write)
{
    char original[VELOC_MAX_NAME], routed[VELOC_MAX_NAME];
    snprintf(original, sizeof original, "%s/own-%d-%d", directory, rank, version);
    if (write)
        OK(VELOC_Checkpoint_begin("x", version));
    else
        OK(VELOC_Restart_begin("x", version));
    OK(VELOC_Route_file(original, routed));
    file_of(routed, version, write);
    if (write)
        OK(VELOC_Checkpoint_end(1));
    else
        OK(VELOC_Restart_end(1));
}

/* The second of two checkpoints, for which a part was written. */
static void second(void)
{
    fill(data, length(1), rank, 1);
    fill(data, 100, rank, 2);
}

static void turns(void)
{
    protect(1);
    fill(data, length(1), rank, 1);
    OK(VELOC_Checkpoint("x", 1));
    second();
    OK(VELOC_Checkpoint("x", 2));
    OK(VELOC_Checkpoint_wait());
    data[0] ^= 1;
    OK(VELOC_Checkpoint("x", 1));
}

static void turned(void)
{
    char *expected = data;
    data = get_memory(LARGEST);
    protect(1);
    memset(data, 0xee, LARGEST);
    OK(VELOC_Restart("x", 2));
    char *found = data;
    data = expected;
    second();
    CHECK(memcmp(found, expected, length(1)) == 0);
}

/* Lines of several processes run into each other. */
static void finish(void)
{
    MPI_Finalize();
    if (rank == 0)
        puts("done");
}

int main(int argc, char **argv)
{
    const char *what = option(argc, argv, "case", "");
    int from = (int)number(argc, argv, "from", 1);
    int to = (int)number(argc, argv, "to", 3);
    int expect = (int)number(argc, argv, "expect", 0);
    long pause = number(argc, argv, "pause", 0);
    char text[VELOC_MAX_NAME];
    VELOC_Metrics metrics;
    struct strangers strangers;
    int version;

    strangers_begin(&strangers, (int)number(argc, argv, "strangers", 0));
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    data = get_memory(LARGEST);
    directory = option(argc, argv, "dir", ".");
    seed = (int)number(argc, argv, "seed", 0);
    snprintf(text, sizeof text, "%s/scratch-%d", directory, rank);
    setenv("VELOC_SCRATCH", text, 1);
    snprintf(text, sizeof text, "domain-%d", rank / (int)number(argc, argv, "per_domain", 1));
    if (number(argc, argv, "per_domain", 0) > 0)
        setenv("VELOC_FAILURE_DOMAIN", text, 1);
    if (rank == 1 && option(argc, argv, "other", NULL) != NULL)
        setenv("VELOC_EC_PARITY", option(argc, argv, "other", ""), 1);

    if (strcmp(what, "init") == 0) {
        REFUSED(VELOC_Init(MPI_COMM_WORLD, argv[1]), option(argc, argv, "words", ""));
        finish();
        return 0;
    }
    strangers_look(&strangers);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    strangers_come(&strangers);
    if (strcmp(what, "take") == 0) {
        for (version = from; version <= to; version++) {
            take(version);
            strangers_leave_room(&strangers);
            wait_ms(pause);
        }
    } else if (strcmp(what, "route") == 0) {
        for (version = from; version <= to; version++)
            route(version, 1);
    } else if (strcmp(what, "restore") == 0 || strcmp(what, "reroute") == 0) {
        EQUAL(VELOC_Restart_test("x", 0), expect);
        if (expect > 0 && strcmp(what, "restore") == 0)
            restore(expect);
        else if (expect > 0)
            route(expect, 0);
    } else if (strcmp(what, "begin") == 0) {
        restore(to);
    } else if (strcmp(what, "refused") == 0) {
        REFUSED(VELOC_Restart("x", to),
                rank == (int)number(argc, argv, "lost", 0) ? option(argc, argv, "words", "") : "");
    } else if (strcmp(what, "turns") == 0) {
        turns();
    } else if (strcmp(what, "turned") == 0) {
        turned();
    } else if (strcmp(what, "cleanup") == 0) {
        OK(VELOC_Cleanup("x"));
    } else if (strcmp(what, "die") == 0) {
        take(to);
        if (rank == 1)
            raise(SIGKILL);
        wait_ms(60000);
    } else {
        CHECK(0);
    }
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    EQUAL(metrics.encode_failures, 0);
    OK(VELOC_Finalize(1));
    finish();
    return 0;
}
