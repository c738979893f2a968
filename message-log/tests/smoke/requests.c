/* Requests of every kind in a ring of processes, replayed: those begun outside the part, several at
 * a time, strided types that are freed early, cancelled ones, persistent ones, and messages that are
 * probed for. Values, statuses, indices and flags are those of the first run. */
#include "check.h"

static int rank, size, next, last;

/* What the process before this one sends as its message number `n`. */
static int value(int from, int n) {
    return 1000 * from + n;
}

/* The receive begins before the part and ends in it. */
static void begun_outside(void) {
    int in = -1, out = value(rank, 1);
    MPI_Request receive, send;
    MPI_Status first, again;
    MPI_Irecv(&in, 1, MPI_INT, last, 3, MPI_COMM_WORLD, &receive);
    MPI_Isend(&out, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &send);
    MPI_Request before[2] = {receive, send};
    for (int run = 0; run < 2; run++) {
        MPI_Request requests[2] = {before[0], before[1]};
        if (run == 1) {
            in = -1;
        }
        begin(1, run);
        MPI_Wait(&requests[0], run == 0 ? &first : &again);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        end(1, run);
        CHECK(in == value(last, 1));
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    }
    CHECK(again.MPI_SOURCE == last && again.MPI_TAG == 3);
    check_empty();
}

/* The receive begins in the part and ends after it: its data belongs to the wait. */
static void ended_outside(void) {
    int in = -1, out = value(rank, 2);
    MPI_Request receive, again;
    begin(2, 0);
    MPI_Irecv(&in, 1, MPI_INT, last, 4, MPI_COMM_WORLD, &receive);
    MPI_Send(&out, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
    end(2, 0);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    CHECK(in == value(last, 2));
    begin(2, 1);
    MPI_Irecv(&in, 1, MPI_INT, last, 4, MPI_COMM_WORLD, &again);
    CHECK(again != MPI_REQUEST_NULL);
    MPI_Send(&out, 1, MPI_INT, next, 4, MPI_COMM_WORLD);
    end(2, 1);
    MPI_Wait(&again, MPI_STATUS_IGNORE);
    CHECK(again == MPI_REQUEST_NULL && in == value(last, 2));
    check_empty();
}

/* Waitany, Waitsome, Testall and polls that fail. */
static void several(void) {
    enum { COUNT = 8 };
    int in[COUNT], order[2][COUNT], polls[2] = {0, 0};
    MPI_Status statuses[2][COUNT];
    for (int run = 0; run < 2; run++) {
        MPI_Request receives[COUNT], sends[COUNT];
        int out[COUNT];
        memset(in, -1, sizeof in);
        begin(3, run);
        for (int i = 0; i < COUNT; i++) {
            MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &receives[i]);
        }
        for (int i = COUNT; i-- > 0;) {
            out[i] = run == 0 ? value(rank, i) : -5;
            MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &sends[i]);
        }
        MPI_Waitany(COUNT, receives, &order[run][0], &statuses[run][0]);
        int done = 1;
        while (done < COUNT) {
            int count;
            MPI_Testsome(COUNT, receives, &count, &order[run][done], &statuses[run][done]);
            polls[run]++;
            CHECK(count != MPI_UNDEFINED);
            done += count;
        }
        MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
        int flag, index;
        MPI_Testany(COUNT, receives, &index, &flag, MPI_STATUS_IGNORE);
        CHECK(flag && index == MPI_UNDEFINED);
        end(3, run);
        for (int i = 0; i < COUNT; i++) {
            CHECK(in[i] == value(last, i));
            CHECK(receives[i] == MPI_REQUEST_NULL && sends[i] == MPI_REQUEST_NULL);
        }
    }
    CHECK(polls[0] == polls[1] && memcmp(order[0], order[1], sizeof order[0]) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(statuses[0][i].MPI_SOURCE == last && statuses[1][i].MPI_SOURCE == last);
        CHECK(statuses[0][i].MPI_TAG == statuses[1][i].MPI_TAG);
        CHECK(statuses[1][i].MPI_TAG == order[1][i]);
    }
    check_empty();
}

