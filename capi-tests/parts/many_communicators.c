/*
 * Communicators that are made and freed in every step of a long run, whose steps are all logged: with
 * the option `own`, so many of this process alone; those are made without a word to others, and MPICH
 * can have 2048 at once in all. After that others, with all processes, in fewer steps.
 */
#include "parts.h"

static int steps;
static MPI_Comm parent;

/* One message round the ring of a communicator, and all that it says of itself. */
static void use(MPI_Comm comm, int step)
{
    int own, size, value, result;
    MPI_Status status;
    MPI(MPI_Comm_rank(comm, &own));
    MPI(MPI_Comm_size(comm, &size));
    value = 1000 * step + own;
    MPI(MPI_Sendrecv_replace(&value, 1, MPI_INT, (own + 1) % size, 3, (own + size - 1) % size, 3,
                             comm, &status));
    EQUAL(value, 1000 * step + (own + size - 1) % size);
    MPI(MPI_Comm_compare(comm, MPI_COMM_WORLD, &result));
    saw_status(&status);
    saw_int(value);
    saw_int(own);
    saw_int(size);
    saw_int(result);
}

static void duplicated(int step)
{
    MPI_Comm copy;
    MPI(MPI_Comm_dup(parent, &copy));
    use(copy, step);
    MPI(MPI_Comm_free(&copy));
    CHECK(copy == MPI_COMM_NULL);
}

/* A communicator of another one, freed in either order; the halves are of different processes. */
static void split(int step)
{
    MPI_Comm copy, half;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    MPI(MPI_Comm_split(copy, (rank + step) % 2, -rank, &half));
    use(half, step);
    use(copy, step);
    if (step % 2 == 0) {
        MPI(MPI_Comm_free(&copy));
        use(half, step + 1);
        MPI(MPI_Comm_free(&half));
    } else {
        MPI(MPI_Comm_free(&half));
        use(copy, step + 1);
        MPI(MPI_Comm_free(&copy));
    }
}

/* A grid has a place for each process, which its replay must have as well. */
static void grid(int step)
{
    MPI_Comm line;
    int length = ranks, period = step % 2, coordinate, before, after;
    MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, &length, &period, 0, &line));
    MPI(MPI_Cart_coords(line, rank, 1, &coordinate));
    MPI(MPI_Cart_shift(line, 0, 1, &before, &after));
    EQUAL(before == MPI_PROC_NULL, !period && rank == 0);
    EQUAL(after == MPI_PROC_NULL, !period && rank == ranks - 1);
    saw_int(coordinate);
    saw_int(before);
    saw_int(after);
    use(line, step);
    MPI(MPI_Comm_free(&line));
}

enum { ALIVE = 3 };

/* Some are there at once: those must not be taken for one another. */
static void overlapping(int step)
{
    MPI_Comm comms[ALIVE];
    int n, value = step, other = -1;
    MPI_Request requests[2];
    for (n = 0; n < ALIVE; n++)
        MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[n]));
    for (n = 0; n < ALIVE; n++)
        CHECK(comms[n] != comms[(n + 1) % ALIVE]);
    /* Under way when its communicator is freed. */
    MPI(MPI_Irecv(&other, 1, MPI_INT, (rank + ranks - 1) % ranks, 1, comms[0], &requests[0]));
    MPI(MPI_Isend(&value, 1, MPI_INT, (rank + 1) % ranks, 1, comms[0], &requests[1]));
    MPI(MPI_Comm_free(&comms[0]));
    use(comms[2], step);
    use(comms[1], step);
    MPI(MPI_Comm_free(&comms[2]));
    MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EQUAL(other, step);
    MPI(MPI_Comm_free(&comms[1]));
}

static void (*step_of)(int);

/* A part for each step: all of them are logged when the last one ends. */
static void parts(void (*step)(int))
{
    uint64_t *digests = malloc((size_t)steps * sizeof *digests);
    int i;
    CHECK(digests != NULL);
    for (i = 0; i < steps; i++) {
        seen = 0;
        part_begin(1, 0);
        step(i);
        part_end(1);
        digests[i] = seen;
    }
    for (i = steps - 1; i >= 0; i--) {
        seen = 0;
        replay_begin(1);
        step(i);
        replay_end(1);
        CHECK(seen == digests[i]);
    }
    free(digests);
    EMPTY_LOG();
}

static void all_steps(void)
{
    int i;
    for (i = 0; i < steps; i++)
        step_of(i);
}

