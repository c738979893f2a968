/*
 * C = A B by products of blocks, which survive a crash in persistent memory and are told to have by sums of their rows and
 * columns: algorithm-based fault tolerance, after Yang et al., "Algorithm-directed crash consistence in non-volatile
 * memory for HPC".
 *
 *   abft [--n N] [--block N] [--seed N] [--file PATH] [--crash process|power|page] [--plain]
 *
 * All products of a block of A and one of B are kept, and added in a second loop. Of each, and of each block of C, only
 * the sums are written back. After a crash every block that was done is compared with its sums: one word that is wrong is
 * corrected, and what is more wrong is computed again.
 */
#include "../persistent.h"

#ifdef WITH_BLAS
#include <cblas.h>
#endif

/* The part of a product that is computed at once, in registers. */
enum { ROWS = 4, COLUMNS = 4 };

/* What a mark says of the run besides the block: results of others are not for this one. */
enum { SEED, LIBRARY, SCALARS };

/*
 * Blocks are numbered in the order in which they are computed: first the product of the blocks (i, k) of A and (k, j) of B
 * for all i, j and k, then the block (i, j) of C for all i and j. Mark t says that block t is done.
 */
struct multiplication {
    int64_t n, size; /* of the matrices, and of a block */
    int64_t side;    /* blocks of a row of blocks */
    double *a, *b;
    double said[SCALARS];
    VELOC_Pmem *pmem; /* NULL: ordinary memory, and no sums */
    struct array c, products, sums;
    uint64_t *new_sums;
    double *panel;
    int held, corrected, again;
};

static int64_t products_of(const struct multiplication *m)
{
    return m->side * m->side * m->side;
}

static double *block_at(const struct multiplication *m, int64_t t)
{
    int64_t products = products_of(m), words = m->size * m->size;
    return t < products ? (double *)at(&m->products, 0) + t * words
                        : (double *)at(&m->c, 0) + (t - products) * words;
}

/* The sums of its rows, and behind them those of its columns. */
static uint64_t *sums_at(const struct multiplication *m, int64_t t)
{
    return (uint64_t *)at(&m->sums, 0) + t * 2 * m->size;
}

#ifdef WITH_BLAS
static void multiply(const struct multiplication *m, const double *a, const double *b, double *c)
{
    int n = (int)m->n, size = (int)m->size;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a, n, b, n, 0, c,
                size);
}
#else
static void multiply(const struct multiplication *m, const double *a, const double *b, double *c)
{
    int64_t n = m->n, size = m->size, i, j, k;
    int row, column;
    for (j = 0; j < size; j += COLUMNS) {
        for (k = 0; k < size; k++)
            memcpy(m->panel + k * COLUMNS, b + k * n + j, COLUMNS * sizeof *b);
        for (i = 0; i < size; i += ROWS) {
            double sum[ROWS][COLUMNS] = {{0}};
            for (k = 0; k < size; k++)
                for (row = 0; row < ROWS; row++)
                    for (column = 0; column < COLUMNS; column++)
                        sum[row][column] += a[(i + row) * n + k] * m->panel[k * COLUMNS + column];
            for (row = 0; row < ROWS; row++)
                memcpy(c + (i + row) * size + j, sum[row], sizeof sum[row]);
        }
    }
}
#endif

/* The block of C whose products are these. */
static void add(const struct multiplication *m, const double *products, double *c)
{
    int64_t words = m->size * m->size, word, k;
    for (word = 0; word < words; word++) {
        double sum = products[word];
        for (k = 1; k < m->side; k++)
            sum += products[k * words + word];
        c[word] = sum;
    }
}

/* The same words whenever it is called. */
static void compute(const struct multiplication *m, int64_t t)
{
    int64_t products = products_of(m), side = m->side;
    if (t < products) {
        int64_t k = t % side, j = t / side % side, i = t / side / side;
        multiply(m, m->a + (i * m->n + k) * m->size, m->b + (k * m->n + j) * m->size,
                 block_at(m, t));
    } else {
        add(m, block_at(m, (t - products) * side), block_at(m, t));
    }
}

/*
 * Sums are flushed, and only then the block is marked; the mark waits for what was flushed. So:
 *
 * - sums of a block that is marked are all there, and are its own. Without the mark nobody looks at them: a block that was
 *   never written has the sums that were never written, 0, and one of another run has that run's;
 * - they are never written again below a mark. A block that is computed again has the same words, hence the same sums; and
 *   a run with other matrices takes back all marks (VELOC_Pmem_forget, in recover()) before it writes its first sums.
 *
 * The block itself is not flushed: whether it is there, the sums tell.
 */
static void finish(const struct multiplication *m, int64_t t)
{
    size_t size = (size_t)m->size, bytes = 2 * size * sizeof(uint64_t);
    must(VELOC_Pmem_matrix_sums(block_at(m, t), size, size, size, m->new_sums, m->new_sums + size));
    memcpy(sums_at(m, t), m->new_sums, bytes);
    must(VELOC_Pmem_flush(m->pmem, sums_at(m, t), bytes));
    must(VELOC_Pmem_mark(m->pmem, t, m->said, SCALARS));
}

static int compare(const struct multiplication *m, int64_t t)
{
    size_t size = (size_t)m->size;
    const uint64_t *sums = sums_at(m, t);
    int answer = VELOC_Pmem_matrix_correct(block_at(m, t), size, size, size, sums, sums + size,
                                           NULL, NULL);
    must(answer);
    return answer;
}

