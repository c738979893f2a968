/* Parts in parts in parts. Requests cross the borders of the inner ones: begun before one and waited
 * for in it, begun in one and waited for in the next. Every replay gives what the first run gave, in
 * the order of an adjoint code: the outer part again, with the inner ones logged once more, then the
 * inner ones in reverse. */
#include "check.h"

enum { STEPS = 5 };

static int rank, size, next, last;

/* What the program's state is: a snapshot has all of it. */
struct state {
    int value, in[STEPS + 1];
    MPI_Request receive;
};

enum { LOG = 0, REPLAY = 1, PASS = 2 };

static void open_part(int id, int how) {
    if (how != PASS) {
        begin(id, how);
    }
}

static void close_part(int id, int how) {
    if (how != PASS) {
        end(id, how);
    }
}

/* One step: takes the message whose receive the step before has begun, and begins the next one. The
 * sum goes round the ring. */
static void step(struct state *s, int i, int how) {
    MPI_Request send;
    MPI_Status status;
    int out, sum;
    open_part(2, how);
    MPI_Wait(&s->receive, &status);
    CHECK(status.MPI_SOURCE == last && status.MPI_TAG == i);
    s->value += s->in[i];
    open_part(3, how);
    MPI_Irecv(&s->in[i + 1], 1, MPI_INT, MPI_ANY_SOURCE, i + 1, MPI_COMM_WORLD, &s->receive);
    out = s->value;
    MPI_Isend(&out, 1, MPI_INT, next, i + 1, MPI_COMM_WORLD, &send);
    MPI_Allreduce(&s->value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    close_part(3, how);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    s->value += sum;
    close_part(2, how);
}

int main(int argc, char **argv) {
    struct state at[STEPS + 1], now;
    int expected[STEPS + 1], out;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    last = (rank + size - 1) % size;

    memset(&now, 0, sizeof now);
    now.value = rank + 1;
    MPI_Irecv(&now.in[0], 1, MPI_INT, last, 0, MPI_COMM_WORLD, &now.receive);
    out = now.value;
    MPI_Send(&out, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    struct state first = now;

    begin(1, LOG);
    for (int i = 0; i < STEPS; i++) {
        step(&now, i, LOG);
        expected[i] = now.value;
    }
    end(1, LOG);
    /* The last receive belongs to what comes after. */
    MPI_Wait(&now.receive, MPI_STATUS_IGNORE);
    expected[STEPS] = now.in[STEPS];

    for (int round = 0; round < 2; round++) {
        /* A receive is under way here, and its buffer is part of the state: what has arrived in it
         * before the snapshot is not known. */
        now = first;
        now.in[0] = -1;
        begin(1, REPLAY);
        for (int i = 0; i < STEPS; i++) {
            at[i] = now;
            step(&now, i, LOG);
            CHECK(now.value == expected[i]);
        }
        end(1, REPLAY);
        for (int i = STEPS; i-- > 0;) {
            now = at[i];
            now.in[i] = -1;
            step(&now, i, REPLAY);
            CHECK(now.value == expected[i]);
        }
        if (round == 0) {
            check_empty();
            /* A second time, with an outer part that is kept and steps that are not parts. */
            now = first;
            now.value = rank + 7;
            CHECK(VELOC_Part_begin(1, VELOC_PART_KEEP) == 0);
            now.in[0] = 0;
            MPI_Irecv(&now.in[0], 1, MPI_INT, last, 0, MPI_COMM_WORLD, &now.receive);
            MPI_Send(&now.value, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
            for (int i = 0; i < STEPS; i++) {
                step(&now, i, PASS);
                expected[i] = now.value;
            }
            end(1, LOG);
            MPI_Wait(&now.receive, MPI_STATUS_IGNORE);
            for (int again = 0; again < 3; again++) {
                now = first;
                now.value = rank + 7;
                begin(1, REPLAY);
                MPI_Irecv(&now.in[0], 1, MPI_INT, last, 0, MPI_COMM_WORLD, &now.receive);
                MPI_Send(&now.value, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
                for (int i = 0; i < STEPS; i++) {
                    step(&now, i, again == 1 ? LOG : PASS);
                    CHECK(now.value == expected[i]);
                }
                end(1, REPLAY);
            }
            CHECK(VELOC_Part_free(1) == 0 && VELOC_Part_free(2) == 0 && VELOC_Part_free(3) == 0);
            check_empty();
            break;
        }
    }
    MPI_Finalize();
    return 0;
}