/* Every second double of an array, with a type that is freed before the message is there. */
static void strided(void) {
    enum { COUNT = 500 };
    double in[2 * COUNT], out[COUNT];
    for (int run = 0; run < 2; run++) {
        MPI_Datatype second, pending;
        MPI_Request request;
        MPI_Status status;
        for (int i = 0; i < COUNT; i++) {
            out[i] = run == 0 ? value(rank, i) : -1;
            in[2 * i] = in[2 * i + 1] = -7;
        }
        begin(4, run);
        MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &second);
        MPI_Type_commit(&second);
        pending = second;
        /* Room for all, and one less is sent. */
        MPI_Irecv(in, COUNT, second, last, 9, MPI_COMM_WORLD, &request);
        MPI_Type_free(&second);
        CHECK(second == MPI_DATATYPE_NULL && pending != MPI_DATATYPE_NULL);
        MPI_Send(out, COUNT - 1, MPI_DOUBLE, next, 9, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        end(4, run);
        for (int i = 0; i < COUNT; i++) {
            CHECK(in[2 * i] == (i < COUNT - 1 ? value(last, i) : -7));
            CHECK(in[2 * i + 1] == -7);
        }
        int count;
        MPI_Get_count(&status, MPI_DOUBLE, &count);
        CHECK(count == COUNT - 1);
    }
    check_empty();
    /* The same with a request and a type from before the part. */
    MPI_Datatype second;
    MPI_Request request, before;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &second);
    MPI_Type_commit(&second);
    for (int i = 0; i < 2 * COUNT; i++) {
        in[i] = -7;
    }
    MPI_Irecv(in, COUNT, second, last, 9, MPI_COMM_WORLD, &request);
    MPI_Type_free(&second);
    before = request;
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < COUNT; i++) {
            out[i] = run == 0 ? value(rank, i) : -1;
            if (run == 1) {
                in[2 * i] = in[2 * i + 1] = -7;
            }
        }
        begin(4, run);
        MPI_Send(out, COUNT - 1, MPI_DOUBLE, next, 9, MPI_COMM_WORLD);
        request = before;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        end(4, run);
        for (int i = 0; i < COUNT; i++) {
            CHECK(in[2 * i] == (i < COUNT - 1 ? value(last, i) : -7));
            CHECK(in[2 * i + 1] == -7);
        }
    }
    check_empty();
}

static void cancelled(void) {
    for (int run = 0; run < 2; run++) {
        int in = 17, flag = 0;
        MPI_Request request;
        MPI_Status status;
        begin(5, run);
        MPI_Irecv(&in, 1, MPI_INT, last, 99, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        end(5, run);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag && in == 17 && request == MPI_REQUEST_NULL);
    }
    check_empty();
}

