/*
 * The protocol with host memory alone: host <configuration> <case> [key=value ...]
 *
 * Each case is a process of its own in directories of its own; the test looks at the files
 * afterwards.
 */
#include "check.h"

#include <time.h>

static int selection[4];

static int *ids(int count, int a, int b, int c)
{
    (void)count;
    selection[0] = a;
    selection[1] = b;
    selection[2] = c;
    return selection;
}

#define SOME(a) VELOC_CKPT_SOME, ids(1, a, 0, 0), 1
#define SOME2(a, b) VELOC_CKPT_SOME, ids(2, a, b, 0), 2
#define REST(a) VELOC_CKPT_REST, ids(1, a, 0, 0), 1
#define REST3(a, b, c) VELOC_CKPT_REST, ids(3, a, b, c), 3

static void *protect(int id, size_t bytes, int version)
{
    void *memory = get_memory(bytes);
    fill(memory, bytes, id, version);
    OK(VELOC_Mem_protect(id, memory, bytes, 1));
    return memory;
}

/* Regions of every awkward size, with ids on both sides of 0. */
static const struct {
    int id;
    size_t bytes;
} awkward[] = {{7, 4097}, {-5, 1}, {0, 0}, {-2147483647 - 1, 300000},
               {2147483647, 255}, {3, 65536}};
enum { AWKWARD = sizeof awkward / sizeof awkward[0] };

static void round_trip(void)
{
    void *memory[AWKWARD];
    VELOC_Region list[AWKWARD];
    int version, i;
    for (i = 0; i < AWKWARD; i++) {
        memory[i] = get_memory(awkward[i].bytes);
        list[i].id = awkward[i].id;
        list[i].ptr = memory[i];
        list[i].count = awkward[i].bytes;
        list[i].base_size = 1;
    }
    OK(VELOC_Mem_protect_list(list, AWKWARD));
    memset(list, 0xee, sizeof list);
    for (version = 0; version < 4; version++) {
        for (i = 0; i < AWKWARD; i++)
            fill(memory[i], awkward[i].bytes, awkward[i].id, version);
        OK(VELOC_Checkpoint("round.trip_1", version));
    }
    for (version = 3; version >= 0; version--) {
        for (i = 0; i < AWKWARD; i++)
            memset(memory[i], 0xee, awkward[i].bytes);
        EQUAL(VELOC_Restart_test("round.trip_1", version == 0 ? 1 : version),
              version == 0 ? 1 : version);
        OK(VELOC_Restart("round.trip_1", version));
        for (i = 0; i < AWKWARD; i++)
            CONTENT(memory[i], awkward[i].bytes, awkward[i].id, version);
    }
    /* Restoring into memory that is larger than the region leaves the rest alone. */
    {
        unsigned char *larger = get_memory(5000);
        memset(larger, 0x11, 5000);
        OK(VELOC_Mem_protect(7, larger, 5000, 1));
        OK(VELOC_Restart("round.trip_1", 2));
        CONTENT(larger, 4097, 7, 2);
        for (i = 4097; i < 5000; i++)
            EQUAL(larger[i], 0x11);
    }
}

