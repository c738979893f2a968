/* Checkpoints of each state of a forward pass, and the states in reverse. */
#include <stdio.h>
#include <veloc.h>

enum { STEPS = 100, CELLS = 100000 };

static double state[CELLS];

static void compute(void)
{
    int i;
    for (i = 0; i < CELLS; i++)
        state[i] += i % 3;
}

int main(void)
{
    int step;
    double sum = 0;
    if (VELOC_Init_single(0, "veloc.cfg") != VELOC_SUCCESS
        || VELOC_Mem_protect(0, state, CELLS, sizeof state[0]) != VELOC_SUCCESS)
        return 1;
    for (step = 0; step < STEPS; step++) {
        compute();
        if (VELOC_Checkpoint("forward", step) != VELOC_SUCCESS)
            return 1;
    }
    for (step = STEPS - 1; step >= 0; step--) {
        if (VELOC_Restart("forward", step) != VELOC_SUCCESS)
            return 1;
        sum += state[2];
    }
    printf("sum %g\n", sum);
    return VELOC_Finalize(0) != VELOC_SUCCESS;
}
