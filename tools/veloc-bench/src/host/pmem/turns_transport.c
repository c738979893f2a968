/*
 * Times for `veloc-bench pmem`: lookups counted in ordinary memory, and in a file, a group each in turn.
 *
 *   turns-transport FILE LOOKUPS ROUNDS
 *
 * Prints for each round "plain", a tab and seconds, and the same for "kept".
 */
#define main example
#include "transport.c"
#undef main

int main(int argc, char **argv)
{
    struct run plain = {0}, kept;
    int64_t rounds, group;
    if (argc != 4)
        refuse("FILE LOOKUPS ROUNDS are needed", argv[0]);
    plain.table = make_table(64, 2000);
    plain.lookups = atoll(argv[2]);
    plain.every = plain.lookups > 10000 ? plain.lookups / 10000 : 1;
    rounds = atoll(argv[3]);
    kept = plain;
    kept.flushes = 1;
    plain.tallies = array_of(NULL, "tally", 1, sizeof(struct tally), 1);
    (void)set_up(&kept, argv[1], VELOC_CRASH_POWER);
    while (rounds-- > 0) {
        const struct run *both[2] = {&plain, &kept};
        const struct tally *tallies[2];
        double times[2] = {0};
        int i, turn;
        must(VELOC_Pmem_forget(kept.pmem));
        for (i = 0; i < 2; i++)
            tallies[i] = memset(at(&both[i]->tallies, 0), 0, sizeof(struct tally));
        for (group = 0; tallies[1]->next < kept.lookups; group++)
            for (turn = 0; turn < 2; turn++) {
                double began = seconds();
                i = (int)(group + turn) % 2;
                tallies[i] = count_group(both[i], group);
                times[i] += seconds() - began;
            }
        if (memcmp(tallies[0], tallies[1], sizeof *tallies[0]) != 0)
            refuse("are others", "the counts in the file");
        printf("plain\t%.9g\nkept\t%.9g\n", times[0], times[1]);
    }
    must(VELOC_Pmem_close(kept.pmem));
    return 0;
}