static void selective(void)
{
    void *memory[6];
    int id;
    for (id = 1; id <= 5; id++)
        memory[id] = protect(id, 1000u * (unsigned)id, 1);
    OK(VELOC_Checkpoint_begin("part", 1));
    OK(VELOC_Checkpoint_selective(SOME2(4, 2)));
    /* What was captured may change at once. */
    fill(memory[2], 2000, 2, 9);
    REFUSED(VELOC_Checkpoint_selective(SOME2(2, 3)), "region 2|already|part");
    REFUSED(VELOC_Checkpoint_selective(SOME(6)), "region 6|not protected");
    OK(VELOC_Checkpoint_selective(SOME(5)));
    OK(VELOC_Checkpoint_selective(REST3(2, 4, 5)));
    REFUSED(VELOC_Checkpoint_mem(), "already");
    OK(VELOC_Checkpoint_end(1));

    for (id = 1; id <= 5; id++)
        memset(memory[id], 0, 1000u * (unsigned)id);
    OK(VELOC_Restart_begin("part", 1));
    for (id = 1; id <= 5; id++)
        EQUAL(VELOC_Recover_size(id), 1000 * id);
    OK(VELOC_Recover_selective(SOME(2)));
    CONTENT(memory[2], 2000, 2, 1);
    for (id = 1; id <= 5; id++)
        if (id != 2)
            EQUAL(*(unsigned char *)memory[id], 0);
    REFUSED(VELOC_Recover_selective(SOME2(3, 8)), "region 8");
    EQUAL(*(unsigned char *)memory[3], 0);
    OK(VELOC_Recover_selective(REST3(2, 3, 77)));
    EQUAL(*(unsigned char *)memory[3], 0);
    OK(VELOC_Recover_selective(SOME(3)));
    OK(VELOC_Restart_end(1));
    for (id = 1; id <= 5; id++)
        CONTENT(memory[id], 1000u * (unsigned)id, id, 1);

    /* A checkpoint of one region only, and a selection that leaves none. */
    OK(VELOC_Checkpoint_begin("part", 2));
    REFUSED(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, NULL, 0), "no region");
    OK(VELOC_Checkpoint_selective(SOME(3)));
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Restart_begin("part", 2));
    EQUAL(VELOC_Recover_size(1), -1);
    EQUAL(VELOC_Recover_size(3), 3000);
    OK(VELOC_Recover_mem());
    REFUSED(VELOC_Recover_selective(REST(3)), "\"part\" version 2|regions 1, 2, 4, 5");
    REFUSED(VELOC_Recover_selective(SOME(1)), "\"part\" version 2|region 1");
    OK(VELOC_Restart_end(1));
    OK(VELOC_Checkpoint_begin("part", 3));
    OK(VELOC_Checkpoint_selective(REST(3)));
    OK(VELOC_Checkpoint_end(1));
}

static void given_up(void)
{
    void *memory = protect(1, 50000, 1);
    OK(VELOC_Checkpoint("x", 1));
    OK(VELOC_Checkpoint("x", 2));
    fill(memory, 50000, 1, 9);
    OK(VELOC_Checkpoint_begin("x", 1));
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(VELOC_FAILURE));
    OK(VELOC_Checkpoint_begin("x", 7));
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(VELOC_FAILURE));
    OK(VELOC_Checkpoint_begin("y", 1));
    OK(VELOC_Checkpoint_end(0));
    EQUAL(VELOC_Restart_test("x", 0), 2);
    CHECK(VELOC_Restart_test("y", 0) < 0);
    OK(VELOC_Restart("x", 1));
    CONTENT(memory, 50000, 1, 1);
    /* An end that says success needs something captured; the phase is over all the same. */
    OK(VELOC_Checkpoint_begin("x", 1));
    REFUSED(VELOC_Checkpoint_end(1), "nothing was captured");
    OK(VELOC_Restart("x", 1));
    CONTENT(memory, 50000, 1, 1);
    REFUSED(VELOC_Restart("x", 7), "x|7");
}

static void protected_again(void)
{
    void *small = protect(1, 100, 1);
    void *large = get_memory(200);
    OK(VELOC_Checkpoint("x", 1));
    fill(large, 200, 1, 2);
    OK(VELOC_Mem_protect(1, large, 50, 4));
    OK(VELOC_Checkpoint("x", 2));
    EQUAL(VELOC_Recover_ckpt_size("x", 1, 1), 100);
    EQUAL(VELOC_Recover_ckpt_size("x", 2, 1), 200);
    EQUAL(VELOC_Recover_ckpt_size("x", 2, 2), 0);
    EQUAL(VELOC_Recover_ckpt_size("x", 3, 1), 0);
    EQUAL(VELOC_Recover_ckpt_size("y", 1, 1), 0);
    memset(large, 0, 200);
    OK(VELOC_Restart("x", 2));
    CONTENT(large, 200, 1, 2);
    OK(VELOC_Restart("x", 1));
    CONTENT(large, 100, 1, 1);
    OK(VELOC_Mem_protect(1, small, 100, 1));
    REFUSED(VELOC_Restart("x", 2), "region 1|200|100");
    /* A region that comes and one that goes, after the first checkpoint of the name. */
    OK(VELOC_Mem_unprotect(1));
    REFUSED(VELOC_Mem_unprotect(1), "region 1");
    protect(2, 10, 3);
    OK(VELOC_Checkpoint("x", 3));
    EQUAL(VELOC_Recover_ckpt_size("x", 3, 1), 0);
    EQUAL(VELOC_Recover_ckpt_size("x", 3, 2), 10);
    OK(VELOC_Mem_clear());
    REFUSED(VELOC_Checkpoint("x", 4), "no region is protected");
    EQUAL(VELOC_Restart_test("x", 0), 3);
    CHECK(VELOC_Restart_test("x", 4) == 3);
}

