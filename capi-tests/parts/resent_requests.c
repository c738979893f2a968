/*
 * Messages of persistent requests, messages that are probed for before they are received, and sends whose
 * requests are given up, in parts with VELOC_PART_RESEND: they are sent again where it is known which
 * message is whose and that it is completed, and all others come from the log.
 *
 * resent_requests
 */
#include "parts.h"

enum { LENGTH = 30, STEPS = 3, MOST = 8 };

static int left, right;
static int to[LENGTH], from[6 * LENGTH];
static int step;
/* Bytes that a run of the body sends and may send again. */
static uint64_t sent;

static void prepare(void)
{
    int i;
    for (i = 0; i < LENGTH; i++)
        to[i] = 1000 * rank + 10 * step + i;
    memset(from, -1, sizeof from);
    sent = 0;
}

static void check(int place, int length)
{
    int i;
    for (i = 0; i < length; i++)
        EQUAL(from[place + i], 1000 * left + 10 * step + i);
    saw(from, sizeof from);
}

/* ---- persistent requests, made before all parts ---- */

static MPI_Request one[2], gaps[2], two[4];

static void make_requests(void)
{
    MPI_Datatype every_other;
    MPI(MPI_Recv_init(from, LENGTH, MPI_INT, left, 1, MPI_COMM_WORLD, &one[0]));
    MPI(MPI_Ssend_init(to, 20, MPI_INT, right, 1, MPI_COMM_WORLD, &one[1]));
    MPI(MPI_Type_vector(5, 1, 2, MPI_INT, &every_other));
    MPI(MPI_Type_commit(&every_other));
    MPI(MPI_Recv_init(from, 1, every_other, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &gaps[0]));
    MPI(MPI_Send_init(to, 1, every_other, right, 2, MPI_COMM_WORLD, &gaps[1]));
    MPI(MPI_Type_free(&every_other));
    MPI(MPI_Recv_init(from, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &two[0]));
    MPI(MPI_Recv_init(from + 1, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &two[1]));
    MPI(MPI_Send_init(to, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &two[2]));
    MPI(MPI_Send_init(to + 1, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &two[3]));
}

static void started_together(void)
{
    MPI_Status statuses[2];
    MPI(MPI_Startall(2, one));
    MPI(MPI_Waitall(2, one, statuses));
    saw_status(&statuses[0]);
    check(0, 20);
    CHECK(one[0] != MPI_REQUEST_NULL && one[1] != MPI_REQUEST_NULL);
    sent += 20 * sizeof(int);
}

static void started_alone(void)
{
    MPI_Status status;
    int flag, i;
    MPI(MPI_Start(&gaps[1]));
    MPI(MPI_Start(&gaps[0]));
    do
        MPI(MPI_Test(&gaps[0], &flag, &status));
    while (!flag);
    saw_status(&status);
    MPI(MPI_Wait(&gaps[1], MPI_STATUS_IGNORE));
    for (i = 0; i < 9; i++)
        EQUAL(from[i], i % 2 ? -1 : 1000 * left + 10 * step + i);
    saw(from, sizeof from);
    sent += 5 * sizeof(int);
}

/* Of two that are started at once on one stream, nobody knows which message is whose. */
static void in_any_order(void)
{
    MPI(MPI_Startall(4, two));
    MPI(MPI_Waitall(4, two, MPI_STATUSES_IGNORE));
    saw(from, sizeof from);
}

/* A request that is started while it is under way: MPICH refuses that, and starts nothing. Open MPI does not
 * look. */
