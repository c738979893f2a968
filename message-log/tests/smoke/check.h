/* What the smoke programs share. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "veloc-mpi.h"

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,                   \
                    VELOC_Part_error());                                                          \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                         \
        }                                                                                         \
    } while (0)

/* Begins the first run or the replay of a part. */
static inline void begin(int id, int run) {
    CHECK((run == 0 ? VELOC_Part_begin(id, 0) : VELOC_Part_replay_begin(id)) == 0);
}

/* Ends it. */
static inline void end(int id, int run) {
    CHECK((run == 0 ? VELOC_Part_end(id) : VELOC_Part_replay_end(id)) == 0);
}

/* Nothing is logged any more. */
static inline void check_empty(void) {
    VELOC_Part_figures figures;
    CHECK(VELOC_Part_get_figures(&figures, sizeof figures) == 0);
    CHECK(figures.logged == 0 && figures.events == 0 && figures.parts == 0);
}
