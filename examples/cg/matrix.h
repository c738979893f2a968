/*
 * Sparse symmetric matrices: those of the NAS Parallel Benchmarks' kernel CG, and Matrix Market files.
 */
#ifndef MATRIX_H
#define MATRIX_H

#include <stdint.h>

/* Row i has value[e] in column[e] for start[i] <= e < start[i + 1]. */
struct matrix {
    int64_t n;
    int64_t *start;
    int *column;
    double *value;
};

/* A class of the benchmark. */
struct class {
    char name;
    int n;       /* NA: the order */
    int nonzero; /* NONZER: nonzeros of each vector that the matrix is made of */
    int solves;  /* NITER */
    double shift;
    double zeta; /* the published result */
};

/* The class of this name, or NULL. */
const struct class *class_named(const char *name);

/* The matrix of a class. */
struct matrix make_matrix(const struct class *class);

/* The matrix in a file: coordinates, real or integer, symmetric or general. */
struct matrix read_matrix(const char *path);

void free_matrix(struct matrix *matrix);

#endif
