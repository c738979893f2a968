/*
 * Schedules of adjoint computations: adjoint <configuration> <rule> <steps> <slots> <resilience>
 *                                            <adjoint distance> <crash>...
 *
 * States are numbers that follow from each other, and so is the adjoint: a state that is wrong, or
 * one for another, changes the result, which is compared with that of a computation which keeps all
 * states. At each crash (so many actions after the one before) everything is lost but the slots and
 * the stored adjoint. 0 stands for no distance. No job is needed, and there is none.
 */
#include "check.h"

enum { MOST = 4096 };

static uint64_t forward(uint64_t state, int64_t step)
{
    return (state ^ (uint64_t)step) * 6364136223846793005u + 1442695040888963407u;
}

static uint64_t backward(uint64_t adjoint, uint64_t state, int64_t step)
{
    return (adjoint + state * 31u) * 2862933555777941757u + (uint64_t)step;
}

static uint64_t with_all_states(int64_t steps)
{
    static uint64_t states[MOST];
    uint64_t adjoint = 1;
    int64_t step;
    states[0] = 42;
    for (step = 1; step < steps; step++)
        states[step] = forward(states[step - 1], step);
    for (step = steps; step > 0; step--)
        adjoint = backward(adjoint, states[step - 1], step);
    return adjoint;
}

static VELOC_Schedule *make(int argc, char **argv)
{
    VELOC_Schedule *schedule = NULL;
    CHECK(argc >= 7);
    OK(VELOC_Schedule_create(atoll(argv[3]), atoll(argv[4]), &schedule));
    OK(VELOC_Schedule_set_rule(schedule, atoi(argv[2])));
    if (atoll(argv[5]) > 0)
        OK(VELOC_Schedule_set_resilience_distance(schedule, atoll(argv[5])));
    if (atoll(argv[6]) > 0)
        OK(VELOC_Schedule_set_adjoint_distance(schedule, atoll(argv[6])));
    return schedule;
}

/* Distances under which the slots do not reach to the end: nothing is changed by what is refused. */
static void out_of_reach(void)
{
    VELOC_Schedule *schedule = NULL;
    VELOC_Cost cost;
    int64_t advances;
    OK(VELOC_Schedule_create(100, 5, &schedule));
    OK(VELOC_Schedule_cost(schedule, &cost));
    advances = cost.advances;
    REFUSED(VELOC_Schedule_set_resilience_distance(schedule, 19), "95 of the 100 steps");
    REFUSED(VELOC_Schedule_set_resilience_distance(schedule, 0), "distance 0");
    REFUSED(VELOC_Schedule_set_resilience_distance(schedule, -1), "distance -1");
    REFUSED(VELOC_Schedule_set_adjoint_distance(schedule, 0), "distance 0");
    OK(VELOC_Schedule_cost(schedule, &cost));
    EQUAL(cost.advances, advances);
    OK(VELOC_Schedule_set_resilience_distance(schedule, 20));
    OK(VELOC_Schedule_cost(schedule, &cost));
    CHECK(cost.advances > advances);
    OK(VELOC_Schedule_free(schedule));
}

/* A loop as it stands in programs that use revolve, with other names. */
static void loop_of_revolve(int64_t steps, int64_t snaps)
{
    static uint64_t slots[MOST];
    int64_t check = -1, capo = 0, fine = steps, before = 0, advances = 0;
    uint64_t state = 42, adjoint = 1;
    int info = 0, action;
    do {
        before = capo;
        action = VELOC_Revolve(&check, &capo, &fine, snaps, &info);
        switch (action) {
        case VELOC_ACTION_ADVANCE:
            for (; before < capo; before++, advances++)
                state = forward(state, before + 1);
            break;
        case VELOC_ACTION_TAKESHOT:
            slots[check] = state;
            break;
        case VELOC_ACTION_RESTORE:
            state = slots[check];
            break;
        case VELOC_ACTION_FIRSTURN:
        case VELOC_ACTION_YOUTURN:
            adjoint = backward(adjoint, state, fine + 1);
            break;
        default:
            EQUAL(action, VELOC_ACTION_TERMINATE);
        }
    } while (action != VELOC_ACTION_TERMINATE);
    CHECK(adjoint == with_all_states(steps));
    EQUAL(advances, VELOC_Numforw(steps, snaps));
    CHECK(VELOC_Expense(steps, snaps) * (double)steps - (double)advances < 0.5);
    CHECK(VELOC_Maxrange(snaps, VELOC_Adjust(steps)) > 0);
    check = snaps;
    EQUAL(VELOC_Revolve(&check, &capo, &fine, snaps, &info), VELOC_ACTION_ERROR);
    EQUAL(info, 11);
    CHECK(strstr(VELOC_Last_error(), "check must be less than snaps") != NULL);
    EQUAL(VELOC_Revolve(NULL, &capo, &fine, snaps, &info), VELOC_ACTION_ERROR);
    EQUAL(VELOC_Numforw(-3, snaps), -1);
    CHECK(strstr(VELOC_Last_error(), "steps = -3") != NULL);
}

