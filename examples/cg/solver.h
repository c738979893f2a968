/*
 * Conjugate gradients whose vectors are in a file of persistent memory or, for comparison, in ordinary memory.
 */
#ifndef SOLVER_H
#define SOLVER_H

#include "../persistent.h"
#include "matrix.h"

/*
 * States are numbered through: those of solve s are s * (iterations + 1) + i, in which i iterations are done. State k is
 * r(k), z(k), p(k), and q(k) = A p(k - 1), which nothing reads any more but the check of p(k).
 */
struct cg {
    const struct matrix *a;
    int64_t iterations, solves;
    double stop; /* 0: all iterations */
    VELOC_Pmem *pmem; /* NULL: ordinary memory, and nothing is marked */
    struct array p, q, r, z;
    struct array b; /* the right-hand side, by solves */
};

/* Vectors in the file, or in ordinary memory if there is none. */
void set_up(struct cg *cg, VELOC_Pmem *pmem, int slots);

void tear_down(struct cg *cg);

/* Has the library ask for the file's states what must hold between their vectors. */
void add_invariants(struct cg *cg);

/* Goes on behind state k, or begins behind -1. Returns the last state. */
int64_t solve(const struct cg *cg, int64_t k);

/* The same, a state at a time. Each returns r.r of its state, which the next needs. */
double begin(const struct cg *cg, int64_t k);
double iterate(const struct cg *cg, int64_t k, double rho);

/* Eight sums, as one would wait for each addition. The same for the same numbers, whoever asks. */
double dot(const double *x, const double *y, int64_t n);

#endif
