/*
 * Error handlers that do not return: they jump out of the call of MPI's that has failed. Nothing can be
 * logged or replayed then, and that is said; a replay that has gone wrong sends nothing.
 *
 * left case=outside|first|replay
 */
#include "parts.h"

#include <setjmp.h>

static jmp_buf behind;
static volatile int jumps;

static void jump(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    longjmp(behind, ++jumps);
}

static void send_itself(int tag)
{
    MPI(MPI_Send(&rank, 1, MPI_INT, rank, tag, MPI_COMM_WORLD));
}

static void receive_itself(int tag)
{
    int got = -1;
    MPI(MPI_Recv(&got, 1, MPI_INT, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EQUAL(got, rank);
}

/* Deeper in the stack than the call that was left. */
static int deeper(int (*call)(void), int depth)
{
    volatile char room[2000];
    room[depth] = 1;
    return depth > 0 ? deeper(call, depth - 1) + room[0] * 0 : call();
}

static int fails(void)
{
    return MPI_Send(&rank, 1, MPI_INT, ranks + 7, 1, MPI_COMM_WORLD);
}

static int begins(void)
{
    return VELOC_Part_begin(1, 0);
}

static int ends(void)
{
    return VELOC_Part_end(1);
}

/* What comes from within a call is no such thing: the handler of a copy calls MPI, and returns. */
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
    CHECK(MPI_Send(&rank, 1, MPI_INT, 7, 1, copy) != MPI_SUCCESS);
    MPI(MPI_Errhandler_free(&own));
    MPI(MPI_Comm_free(&copy));
    part_begin(9, 0);
    part_end(9);
    PART(VELOC_Part_free(9));
}

int main(int argc, char **argv)
{
    MPI_Errhandler jumping;
    const char *name;
    int flag;
    begin_program(&argc, &argv);
    name = option(argc, argv, "case", "outside");
    returning();
    MPI(MPI_Comm_create_errhandler(jump, &jumping));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, jumping));
    if (strcmp(name, "outside") == 0) {
        if (setjmp(behind) == 0)
            (void)deeper(fails, 3);
        EQUAL(jumps, 1);
        REFUSED(deeper(begins, 9), "jumped out");
        REFUSED(begins(), "jumped out");
        send_itself(2);
        receive_itself(2);
    } else if (strcmp(name, "first") == 0) {
        part_begin(1, 0);
        if (setjmp(behind) == 0)
            (void)fails();
        EQUAL(jumps, 1);
        send_itself(2);
        receive_itself(2);
        REFUSED(deeper(ends, 3), "jumped out");
        REFUSED(VELOC_Part_replay_begin(1), "jumped out");
    } else {
        part_begin(1, 0);
        send_itself(2);
        send_itself(3);
        part_end(1);
        receive_itself(2);
        receive_itself(3);
        replay_begin(1);
        /* The first is another than it was; it fails, and so do all that follow. */
        switch (setjmp(behind)) {
        case 0:
            send_itself(4);
            break;
        case 1:
            check_words(__FILE__, __LINE__, "the error", "MPI_Send|tag 2|tag 4");
            send_itself(2);
            break;
        case 2:
            check_words(__FILE__, __LINE__, "the error", "jumped out");
            (void)deeper(fails, 5);
            break;
        }
        EQUAL(jumps, 3);
        MPI(PMPI_Iprobe(rank, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        REFUSED(VELOC_Part_replay_end(1), "jumped out");
    }
    MPI(PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    PMPI_Errhandler_free(&jumping);
    return end_program();
}
