/*
 * A nonlinear stencil on a ring of processes, each with a block of columns, and its adjoint. A step
 * exchanges the outermost columns: strided, so of a derived type, by persistent requests.
 */
#ifndef HALO_H
#define HALO_H

#include "parts.h"

#include <math.h>

/* Columns 0 and COLUMNS + 1 are the neighbours'. */
enum { ROWS = 5, COLUMNS = 4, ALL = COLUMNS + 2 };

static double field[ROWS][ALL], field_adjoint[ROWS][ALL];
static MPI_Request exchange[4];

static void make_exchange(void)
{
    MPI_Datatype column;
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI(MPI_Type_vector(ROWS, 1, ALL, MPI_DOUBLE, &column));
    MPI(MPI_Type_commit(&column));
    MPI(MPI_Recv_init(&field[0][0], 1, column, left, 1, MPI_COMM_WORLD, &exchange[0]));
    MPI(MPI_Recv_init(&field[0][COLUMNS + 1], 1, column, right, 2, MPI_COMM_WORLD, &exchange[1]));
    MPI(MPI_Send_init(&field[0][COLUMNS], 1, column, right, 1, MPI_COMM_WORLD, &exchange[2]));
    MPI(MPI_Send_init(&field[0][1], 1, column, left, 2, MPI_COMM_WORLD, &exchange[3]));
    /* The requests go on without it. */
    MPI(MPI_Type_free(&column));
}

static void free_exchange(void)
{
    int i;
    for (i = 0; i < 4; i++) {
        MPI(MPI_Request_free(&exchange[i]));
        CHECK(exchange[i] == MPI_REQUEST_NULL);
    }
}

static void start_field(double scale)
{
    int i, j;
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < ALL; j++)
            field[i][j] = scale * sin(1.0 + i + 3.0 * (j + rank * COLUMNS));
}

static double reaction(double u)
{
    return 0.1 * sin(3 * u);
}

static double reaction_slope(double u)
{
    return 0.3 * cos(3 * u);
}

/* One step. The halo is poisoned: what an exchange leaves out is seen. */
static void halo_step(void)
{
    double next[ROWS][ALL];
    int i, j;
    for (i = 0; i < ROWS; i++)
        field[i][0] = field[i][COLUMNS + 1] = 1e300;
    MPI(MPI_Startall(4, exchange));
    MPI(MPI_Waitall(4, exchange, MPI_STATUSES_IGNORE));
    for (i = 0; i < 4; i++)
        CHECK(exchange[i] != MPI_REQUEST_NULL);
    for (i = 0; i < ROWS; i++)
        for (j = 1; j <= COLUMNS; j++) {
            double u = field[i][j];
            next[i][j] = u + 0.2 * (field[i][j - 1] - 2 * u + field[i][j + 1]) + reaction(u)
                         + 0.05 * u * field[i][j - 1];
        }
    for (i = 0; i < ROWS; i++)
        memcpy(&field[i][1], &next[i][1], COLUMNS * sizeof(double));
}

/* The adjoint of a step that began with the field `before`, halo and all. */
static void halo_step_backward(double before[ROWS][ALL])
{
    double back[ROWS][ALL], out[2][ROWS], in[2][ROWS];
    MPI_Request adjoint_exchange[4];
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    int i, j;
    memset(back, 0, sizeof back);
    for (i = 0; i < ROWS; i++)
        for (j = 1; j <= COLUMNS; j++) {
            double u = before[i][j], y = field_adjoint[i][j];
            back[i][j] += y * (1 - 0.4 + reaction_slope(u) + 0.05 * before[i][j - 1]);
            back[i][j - 1] += y * (0.2 + 0.05 * u);
            back[i][j + 1] += y * 0.2;
        }
    for (i = 0; i < ROWS; i++) {
        out[0][i] = back[i][0];
        out[1][i] = back[i][COLUMNS + 1];
    }
    /* What came from the left has its adjoint sent there, under the same tag. */
    MPI(MPI_Irecv(in[0], ROWS, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &adjoint_exchange[0]));
    MPI(MPI_Irecv(in[1], ROWS, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &adjoint_exchange[1]));
    MPI(MPI_Isend(out[0], ROWS, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &adjoint_exchange[2]));
    MPI(MPI_Isend(out[1], ROWS, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &adjoint_exchange[3]));
    MPI(MPI_Waitall(4, adjoint_exchange, MPI_STATUSES_IGNORE));
    for (i = 0; i < ROWS; i++) {
        back[i][COLUMNS] += in[0][i];
        back[i][1] += in[1][i];
        memcpy(&field_adjoint[i][1], &back[i][1], COLUMNS * sizeof(double));
    }
}

/* The objective: half the sum of squares of all processes. */
static inline double halo_objective(void)
{
    double own = 0, all;
    int i, j;
    for (i = 0; i < ROWS; i++)
        for (j = 1; j <= COLUMNS; j++)
            own += field[i][j] * field[i][j] / 2;
    MPI(MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

/* The derivative of the objective along the initial field, which is what its scale changes. */
static inline double along_initial_field(void)
{
    double own = 0, all;
    int i, j;
    start_field(1);
    for (i = 0; i < ROWS; i++)
        for (j = 1; j <= COLUMNS; j++)
            own += field[i][j] * field_adjoint[i][j];
    MPI(MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

#endif
