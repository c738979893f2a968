#include "frame.h"

enum { steps = 20, slots = 3 };

static int64_t at, adjoint_at, recorded = -1, records;

static void forward(int64_t from, int64_t to)
{
    EQUAL(at, from);
    at = to;
}

static void record(int64_t step)
{
    EQUAL(at, step - 1);
    at = recorded = step;
}

static void init_adjoint(void)
{
    adjoint_at = steps;
}

static void adjoint(int64_t step)
{
    EQUAL(recorded, step);
    EQUAL(adjoint_at, step);
    adjoint_at = step - 1;
}

static void store_record(int64_t slot)
{
    records += slot + 1;
}

static void load_record(int64_t slot)
{
    records -= slot + 1;
}

static void reverse_all(void)
{
    /* BLOCK 1 */
    EQUAL(adjoint_at, 0);
}

static int of_unknown_length(double time, double end, double dt, VELOC_Schedule *schedule)
{
    /* BLOCK 2 */
    return 0;
}

static void with_records(VELOC_Action action)
{
    switch (action.kind) {
    /* BLOCK 3 */
    }
}

int main(int argc, char **argv)
{
    VELOC_Action action = {0};
    VELOC_Schedule *schedule;
    begin(argc, argv);
    OK(VELOC_Init_single(0, "veloc.cfg"));
    OK(VELOC_Mem_protect(0, &at, 1, sizeof at));
    reverse_all();
    OK(VELOC_Schedule_create_online(slots, &schedule));
    OK(VELOC_Schedule_next(schedule, &action));
    OK(of_unknown_length(0, 1, 0.1, schedule));
    VELOC_Schedule_free(schedule);
    with_records(action);
    EQUAL(records, 0);
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
