/*
 * Mistakes that compile and run, and the right program beside each: mistakes <configuration> <case> [right]
 *
 * The test looks for the one warning about the mistake, and for none about the right program.
 */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/mman.h>

enum { SIZE = 1000 };

static int right;
static const char *configuration;
static double field[SIZE], other[SIZE];

static void set(double *values, double to)
{
    int i;
    for (i = 0; i < SIZE; i++)
        values[i] = to + i;
}

static void is_set(const double *values, double to)
{
    int i;
    for (i = 0; i < SIZE; i++)
        CHECK(values[i] == to + i);
}

static void write_to(const char *path)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs("a file of the application's\n", file);
    fclose(file);
}

/* VELOC_Checkpoint_end(VELOC_SUCCESS): 0 is no success for VELOC's documentation. */
static void end_with_zero(void)
{
    OK(VELOC_Mem_protect(0, field, SIZE, sizeof(double)));
    set(field, 1);
    OK(VELOC_Checkpoint_begin("x", 1));
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(right ? 1 : VELOC_SUCCESS));
    /* What has failed is given up, by whichever of the two it is said. */
    OK(VELOC_Checkpoint_begin("x", 2));
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(VELOC_FAILURE));
    OK(VELOC_Checkpoint_begin("x", 3));
    OK(VELOC_Checkpoint_mem());
    REFUSED(VELOC_Checkpoint_mem(), "region 0");
    OK(VELOC_Checkpoint_end(0));
    OK(VELOC_Checkpoint_begin("x", 4));
    OK(VELOC_Checkpoint_end(0));
    EQUAL(VELOC_Restart_test("x", 0), 1);
    set(field, 5);
    OK(VELOC_Restart("x", 1));
    is_set(field, 1);
}

/* Of a file nobody knows whether it is whole. */
static void file_with_zero(void)
{
    char routed[VELOC_MAX_NAME];
    OK(VELOC_Checkpoint_begin("x", 1));
    OK(VELOC_Route_file("own", routed));
    write_to(routed);
    OK(VELOC_Checkpoint_end(right));
    EQUAL(VELOC_Restart_test("x", 0), right ? 1 : -1);
}

static void no_end(void)
{
    char routed[VELOC_MAX_NAME];
    int version;
    for (version = 1; version <= 3; version++) {
        set(field, version);
        OK(VELOC_Mem_protect(0, field, SIZE, sizeof(double)));
        OK(VELOC_Checkpoint_begin("x", version));
        if (version == 2) {
            OK(VELOC_Route_file("own", routed));
            write_to(routed);
        } else if (version == 1) {
            OK(VELOC_Checkpoint_mem());
        }
        if (right) {
            OK(VELOC_Checkpoint_end(version < 3 ? 1 : VELOC_FAILURE));
            OK(VELOC_Finalize(0));
        } else {
            REFUSED(VELOC_Finalize(0), version < 3 ? "was not ended|it is kept" : "was not ended|it is given up");
        }
        OK(VELOC_Init_single(0, configuration));
        EQUAL(VELOC_Restart_test("x", 0), version < 3 ? version : 2);
    }
    set(field, 9);
    OK(VELOC_Mem_protect(0, field, SIZE, sizeof(double)));
    OK(VELOC_Restart("x", 1));
    is_set(field, 1);
}

static void same_id(void)
{
    double *moved = malloc(sizeof field), *u = malloc(sizeof field), *v = malloc(sizeof field), *t;
    int step;
    CHECK(moved != NULL && u != NULL && v != NULL);
    OK(VELOC_Mem_protect(0, field, SIZE, sizeof(double)));
    if (!right)
        OK(VELOC_Mem_protect(0, other, SIZE, sizeof(double)));
    OK(VELOC_Mem_protect(1, other, SIZE / 2, sizeof(double)));
    OK(VELOC_Mem_protect(1, other, SIZE, sizeof(double)));
    /* Two that change places, one of two, and one that was freed. */
    for (step = 0; step < 3; step++) {
        t = u;
        u = v;
        v = t;
        set(u, step);
        set(v, step);
        OK(VELOC_Mem_protect(2, u, SIZE, sizeof(double)));
        OK(VELOC_Mem_protect(3, v, SIZE, sizeof(double)));
        OK(VELOC_Mem_protect(4, step % 2 ? u : v, SIZE, sizeof(double)));
    }
    OK(VELOC_Checkpoint("x", 1));
    /* Memory that has moved, after a checkpoint and after a look at one. */
    set(moved, 0);
    OK(VELOC_Mem_protect(0, moved, SIZE, sizeof(double)));
    OK(VELOC_Restart_begin("x", 1));
    EQUAL(VELOC_Recover_size(0), sizeof field);
    OK(VELOC_Mem_protect(0, field, SIZE, sizeof(double)));
    OK(VELOC_Recover_mem());
    OK(VELOC_Restart_end(1));
    OK(VELOC_Mem_unprotect(0));
    OK(VELOC_Mem_protect(0, moved, SIZE, sizeof(double)));
    OK(VELOC_Checkpoint("x", 2));
    free(moved);
    free(u);
    free(v);
}