static void own_regions(void)
{
    void *common = protect(1, 100, 1), *own = get_memory(300);
    OK(VELOC_Checkpoint("mine", 1));
    /* From here on "mine" has a region of its own, under an id that others use, too. */
    fill(own, 300, 1, 2);
    OK(VELOC_Region_protect(1, own, 300, 1, "mine"));
    OK(VELOC_Checkpoint("mine", 2));
    OK(VELOC_Checkpoint("other", 2));
    EQUAL(VELOC_Recover_ckpt_size("mine", 1, 1), 100);
    EQUAL(VELOC_Recover_ckpt_size("mine", 2, 1), 300);
    EQUAL(VELOC_Recover_ckpt_size("other", 2, 1), 100);
    memset(common, 0, 100);
    memset(own, 0, 300);
    OK(VELOC_Restart("mine", 2));
    CONTENT(own, 300, 1, 2);
    OK(VELOC_Restart("other", 2));
    CONTENT(common, 100, 1, 1);
    /* Changed again after a checkpoint, and gone. */
    OK(VELOC_Region_protect(1, own, 200, 1, "mine"));
    OK(VELOC_Region_protect(2, own, 10, 1, "mine"));
    OK(VELOC_Checkpoint("mine", 3));
    EQUAL(VELOC_Recover_ckpt_size("mine", 3, 1), 200);
    EQUAL(VELOC_Recover_ckpt_size("mine", 3, 2), 10);
    OK(VELOC_Region_unprotect(1, "mine"));
    REFUSED(VELOC_Region_unprotect(1, "mine"), "mine|region 1");
    REFUSED(VELOC_Region_unprotect(2, "other"), "other|region 2");
    OK(VELOC_Region_clear("mine"));
    OK(VELOC_Checkpoint("mine", 4));
    EQUAL(VELOC_Recover_ckpt_size("mine", 4, 1), 100);
    /* The regions of all come and go without touching those of a name. */
    OK(VELOC_Region_protect(5, own, 7, 1, "mine"));
    OK(VELOC_Mem_clear());
    OK(VELOC_Checkpoint("mine", 5));
    EQUAL(VELOC_Recover_ckpt_size("mine", 5, 5), 7);
    REFUSED(VELOC_Checkpoint("other", 5), "no region is protected");
}

static void replaced_by_less(void)
{
    void *memory = protect(1, 1 << 20, 1);
    OK(VELOC_Checkpoint("x", 5));
    OK(VELOC_Checkpoint_wait());
    fill(memory, 10, 1, 2);
    OK(VELOC_Mem_protect(1, memory, 10, 1));
    OK(VELOC_Checkpoint("x", 5));
    memset(memory, 0, 10);
    OK(VELOC_Restart("x", 5));
    CONTENT(memory, 10, 1, 2);
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Restart("x", 5));
    CONTENT(memory, 10, 1, 2);
    /* Again and again without a wait between: the last one counts. */
    {
        int round;
        for (round = 3; round <= 40; round++) {
            fill(memory, 200000, 1, round);
            OK(VELOC_Mem_protect(1, memory, 100000 + 1000u * (unsigned)round, 1));
            OK(VELOC_Checkpoint("x", 6));
        }
        OK(VELOC_Restart("x", 6));
        CONTENT(memory, 140000, 1, 40);
    }
}

static void newest(void)
{
    protect(1, 64, 1);
    OK(VELOC_Checkpoint("x", 10));
    OK(VELOC_Checkpoint("x", 3));
    OK(VELOC_Checkpoint("x", 7));
    OK(VELOC_Checkpoint("xx", 20));
    EQUAL(VELOC_Restart_test("x", 0), 10);
    EQUAL(VELOC_Restart_test("x", 100), 10);
    EQUAL(VELOC_Restart_test("x", 10), 10);
    EQUAL(VELOC_Restart_test("x", 9), 7);
    EQUAL(VELOC_Restart_test("x", 3), 3);
    CHECK(VELOC_Restart_test("x", 2) < 0);
    CHECK(VELOC_Restart_test("none", 0) < 0);
    CHECK(VELOC_Restart_test("x.", 0) < 0);
    REFUSED(VELOC_Restart_test("x", 2), "no checkpoint \"x\", version 2 or an older one|in memory");
    REFUSED(VELOC_Restart("x", 2), "no checkpoint \"x\" version 2|in memory");
    EQUAL(VELOC_Restart_test("xx", 0), 20);
    /* Version 0 is a version, and "newest of all" as an argument. */
    OK(VELOC_Checkpoint("zero", 0));
    EQUAL(VELOC_Restart_test("zero", 0), 0);
    OK(VELOC_Restart("zero", 0));
}