/* Whether a block that was done is what it was, or was but for a word. */
static int is_right(struct multiplication *m, int64_t t)
{
    int answer = compare(m, t);
    m->held += answer == VELOC_INVARIANT_HOLDS;
    m->corrected += answer == VELOC_INVARIANT_CORRECTED;
    return answer != VELOC_INVARIANT_FAILS;
}

static void compute_again(struct multiplication *m, int64_t t)
{
    compute(m, t);
    m->again++;
    if (compare(m, t) != VELOC_INVARIANT_HOLDS)
        refuse("is not what it was before the crash", "a block that was computed again");
}

/* Has all blocks up to the last one that was done right again, but for products that nothing needs any more. */
static void repair(struct multiplication *m, int64_t last)
{
    int64_t products = products_of(m), blocks = m->side * m->side, of, k;
    double began = seconds();
    for (of = 0; of < blocks; of++) {
        int64_t t = products + of;
        if (t <= last && is_right(m, t))
            continue;
        for (k = of * m->side; k < (of + 1) * m->side && k <= last; k++)
            if (!is_right(m, k))
                compute_again(m, k);
        if (t <= last)
            compute_again(m, t);
    }
    fprintf(stderr, "%d blocks are there, %d corrected, %d computed again, in %.6f s\n", m->held,
            m->corrected, m->again, seconds() - began);
}

/* Whether a mark is of this run, and not of other matrices. */
static int is_ours(int64_t t, const double *said, int n, void *context)
{
    const struct multiplication *m = context;
    (void)t;
    return n == SCALARS && memcmp(said, m->said, sizeof m->said) == 0 ? VELOC_INVARIANT_HOLDS
                                                                      : VELOC_INVARIANT_FAILS;
}

/* A number from -1 to 1 that looks random. */
static double entry(uint64_t seed, uint64_t nth)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + nth;
    int round;
    for (round = 0; round < 3; round++) {
        x ^= x >> 31;
        x *= UINT64_C(0xd6e8feb86659fd93);
    }
    return (double)(int64_t)x / 9223372036854775808.0;
}

static double *matrix(int64_t n, int64_t seed, uint64_t nth)
{
    double *all = memory((size_t)(n * n), sizeof *all);
    int64_t i;
    for (i = 0; i < n * n; i++)
        all[i] = entry((uint64_t)seed * 2 + nth, (uint64_t)i);
    return all;
}

/* Differs if one bit of C does. */
static uint64_t digest(const struct multiplication *m)
{
    const double *c = at(&m->c, 0);
    uint64_t digest = 0, word;
    int64_t i;
    for (i = 0; i < m->n * m->n; i++) {
        memcpy(&word, &c[i], sizeof word);
        digest = (digest ^ word) * UINT64_C(0xd6e8feb86659fd93);
        digest ^= digest >> 32;
    }
    return digest;
}

int main(int argc, char **argv)
{
    const char *file = "abft.pmem", *crash = "process";
    int64_t n = 1024, size = 128, seed = 1, blocks, words, last = -1, t;
    int plain = 0;
    const struct option options[] = {
        {"--n", &n, NULL, NULL},          {"--block", &size, NULL, NULL},
        {"--seed", &seed, NULL, NULL},    {"--file", NULL, &file, NULL},
        {"--crash", NULL, &crash, NULL},  {"--plain", NULL, NULL, &plain},
        {NULL, NULL, NULL, NULL},
    };
    struct multiplication m = {0};
    double began;

    read_options(argc, argv, options);
    if (n > 65536 || size > n || n % size != 0 || size % COLUMNS != 0)
        refuse("is no divisor of --n that is a multiple of 4", "--block");
    m.n = n;
    m.size = size;
    m.side = n / size;
    m.a = matrix(n, seed, 0);
    m.b = matrix(n, seed, 1);
    m.said[SEED] = (double)seed;
#ifdef WITH_BLAS
    m.said[LIBRARY] = 1;
#endif
    m.new_sums = memory((size_t)size * 2, sizeof *m.new_sums);
    m.panel = memory((size_t)size * COLUMNS, sizeof *m.panel);
    blocks = products_of(&m) + m.side * m.side;
    words = size * size;
    if (!plain) {
        size_t all = room((size_t)(n * n), sizeof(double), 1)
                     + room((size_t)(products_of(&m) * words), sizeof(double), 1)
                     + room((size_t)(blocks * 2 * size), sizeof(uint64_t), 1);
        must(VELOC_Pmem_open(file, all, crash_named(crash), &m.pmem));
    }
    m.c = array_of(m.pmem, "c", (size_t)(n * n), sizeof(double), 1);
    m.products = array_of(m.pmem, "products", (size_t)(products_of(&m) * words), sizeof(double), 1);
    if (!plain) {
        m.sums = array_of(m.pmem, "sums", (size_t)(blocks * 2 * size), sizeof(uint64_t), 1);
        must(VELOC_Pmem_invariant(m.pmem, "the same matrices", is_ours, &m));
        last = recover(m.pmem);
    }
    if (last >= 0)
        repair(&m, last);

    began = seconds();
    for (t = last + 1; t < blocks; t++) {
        compute(&m, t);
        if (!plain)
            finish(&m, t);
    }
    fprintf(stderr, "%lld blocks in %.6f s\n", (long long)(blocks - last - 1), seconds() - began);
    printf("order %lld, blocks of %lld\n", (long long)n, (long long)size);
    printf("digest %016llx\n", (unsigned long long)digest(&m));
    if (!plain)
        must(VELOC_Pmem_close(m.pmem));
    free_array(&m.c), free_array(&m.products);
    free(m.a), free(m.b), free(m.new_sums), free(m.panel);
    return 0;
}