static void start_twice(void)
{
#ifndef OPEN_MPI
    MPI_Request both[2];
    int got = -1;
    prepare();
    both[0] = one[1];
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI(MPI_Start(&one[1]));
    CHECK(MPI_Start(&one[1]) != MPI_SUCCESS);
    CHECK(MPI_Startall(1, both) != MPI_SUCCESS);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    MPI(MPI_Start(&one[0]));
    MPI(MPI_Waitall(2, one, MPI_STATUSES_IGNORE));
    check(0, 20);
    MPI(MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    EQUAL(got, left);
#endif
}

/* Outside parts, with calls of another kind at the other end: both must count the same. The first start of a
 * request is another than those that follow; and more are sent than received, so that starts that are not
 * counted are not as many on both sides. */
static void between_parts(void)
{
    MPI_Request both[2];
    int i;
    for (i = 0; i < 4; i++) {
        prepare();
        MPI(MPI_Start(&one[1]));
        MPI(MPI_Recv(from, LENGTH, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI(MPI_Wait(&one[1], MPI_STATUS_IGNORE));
        check(0, 20);
    }
    for (i = 0; i < 2; i++) {
        prepare();
        both[0] = one[0];
        MPI(MPI_Startall(1, both));
        MPI(MPI_Isend(to, 20, MPI_INT, right, 1, MPI_COMM_WORLD, &both[1]));
        MPI(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        CHECK(both[0] == one[0] && both[1] == MPI_REQUEST_NULL);
        check(0, 20);
    }
}

/* ---- sends whose requests are given up ---- */

static void given_up(void)
{
    MPI_Request request;
    MPI(MPI_Isend(to, 6, MPI_INT, right, 9, MPI_COMM_WORLD, &request));
    MPI(MPI_Request_free(&request));
    MPI(MPI_Recv(from, 6, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    check(0, 6);
}

/* On the same stream. */
static void waited_for(void)
{
    MPI_Request request;
    MPI(MPI_Isend(to, 6, MPI_INT, right, 9, MPI_COMM_WORLD, &request));
    MPI(MPI_Recv(from, 6, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check(0, 6);
    sent += 6 * sizeof(int);
}

/* ---- messages that are probed for ---- */

static void probed(void)
{
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    int flag;
    MPI(MPI_Isend(to, 7, MPI_INT, right, 4, MPI_COMM_WORLD, &request));
    MPI(MPI_Mprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &message, &status));
    saw_status(&status);
    MPI(MPI_Mrecv(from, LENGTH, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
    saw_status(&status);
    MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check(0, 7);
    MPI(MPI_Send(to, 9, MPI_INT, right, 5, MPI_COMM_WORLD));
    do
        MPI(MPI_Improbe(left, 5, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
    while (!flag);
    MPI(MPI_Imrecv(from, 9, MPI_INT, &message, &request));
    CHECK(request != MPI_REQUEST_NULL);
    MPI(MPI_Wait(&request, &status));
    saw_status(&status);
    check(0, 9);
    sent += 16 * sizeof(int);
}

/* A replay would receive them in the order in which they are sent. */
static void probed_in_another_order(void)
{
    MPI_Message messages[2];
    MPI_Request requests[2];
    int i;
    for (i = 0; i < 2; i++)
        MPI(MPI_Isend(&to[i], 1, MPI_INT, right, 12, MPI_COMM_WORLD, &requests[i]));
    for (i = 0; i < 2; i++)
        MPI(MPI_Mprobe(left, 12, MPI_COMM_WORLD, &messages[i], MPI_STATUS_IGNORE));
    for (i = 1; i >= 0; i--)
        MPI(MPI_Mrecv(&from[i], 1, MPI_INT, &messages[i], MPI_STATUS_IGNORE));
    MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check(0, 2);
}

static void posted_between(int source)
{
    MPI_Message message;
    MPI_Request requests[3];
    int i;
    for (i = 0; i < 2; i++)
        MPI(MPI_Isend(&to[i], 1, MPI_INT, right, 13, MPI_COMM_WORLD, &requests[i]));
    MPI(MPI_Mprobe(left, 13, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    MPI(MPI_Irecv(&from[1], 1, MPI_INT, source, 13, MPI_COMM_WORLD, &requests[2]));
    MPI(MPI_Mrecv(&from[0], 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    MPI(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    check(0, 2);
}

static void named_between(void)
{
    posted_between(left);
}

static void any_between(void)
{
    posted_between(MPI_ANY_SOURCE);
}

/* ---- probed for in the part, received behind it; and before it, and in it ---- */

static MPI_Message beyond;

static void received_behind(void)
{
    MPI_Status status;
    MPI(MPI_Send(to, 3, MPI_INT, right, 6, MPI_COMM_WORLD));
    MPI(MPI_Mprobe(left, 6, MPI_COMM_WORLD, &beyond, &status));
    saw_status(&status);
}

static void probed_before(void)
{
    MPI_Status status;
    MPI(MPI_Mrecv(from, 3, MPI_INT, &beyond, &status));
    saw_status(&status);
    check(0, 3);
}

/* ---- runs and replays ---- */

/* Several parts, replayed in reverse by all processes at once. */
static void run(void (*body)(void))
{
    static uint64_t seen_then[MOST];
    uint64_t before = logged().resent, expected = 0;
    for (step = 0; step < STEPS; step++) {
        prepare();
        seen = 0;
        part_begin(1, VELOC_PART_RESEND);
        body();
        part_end(1);
        seen_then[step] = seen;
        expected += sent;
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    while (step-- > 0) {
        prepare();
        seen = 0;
        replay_begin(1);
        body();
        replay_end(1);
        CHECK(seen == seen_then[step]);
    }
    EQUAL(logged().resent - before, expected);
    EMPTY_LOG();
}

/* A message that is probed for and received on different sides of the border between two parts. */
static void run_beyond(void)
{
    uint64_t seen_then[2], before = logged().resent;
    step = 1;
    prepare();
    seen = 0;
    part_begin(1, VELOC_PART_RESEND);
    received_behind();
    part_end(1);
    seen_then[0] = seen;
    seen = 0;
    part_begin(2, VELOC_PART_RESEND);
    probed_before();
    part_end(2);
    seen_then[1] = seen;
    prepare();
    seen = 0;
    replay_begin(2);
    probed_before();
    replay_end(2);
    CHECK(seen == seen_then[1]);
    seen = 0;
    replay_begin(1);
    received_behind();
    replay_end(1);
    CHECK(seen == seen_then[0]);
    EQUAL(logged().resent, before);
    EMPTY_LOG();
}

int main(int argc, char **argv)
{
    int i;
    begin_program(&argc, &argv);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    make_requests();
    run(started_together);
    run(started_alone);
    run(in_any_order);
    start_twice();
    between_parts();
    run(started_together);
    prepare();
    given_up();
    run(waited_for);
    run(given_up);
    run(waited_for);
    run(probed);
    run(probed_in_another_order);
    run(named_between);
    run(any_between);
    run(probed);
    run_beyond();
    for (i = 0; i < 4; i++) {
        MPI(MPI_Request_free(&two[i]));
        if (i < 2) {
            MPI(MPI_Request_free(&one[i]));
            MPI(MPI_Request_free(&gaps[i]));
        }
    }
    return end_program();
}
