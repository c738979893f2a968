/* What logging costs, measured in one job of two processes (one measures calls alone): messages inside a part against the same
 * outside, in turns, and calls outside parts against those of the profiling interface, which pass
 * this library by. Prints medians over rounds.
 *
 *     mpirun -n 2 overhead [rounds]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "veloc-mpi.h"

static int rank;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Seconds for each message of a ping-pong. */
static double ping_pong(char *buffer, int bytes, int count) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) / (2.0 * count);
}

/* Messages of one length: median seconds outside, and the medians of what a part adds, in seconds
 * and as a ratio. */
static void messages(int bytes, int count, int rounds) {
    char *buffer = malloc(bytes);
    double *outside = malloc(rounds * sizeof *outside), *added = malloc(rounds * sizeof *added);
    double *ratio = malloc(rounds * sizeof *ratio);
    memset(buffer, 1, bytes);
    for (int round = -1; round < rounds; round++) {
        double plain = ping_pong(buffer, bytes, count), logged;
        VELOC_Part_begin(1, 0);
        logged = ping_pong(buffer, bytes, count);
        VELOC_Part_end(1);
        VELOC_Part_free(1);
        if (round >= 0) { /* the first one makes memory */
            outside[round] = plain;
            added[round] = logged - plain;
            ratio[round] = logged / plain;
        }
    }
    if (rank == 0) {
        printf("%8d bytes: %10.0f ns a message, a part adds %8.0f ns, ratio %.3f\n", bytes,
               1e9 * median(outside, rounds), 1e9 * median(added, rounds), median(ratio, rounds));
    }
    free(buffer);
    free(outside);
    free(added);
    free(ratio);
}

/* Seconds of a core that this process has used: other processes on the machine do not disturb. */
static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What a call costs more than the one of the profiling interface. */
#define COMPARE(name, library, own)                                                               \
    do {                                                                                          \
        enum { COUNT = 100000 };                                                                  \
        for (int round = 0; round < rounds; round++) {                                            \
            double start = used();                                                                \
            for (int i = 0; i < COUNT; i++) {                                                     \
                own;                                                                              \
            }                                                                                     \
            double between = used();                                                              \
            for (int i = 0; i < COUNT; i++) {                                                     \
                library;                                                                          \
            }                                                                                     \
            double end = used();                                                                  \
            direct[round] = (between - start) / COUNT;                                            \
            added[round] = ((end - between) - (between - start)) / COUNT;                         \
        }                                                                                         \
        if (rank == 0) {                                                                          \
            printf("%-28s: %6.1f ns, outside parts %+6.1f ns\n", name,                            \
                   1e9 * median(direct, rounds), 1e9 * median(added, rounds));                    \
        }                                                                                         \
    } while (0)

/* What a part adds to messages of a process to itself, in seconds of a core. */
static void logged(int bytes, int count, int rounds) {
    char *out = malloc(bytes), *in = malloc(bytes);
    double *outside = malloc(rounds * sizeof *outside), *added = malloc(rounds * sizeof *added);
    memset(out, 1, bytes);
    memset(in, 1, bytes);
    for (int round = -1; round < rounds; round++) {
        double took[2];
        for (int inside = 0; inside < 2; inside++) {
            if (inside) {
                VELOC_Part_begin(1, 0);
            }
            double start = used();
            for (int i = 0; i < count; i++) {
                MPI_Request r;
                MPI_Irecv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_SELF, &r);
                MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_SELF);
                MPI_Wait(&r, MPI_STATUS_IGNORE);
            }
            took[inside] = (used() - start) / count;
        }
        VELOC_Part_end(1);
        VELOC_Part_free(1);
        if (round >= 0) { /* the first one makes memory */
            outside[round] = took[0];
            added[round] = took[1] - took[0];
        }
    }
    if (rank == 0) {
        printf("Irecv, Send and Wait of %7d bytes: %8.0f ns, a part adds %8.0f ns\n", bytes,
               1e9 * median(outside, rounds), 1e9 * median(added, rounds));
    }
    free(out);
    free(in);
    free(outside);
    free(added);
}

static void calls(int rounds) {
    double *direct = malloc(rounds * sizeof *direct), *added = malloc(rounds * sizeof *added);
    int none = MPI_PROC_NULL, in = 0, out = 0, flag;
    MPI_Comm self = MPI_COMM_SELF;
    MPI_Request r, persistent;
    COMPARE("Send to MPI_PROC_NULL", MPI_Send(&in, 1, MPI_INT, none, 0, self),
            PMPI_Send(&in, 1, MPI_INT, none, 0, self));
    COMPARE("Iprobe", MPI_Iprobe(0, 0, self, &flag, MPI_STATUS_IGNORE),
            PMPI_Iprobe(0, 0, self, &flag, MPI_STATUS_IGNORE));
    COMPARE("Irecv, Send and Wait",
            (MPI_Irecv(&in, 1, MPI_INT, 0, 0, self, &r),
             MPI_Send(&out, 1, MPI_INT, 0, 0, self), MPI_Wait(&r, MPI_STATUS_IGNORE)),
            (PMPI_Irecv(&in, 1, MPI_INT, 0, 0, self, &r),
             PMPI_Send(&out, 1, MPI_INT, 0, 0, self), PMPI_Wait(&r, MPI_STATUS_IGNORE)));
    PMPI_Recv_init(&in, 1, MPI_INT, none, 0, self, &persistent);
    COMPARE("Start and Wait", (MPI_Start(&persistent), MPI_Wait(&persistent, MPI_STATUS_IGNORE)),
            (PMPI_Start(&persistent), PMPI_Wait(&persistent, MPI_STATUS_IGNORE)));
    PMPI_Request_free(&persistent);
    free(direct);
    free(added);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 31, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1) {
        messages(8, 10000, rounds);
        messages(4096, 5000, rounds);
        messages(65536, 1000, rounds);
        messages(1 << 20, 60, rounds);
    }
    logged(8, 20000, rounds);
    logged(4096, 5000, rounds);
    logged(1 << 20, 60, rounds);
    calls(rounds);
    MPI_Finalize();
    return 0;
}
