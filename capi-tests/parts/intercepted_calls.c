/*
 * Whose calls come to the library.
 *
 * intercepted_calls case=CASE [interface=PATH]
 *   early    an interface for Fortran that is loaded before MPI_Init is seen
 *   late     one that is loaded later is not, and parts are refused
 *   blind    one whose calls cannot be seen: the same
 *   behind   nothing is seen by a library that MPI comes before
 *   tool     what calls the profiling interface itself is a tool's, and real in a replay, too
 */
#include "parts.h"

#include <dlfcn.h>

static int (*receive)(int *value, int source);
static int left, right;

static void load(const char *path)
{
    void *interface = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(interface != NULL);
    *(void **)&receive = dlsym(interface, "standin_receive");
    CHECK(receive != NULL);
}

static void exchange(void)
{
    int value = -1, own = 100 + rank;
    MPI(MPI_Send(&own, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    MPI(receive(&value, left));
    EQUAL(value, 100 + left);
    saw_int(value);
}

static void by_a_tool(void)
{
    int value = -1, own = 100 + rank;
    MPI(PMPI_Sendrecv(&own, 1, MPI_INT, rank, 1, &value, 1, MPI_INT, rank, 1, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    EQUAL(value, own);
    EQUAL(logged().events, 0);
}

int main(int argc, char **argv)
{
    const char *what = option(argc, argv, "case", "");
    const char *path = option(argc, argv, "interface", "");
    int is_late = strcmp(what, "late") == 0;
    if (*path != '\0' && !is_late)
        load(path);
    begin_program(&argc, &argv);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    if (is_late) {
        PART(VELOC_Part_begin(1, 0));
        PART(VELOC_Part_end(1));
        PART(VELOC_Part_free(1));
        load(path);
        REFUSED(VELOC_Part_begin(1, 0), "libmpi_mpifh|MPI_Init");
    } else if (strcmp(what, "early") == 0) {
        run_and_replay(exchange);
    } else if (strcmp(what, "blind") == 0) {
        REFUSED(VELOC_Part_begin(1, 0), "libmpi_mpifh|cannot be seen");
    } else if (strcmp(what, "behind") == 0) {
        REFUSED(VELOC_Part_begin(1, 0), "after MPI");
    } else {
        EQUAL(strcmp(what, "tool"), 0);
        run_and_replay(by_a_tool);
    }
    return end_program();
}