static void all_or_nothing(void)
{
    void *first = protect(1, 4000, 1);
    void *second = protect(2, 4000, 1);
    void *third = protect(3, 4000, 1);
    OK(VELOC_Checkpoint("x", 1));
    fill(first, 4000, 1, 2);
    fill(second, 4000, 2, 2);
    fill(third, 4000, 3, 2);
    OK(VELOC_Mem_protect(3, third, 3999, 1));
    REFUSED(VELOC_Restart("x", 1), "region 3|4000|3999");
    OK(VELOC_Mem_unprotect(2));
    REFUSED(VELOC_Restart("x", 1), "region 2");
    CONTENT(first, 4000, 1, 2);
    CONTENT(second, 4000, 2, 2);
    CONTENT(third, 4000, 3, 2);
    OK(VELOC_Mem_protect(2, second, 4000, 1));
    OK(VELOC_Mem_protect(3, third, 4000, 1));
    OK(VELOC_Restart("x", 1));
    CONTENT(first, 4000, 1, 1);
    CONTENT(third, 4000, 3, 1);
}

static void route(int argc, char **argv)
{
    char routed[VELOC_MAX_NAME], again[VELOC_MAX_NAME], line[32] = "";
    const char *original = option(argc, argv, "original", "");
    FILE *file;
    OK(VELOC_Checkpoint_begin("routed", 4));
    OK(VELOC_Route_file(original, routed));
    OK(VELOC_Route_file(original, again));
    CHECK(strcmp(routed, again) == 0);
    protect(1, 10, 1);
    REFUSED(VELOC_Checkpoint_mem(), "routed|memory cannot be added");
    file = fopen(routed, "w");
    CHECK(file != NULL);
    fputs("what the application wrote\n", file);
    fclose(file);
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    /* One that is given up leaves no file. */
    OK(VELOC_Checkpoint_begin("routed", 5));
    OK(VELOC_Route_file("/nowhere/else", routed));
    file = fopen(routed, "w");
    CHECK(file != NULL);
    fclose(file);
    OK(VELOC_Checkpoint_end(0));
    EQUAL(VELOC_Restart_test("routed", 0), 4);
    OK(VELOC_Restart_begin("routed", 4));
    OK(VELOC_Route_file(original, routed));
    file = fopen(routed, "r");
    CHECK(file != NULL);
    CHECK(fgets(line, sizeof line, file) != NULL);
    fclose(file);
    CHECK(strcmp(line, "what the application wrote\n") == 0);
    OK(VELOC_Restart_end(1));
}

static void route_back(int argc, char **argv)
{
    char routed[VELOC_MAX_NAME], line[32] = "";
    FILE *file;
    EQUAL(VELOC_Restart_test("routed", 0), 4);
    OK(VELOC_Restart_begin("routed", 4));
    OK(VELOC_Route_file(option(argc, argv, "original", ""), routed));
    file = fopen(routed, "r");
    CHECK(file != NULL);
    CHECK(fgets(line, sizeof line, file) != NULL);
    fclose(file);
    CHECK(strcmp(line, "what the application wrote\n") == 0);
    OK(VELOC_Restart_end(1));
}

/* Of a routed checkpoint, too, everything is removed. */
static void route_cleaned(int argc, char **argv)
{
    route(argc, argv);
    OK(VELOC_Cleanup("routed"));
    OK(VELOC_Checkpoint_wait());
}

/* A version that was a file becomes memory, and a version that was memory becomes a file. */
static void route_replaced(int argc, char **argv)
{
    char routed[VELOC_MAX_NAME];
    void *memory;
    FILE *file;
    route(argc, argv);
    memory = protect(1, 10000, 4);
    OK(VELOC_Checkpoint("routed", 4));
    OK(VELOC_Checkpoint("was_memory", 4));
    OK(VELOC_Checkpoint_wait());
    memset(memory, 0, 10000);
    OK(VELOC_Restart("routed", 4));
    CONTENT(memory, 10000, 1, 4);
    OK(VELOC_Checkpoint_begin("was_memory", 4));
    OK(VELOC_Route_file(option(argc, argv, "original", ""), routed));
    file = fopen(routed, "w");
    CHECK(file != NULL);
    fputs("what the application wrote\n", file);
    fclose(file);
    OK(VELOC_Checkpoint_end(1));
}

