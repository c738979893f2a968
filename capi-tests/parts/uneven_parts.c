/*
 * Parts with VELOC_PART_RESEND that not all processes begin, end and replay alike. Nobody may wait
 * for what cannot come, neither in a replay nor in MPI_Finalize, and who replays is told what the
 * others have done.
 */
#include "parts.h"

static void part(int id)
{
    part_begin(id, VELOC_PART_RESEND);
    part_end(id);
}

/* A message from 0 to 1. */
static void exchange(void)
{
    int value = rank == 0 ? 5 : 0;
    if (rank == 0)
        MPI(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    if (rank == 1) {
        MPI(MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EQUAL(value, 5);
    }
}

/* The same, on both sides in a part. */
static void message(int id)
{
    part_begin(id, VELOC_PART_RESEND);
    exchange();
    part_end(id);
}

static void refused_and_freed(int id, const char *words)
{
    REFUSED(VELOC_Part_replay_begin(id), words);
    PART(VELOC_Part_free(id));
    EMPTY_LOG();
}

/* The last process never has the part. */
static void missing(int is_replayed)
{
    if (rank == ranks - 1)
        return;
    part(1);
    part(2);
    part(3);
    if (!is_replayed)
        return;
    REFUSED(VELOC_Part_replay_begin(3), "part 3|MPI_Finalize|VELOC_PART_RESEND");
    PART(VELOC_Part_free(3));
    PART(VELOC_Part_free(2));
    refused_and_freed(1, "part 1|MPI_Finalize");
}

static void another_order(void)
{
    message(rank == 0 ? 1 : 2);
    message(rank == 0 ? 2 : 1);
    REFUSED(VELOC_Part_replay_begin(1), "ended part 1|ended part 2");
    PART(VELOC_Part_free(1));
    refused_and_freed(2, "ended part 1|ended part 2");
}

/* The last process has given the part up once: its runs are not those of the others. */
static void given_up(void)
{
    if (rank == ranks - 1) {
        part_begin(1, VELOC_PART_RESEND);
        PART(VELOC_Part_free(1));
    }
    part(1);
    message(1);
    REFUSED(VELOC_Part_replay_begin(1), "ended part 1|as number 2|as number 3");
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
}

/* All give it up alike: later ones are right. */
static void all_given_up(void)
{
    part_begin(1, VELOC_PART_RESEND);
    PART(VELOC_Part_free(1));
    message(1);
    replay_begin(1);
    exchange();
    replay_end(1);
    EQUAL(logged().resent, rank == 0 ? sizeof(int) : 0);
    EMPTY_LOG();
}

/* A part that is open when MPI ends. */
static void open_at_the_end(void)
{
    if (rank == 0)
        part(1);
    else
        part_begin(1, VELOC_PART_RESEND);
}

/* More than goes on its way before it is received. */
enum { LONG = 100000 };

static double sent[LONG], got[LONG];

/* Each sends to the next one. What failed. */
static int ring(void)
{
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    MPI_Request request;
    if (MPI_Irecv(got, LONG, MPI_DOUBLE, previous, 3, MPI_COMM_WORLD, &request) != MPI_SUCCESS ||
        MPI_Send(sent, LONG, MPI_DOUBLE, next, 3, MPI_COMM_WORLD) != MPI_SUCCESS)
        return 1;
    return MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS;
}

static void rings(void)
{
    for (int id = 1; id <= 3; id++) {
        part_begin(id, VELOC_PART_RESEND);
        EQUAL(ring(), 0);
        part_end(id);
    }
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

/* The replay begins and fails, or fails to begin. */
static void fails(int id, const char *words)
{
    if (VELOC_Part_replay_begin(id) == VELOC_SUCCESS)
        CHECK(ring() != 0);
    check_words(__FILE__, __LINE__, "the replay", words);
    for (id = 3; id >= 1; id--)
        PART(VELOC_Part_free(id));
}

/* The last process does not replay. */
static void replayed_by_some(void)
{
    rings();
    if (rank < ranks - 1) {
        fails(3, "replays part 3|MPI_Finalize");
        EMPTY_LOG();
    }
}

/* The last process replays another part. */
static void another_replayed(void)
{
    rings();
    fails(rank == ranks - 1 ? 2 : 3, "replays part 2|replays part 3");
    EMPTY_LOG();
}

/* The last process has another part before it replays. */
static void another_before(void)
{
    rings();
    if (rank == ranks - 1)
        part(9);
    fails(3, "ended part 9|replays part 3");
    if (rank == ranks - 1)
        PART(VELOC_Part_free(9));
    EMPTY_LOG();
}

int main(int argc, char **argv)
{
    const char *wanted;
    begin_program(&argc, &argv);
    wanted = option(argc, argv, "case", "");
    if (strcmp(wanted, "missing") == 0)
        missing(0);
    else if (strcmp(wanted, "replayed") == 0)
        missing(1);
    else if (strcmp(wanted, "order") == 0)
        another_order();
    else if (strcmp(wanted, "given_up") == 0)
        given_up();
    else if (strcmp(wanted, "all_given_up") == 0)
        all_given_up();
    else if (strcmp(wanted, "open") == 0)
        open_at_the_end();
    else if (strcmp(wanted, "replayed_by_some") == 0)
        replayed_by_some();
    else if (strcmp(wanted, "another_replayed") == 0)
        another_replayed();
    else if (strcmp(wanted, "another_before") == 0)
        another_before();
    else
        failed(__FILE__, __LINE__, "the case", wanted);
    return end_program();
}
