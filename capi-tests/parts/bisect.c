/*
 * A time loop whose adjoint is checkpointed by bisection. All parts have one identifier, the latest
 * is reversed first, and a replay has parts that the first run had not. Neighbours divide otherwise.
 *
 * bisect [steps=N] [flags=F]
 */
#include "halo.h"

enum { MOST_STEPS = 64, MOST_PARTS = 8 };

static double fields[MOST_STEPS + 1][ROWS][ALL];
/* The field before the latest step, with its halo. */
static double before[ROWS][ALL];

static struct {
    double snapshot[ROWS][ALL];
    int from, to;
} parts[MOST_PARTS];
static int open_parts;

/* That the inner columns are those of a run without parts. */
static void check_field(int step)
{
    int i;
    for (i = 0; i < ROWS; i++)
        CHECK(memcmp(&field[i][1], &fields[step][i][1], COLUMNS * sizeof(double)) == 0);
}

static void taped_step(void)
{
    int i;
    memcpy(before, field, sizeof before);
    halo_step();
    for (i = 0; i < ROWS; i++) {
        before[i][0] = field[i][0];
        before[i][COLUMNS + 1] = field[i][COLUMNS + 1];
    }
}

/* Leaves a part for the first half, another for the first half of the rest, and so on. The last step
 * is ready to be reversed. */
static void forward(int from, int to, int flags)
{
    while (to - from > 1) {
        int middle = (from + to + rank % 2) / 2;
        CHECK(open_parts < MOST_PARTS);
        memcpy(parts[open_parts].snapshot, field, sizeof field);
        parts[open_parts].from = from;
        parts[open_parts++].to = middle;
        part_begin(1, flags);
        for (; from < middle; from++) {
            check_field(from);
            halo_step();
        }
        part_end(1);
    }
    check_field(from);
    taped_step();
}

int main(int argc, char **argv)
{
    int steps = (int)number(argc, argv, "steps", 23);
    int flags = (int)number(argc, argv, "flags", 0);
    double wanted[ROWS][ALL];
    int step, round;
    begin_program(&argc, &argv);
    make_exchange();
    CHECK(steps <= MOST_STEPS);
    start_field(1);
    for (step = 0; step < steps; step++) {
        taped_step();
        memcpy(fields[step], before, sizeof before);
    }
    memcpy(fields[steps], field, sizeof field);
    memcpy(field_adjoint, field, sizeof field);
    while (step-- > 0)
        halo_step_backward(fields[step]);
    memcpy(wanted, field_adjoint, sizeof wanted);
    for (round = 0; round < 2; round++) {
        start_field(1);
        forward(0, steps, flags);
        check_field(steps);
        memcpy(field_adjoint, field, sizeof field);
        halo_step_backward(before);
        while (open_parts-- > 0) {
            int from = parts[open_parts].from, to = parts[open_parts].to;
            memcpy(field, parts[open_parts].snapshot, sizeof field);
            replay_begin(1);
            forward(from, to, flags);
            replay_end(1);
            halo_step_backward(before);
        }
        open_parts = 0;
        CHECK(memcmp(field_adjoint, wanted, sizeof wanted) == 0);
        EMPTY_LOG();
    }
    free_exchange();
    return end_program();
}