static void route_replaced_back(int argc, char **argv)
{
    char routed[VELOC_MAX_NAME], line[32] = "";
    void *memory = protect(1, 10000, 0);
    FILE *file;
    EQUAL(VELOC_Restart_test("routed", 0), 4);
    OK(VELOC_Restart("routed", 4));
    CONTENT(memory, 10000, 1, 4);
    EQUAL(VELOC_Restart_test("was_memory", 0), 4);
    OK(VELOC_Restart_begin("was_memory", 4));
    OK(VELOC_Route_file(option(argc, argv, "original", ""), routed));
    file = fopen(routed, "r");
    CHECK(file != NULL);
    CHECK(fgets(line, sizeof line, file) != NULL);
    fclose(file);
    CHECK(strcmp(line, "what the application wrote\n") == 0);
    OK(VELOC_Restart_end(1));
}

static void cleanup(void)
{
    const char *names[] = {"a.b", "azb", "a.bc", "a", "a..b"};
    unsigned i;
    protect(1, 2000, 1);
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        OK(VELOC_Checkpoint(names[i], 1));
        OK(VELOC_Checkpoint(names[i], 2));
    }
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Cleanup("a.b"));
    OK(VELOC_Cleanup("never.there"));
    for (i = 1; i < sizeof names / sizeof names[0]; i++) {
        EQUAL(VELOC_Restart_test(names[i], 0), 2);
        OK(VELOC_Restart(names[i], 1));
    }
}

/* Hints of what is still to come, or never comes: only a wrong name or version is refused. */
static void hints(void)
{
    int version;
    for (version = 4; version >= 0; version--)
        OK(VELOC_Prefetch_enqueue("x", version));
    OK(VELOC_Prefetch_enqueue("other", 7));
    REFUSED(VELOC_Prefetch_enqueue("x", -1), "version -1");
    REFUSED(VELOC_Prefetch_enqueue("a/b", 1), "a/b");
    REFUSED(VELOC_Prefetch_enqueue(NULL, 1), "name|NULL");
    OK(VELOC_Prefetch_enqueue("gone", 1));
    OK(VELOC_Cleanup("gone"));
    protect(1, 2000, 1);
    for (version = 0; version < 4; version++)
        OK(VELOC_Checkpoint("x", version));
    OK(VELOC_Prefetch_start());
    for (version = 3; version >= 0; version--)
        OK(VELOC_Restart("x", version));
    REFUSED(VELOC_Restart("x", 4), "version 4");
}

/* Removed while its files are still under way: nothing may come back later. */
static void cleanup_at_once(void)
{
    int version;
    protect(1, 500000, 1);
    for (version = 1; version <= 8; version++)
        OK(VELOC_Checkpoint("gone", version));
    OK(VELOC_Cleanup("gone"));
    OK(VELOC_Checkpoint("stays", 1));
    OK(VELOC_Checkpoint("gone", 3));
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Restart("gone", 3));
    EQUAL(VELOC_Restart_test("stays", 0), 1);
}

static void many(void)
{
    const char *names[] = {"one", "two", "three"};
    uint64_t seed = 12345;
    void *memory = protect(1, 3000, 0);
    int version, name, i;
    for (version = 0; version < 150; version++)
        for (name = 0; name < 3; name++) {
            size_t bytes = 1 + (size_t)(version * 37 + name * 1001) % 3000;
            fill(memory, bytes, name, version);
            OK(VELOC_Mem_protect(1, memory, bytes, 1));
            OK(VELOC_Checkpoint(names[name], version));
        }
    OK(VELOC_Mem_protect(1, memory, 3000, 1));
    for (i = 0; i < 300; i++) {
        size_t bytes;
        version = (int)(next_random(&seed) % 150);
        name = (int)(next_random(&seed) % 3);
        bytes = 1 + (size_t)(version * 37 + name * 1001) % 3000;
        memset(memory, 0, 3000);
        OK(VELOC_Restart(names[name], version));
        CONTENT(memory, bytes, name, version);
    }
}

static void finished(void)
{
    int rounds;
    protect(1, 400000, 1);
    EQUAL(VELOC_Checkpoint_finished(), 1);
    OK(VELOC_Checkpoint("x", 1));
    for (rounds = 0; VELOC_Checkpoint_finished() == 0; rounds++) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    EQUAL(VELOC_Checkpoint_finished(), 1);
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
}

