/*
 * Interactions of particles with a material, by Monte Carlo: lookups of macroscopic cross-sections, as XSBench (Tramm et
 * al.) has them, counted in persistent memory so that a crash makes no count wrong. After Yang et al., "Algorithm-directed
 * crash consistence in non-volatile memory for HPC".
 *
 *   transport [--lookups N] [--flush-every N] [--nuclides N] [--points N] [--file PATH] [--crash process|power|page]
 *             [--no-flush] [--plain]
 *
 * Counters are written so often that caches never let them go to memory. So they, the sums of cross-sections and the
 * number of the next lookup, which have to agree, are written back together, by default after every 0.01 % of lookups.
 */
#include "../persistent.h"

/* The interactions that have a cross-section. */
enum { ELASTIC, INELASTIC, CAPTURE, FISSION, DOUBLING, CHANNELS };
static const char *const names[CHANNELS] = {"elastic", "inelastic", "capture", "fission", "doubling"};

enum { MATERIALS = 12 };

/* Cross-sections of a nuclide at an energy. */
struct point {
    double energy;
    double micro[CHANNELS];
};

struct part {
    int nuclide;
    double density;
};

/* What lookups read. It is made anew by each process, and is the same. */
struct table {
    int64_t nuclides, points;
    struct point *point; /* those of a nuclide by energy, nuclide by nuclide */
    struct part *part;   /* of each material as many as there are nuclides */
    int64_t parts[MATERIALS];
};

/*
 * What lookups write. It is one group: all of it is of the same moment, or it is of no use. Group g is what lookups have
 * counted up to lookup g * every.
 */
struct tally {
    int64_t next; /* lookup */
    int64_t count[CHANNELS];
    double macro[CHANNELS];
};

/* The nth random number of lookup `lookup`, from 0 to 1: nothing has to be kept for those who repeat it. */
static double draw(uint64_t lookup, uint64_t nth)
{
    uint64_t x = (lookup * 8 + nth + 1) * UINT64_C(0x9e3779b97f4a7c15);
    int round;
    for (round = 0; round < 3; round++) {
        x ^= x >> 31;
        x *= UINT64_C(0xd6e8feb86659fd93);
    }
    return (double)(x >> 11) / 9007199254740992.0;
}

static int by_energy(const void *one, const void *other)
{
    double a = ((const struct point *)one)->energy, b = ((const struct point *)other)->energy;
    return (a > b) - (a < b);
}

/* Its random numbers are those of lookups that nobody reaches. */
static struct table make_table(int64_t nuclides, int64_t points)
{
    struct table table = {nuclides, points, NULL, NULL, {0}};
    uint64_t nth = UINT64_C(1) << 60;
    int64_t nuclide, i;
    int material, channel;
    table.point = memory((size_t)(nuclides * points), sizeof *table.point);
    table.part = memory((size_t)(MATERIALS * nuclides), sizeof *table.part);
    for (nuclide = 0; nuclide < nuclides; nuclide++) {
        struct point *all = table.point + nuclide * points;
        for (i = 0; i < points; i++, nth++) {
            all[i].energy = i == 0 ? 0 : i == points - 1 ? 1 : draw(nth, 0);
            for (channel = 0; channel < CHANNELS; channel++)
                all[i].micro[channel] = draw(nth, (uint64_t)channel + 1);
        }
        qsort(all, (size_t)points, sizeof *all, by_energy);
    }
    /* The first is fuel, with half of the nuclides; the others have a few. */
    for (material = 0; material < MATERIALS; material++) {
        struct part *parts = table.part + material * nuclides;
        int64_t most = material == 0 ? (nuclides + 1) / 2 : 4 + material % 5;
        table.parts[material] = most < nuclides ? most : nuclides;
        for (i = 0; i < table.parts[material]; i++, nth++) {
            parts[i].nuclide = (int)((i * 2 + material) % nuclides);
            parts[i].density = draw(nth, 0);
        }
    }
    return table;
}

/* Adds density times a nuclide's cross-sections at an energy, between two points of its grid. */
static void add_nuclide(const struct table *table, const struct part *part, double energy,
                        double *macro)
{
    const struct point *low = table->point + part->nuclide * table->points, *high;
    int64_t points = table->points;
    double share;
    int channel;
    /* The last point that is not above it; never the last of all. */
    while (points > 2) {
        int64_t half = points / 2;
        if (low[half].energy <= energy) {
            low += half;
            points -= half;
        } else {
            points = half + 1;
        }
    }
    high = low + 1;
    share = (energy - low->energy) / (high->energy - low->energy);
    for (channel = 0; channel < CHANNELS; channel++) {
        double micro = low->micro[channel] + share * (high->micro[channel] - low->micro[channel]);
        macro[channel] += part->density * micro;
    }
}

/* A particle of random energy meets a random material: what happens is counted. */
static void look_up(const struct table *table, struct tally *tally)
{
    uint64_t lookup = (uint64_t)tally->next;
    double energy = draw(lookup, 0), which = draw(lookup, 1), total = 0, left;
    /* A seventh of the particles are in the fuel. */
    int material = which * 7 < 1 ? 0 : 1 + (int)((which * 7 - 1) / 6 * (MATERIALS - 1)), channel;
    const struct part *parts = table->part + material * table->nuclides;
    double macro[CHANNELS] = {0};
    int64_t i;
    for (i = 0; i < table->parts[material]; i++)
        add_nuclide(table, &parts[i], energy, macro);
    for (channel = 0; channel < CHANNELS; channel++)
        total += macro[channel];
    left = draw(lookup, 2) * total;
    for (channel = 0; channel < CHANNELS - 1 && left >= macro[channel]; channel++)
        left -= macro[channel];
    tally->count[channel]++;
    for (channel = 0; channel < CHANNELS; channel++)
        tally->macro[channel] += macro[channel];
    tally->next++;
}