/* Made before the part or in it, started in it, freed in it. */
static void persistent(void) {
    int in[2], out;
    MPI_Request made[2];
    MPI_Recv_init(&in[0], 1, MPI_INT, last, 11, MPI_COMM_WORLD, &made[0]);
    MPI_Send_init(&out, 1, MPI_INT, next, 11, MPI_COMM_WORLD, &made[1]);
    for (int run = 0; run < 2; run++) {
        MPI_Request requests[4] = {made[0], made[1], MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        begin(6, run);
        MPI_Recv_init(&in[1], 1, MPI_INT, last, 12, MPI_COMM_WORLD, &requests[2]);
        MPI_Send_init(&out, 1, MPI_INT, next, 12, MPI_COMM_WORLD, &requests[3]);
        for (int step = 0; step < 3; step++) {
            MPI_Status statuses[4];
            out = run == 0 ? value(rank, step) : -3;
            in[0] = in[1] = -1;
            if (step == 1) {
                for (int i = 0; i < 4; i++) {
                    MPI_Start(&requests[i]);
                }
            } else {
                MPI_Startall(4, requests);
            }
            MPI_Waitall(4, requests, statuses);
            CHECK(in[0] == value(last, step) && in[1] == value(last, step));
            CHECK(statuses[0].MPI_TAG == 11 && statuses[2].MPI_TAG == 12);
            for (int i = 0; i < 4; i++) {
                CHECK(requests[i] != MPI_REQUEST_NULL);
            }
        }
        for (int i = 0; i < 4; i++) {
            MPI_Request_free(&requests[i]);
            CHECK(requests[i] == MPI_REQUEST_NULL);
        }
        end(6, run);
    }
    check_empty();
}

static void probed(void) {
    for (int run = 0; run < 2; run++) {
        static int polls[2];
        int out = run == 0 ? value(rank, 4) : -1, in[3] = {-1, -1, -1}, flag = 0;
        MPI_Status status;
        MPI_Message message;
        MPI_Request request;
        begin(7, run);
        if (rank == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        for (int i = 0; i < 3; i++) {
            MPI_Isend(&out, 1, MPI_INT, next, 20 + i, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
        }
        if (rank != 0) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        while (!flag) {
            MPI_Iprobe(last, 20, MPI_COMM_WORLD, &flag, &status);
            polls[run]++;
        }
        CHECK(status.MPI_SOURCE == last && status.MPI_TAG == 20);
        MPI_Recv(&in[0], 1, MPI_INT, last, 20, MPI_COMM_WORLD, &status);
        MPI_Mprobe(MPI_ANY_SOURCE, 21, MPI_COMM_WORLD, &message, &status);
        CHECK(message != MPI_MESSAGE_NULL && status.MPI_SOURCE == last);
        MPI_Mrecv(&in[1], 1, MPI_INT, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL);
        do {
            MPI_Improbe(last, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
        } while (!flag);
        CHECK(status.MPI_TAG == 22);
        MPI_Imrecv(&in[2], 1, MPI_INT, &message, &request);
        flag = 0;
        while (!flag) {
            MPI_Request_get_status(request, &flag, &status);
        }
        CHECK(in[2] == value(last, 4) && request != MPI_REQUEST_NULL);
        MPI_Wait(&request, &status);
        end(7, run);
        CHECK(polls[run] == polls[0]);
        for (int i = 0; i < 3; i++) {
            CHECK(in[i] == value(last, 4));
        }
    }
    check_empty();
}

/* A communicator made and freed in a part, and one freed while a replay still needs it. */
static void communicators(void) {
    MPI_Comm outer, kept;
    MPI_Comm_dup(MPI_COMM_WORLD, &outer);
    kept = outer;
    for (int run = 0; run < 2; run++) {
        MPI_Comm half, old = kept;
        int out = run == 0 ? value(rank, 5) : -1, in = -1, at, count;
        begin(8, run);
        MPI_Comm_split(old, rank % 2, -rank, &half);
        MPI_Comm_rank(half, &at);
        MPI_Comm_size(half, &count);
        MPI_Sendrecv(&out, 1, MPI_INT, (at + 1) % count, 1, &in, 1, MPI_INT,
                     (at + count - 1) % count, 1, half, MPI_STATUS_IGNORE);
        MPI_Comm_free(&half);
        CHECK(half == MPI_COMM_NULL);
        MPI_Comm_free(&old);
        CHECK(old == MPI_COMM_NULL);
        end(8, run);
        CHECK(in >= 0 && in % 1000 == 5 && in / 1000 % 2 == rank % 2);
    }
    check_empty();
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    last = (rank + size - 1) % size;
    begun_outside();
    ended_outside();
    several();
    strided();
    cancelled();
    persistent();
    probed();
    communicators();
    MPI_Finalize();
    return 0;
}