/* No memory at all is a checkpoint, too, as long as something is protected. */
static void empty_region(void)
{
    OK(VELOC_Mem_protect(4, NULL, 0, 8));
    OK(VELOC_Checkpoint("x", 1));
    OK(VELOC_Restart("x", 1));
    OK(VELOC_Restart_begin("x", 1));
    EQUAL(VELOC_Recover_size(4), 0);
    OK(VELOC_Restart_end(1));
}

/* Two lives in one process; what the first one wrote, the second one finds. */
static void two_lives(int argc, char **argv)
{
    const char *configuration = argv[1];
    void *memory = protect(1, 30000, 1);
    (void)argc;
    OK(VELOC_Checkpoint("x", 1));
    OK(VELOC_Finalize(1));
    REFUSED(VELOC_Finalize(1), "no job");
    OK(VELOC_Init_single(0, configuration));
    REFUSED(VELOC_Init_single(0, configuration), "initialised already");
    REFUSED(VELOC_Checkpoint("x", 2), "no region is protected");
    memset(memory, 0, 30000);
    OK(VELOC_Mem_protect(1, memory, 30000, 1));
    EQUAL(VELOC_Restart_test("x", 0), 1);
    OK(VELOC_Restart("x", 1));
    CONTENT(memory, 30000, 1, 1);
    /* Finalizing with everything open, and without draining. */
    OK(VELOC_Checkpoint_begin("x", 2));
    OK(VELOC_Checkpoint_mem());
    REFUSED(VELOC_Finalize(0), "was not ended|it is kept");
    OK(VELOC_Init_single(0, configuration));
    EQUAL(VELOC_Restart_test("x", 0), 2);
    OK(VELOC_Restart_begin("x", 1));
}

/* write: versions first..last of a name; read: checks them. For tests with several processes. */
static void write_versions(int argc, char **argv)
{
    const char *name = option(argc, argv, "name", "x");
    size_t bytes = (size_t)number(argc, argv, "bytes", 10000);
    long version, last = number(argc, argv, "last", 1);
    void *small = protect(-3, 5, 0);
    void *memory = protect(1, bytes, 0);
    for (version = number(argc, argv, "first", 1); version <= last; version++) {
        fill(small, 5, -3, (int)version);
        fill(memory, bytes, 1, (int)version);
        OK(VELOC_Checkpoint(name, (int)version));
    }
}

static void read_versions(int argc, char **argv)
{
    const char *name = option(argc, argv, "name", "x");
    size_t bytes = (size_t)number(argc, argv, "bytes", 10000);
    long version, last = number(argc, argv, "last", 1);
    void *small = protect(-3, 5, 0);
    void *memory = protect(1, bytes, 0);
    EQUAL(VELOC_Restart_test(name, 0), number(argc, argv, "newest", last));
    for (version = number(argc, argv, "first", 1); version <= last; version++) {
        memset(memory, 0, bytes);
        OK(VELOC_Restart(name, (int)version));
        CONTENT(small, 5, -3, (int)version);
        CONTENT(memory, bytes, 1, (int)version);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"round-trip", round_trip},
        {"selective", selective},
        {"given-up", given_up},
        {"protected-again", protected_again},
        {"own-regions", own_regions},
        {"replaced-by-less", replaced_by_less},
        {"newest", newest},
        {"all-or-nothing", all_or_nothing},
        {"cleanup", cleanup},
        {"hints", hints},
        {"cleanup-at-once", cleanup_at_once},
        {"many", many},
        {"finished", finished},
        {"empty-region", empty_region},
    };
    const struct {
        const char *name;
        void (*run)(int argc, char **argv);
    } with_arguments[] = {
        {"two-lives", two_lives},
        {"route", route},
        {"route-back", route_back},
        {"route-cleaned", route_cleaned},
        {"route-replaced", route_replaced},
        {"route-replaced-back", route_replaced_back},
        {"write", write_versions},
        {"read", read_versions},
    };
    unsigned i;
    int found = 0;
    CHECK(argc > 2);
    OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0),
                         option(argc, argv, "configuration", argv[1])));
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, what) == 0) {
            cases[i].run();
            found = 1;
        }
    for (i = 0; i < sizeof with_arguments / sizeof with_arguments[0]; i++)
        if (strcmp(with_arguments[i].name, what) == 0) {
            with_arguments[i].run(argc, argv);
            found = 1;
        }
    CHECK(found);
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