/* Two at once, in turns: each goes its own way to its end, as one thread may have several. */
static void loops_in_turns(int64_t steps, int64_t snaps)
{
    int64_t check[2] = {-1, -1}, capo[2] = {0, 0}, fine[2], count[2], advances[2] = {0, 0};
    int info = 0, action[2] = {-1, -1}, which;
    int64_t before;
    fine[0] = count[0] = steps;
    fine[1] = count[1] = steps / 2 + 1;
    for (which = 0; action[0] != VELOC_ACTION_TERMINATE || action[1] != VELOC_ACTION_TERMINATE;
         which = 1 - which) {
        if (action[which] == VELOC_ACTION_TERMINATE)
            continue;
        before = capo[which];
        action[which] = VELOC_Revolve(&check[which], &capo[which], &fine[which], snaps + which, &info);
        CHECK(action[which] != VELOC_ACTION_ERROR);
        if (action[which] == VELOC_ACTION_ADVANCE)
            advances[which] += capo[which] - before;
    }
    for (which = 0; which < 2; which++) {
        EQUAL(fine[which], 0);
        EQUAL(advances[which], VELOC_Numforw(count[which], snaps + which));
    }
}

int main(int argc, char **argv)
{
    static uint64_t slots[MOST];
    static int64_t kept[MOST];
    VELOC_Schedule *schedule = make(argc, argv), *other = NULL;
    VELOC_Action action, same;
    VELOC_Cost cost;
    uint64_t state = 42, adjoint = 1, stored_adjoint = 1;
    int64_t steps = atoll(argv[3]), count = atoll(argv[4]), at = 0, stored = -1, advances = 0;
    int64_t takeshots = 0, actions = 0, step, crash = argc > 7 ? atoll(argv[7]) : -1;
    int next_crash = 8;
    CHECK(steps < MOST && count < MOST);
    loop_of_revolve(steps, count);
    loops_in_turns(steps, count);
    for (step = 0; step < count; step++)
        kept[step] = -1;
    OK(VELOC_Schedule_cost(schedule, &cost));
    EQUAL(cost.forward_evaluations, cost.advances + steps);
    for (;;) {
        if (actions++ == crash) {
            OK(VELOC_Schedule_free(schedule));
            schedule = make(argc, argv);
            OK(VELOC_Schedule_resume(schedule, kept, count, stored));
            state = 42, at = 0, adjoint = stored_adjoint;
            crash = next_crash < argc ? actions + atoll(argv[next_crash++]) : -1;
        }
        /* A clone says the same. */
        OK(VELOC_Schedule_clone(schedule, &other));
        OK(VELOC_Schedule_next(schedule, &action));
        OK(VELOC_Schedule_next(other, &same));
        CHECK(memcmp(&action, &same, sizeof action) == 0);
        OK(VELOC_Schedule_free(other));
        switch (action.kind) {
        case VELOC_ACTION_ADVANCE:
            EQUAL(action.from, at);
            for (step = action.from + 1; step <= action.to; step++, advances++)
                state = forward(state, step);
            at = action.to;
            break;
        case VELOC_ACTION_TAKESHOT:
            EQUAL(action.from, at);
            CHECK(0 <= action.slot && action.slot < count);
            slots[action.slot] = state;
            kept[action.slot] = at;
            takeshots++;
            break;
        case VELOC_ACTION_RESTORE:
            CHECK(0 <= action.slot && action.slot < count);
            EQUAL(kept[action.slot], action.from);
            state = slots[action.slot];
            at = action.from;
            break;
        case VELOC_ACTION_FIRSTURN:
        case VELOC_ACTION_YOUTURN:
        case VELOC_ACTION_YOUTURN_WITH_CHECK:
            EQUAL(action.from, at);
            EQUAL(action.to, at + 1);
            EQUAL(action.kind == VELOC_ACTION_FIRSTURN, action.to == steps);
            if (action.kind == VELOC_ACTION_FIRSTURN)
                adjoint = 1;
            adjoint = backward(adjoint, state, action.to);
            state = 0;
            if (action.kind == VELOC_ACTION_YOUTURN_WITH_CHECK
                || (action.kind == VELOC_ACTION_FIRSTURN && atoll(argv[6]) > 0)) {
                stored = at;
                stored_adjoint = adjoint;
            }
            break;
        default:
            EQUAL(action.kind, VELOC_ACTION_TERMINATE);
            CHECK(adjoint == with_all_states(steps));
            if (argc == 7) {
                EQUAL(advances, cost.advances);
                CHECK(cost.takeshots == takeshots || cost.takeshots == -1);
            }
            REFUSED(VELOC_Schedule_next(schedule, &action), "VELOC_Schedule_next|ended");
            EQUAL(action.kind, VELOC_ACTION_ERROR);
            REFUSED(VELOC_Schedule_set_rule(schedule, 0), "rule|before the first action");
            REFUSED(VELOC_Schedule_set_rule(schedule, 9), "rule 9");
            OK(VELOC_Schedule_free(schedule));
            OK(VELOC_Schedule_free(NULL));
            REFUSED(VELOC_Schedule_next(NULL, &action), "schedule is NULL");
            REFUSED(VELOC_Schedule_create(10, 0, &schedule), "slots = 0");
            REFUSED(VELOC_Schedule_create(10, -3, &schedule), "slots = -3");
            REFUSED(VELOC_Schedule_create(0, 3, &schedule), "steps = 0");
            out_of_reach();
            REFUSED(VELOC_Schedule_create(-1, 3, &schedule), "steps = -1");
            REFUSED(VELOC_Schedule_create(10, 3, NULL), "NULL");
            puts("done");
            return 0;
        }
    }
}
