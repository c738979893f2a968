/*
 * Error handlers that call MPI and return; and one that does not return, but jumps out of the call of
 * MPI's that has failed: MPI goes on, and what has to do with parts fails.
 *
 * error_handlers case=returns|outside|inside
 */
#include "parts.h"

#include <setjmp.h>

static jmp_buf behind;

static void jump(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    longjmp(behind, 1);
}

/* Calls MPI within the call that has failed, and returns. */
static void ask(MPI_Comm *comm, int *code, ...)
{
    int sum = 0, one = 1;
    (void)code;
    MPI(PMPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN));
    MPI(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    EQUAL(sum, 1);
}

static void returning(void)
{
    MPI_Comm copy;
    MPI_Errhandler own;
    MPI(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    MPI(MPI_Comm_create_errhandler(ask, &own));
    MPI(MPI_Comm_set_errhandler(copy, own));
    part_begin(9, 0);
    CHECK(MPI_Send(&rank, 1, MPI_INT, 7, 1, copy) != MPI_SUCCESS);
    part_end(9);
    /* What the handler has called is no call of the part's. */
    replay_begin(9);
    CHECK(MPI_Send(&rank, 1, MPI_INT, 7, 1, copy) != MPI_SUCCESS);
    replay_end(9);
    MPI(MPI_Errhandler_free(&own));
    MPI(MPI_Comm_free(&copy));
}

static void jumping(int inside)
{
    MPI_Errhandler own;
    int got = -1;
    MPI(MPI_Comm_create_errhandler(jump, &own));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, own));
    if (inside)
        part_begin(1, 0);
    if (setjmp(behind) == 0) {
        (void)MPI_Send(&rank, 1, MPI_INT, ranks + 7, 1, MPI_COMM_WORLD);
        CHECK(0);
    }
    MPI(MPI_Send(&rank, 1, MPI_INT, rank, 2, MPI_COMM_WORLD));
    MPI(MPI_Recv(&got, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EQUAL(got, rank);
    if (inside) {
        REFUSED(VELOC_Part_end(1), "jumped out");
        REFUSED(VELOC_Part_replay_begin(1), "jumped out");
    } else {
        REFUSED(VELOC_Part_begin(1, 0), "jumped out");
    }
    MPI(PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    PMPI_Errhandler_free(&own);
}

int main(int argc, char **argv)
{
    const char *name;
    begin_program(&argc, &argv);
    name = option(argc, argv, "case", "returns");
    if (strcmp(name, "returns") == 0)
        returning();
    else
        jumping(strcmp(name, "inside") == 0);
    return end_program();
}