/* What a mark says of the run besides the group: groups of others are not for this one. */
enum { LOOKUPS, EVERY, NUCLIDES, POINTS, SCALARS };

struct run {
    struct table table;
    int64_t lookups, every;
    double said[SCALARS];
    VELOC_Pmem *pmem; /* NULL: ordinary memory */
    int flushes;
    struct array tallies;
};

static int64_t end_of(const struct run *run, int64_t group)
{
    return group < run->lookups / run->every ? group * run->every : run->lookups;
}

static int is_ours(int64_t group, const double *said, int n, void *context)
{
    const struct run *run = context;
    (void)group;
    return n == SCALARS && memcmp(said, run->said, sizeof run->said) == 0 ? VELOC_INVARIANT_HOLDS
                                                                         : VELOC_INVARIANT_FAILS;
}

/* Whether all lookups up to the group's end have been counted, and each once. */
static int is_whole(int64_t group, const double *said, int n, void *context)
{
    const struct run *run = context;
    const struct tally *tally = at(&run->tallies, group);
    int64_t sum = 0;
    int channel;
    (void)said, (void)n;
    for (channel = 0; channel < CHANNELS; channel++)
        sum += tally->count[channel];
    return tally->next == end_of(run, group) && sum == tally->next ? VELOC_INVARIANT_HOLDS
                                                                   : VELOC_INVARIANT_FAILS;
}

/*
 * Counts the group behind this one. There are two places in turn: while one changes, and may go to memory in
 * part, the group of the newest mark is in the other. A mark comes behind what was flushed, so its group is there as a whole.
 */
static struct tally *count_group(const struct run *run, int64_t group)
{
    struct tally *tally = at(&run->tallies, group), *next = at(&run->tallies, group + 1);
    int64_t end = end_of(run, group + 1);
    if (next != tally)
        memcpy(next, tally, sizeof *next);
    while (next->next < end)
        look_up(&run->table, next);
    if (run->pmem != NULL && run->flushes)
        must(VELOC_Pmem_flush(run->pmem, next, sizeof *next));
    if (run->pmem != NULL)
        must(VELOC_Pmem_mark(run->pmem, group + 1, run->said, SCALARS));
    return next;
}

/* Counts all groups behind this one. */
static const struct tally *count(const struct run *run, int64_t group)
{
    struct tally *tally = at(&run->tallies, group);
    int64_t done = tally->next;
    double began = seconds();
    while (tally->next < run->lookups)
        tally = count_group(run, group++);
    fprintf(stderr, "%lld lookups in %.6f s\n", (long long)(tally->next - done), seconds() - began);
    return tally;
}

/* The group to go on behind. */
static int64_t set_up(struct run *run, const char *file, int crash)
{
    int slots = run->flushes ? 2 : 1;
    const char *name = run->flushes ? "tallies" : "tally, not flushed";
    int64_t group = -1;
    struct tally *tally;
    must(VELOC_Pmem_open(file, room(1, sizeof(struct tally), (size_t)slots), crash, &run->pmem));
    run->tallies = array_of(run->pmem, name, 1, sizeof(struct tally), slots);
    must(VELOC_Pmem_invariant(run->pmem, "the same run", is_ours, run));
    if (run->flushes)
        must(VELOC_Pmem_invariant(run->pmem, "whole", is_whole, run));
    group = recover(run->pmem);
    tally = at(&run->tallies, group < 0 ? 0 : group);
    if (group < 0)
        memset(tally, 0, sizeof *tally);
    else if (!run->flushes)
        tally->next = end_of(run, group); /* the counts are believed to be of that moment */
    return group < 0 ? 0 : group;
}

int main(int argc, char **argv)
{
    const char *file = "transport.pmem", *crash = "process";
    int64_t lookups = 1000000, every = 0, nuclides = 64, points = 2000, group = 0;
    int plain = 0, no_flush = 0, channel;
    const struct option options[] = {
        {"--lookups", &lookups, NULL, NULL},    {"--flush-every", &every, NULL, NULL},
        {"--nuclides", &nuclides, NULL, NULL},  {"--points", &points, NULL, NULL},
        {"--file", NULL, &file, NULL},          {"--crash", NULL, &crash, NULL},
        {"--no-flush", NULL, NULL, &no_flush},  {"--plain", NULL, NULL, &plain},
        {NULL, NULL, NULL, NULL},
    };
    struct run run = {0};
    const struct tally *tally;

    read_options(argc, argv, options);
    if (points < 2 || nuclides > 1000000 || points > 1000000)
        refuse("2 to 1000000 points and up to 1000000 nuclides are possible", argv[0]);
    run.table = make_table(nuclides, points);
    run.lookups = lookups;
    run.every = every > 0 ? every : lookups > 10000 ? lookups / 10000 : 1;
    run.said[LOOKUPS] = (double)run.lookups;
    run.said[EVERY] = (double)run.every;
    run.said[NUCLIDES] = (double)nuclides;
    run.said[POINTS] = (double)points;
    run.flushes = !no_flush;
    if (plain)
        run.tallies = array_of(NULL, "tally", 1, sizeof(struct tally), 1);
    else
        group = set_up(&run, file, crash_named(crash));

    tally = count(&run, group);
    printf("lookups %lld\n", (long long)tally->next);
    for (channel = 0; channel < CHANNELS; channel++)
        printf("%-9s %10lld, mean cross-section %.16e\n", names[channel],
               (long long)tally->count[channel], tally->macro[channel] / (double)tally->next);
    if (!plain)
        must(VELOC_Pmem_close(run.pmem));
    free_array(&run.tallies);
    free(run.table.point), free(run.table.part);
    return 0;
}
