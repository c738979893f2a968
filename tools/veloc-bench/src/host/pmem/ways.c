/*
 * Times for `veloc-bench pmem`. What is compared takes turns in one process.
 *
 *   ways domain FOLDER                         what a file there survives
 *   ways marks FOLDER SAMPLES                  marks, and one line that is written back
 *   ways cg FOLDER CLASS ITERATIONS ROUNDS     conjugate gradients, kept in several ways
 *
 * Each line of output is what was measured, a tab, and a number.
 */
#include "solver.h"

#ifdef WITH_PMEMOBJ
#include <libpmemobj.h>
#endif

enum { SLOTS = 4, WARM = 1000, CACHES = 64 << 20 };

static void tell(const char *what, double value)
{
    printf("%s\t%.9g\n", what, value);
    fflush(stdout);
}

/* The path of a file in the folder. It is valid for the next seven calls. */
static const char *in(const char *folder, const char *name)
{
    static char paths[8][4096];
    static int next;
    char *path = paths[next++ % 8];
    if (snprintf(path, sizeof paths[0], "%s/%s", folder, name) >= (int)sizeof paths[0])
        refuse("is too long", folder);
    return path;
}

static VELOC_Pmem *file_of(const char *folder, const char *name, size_t bytes, int crash)
{
    VELOC_Pmem *pmem = NULL;
    must(VELOC_Pmem_open(in(folder, name), bytes, crash, &pmem));
    return pmem;
}

static void domain(const char *folder)
{
    VELOC_Pmem *pmem = NULL;
    VELOC_Domain domain = {0};
    const char *path = in(folder, "domain");
    if (VELOC_Pmem_open(path, 4096, VELOC_CRASH_POWER, &pmem) != VELOC_SUCCESS) {
        tell("power", 0);
        return;
    }
    must(VELOC_Pmem_domain(pmem, &domain));
    must(VELOC_Pmem_close(pmem));
    remove(path);
    tell("power", 1);
    tell("granularity", domain.granularity);
}

/* Has the caches hold other things. */
static void use_caches(void)
{
    static char *all;
    if (all == NULL)
        all = memory(CACHES, 1);
    memset(all, all[CACHES - 1] + 1, CACHES);
}

/* What a mark cannot do without. */
static void flush_line(VELOC_Pmem *pmem, volatile double *word)
{
    *word += 1;
    must(VELOC_Pmem_flush(pmem, (const void *)word, 64));
    must(VELOC_Pmem_drain(pmem));
}

static void marks_of(const char *folder, const char *name, int crash, int64_t samples)
{
    VELOC_Pmem *pmem = file_of(folder, name, room(1, 64, SLOTS), crash);
    struct array line = array_of(pmem, "line", 1, 64, SLOTS);
    double said[2] = {1, 2}, began;
    char what[64];
    int64_t k = 0, sample;
    int i;
    for (sample = 0; sample < samples; sample++) {
        began = seconds();
        for (i = 0; i < WARM; i++)
            must(VELOC_Pmem_mark(pmem, k++, said, 2));
        snprintf(what, sizeof what, "mark %s", name);
        tell(what, (seconds() - began) / WARM);
        if (crash == VELOC_CRASH_POWER) {
            volatile double *word = at(&line, 0);
            began = seconds();
            for (i = 0; i < WARM; i++)
                flush_line(pmem, word);
            tell("line", (seconds() - began) / WARM);
            use_caches();
            began = seconds();
            flush_line(pmem, word);
            tell("line after other work", seconds() - began);
        }
        use_caches();
        began = seconds();
        must(VELOC_Pmem_mark(pmem, k++, said, 2));
        snprintf(what, sizeof what, "mark after other work %s", name);
        tell(what, seconds() - began);
    }
    must(VELOC_Pmem_close(pmem));
    remove(in(folder, name));
}

