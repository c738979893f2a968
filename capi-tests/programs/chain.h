/* A chain of states of one number each, in which every step changes every bit, and its adjoint. */
#ifndef CHAIN_H
#define CHAIN_H

#include <stdint.h>

#include "check.h"

/* The state that a step makes of the one before. */
static inline uint64_t next(uint64_t state, int64_t step)
{
    return (state ^ (uint64_t)step) * 6364136223846793005u + 1442695040888963407u;
}

/* The adjoint at the state before a step. */
static inline uint64_t back(uint64_t adjoint, uint64_t state, int64_t step)
{
    return (adjoint + state * 31u) * 2862933555777941757u + (uint64_t)step;
}

/* What a computation that keeps all states comes to. */
static inline uint64_t with_all_states(uint64_t first, int64_t steps)
{
    uint64_t *states = malloc((size_t)steps * sizeof *states), adjoint = 1;
    int64_t step;
    CHECK(states != NULL);
    states[0] = first;
    for (step = 1; step < steps; step++)
        states[step] = next(states[step - 1], step);
    for (step = steps; step > 0; step--)
        adjoint = back(adjoint, states[step - 1], step);
    free(states);
    return adjoint;
}

#endif
