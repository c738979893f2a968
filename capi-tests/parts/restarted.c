/*
 * An adjoint whose processes are killed inside a part, in its first run or in its replay, and started
 * again by the same line: they go on inside that part, and come to the same bits.
 *
 * restarted CONFIGURATION [die=N] [flags=F] [swapped=1] [steps=N] [late=1] [odd=N]
 *
 * Places are counted over the whole computation. At place `die` a checkpoint is taken, and process 1
 * is killed when all have it in a file. `swapped` makes the communicators in another order.
 * With `late` each process ends its parts in the first run when the next one has come to the following
 * place, and has taken the checkpoint there: that one cannot have heard what becomes of the part, and
 * the last one can. With `odd` process 1 goes on from the checkpoint of that place, and is refused when
 * it comes to a replay, as are the others.
 */
#include "parts.h"
#include "veloc.h"

enum { MOST = 8, TURNS = 4, ALL = 24, LATE = 4 };

/* Everything that the computation is, so that it goes on where it was. The buffers of messages lie
 * here too, and in another process at another address. */
static struct {
    int32_t forward, step, turn, inside;
    int32_t place;
    uint64_t seen, first_seen[MOST];
    double field[ALL], adjoint[ALL];
    double late[2 * LATE], halo[2], sum, answer;
} *s;

static double snapshot[ALL];
static MPI_Comm around, pair;
static MPI_Datatype every_other;
static MPI_Request halo[2];
static long die_at, odd;
static int flags, is_back, steps, is_late, tells, is_refused;

static void see(const void *bytes, size_t len)
{
    size_t i;
    for (i = 0; i < len; i++)
        s->seen = (s->seen ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
}

static void make_all(int swapped)
{
    MPI_Comm other;
    if (swapped)
        MPI(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &pair));
    /* One that is gone again counts for nothing. */
    MPI(MPI_Comm_dup(MPI_COMM_SELF, &other));
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &around));
    MPI(MPI_Comm_free(&other));
    if (!swapped)
        MPI(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &pair));
    MPI(MPI_Type_vector(LATE, 1, 2, MPI_DOUBLE, &every_other));
    MPI(MPI_Type_commit(&every_other));
    MPI(MPI_Send_init(&s->field[0], 1, MPI_DOUBLE, (rank + 1) % ranks, 1, around, &halo[0]));
    MPI(MPI_Recv_init(&s->halo[0], 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1, around, &halo[1]));
}

