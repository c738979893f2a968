/*
 * Times for `veloc-bench pmem`: products of matrices in ordinary memory, and with sums in a file, a block each in turn.
 *
 *   turns-abft FILE N BLOCK ROUNDS
 *
 * Prints for each round "plain", a tab and seconds, and the same for "kept".
 */
#define main example
#include "abft.c"
#undef main

int main(int argc, char **argv)
{
    struct multiplication plain = {0}, kept;
    int64_t blocks, words, sums, rounds, t;
    if (argc != 5)
        refuse("FILE N BLOCK ROUNDS are needed", argv[0]);
    plain.n = atoll(argv[2]);
    plain.size = atoll(argv[3]);
    rounds = atoll(argv[4]);
    if (plain.n < 4 || plain.size < 4 || plain.n % plain.size != 0 || plain.size % COLUMNS != 0)
        refuse("is no divisor of N that is a multiple of 4", argv[3]);
    plain.side = plain.n / plain.size;
    plain.a = matrix(plain.n, 1, 0);
    plain.b = matrix(plain.n, 1, 1);
    plain.panel = memory((size_t)plain.size * COLUMNS, sizeof *plain.panel);
    plain.new_sums = memory((size_t)plain.size * 2, sizeof *plain.new_sums);
    kept = plain;
    blocks = products_of(&plain) + plain.side * plain.side;
    words = plain.n * plain.n;
    sums = blocks * 2 * plain.size;
    plain.c = array_of(NULL, "c", (size_t)words, sizeof(double), 1);
    plain.products = array_of(NULL, "products", (size_t)(words * plain.side), sizeof(double), 1);
    must(VELOC_Pmem_open(argv[1],
                         room((size_t)words, sizeof(double), 1)
                             + room((size_t)(words * plain.side), sizeof(double), 1)
                             + room((size_t)sums, sizeof(uint64_t), 1),
                         VELOC_CRASH_POWER, &kept.pmem));
    kept.c = array_of(kept.pmem, "c", (size_t)words, sizeof(double), 1);
    kept.products = array_of(kept.pmem, "products", (size_t)(words * plain.side), sizeof(double), 1);
    kept.sums = array_of(kept.pmem, "sums", (size_t)sums, sizeof(uint64_t), 1);
    while (rounds-- > 0) {
        double times[2] = {0};
        must(VELOC_Pmem_forget(kept.pmem));
        for (t = 0; t < blocks; t++) {
            int turn;
            for (turn = 0; turn < 2; turn++) {
                int is_kept = (t + turn) % 2;
                double began = seconds();
                compute(is_kept ? &kept : &plain, t);
                if (is_kept)
                    finish(&kept, t);
                times[is_kept] += seconds() - began;
            }
        }
        if (digest(&plain) != digest(&kept))
            refuse("is another", "the product with sums");
        printf("plain\t%.9g\nkept\t%.9g\n", times[0], times[1]);
    }
    must(VELOC_Pmem_close(kept.pmem));
    return 0;
}
