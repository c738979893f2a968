/*
 * Checkpoints that cannot be: inside a part, with a request under way that was begun there.
 *
 * checkpoint_with_request CONFIGURATION
 */
#include "empty.h"
#include "parts.h"
#include "veloc.h"

static int version;

static void stored(void)
{
    EQUAL(VELOC_Checkpoint("state", ++version), 0);
}

static void refused(const char *call)
{
    EQUAL(VELOC_Checkpoint("state", ++version), -1);
    CHECK(strstr(VELOC_Last_error(), call) != NULL);
    CHECK(strstr(VELOC_Last_error(), "part 1") != NULL);
}

static void body(void)
{
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    int sent = rank, got = -1, sum = 0;
    MPI_Request request, again[2];
    MPI_Message message;
    stored();
    MPI(MPI_Irecv(&got, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &request));
    refused("MPI_Irecv");
    MPI(MPI_Send(&sent, 1, MPI_INT, next, 1, MPI_COMM_WORLD));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EQUAL(got, previous);
    stored();
    MPI(MPI_Iallreduce(&sent, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    refused("MPI_Iallreduce");
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    /* Persistent requests are under way from their start on. */
    MPI(MPI_Recv_init(&got, 1, MPI_INT, previous, 2, MPI_COMM_WORLD, &again[0]));
    MPI(MPI_Send_init(&sent, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &again[1]));
    stored();
    MPI(MPI_Startall(2, again));
    refused("_init");
    MPI(MPI_Waitall(2, again, MPI_STATUSES_IGNORE));
    stored();
    MPI(MPI_Send(&sent, 1, MPI_INT, next, 3, MPI_COMM_WORLD));
    MPI(MPI_Mprobe(previous, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    refused("MPI_Mprobe");
    MPI(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    MPI(MPI_Grequest_start(empty_query, empty_free, empty_cancel, NULL, &request));
    refused("MPI_Grequest_start");
    MPI(MPI_Grequest_complete(request));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    stored();
    MPI(MPI_Request_free(&again[0]));
    MPI(MPI_Request_free(&again[1]));
}

int main(int argc, char **argv)
{
    int got = 0, sent = 7;
    MPI_Request outside;
    begin_program(&argc, &argv);
    CHECK(argc > 1);
    EQUAL(VELOC_Init(MPI_COMM_WORLD, argv[1]), 0);
    EQUAL(VELOC_Mem_protect(0, &version, 1, sizeof version), 0);
    /* Nothing is said of what was begun outside parts: the program knows of it. */
    MPI(MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % ranks, 9, MPI_COMM_WORLD, &outside));
    run_and_replay(body);
    MPI(MPI_Send(&sent, 1, MPI_INT, (rank + ranks - 1) % ranks, 9, MPI_COMM_WORLD));
    MPI(MPI_Wait(&outside, MPI_STATUS_IGNORE));
    EQUAL(got, 7);
    EQUAL(VELOC_Finalize(1), 0);
    return end_program();
}