/* The solve's right-hand side: solve() would set it. */
static void begin_with_ones(const struct cg *cg)
{
    double *b = at(&cg->b, 0);
    int64_t i;
    for (i = 0; i < cg->a->n; i++)
        b[i] = 1;
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Sorts the numbers. */
static double median(double *numbers, size_t n)
{
    qsort(numbers, n, sizeof *numbers, by_size);
    return (numbers[n / 2] + numbers[(n - 1) / 2]) / 2;
}

/*
 * Solves side by side, an iteration each in turn: what disturbs the machine for longer disturbs all of them. Each iteration is
 * compared with the first one's next to it, and the median of that is taken.
 */
static void time_side_by_side(struct cg *const *all, int count, double *times)
{
    size_t iterations = (size_t)all[0]->iterations;
    double rho[3], began, *each = memory(iterations * (size_t)(count + 1), sizeof *each);
    int64_t k;
    int i, turn;
    for (i = 0; i < count; i++) {
        if (all[i]->pmem != NULL)
            must(VELOC_Pmem_forget(all[i]->pmem)); /* of the round before */
        begin_with_ones(all[i]);
        rho[i] = begin(all[i], 0);
    }
    for (k = 0; k < all[0]->iterations; k++)
        for (turn = 0; turn < count; turn++) {
            i = (int)(k + turn) % count;
            began = seconds();
            rho[i] = iterate(all[i], k, rho[i]);
            each[(size_t)i * iterations + (size_t)k] = seconds() - began;
        }
    times[0] = median(memcpy(each + (size_t)count * iterations, each, iterations * sizeof *each),
                      iterations)
               * (double)iterations;
    for (i = 1; i < count; i++) {
        double *own = each + (size_t)i * iterations;
        for (k = 0; k < (int64_t)iterations; k++)
            own[k] /= each[k];
        times[i] = median(own, iterations) * times[0];
    }
    free(each);
}

/* A crash has left the newest state in part: how long the search takes for each state it tries, in iterations. */
static void time_recovery(const struct cg *cg, double iteration)
{
    VELOC_Tried tried[SLOTS];
    int64_t found;
    double began;
    int number;
    memset(at(&cg->p, cg->iterations), 0, 64);
    began = seconds();
    must(VELOC_Pmem_recover(cg->pmem, &found));
    began = seconds() - began;
    number = VELOC_Pmem_report(cg->pmem, tried, SLOTS);
    if (found != cg->iterations - 1 || number != 2)
        refuse("was not recovered behind a torn state", "the state before");
    tell("recovery", began / number / iteration);
}

/* A checkpoint of p, q and z behind each iteration, in this mode. */
static double time_with_checkpoints(const struct cg *cg, const char *folder, const char *mode)
{
    const char *configuration = in(folder, "veloc.cfg");
    FILE *file = fopen(configuration, "w");
    size_t n = (size_t)cg->a->n;
    double began, rho;
    int64_t k;
    if (file == NULL)
        refuse("cannot be written", configuration);
    fprintf(file, "mode = %s\nscratch = %s/scratch\nmax_versions = 2\n", mode, folder);
    if (fclose(file) != 0)
        refuse("cannot be written", configuration);
    must(VELOC_Init_single(0, configuration));
    must(VELOC_Mem_protect(0, at(&cg->p, 0), n, sizeof(double)));
    must(VELOC_Mem_protect(1, at(&cg->q, 0), n, sizeof(double)));
    must(VELOC_Mem_protect(2, at(&cg->z, 0), n, sizeof(double)));
    begin_with_ones(cg);
    must(VELOC_Checkpoint("cg", 1)); /* what is made once is there from here on */
    must(VELOC_Checkpoint_wait());
    began = seconds();
    rho = begin(cg, 0);
    for (k = 0; k < cg->iterations; k++) {
        rho = iterate(cg, k, rho);
        must(VELOC_Checkpoint("cg", (int)k + 2));
    }
    must(VELOC_Checkpoint_wait());
    began = seconds() - began;
    must(VELOC_Finalize(1));
    return began;
}

#ifdef WITH_PMEMOBJ
/* The vectors in a pool of PMDK's, each iteration a transaction that can be undone. */
struct undo {
    PMEMobjpool *pool;
    struct cg cg;
};

static struct undo undo_of(const struct cg *plain, const char *folder)
{
    size_t n = (size_t)plain->a->n, bytes = n * sizeof(double);
    struct undo undo = {NULL, *plain};
    struct array *arrays[] = {&undo.cg.b, &undo.cg.p, &undo.cg.q, &undo.cg.r, &undo.cg.z};
    char *root;
    int i;
    undo.pool = pmemobj_create(in(folder, "undo"), "cg", 20 * bytes + (64 << 20), 0600);
    if (undo.pool == NULL)
        refuse(pmemobj_errormsg(), "pmemobj_create");
    root = pmemobj_direct(pmemobj_root(undo.pool, 5 * bytes));
    for (i = 0; i < 5; i++)
        arrays[i]->plain = root + (size_t)i * bytes;
    return undo;
}

static double time_with_undo_log(const struct undo *undo)
{
    const struct cg *cg = &undo->cg;
    size_t bytes = (size_t)cg->a->n * sizeof(double);
    volatile double rho; /* a transaction begins with setjmp */
    double began;
    volatile int64_t k;
    begin_with_ones(cg);
    began = seconds();
    rho = begin(cg, 0);
    for (k = 0; k < cg->iterations; k++) {
        TX_BEGIN(undo->pool) {
            pmemobj_tx_add_range_direct(at(&cg->p, 0), bytes);
            pmemobj_tx_add_range_direct(at(&cg->r, 0), bytes);
            pmemobj_tx_add_range_direct(at(&cg->z, 0), bytes);
            rho = iterate(cg, k, rho);
        } TX_ONABORT {
            refuse(pmemobj_errormsg(), "a transaction");
        } TX_END
    }
    return seconds() - began;
}
#endif

static struct cg kept(const struct cg *plain, const char *folder, const char *name, int crash)
{
    struct cg cg = *plain;
    size_t bytes = 5 * room((size_t)cg.a->n, sizeof(double), SLOTS);
    set_up(&cg, file_of(folder, name, bytes, crash), SLOTS);
    return cg;
}

static void conjugate_gradients(const char *folder, const char *name, int64_t iterations,
                                int64_t rounds)
{
    const struct class *class = class_named(name);
    struct matrix a;
    struct cg plain = {0}, process, power, *const all[] = {&plain, &process, &power};
    int64_t round;
    double times[3];
    if (class == NULL)
        refuse("there are classes S, W, A, B and C", name);
    a = make_matrix(class);
    plain.a = &a;
    plain.iterations = iterations;
    plain.solves = 1;
    set_up(&plain, NULL, 1);
    process = kept(&plain, folder, "process", VELOC_CRASH_PROCESS);
    power = kept(&plain, folder, "power", VELOC_CRASH_POWER);
    add_invariants(&power);
#ifdef WITH_PMEMOBJ
    struct undo undo = undo_of(&plain, folder);
#endif
    tell("nonzeros", (double)a.start[a.n]);
    time_side_by_side(all, 3, times); /* pages and caches as in the rounds */
    for (round = 0; round < rounds; round++) {
        time_side_by_side(all, 3, times);
        tell("plain", times[0]);
        tell("process", times[1]);
        tell("power", times[2]);
        time_recovery(&power, times[2] / (double)iterations);
        tell("async", time_with_checkpoints(&plain, folder, "async"));
        tell("sync", time_with_checkpoints(&plain, folder, "sync"));
#ifdef WITH_PMEMOBJ
        tell("undo", time_with_undo_log(&undo));
#endif
    }
#ifdef WITH_PMEMOBJ
    pmemobj_close(undo.pool);
#endif
    must(VELOC_Pmem_close(process.pmem));
    must(VELOC_Pmem_close(power.pmem));
    tear_down(&plain);
    free_matrix(&a);
}

int main(int argc, char **argv)
{
    const char *part = argc > 2 ? argv[1] : "";
    if (strcmp(part, "domain") == 0) {
        domain(argv[2]);
    } else if (strcmp(part, "marks") == 0 && argc == 4) {
        marks_of(argv[2], "process", VELOC_CRASH_PROCESS, atoll(argv[3]));
        marks_of(argv[2], "power", VELOC_CRASH_POWER, atoll(argv[3]));
    } else if (strcmp(part, "cg") == 0 && argc == 6) {
        conjugate_gradients(argv[2], argv[3], atoll(argv[4]), atoll(argv[5]));
    } else {
        refuse("what is to be measured?", argv[0]);
    }
    return 0;
}
