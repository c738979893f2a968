/* What a log beyond its memory costs, in one run of one process: messages of 1 MiB to itself, inside
 * parts whose log stays in memory and in one whose log goes to the checkpoint library's store, and
 * their replays. Prints MB/s.
 *
 *     VELOC_MPI_LOG_MEMORY=256M mpirun -n 1 spilling CONFIGURATION [MiB beyond memory]
 *
 * In memory stays what is below half of the limit, so 64 MiB at a time are measured there. Times need
 * an idle machine, and say as much about the file system of scratch as about the library.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "veloc-mpi.h"
#include "veloc.h"

enum { BYTES = 1 << 20, INSIDE = 64 };

static char out[BYTES], in[BYTES];

static void exchange(int count) {
    for (int i = 0; i < count; i++) {
        MPI_Request request;
        MPI_Irecv(in, BYTES, MPI_BYTE, 0, 0, MPI_COMM_SELF, &request);
        MPI_Send(out, BYTES, MPI_BYTE, 0, 0, MPI_COMM_SELF);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void print(const char *what, int count, double seconds) {
    printf("%-28s: %6.0f MB/s\n", what, (double)count * BYTES / seconds / 1e6);
}

/* Seconds of the first runs and of the replays, `count` messages in parts of `each`. */
static void run(int count, int each, double took[2]) {
    double start = MPI_Wtime();
    if (each == count) {
        VELOC_Part_begin(1, 0);
        exchange(count);
        VELOC_Part_end(1);
        took[0] = MPI_Wtime() - start;
        VELOC_Part_replay_begin(1);
        exchange(count);
        VELOC_Part_replay_end(1);
        took[1] = MPI_Wtime() - start - took[0];
        return;
    }
    took[0] = took[1] = 0;
    for (int done = 0; done < count; done += each) {
        double one[2];
        run(each, each, one);
        took[0] += one[0];
        took[1] += one[1];
    }
}

int main(int argc, char **argv) {
    int beyond = argc > 2 ? atoi(argv[2]) : 1024;
    double took[2], start;
    MPI_Init(&argc, &argv);
    if (argc < 2 || VELOC_Init(MPI_COMM_WORLD, argv[1]) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(out, 1, BYTES);
    exchange(INSIDE);
    start = MPI_Wtime();
    exchange(beyond);
    print("outside parts", beyond, MPI_Wtime() - start);
    run(INSIDE, INSIDE, took); /* makes memory */
    run(beyond / INSIDE * INSIDE, INSIDE, took);
    print("first run, in memory", beyond / INSIDE * INSIDE, took[0]);
    print("replay, in memory", beyond / INSIDE * INSIDE, took[1]);
    run(beyond, beyond, took);
    print("first run, beyond memory", beyond, took[0]);
    print("replay, beyond memory", beyond, took[1]);
    VELOC_Finalize(0);
    MPI_Finalize();
    return 0;
}