/* One part that has all steps, replayed by each process alone. */
static void part(void (*step)(int))
{
    step_of = step;
    run_and_replay(all_steps);
}

/* Beside the parts, while one is logged. */
static void outside(void)
{
    int i;
    part_begin(2, 0);
    duplicated(0);
    part_end(2);
    for (i = 0; i < steps; i++)
        duplicated(i);
    replay_begin(2);
    duplicated(0);
    replay_end(2);
    EMPTY_LOG();
}

/* Parts that begin while a communicator is there have its handle in their snapshots. */
static void in_snapshots(void)
{
    enum { INNER = 12 };
    MPI_Comm copies[INNER], copy;
    int i;
    part_begin(1, 0);
    for (i = 0; i < INNER; i++) {
        MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]));
        copy = copies[i];
        part_begin(2, 0);
        use(copy, i);
        MPI(MPI_Comm_free(&copy));
        part_end(2);
        duplicated(i);
    }
    part_end(1);
    for (i = INNER - 1; i >= 0; i--) {
        copy = copies[i];
        replay_begin(2);
        use(copy, i);
        MPI(MPI_Comm_free(&copy));
        replay_end(2);
    }
    replay_begin(1);
    for (i = 0; i < INNER; i++) {
        MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        use(copy, i);
        MPI(MPI_Comm_free(&copy));
        duplicated(i);
    }
    replay_end(1);
    EMPTY_LOG();
}

/* Parts recorded in the replay of another one, which outlive it. */
static void recorded_in_replays(void)
{
    enum { INNER = 4 };
    MPI_Comm copy, copies[INNER];
    int i, is_replayed;
    for (is_replayed = 0; is_replayed < 2; is_replayed++) {
        if (is_replayed)
            replay_begin(1);
        else
            part_begin(1, 0);
        for (i = 0; i < INNER; i++) {
            duplicated(i);
            MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
            copies[i] = copy;
            if (is_replayed)
                part_begin(2, 0);
            use(copy, i);
            if (is_replayed)
                part_end(2);
            MPI(MPI_Comm_free(&copy));
        }
        if (is_replayed)
            replay_end(1);
        else
            part_end(1);
    }
    for (i = INNER - 1; i >= 0; i--) {
        copy = copies[i];
        replay_begin(2);
        use(copy, i);
        replay_end(2);
    }
    EMPTY_LOG();
}

static int key, values[3];

static int copy_attribute(MPI_Comm comm, int keyval, void *extra, void *from, void *to, int *flag)
{
    *(void **)to = from;
    *flag = 1;
    (void)comm, (void)keyval, (void)extra;
    return MPI_SUCCESS;
}

/* What a duplicate has from its parent; parents and their attributes differ from one to the next. */
static void inherited(int step)
{
    MPI_Comm copy, other;
    int *value = NULL, has;
    MPI(MPI_Comm_dup(parent, &copy));
    MPI(MPI_Comm_free(&copy));
    MPI(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    MPI(MPI_Comm_set_attr(copy, key, &values[step % 3]));
    MPI(MPI_Comm_dup(copy, &other));
    MPI(MPI_Comm_free(&copy));
    MPI(MPI_Comm_get_attr(other, key, &value, &has));
    EQUAL(has, 1);
    CHECK(value == &values[step % 3]);
    MPI(MPI_Comm_free(&other));
    MPI(MPI_Comm_set_attr(parent, key, &values[step % 2]));
    MPI(MPI_Comm_dup(parent, &copy));
    MPI(MPI_Comm_get_attr(copy, key, &value, &has));
    EQUAL(has, 1);
    CHECK(value == &values[step % 2]);
    MPI(MPI_Comm_free(&copy));
}

static void attributes(void)
{
    MPI(MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    MPI(MPI_Comm_dup(MPI_COMM_SELF, &parent));
    parts(inherited);
    part(inherited);
    MPI(MPI_Comm_free(&parent));
    MPI(MPI_Comm_free_keyval(&key));
}

int main(int argc, char **argv)
{
    begin_program(&argc, &argv);
    steps = (int)number(argc, argv, "own", 200);
    parent = MPI_COMM_SELF;
    parts(duplicated);
    part(duplicated);
    outside();
    steps = 20;
    parent = MPI_COMM_WORLD;
    parts(duplicated);
    part(duplicated);
    outside();
    parts(split);
    part(split);
    parts(grid);
    part(grid);
    parts(overlapping);
    part(overlapping);
    in_snapshots();
    recorded_in_replays();
    attributes();
    return end_program();
}