/* Waits until the next process is at the place behind this part. Not a call of the part. */
static void be_late(void)
{
    char token;
    if (is_late && s->forward && rank + 1 < ranks)
        MPI(PMPI_Recv(&token, 1, MPI_CHAR, rank + 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    tells = is_late && s->forward && rank > 0;
}

/* The process before this one may end its part. */
static void tell(void)
{
    if (tells)
        MPI(PMPI_Send("", 1, MPI_CHAR, rank - 1, 99, MPI_COMM_WORLD));
    tells = 0;
}

/* A checkpoint of everything, and the end of process 1 if that is wanted here. */
static void pass_place(void)
{
    if (is_back) {
        is_back = 0;
        return;
    }
    s->place++;
    if (s->place == die_at || s->place == odd) {
        EQUAL(VELOC_Checkpoint("all", s->place), 0);
        EQUAL(VELOC_Checkpoint_wait(), 0);
    }
    tell();
    if (s->place == die_at) {
        /* Not a call of the part. */
        MPI(PMPI_Barrier(MPI_COMM_WORLD));
        if (rank == 1)
            raise(SIGKILL);
        for (;;)
            pause();
    }
}

/* One turn of a part: halo exchange by persistent requests, a sum, and an answer from whoever comes
 * first. The first one waits for what was begun before the part. */
static void run_turn(MPI_Request *late)
{
    double own = s->field[s->turn];
    MPI_Status status;
    int i;
    if (s->turn == 0) {
        MPI(MPI_Wait(late, &status));
        see(&status.MPI_TAG, sizeof status.MPI_TAG);
        see(s->late, sizeof s->late);
        for (i = 0; i < LATE; i++)
            s->field[i] += s->late[2 * i] / 16;
    }
    MPI(MPI_Startall(2, halo));
    MPI(MPI_Waitall(2, halo, MPI_STATUSES_IGNORE));
    MPI(MPI_Allreduce(&own, &s->sum, 1, MPI_DOUBLE, MPI_SUM, pair));
    /* Of this turn: a process may be ahead, and have sent the next one's answer. */
    if (rank == 0) {
        for (i = 1; i < ranks; i++) {
            MPI(MPI_Recv(&s->answer, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 5 + s->turn, MPI_COMM_WORLD,
                         &status));
            see(&status.MPI_SOURCE, sizeof status.MPI_SOURCE);
            /* Whichever comes first, to the same result. */
            s->field[ALL - status.MPI_SOURCE] += s->answer / 8;
        }
    } else {
        MPI(MPI_Send(&own, 1, MPI_DOUBLE, 0, 5 + s->turn, MPI_COMM_WORLD));
    }
    s->field[0] = s->field[0] / 2 + s->halo[0] / 4 + s->sum / 8;
    for (i = 1; i < ALL; i++)
        s->field[i] = s->field[i] * 0.75 + s->field[i - 1] * 0.2;
    see(s->field, sizeof s->field);
}

static void run_part(MPI_Request *late)
{
    s->inside = 1;
    for (; s->turn < TURNS; s->turn++) {
        if (s->turn > 0)
            pass_place();
        run_turn(late);
    }
    s->inside = 0;
    be_late();
}

static void run_forward(void)
{
    MPI_Request late[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    for (; s->step < steps; s->step++) {
        if (!s->inside) {
            pass_place();
            memcpy(snapshot, s->field, sizeof snapshot);
            EQUAL(VELOC_Checkpoint("snapshot", s->step), 0);
            MPI(MPI_Irecv(s->late, 1, every_other, (rank + 1) % ranks, 3, around, &late[0]));
            MPI(MPI_Isend(s->field + 8, LATE, MPI_DOUBLE, (rank + ranks - 1) % ranks, 3, around,
                          &late[1]));
            s->turn = 0;
            s->seen = 1;
            part_begin(1, flags);
        }
        run_part(&late[0]);
        part_end(1);
        s->first_seen[s->step] = s->seen;
        MPI(MPI_Wait(&late[1], MPI_STATUS_IGNORE));
    }
}

static void run_back(void)
{
    MPI_Request late = MPI_REQUEST_NULL;
    int i;
    for (; s->step >= 0; s->step--) {
        if (!s->inside) {
            pass_place();
            /* Of regions of its own, and without the log. */
            EQUAL(VELOC_Restart("snapshot", s->step), 0);
            memcpy(s->field, snapshot, sizeof snapshot);
            memset(s->late, 0, sizeof s->late);
            s->turn = 0;
            s->seen = 1;
            if (is_refused) {
                REFUSED(VELOC_Part_replay_begin(1), "process 0 was restarted|process 1 was restarted");
                printf("refused\n");
                fflush(stdout);
                /* Not before the others have been refused. */
                MPI(PMPI_Barrier(MPI_COMM_WORLD));
                _Exit(2);
            }
            replay_begin(1);
        }
        run_part(&late);
        replay_end(1);
        CHECK(s->seen == s->first_seen[s->step]);
        MPI(MPI_Allreduce(&s->field[3], &s->sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        for (i = 0; i < ALL; i++)
            s->adjoint[i] = s->adjoint[i] / 2 + s->field[i] * s->sum;
    }
}

int main(int argc, char **argv)
{
    int version;
    begin_program(&argc, &argv);
    CHECK(argc > 1);
    die_at = number(argc, argv, "die", 0);
    steps = (int)number(argc, argv, "steps", 3);
    CHECK(steps <= MOST);
    is_late = (int)number(argc, argv, "late", 0);
    odd = number(argc, argv, "odd", 0);
    flags = (int)number(argc, argv, "flags", 0);
    /* Elsewhere in each run. */
    s = malloc(((size_t)getpid() % 64 + 2) * sizeof *s);
    CHECK(s != NULL);
    memset(s, 0, sizeof *s);
    make_all((int)number(argc, argv, "swapped", 0));
    EQUAL(VELOC_Init(MPI_COMM_WORLD, argv[1]), 0);
    EQUAL(VELOC_Mem_protect(0, s, 1, sizeof *s), 0);
    EQUAL(VELOC_Region_protect(0, snapshot, 1, sizeof snapshot, "snapshot"), 0);
    version = VELOC_Restart_test("all", 0);
    is_refused = version >= 0 && odd > 0;
    if (is_refused && rank == 1)
        version = (int)odd;
    if (version >= 0) {
        if (VELOC_Restart("all", version) != 0) {
            printf("refused: %s\n", VELOC_Last_error());
            fflush(stdout);
            _Exit(2);
        }
        is_back = 1;
        if (rank == 0)
            printf("restarted %d\n", s->place);
    } else {
        int i;
        for (i = 0; i < ALL; i++)
            s->field[i] = 1.0 / (rank * ALL + i + 1);
        s->forward = 1;
    }
    if (s->forward) {
        run_forward();
        s->forward = 0;
        s->step = steps - 1;
    }
    run_back();
    EMPTY_LOG();
    printf("resent %llu\n", (unsigned long long)logged().resent);
    for (version = 0; version < ranks; version++) {
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (version != rank)
            continue;
        printf("adjoint %d %a %a %a\n", rank, s->adjoint[0], s->adjoint[7], s->adjoint[ALL - 1]);
        fflush(stdout);
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        printf("places %d\n", s->place);
    MPI(MPI_Request_free(&halo[0]));
    MPI(MPI_Request_free(&halo[1]));
    EQUAL(VELOC_Finalize(1), 0);
    return end_program();
}
