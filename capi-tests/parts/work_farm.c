/*
 * A work farm: whoever is ready gets the next task, so what happens in which order differs from run
 * to run. The first process takes results from anybody by every call that completes requests; what
 * it makes of them depends on their order, and so do the next tasks.
 *
 * work_farm [tasks=N]
 */
#include "parts.h"

enum { RESULT = 1, TASK = 100, STOP_TAG = 99, MOST = 16, OPEN = 4 };

static int tasks;
static double results[OPEN][MOST];
static MPI_Request receives[OPEN];

static void receive_into(int slot)
{
    MPI(MPI_Irecv(results[slot], MOST, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &receives[slot]));
}

static void send_task(int worker, int task, double sum)
{
    double data[MOST];
    int length = 1 + task % MOST;
    int i;
    for (i = 0; i < length; i++)
        data[i] = sum + task * 0.25 + i;
    MPI(MPI_Send(data, length, MPI_DOUBLE, worker, TASK + task, MPI_COMM_WORLD));
}

/* Completes some of the receives, each time by another call. Returns how many; `which` has their
 * numbers, in the order in which MPI tells them. */
static int complete(int turn, int *which, MPI_Status *statuses)
{
    int count = 0, flag, i;
    switch (turn % 4) {
    case 0:
        MPI(MPI_Waitsome(OPEN, receives, &count, which, statuses));
        break;
    case 1:
        count = 1;
        MPI(MPI_Waitany(OPEN, receives, which, statuses));
        break;
    case 2:
        do {
            MPI(MPI_Testsome(OPEN, receives, &count, which, statuses));
            saw_int(count);
        } while (count == 0);
        break;
    case 3:
        do {
            MPI(MPI_Testany(OPEN, receives, which, &flag, statuses));
            saw_int(flag);
        } while (!flag);
        count = 1;
        break;
    }
    saw_int(count);
    for (i = 0; i < count; i++) {
        saw_int(which[i]);
        CHECK(receives[which[i]] == MPI_REQUEST_NULL);
    }
    return count;
}

static void farmer(void)
{
    MPI_Status statuses[OPEN];
    int which[OPEN];
    double sum = 0;
    int given = 0, taken = 0, turn = 0, i;
    for (i = 0; i < OPEN; i++)
        receive_into(i);
    for (i = 1; i < ranks; i++)
        send_task(i, given++, sum);
    while (taken < tasks) {
        int count = complete(turn++, which, statuses);
        for (i = 0; i < count; i++, taken++) {
            double *result = results[which[i]];
            int length;
            saw_status(&statuses[i]);
            MPI(MPI_Get_count(&statuses[i], MPI_DOUBLE, &length));
            saw(result, sizeof *result * (size_t)length);
            /* Not associative, so the order shows in the last bits. */
            sum = sum * 1.0625 + result[length - 1];
            if (given < tasks)
                send_task(statuses[i].MPI_SOURCE, given++, sum);
            receive_into(which[i]);
        }
    }
    saw(&sum, sizeof sum);
    for (i = 1; i < ranks; i++)
        MPI(MPI_Send(NULL, 0, MPI_DOUBLE, i, STOP_TAG, MPI_COMM_WORLD));
    for (i = 0; i < OPEN; i++) {
        MPI_Status status;
        int cancelled;
        MPI(MPI_Cancel(&receives[i]));
        MPI(MPI_Wait(&receives[i], &status));
        MPI(MPI_Test_cancelled(&status, &cancelled));
        CHECK(cancelled);
    }
}

static void worker(void)
{
    for (;;) {
        double data[MOST];
        MPI_Status status;
        int length, i;
        MPI(MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        saw_status(&status);
        MPI(MPI_Get_count(&status, MPI_DOUBLE, &length));
        MPI(MPI_Recv(data, length, MPI_DOUBLE, 0, status.MPI_TAG, MPI_COMM_WORLD, &status));
        saw_status(&status);
        saw(data, sizeof *data * (size_t)length);
        if (status.MPI_TAG == STOP_TAG)
            return;
        random_pause(600);
        for (i = 0; i < length; i++)
            data[i] = data[i] * 0.5 + rank;
        MPI(MPI_Send(data, length, MPI_DOUBLE, 0, RESULT + status.MPI_TAG, MPI_COMM_WORLD));
    }
}

static void farm(void)
{
    if (rank == 0)
        farmer();
    else
        worker();
}

int main(int argc, char **argv)
{
    tasks = (int)number(argc, argv, "tasks", 40);
    begin_program(&argc, &argv);
    run_and_replay(farm);
    run_and_replay(farm);
    return end_program();
}
