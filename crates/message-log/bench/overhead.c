/* What logging costs, measured in one job of two processes (one measures calls alone): messages
 * inside a part against the same outside, in turns, and calls outside parts against those of the
 * profiling interface, which pass this library by. Prints medians over rounds.
 *
 * What is received is copied once, so beside it stands what one memcpy of the same bytes adds: into
 * memory that is not in the cache, as a log is that grows, and into memory that is.
 *
 *     mpirun -n 2 overhead [rounds]
 *
 * Times need an idle machine. What stays the same on a busy one are instructions of this library, as
 * `valgrind --tool=callgrind` counts them.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* Memory that messages are copied to, one behind another, and where the next one goes. */
struct area {
    char *base;
    size_t bytes, at;
};

/* More than the caches of a core, and room for the longest message. */
enum { LARGE = 256 << 20, ONE = 1 << 20 };

static struct area cold, warm;

static void make_areas(void) {
    cold.bytes = LARGE;
    warm.bytes = ONE;
    if (posix_memalign((void **)&cold.base, 2 << 20, cold.bytes) != 0 ||
        posix_memalign((void **)&warm.base, 2 << 20, warm.bytes) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* As the log's memory is. */
    madvise(cold.base, cold.bytes, MADV_HUGEPAGE);
    madvise(warm.base, warm.bytes, MADV_HUGEPAGE);
    memset(cold.base, 1, cold.bytes);
    memset(warm.base, 1, warm.bytes);
}

static void copy(struct area *area, const char *from, size_t bytes) {
    if (area == NULL) {
        return;
    }
    if (area->at + bytes > area->bytes) {
        area->at = 0;
    }
    memcpy(area->base + area->at, from, bytes);
    /* The warm one stays at its place. */
    if (area == &cold) {
        area->at += (bytes + 63) & ~(size_t)63;
    }
}

/* Seconds for each message of a ping-pong, of which each is copied once if there is an area. */
static double ping_pong(char *buffer, int bytes, int count, struct area *area) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            copy(area, buffer, bytes);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            copy(area, buffer, bytes);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) / (2.0 * count);
}

/* What is measured of messages of one length, in turns. */
enum { OUTSIDE, PART, COLD, WARM, WAYS };

static void print(const char *what, int bytes, double *took[WAYS], int rounds) {
    double *added = malloc(rounds * sizeof *added), *ratio = malloc(rounds * sizeof *ratio);
    static const char *const names[WAYS] = {NULL, "a part", "memcpy, not in the cache",
                                            "memcpy, in the cache"};
    if (rank == 0) {
        double *outside = malloc(rounds * sizeof *outside);
        memcpy(outside, took[OUTSIDE], rounds * sizeof *outside);
        printf("%s of %7d bytes: %8.0f ns\n", what, bytes, 1e9 * median(outside, rounds));
        for (int way = PART; way < WAYS; way++) {
            for (int round = 0; round < rounds; round++) {
                added[round] = took[way][round] - took[OUTSIDE][round];
                ratio[round] = took[way][round] / took[OUTSIDE][round];
            }
            printf("    %-25s: %+8.0f ns, ratio %.3f\n", names[way], 1e9 * median(added, rounds),
                   median(ratio, rounds));
        }
        free(outside);
    }
    free(added);
    free(ratio);
}

/* What a part adds to messages between two processes. */
static void messages(int bytes, int count, int rounds) {
    static struct area *const areas[WAYS] = {NULL, NULL, &cold, &warm};
    char *buffer = malloc(bytes);
    double *took[WAYS];
    memset(buffer, 1, bytes);
    for (int way = 0; way < WAYS; way++) {
        took[way] = malloc(rounds * sizeof *took[way]);
    }
    for (int round = -1; round < rounds; round++) { /* the first one makes memory */
        for (int way = 0; way < WAYS; way++) {
            if (way == PART) {
                VELOC_Part_begin(1, 0);
            }
            double seconds = ping_pong(buffer, bytes, count, areas[way]);
            if (way == PART) {
                VELOC_Part_end(1);
                VELOC_Part_free(1);
            }
            if (round >= 0) {
                took[way][round] = seconds;
            }
        }
    }
    print("A message", bytes, took, rounds);
    for (int way = 0; way < WAYS; way++) {
        free(took[way]);
    }
    free(buffer);
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
    static struct area *const areas[WAYS] = {NULL, NULL, &cold, &warm};
    char *out = malloc(bytes), *in = malloc(bytes);
    double *took[WAYS];
    memset(out, 1, bytes);
    memset(in, 1, bytes);
    for (int way = 0; way < WAYS; way++) {
        took[way] = malloc(rounds * sizeof *took[way]);
    }
    for (int round = -1; round < rounds; round++) { /* the first one makes memory */
        for (int way = 0; way < WAYS; way++) {
            if (way == PART) {
                VELOC_Part_begin(1, 0);
            }
            double start = used();
            for (int i = 0; i < count; i++) {
                MPI_Request r;
                MPI_Irecv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_SELF, &r);
                MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_SELF);
                MPI_Wait(&r, MPI_STATUS_IGNORE);
                copy(areas[way], in, bytes);
            }
            double seconds = (used() - start) / count;
            if (way == PART) {
                VELOC_Part_end(1);
                VELOC_Part_free(1);
            }
            if (round >= 0) {
                took[way][round] = seconds;
            }
        }
    }
    print("Irecv, Send and Wait", bytes, took, rounds);
    for (int way = 0; way < WAYS; way++) {
        free(took[way]);
    }
    free(out);
    free(in);
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
    make_areas();
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
