/*
 * The adjoint of a halo exchange by persistent requests of a derived type, with three nested parts,
 * whose borders are not the same for neighbours.
 *
 * halo [known=0] [flags=F]
 *
 * With `known=0` nested parts are seen first when the outer is replayed.
 */
#include "adjoint.h"
#include "halo.h"

enum { ADVANCE };

/* The tape has the field of each step with its halo, as the adjoint needs it. */
static void forward_step(const struct step *step, int taped)
{
    double own[ROWS][ALL];
    int i;
    (void)step;
    memcpy(own, field, sizeof own);
    halo_step();
    if (taped) {
        /* The exchange has brought the halo. */
        for (i = 0; i < ROWS; i++) {
            own[i][0] = field[i][0];
            own[i][COLUMNS + 1] = field[i][COLUMNS + 1];
        }
        push(own, sizeof own);
    }
}

static void backward_step(const struct step *step)
{
    double before[ROWS][ALL];
    (void)step;
    pop(before, sizeof before);
    halo_step_backward(before);
}

static void take_snapshot(void)
{
    push(field, sizeof field);
}

static void restore_snapshot(void)
{
    pop(field, sizeof field);
}

static double objective(const struct step *steps, double scale)
{
    start_field(scale);
    tape_length = 0;
    sweep_forward(steps, stop_of(steps));
    return halo_objective();
}

static double gradient(const struct step *steps)
{
    start_field(1);
    tape_length = 0;
    sweep_forward(steps, stop_of(steps));
    memcpy(field_adjoint, field, sizeof field);
    sweep_backward(steps, stop_of(steps));
    EQUAL(tape_length, 0);
    return along_initial_field();
}

#define STEP {ADVANCE, 0, 0, 0}

int main(int argc, char **argv)
{
    int flags = (int)number(argc, argv, "flags", 0);
    const struct step even[] = {
        STEP, PART_BEGIN(1, flags), STEP, STEP, PART_BEGIN(2, flags), STEP,
        PART_BEGIN(3, flags), STEP, STEP, PART_END, STEP, PART_END,
        PART_BEGIN(2, flags), STEP, PART_BEGIN(3, flags), STEP, STEP, PART_END, PART_END,
        STEP, PART_END, STEP, {STOP, 0, 0, 0}};
    const struct step odd[] = {
        PART_BEGIN(1, flags), STEP, STEP, STEP, STEP, PART_BEGIN(2, flags),
        PART_BEGIN(3, flags), STEP, STEP, STEP, PART_END, PART_END,
        PART_BEGIN(2, flags), STEP, PART_BEGIN(3, flags), STEP, PART_END, STEP, PART_END,
        PART_END, STEP, STEP, {STOP, 0, 0, 0}};
    const struct step *steps;
    double wanted[ROWS][ALL];
    double h = 1e-5, slope, error;
    int round;
    nested_first = (int)number(argc, argv, "known", 1);
    begin_program(&argc, &argv);
    steps = rank % 2 ? odd : even;
    make_exchange();
    checkpointed = 0;
    slope = gradient(steps);
    memcpy(wanted, field_adjoint, sizeof wanted);
    error = (objective(steps, 1 + h) - objective(steps, 1 - h)) / (2 * h) - slope;
    CHECK(error * error <= 1e-12 * slope * slope);
    checkpointed = 1;
    for (round = 0; round < 2; round++) {
        SAME(gradient(steps), slope);
        CHECK(memcmp(field_adjoint, wanted, sizeof wanted) == 0);
        EMPTY_LOG();
    }
    free_exchange();
    return end_program();
}
