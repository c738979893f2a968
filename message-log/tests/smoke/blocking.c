/* A part with one blocking message in a ring, replayed: the values and statuses are those of the
 * first run, and nothing is sent. Exits with 1 and says why otherwise. */
#include "check.h"

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    enum { COUNT = 1000 };
    double out[COUNT], in[COUNT + 5];
    MPI_Status first, again;
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < COUNT; i++) {
            out[i] = run == 0 ? rank + i : -1;
        }
        memset(in, 0, sizeof in);
        begin(7, run);
        if (rank % 2 == 0) {
            MPI_Send(out, COUNT, MPI_DOUBLE, next, 5, MPI_COMM_WORLD);
        }
        MPI_Recv(in, COUNT + 5, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 run == 0 ? &first : &again);
        if (rank % 2 == 1) {
            MPI_Send(out, COUNT, MPI_DOUBLE, next, 5, MPI_COMM_WORLD);
        }
        end(7, run);
        for (int i = 0; i < COUNT; i++) {
            CHECK(in[i] == last + i);
        }
        CHECK(in[COUNT] == 0);
        VELOC_Part_figures figures;
        CHECK(VELOC_Part_get_figures(&figures, sizeof figures) == 0);
        CHECK(figures.logged == (run == 0 ? COUNT * sizeof(double) : 0));
        CHECK(figures.peak == COUNT * sizeof(double));
        CHECK(figures.parts == (run == 0));
    }
    int count;
    CHECK(again.MPI_SOURCE == last && again.MPI_TAG == 5);
    MPI_Get_count(&again, MPI_DOUBLE, &count);
    CHECK(count == COUNT);
    CHECK(VELOC_Part_replay_begin(7) == -1 && strstr(VELOC_Part_error(), "no run of it is logged"));
    CHECK(VELOC_Part_end(7) == -1);
    MPI_Finalize();
    return 0;
}
