/*
 * Heat spreads over a plate that the processes share, each with a block of it. Kill it, and start it again with any
 * number of processes: it goes on from the last checkpoint, to the same bits.
 *
 *   mpirun -n 4 plate [<configuration> [<steps>]]
 *
 * The temperatures at the end are in plate.bin. PLATE_MISHAP="<process> <step>" kills a process at a step.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "veloc.h"

enum { ROWS = 60, COLUMNS = 44, EACH = 20 };

/* This process's block: its place in the plate and its size, and the processes around it. */
static size_t all_sizes[2] = {ROWS, COLUMNS}, offsets[2], sizes[2];
static int above, below, left, right, rank;
static MPI_Comm grid;

static void check(int status, const char *call)
{
    if (status != VELOC_SUCCESS) {
        printf("%s: %s\n", call, VELOC_Last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void share(void)
{
    int ranks, axis, blocks[2] = {0, 0}, around[2] = {0, 0}, place[2];
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, blocks);
    MPI_Cart_create(MPI_COMM_WORLD, 2, blocks, around, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, place);
    MPI_Cart_shift(grid, 0, 1, &above, &below);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    for (axis = 0; axis < 2; axis++) {
        offsets[axis] = all_sizes[axis] * (size_t)place[axis] / (size_t)blocks[axis];
        sizes[axis] = all_sizes[axis] * (size_t)(place[axis] + 1) / (size_t)blocks[axis] - offsets[axis];
    }
}

/* One step. `u` has the block alone, `wide` a row and a column more on each side, which are the neighbours'. */
static void step(double *u, double *wide)
{
    const size_t rows = sizes[0], columns = sizes[1], width = columns + 2;
    size_t i, j;
    MPI_Datatype column;
    for (i = 0; i < (rows + 2) * width; i++)
        wide[i] = 0;
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++)
            wide[(i + 1) * width + j + 1] = u[i * columns + j];
    MPI_Type_vector((int)rows, 1, (int)width, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(wide + width + 1, (int)columns, MPI_DOUBLE, above, 0, wide + (rows + 1) * width + 1,
                 (int)columns, MPI_DOUBLE, below, 0, grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(wide + rows * width + 1, (int)columns, MPI_DOUBLE, below, 1, wide + 1, (int)columns,
                 MPI_DOUBLE, above, 1, grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(wide + width + 1, 1, column, left, 2, wide + width + columns + 1, 1, column, right, 2,
                 grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(wide + width + columns, 1, column, right, 3, wide + width, 1, column, left, 3, grid,
                 MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
    for (i = 1; i <= rows; i++)
        for (j = 1; j <= columns; j++) {
            const double *at = wide + i * width + j;
            u[(i - 1) * columns + j - 1] = at[0] + 0.2 * (at[-1] + at[1] + at[-(int)width] + at[width] - 4 * at[0]);
        }
}

/* All blocks, one row after the other, by rank 0. */
static void write_plate(const double *u)
{
    static double all[ROWS * COLUMNS], sum[ROWS * COLUMNS];
    size_t i, j;
    for (i = 0; i < sizes[0]; i++)
        for (j = 0; j < sizes[1]; j++)
            all[(offsets[0] + i) * COLUMNS + offsets[1] + j] = u[i * sizes[1] + j];
    MPI_Reduce(all, sum, ROWS * COLUMNS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *file = fopen("plate.bin", "wb");
        if (file == NULL || fwrite(sum, sizeof sum, 1, file) != 1 || fclose(file) != 0) {
            perror("plate.bin");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    const char *mishap = getenv("PLATE_MISHAP");
    int now = 0, steps, version, victim = -1, moment = -1;
    size_t i, j;
    double *u, *wide;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    steps = argc > 2 ? atoi(argv[2]) : 200;
    if (mishap != NULL && sscanf(mishap, "%d %d", &victim, &moment) != 2)
        printf("PLATE_MISHAP is no process and step: %s\n", mishap);
    check(VELOC_Init(MPI_COMM_WORLD, argc > 1 ? argv[1] : "veloc.cfg"), "VELOC_Init");
    share();
    u = (double *)calloc(sizes[0] * sizes[1], sizeof *u);
    wide = (double *)calloc((sizes[0] + 2) * (sizes[1] + 2), sizeof *wide);
    if (u == NULL || wide == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);

    check(VELOC_Mem_protect(0, &now, 1, sizeof now), "VELOC_Mem_protect");
    check(VELOC_Mem_protect(1, u, sizes[0] * sizes[1], sizeof *u), "VELOC_Mem_protect");
    check(VELOC_Mem_decompose(1, 2, all_sizes, offsets, sizes, sizeof *u), "VELOC_Mem_decompose");
    version = VELOC_Restart_test("plate", 0);
    if (version > 0) {
        check(VELOC_Restart("plate", version), "VELOC_Restart");
        if (rank == 0)
            printf("goes on at step %d\n", now);
    } else {
        for (i = 0; i < sizes[0]; i++)
            for (j = 0; j < sizes[1]; j++)
                u[i * sizes[1] + j] = (double)((offsets[0] + i) * 7 % 11 * ((offsets[1] + j) * 5 % 13));
    }
    while (now < steps) {
        step(u, wide);
        now++;
        if (now % EACH == 0)
            check(VELOC_Checkpoint("plate", now), "VELOC_Checkpoint");
        if (rank == victim && now == moment)
            kill(getpid(), SIGKILL);
    }
    write_plate(u);
    check(VELOC_Finalize(1), "VELOC_Finalize");
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    free(u);
    free(wide);
    return 0;
}
