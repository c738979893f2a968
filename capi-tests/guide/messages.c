/* Compiled, and not run: tests/parts has what a replay does. */
#include <mpi.h>
#include <veloc.h>
/* BLOCK 1 */

struct state {
    int is_inside;
};

void step(struct state of);
void restore(struct state of);
void first_run(struct state state);
void inside(struct state state);
void made_again(int version, int rank);

void first_run(struct state state)
{
    /* BLOCK 2 */
}

void inside(struct state state)
{
    int version;
    MPI_Comm comm;
    /* BLOCK 3 */
}

void made_again(int version, int rank)
{
    MPI_Comm again;
    /* BLOCK 4 */
}
