/*
 * Loops whose course depends on how fast messages are: as long as there is none, a process computes.
 * How often it has asked decides on all that follows.
 *
 * polling_loops [case=iprobe|improbe|test|testall|testany|get_status]
 */
#include "parts.h"

enum { MESSAGES = 12, MOST = 40, OPEN = 3 };

static const char *which;
static double state;

static int is(const char *name)
{
    return strcmp(which, name) == 0;
}

/* What a process does while nothing has come. */
static void compute(void)
{
    state = state * 0.999 + 1.0 / (1 + state * state);
    saw(&state, sizeof state);
}

static void took(const int *message, const MPI_Status *status)
{
    int count;
    MPI(MPI_Get_count(status, MPI_INT, &count));
    saw_status(status);
    saw(message, sizeof *message * (size_t)count);
    CHECK(count > 0 && message[count - 1] == message[0]);
    state += message[0];
}

static void take_probed(void)
{
    int message[MOST];
    int flag = 0, count;
    MPI_Status status, received;
    while (!flag) {
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
        if (!flag)
            compute();
    }
    MPI(MPI_Get_count(&status, MPI_INT, &count));
    MPI(MPI_Recv(message, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                 &received));
    saw_status(&status);
    took(message, &received);
}

static void take_matched(int turn)
{
    int message[MOST];
    int flag = 0, count;
    MPI_Message matched = MPI_MESSAGE_NULL;
    MPI_Request request;
    MPI_Status status, received;
    if (turn % 3 == 2)
        MPI(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &matched, &status));
    else
        while (!flag) {
            MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &matched, &status));
            if (!flag)
                compute();
        }
    CHECK(matched != MPI_MESSAGE_NULL);
    MPI(MPI_Get_count(&status, MPI_INT, &count));
    if (turn % 2 == 0) {
        MPI(MPI_Mrecv(message, count, MPI_INT, &matched, &received));
    } else {
        MPI(MPI_Imrecv(message, count, MPI_INT, &matched, &request));
        MPI(MPI_Wait(&request, &received));
    }
    CHECK(matched == MPI_MESSAGE_NULL);
    saw_status(&status);
    took(message, &received);
}

/* Receives of one test: one message or several. */
static int take_tested(void)
{
    int messages[OPEN][MOST];
    MPI_Request requests[OPEN];
    MPI_Status statuses[OPEN];
    int count = is("test") || is("get_status") ? 1 : OPEN;
    int flag = 0, i, index;
    for (i = 0; i < count; i++)
        MPI(MPI_Irecv(messages[i], MOST, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                      &requests[i]));
    if (is("testany")) {
        for (i = 0; i < count; i++, flag = 0) {
            while (!flag) {
                MPI(MPI_Testany(count, requests, &index, &flag, statuses));
                if (!flag)
                    compute();
            }
            saw_int(index);
            took(messages[index], statuses);
            CHECK(requests[index] == MPI_REQUEST_NULL);
        }
        MPI(MPI_Testany(count, requests, &index, &flag, statuses));
        CHECK(flag && index == MPI_UNDEFINED);
        return count;
    }
    while (!flag) {
        if (is("test"))
            MPI(MPI_Test(requests, &flag, statuses));
        else if (is("get_status"))
            MPI(MPI_Request_get_status(requests[0], &flag, statuses));
        else
            MPI(MPI_Testall(count, requests, &flag, statuses));
        if (!flag)
            compute();
    }
    if (is("get_status")) {
        CHECK(requests[0] != MPI_REQUEST_NULL);
        saw_status(statuses);
        MPI(MPI_Wait(requests, statuses));
    }
    for (i = 0; i < count; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL);
        took(messages[i], &statuses[i]);
    }
    return count;
}

static void body(void)
{
    int all = MESSAGES * (ranks - 1), taken = 0, i, j;
    int message[MOST];
    state = 1;
    if (rank == 0) {
        while (taken < all) {
            if (is("iprobe"))
                take_probed(), taken++;
            else if (is("improbe"))
                take_matched(taken++);
            else
                taken += take_tested();
        }
        saw(&state, sizeof state);
        return;
    }
    for (i = 0; i < MESSAGES; i++) {
        for (j = 0; j < MOST; j++)
            message[j] = 100 * rank + i;
        random_pause(2000);
        MPI(MPI_Send(message, 1 + i, MPI_INT, 0, i, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    static const char *const cases[] = {"iprobe", "improbe", "test", "testall", "testany",
                                        "get_status"};
    const char *only = option(argc, argv, "case", NULL);
    size_t i;
    begin_program(&argc, &argv);
    EQUAL(MESSAGES * (ranks - 1) % OPEN, 0);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        which = cases[i];
        if (only == NULL || is(only)) {
            run_and_replay(body);
            run_and_replay(body);
        }
    }
    return end_program();
}