static double *rows[SIZE];

static void pointers(void)
{
    struct {
        long n;
        double *values;
    } grid;
    double *pointer = malloc(sizeof field);
    int numbers[SIZE], i;
    CHECK(pointer != NULL);
    set(pointer, 0);
    for (i = 0; i < SIZE; i++) {
        rows[i] = pointer + i;
        numbers[i] = i;
    }
    grid.n = SIZE;
    grid.values = pointer;
    /* What was there before, until it is written. */
    memcpy(field, rows, sizeof field);
    if (right) {
        OK(VELOC_Mem_protect(0, pointer, SIZE, sizeof(double)));
        OK(VELOC_Mem_protect(1, &grid.n, 1, sizeof grid.n));
        OK(VELOC_Mem_protect(2, rows[7], 1, sizeof(double)));
    } else {
        OK(VELOC_Mem_protect(0, rows, SIZE, sizeof(double *)));
        OK(VELOC_Mem_protect(1, &grid, 1, sizeof grid));
        OK(VELOC_Mem_protect(2, &pointer, 1, sizeof pointer));
    }
    OK(VELOC_Mem_protect(3, numbers, SIZE, sizeof(int)));
    OK(VELOC_Mem_protect(4, field, SIZE, sizeof(double)));
    set(field, 1);
    OK(VELOC_Checkpoint("x", 1));
    OK(VELOC_Checkpoint("x", 2));
    free(pointer);
}

/* In a frame of its own, which is gone when it returns. */
static __attribute__((noinline)) void protect_local(void)
{
    double local[SIZE];
    set(local, 1);
    OK(VELOC_Mem_protect(3, local, SIZE, sizeof(double)));
}

static void stack(void)
{
    double local[SIZE];
    set(local, 1);
    if (right)
        OK(VELOC_Mem_protect(3, local, SIZE, sizeof(double)));
    else
        protect_local();
    OK(VELOC_Checkpoint("x", 1));
    OK(VELOC_Checkpoint("x", 2));
}

/* As small as what the checkpoint call has on the stack itself. */
static __attribute__((noinline)) void protect_step(void)
{
    volatile int step = 7;
    OK(VELOC_Mem_protect(3, (void *)&step, 1, sizeof step));
}

static void variable(void)
{
    volatile int step = 7;
    if (right)
        OK(VELOC_Mem_protect(3, (void *)&step, 1, sizeof step));
    else
        protect_step();
    OK(VELOC_Checkpoint("x", 1));
    OK(VELOC_Checkpoint("x", 2));
}

static void no_bytes(void)
{
    /* As `int` would have it, whose product is 0. */
    unsigned m = 65536;
    size_t bytes = (size_t)m * m * 2;
    void *large = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(large != MAP_FAILED);
    OK(VELOC_Mem_protect(0, right ? (void *)field : large, m * m, 2));
    OK(VELOC_Mem_protect(1, NULL, 0, 8));
    OK(VELOC_Mem_protect(2, get_memory(0), 0, 8));
    OK(VELOC_Mem_protect(3, field, SIZE, 8));
    OK(VELOC_Checkpoint("x", 1));
}

static void other_size(void)
{
    set(field, 1);
    OK(VELOC_Mem_protect(0, field, SIZE, sizeof(float)));
    OK(VELOC_Checkpoint("x", 1));
    OK(VELOC_Checkpoint("x", 2));
    if (right) {
        OK(VELOC_Restart("x", 1));
        OK(VELOC_Restart_begin("x", 2));
        EQUAL(VELOC_Recover_size(0), SIZE * sizeof(float));
    }
    OK(VELOC_Mem_protect(0, field, SIZE, sizeof(double)));
    if (right)
        OK(VELOC_Recover_mem());
    else
        OK(VELOC_Restart("x", 2));
}

static void own_regions(void)
{
    OK(VELOC_Mem_protect(0, field, SIZE, sizeof(double)));
    if (right)
        OK(VELOC_Checkpoint("all", 1));
    OK(VELOC_Region_protect(1, other, SIZE, sizeof(double), "a"));
    OK(VELOC_Checkpoint("a", 1));
    OK(VELOC_Checkpoint("a", 2));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"end-with-zero", end_with_zero}, {"file-with-zero", file_with_zero},
                 {"no-end", no_end},               {"same-id", same_id},
                 {"pointers", pointers},           {"stack", stack},
                 {"variable", variable},
                 {"no-bytes", no_bytes},           {"other-size", other_size},
                 {"own-regions", own_regions}};
    unsigned i;
    CHECK(argc > 2);
    configuration = argv[1];
    right = argc > 3;
    OK(VELOC_Init_single(0, configuration));
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[2]) == 0) {
            cases[i].run();
            OK(VELOC_Finalize(1));
            puts("done");
            return 0;
        }
    CHECK(!"a case");
    return 1;
}
