/*
 * Schedules whose end is not known, with slots on disk, mixed, and as bytes:
 * schedules <configuration> <kind> <steps> <slots> <disk slots>, where <kind> is online, last, disk or mixed:
 * online where the last step is known behind it, or, with last, before it
 *
 * States and the adjoint are numbers that follow from each other, as in adjoint.c. Before each action
 * (with disk, where a table is made anew, before some) the schedule is written as bytes, freed, and made
 * anew of these. No job is needed, and there is none.
 */
#include "check.h"

#include <math.h>

enum { MOST = 4096 };

/* In place of what is not read again. */
#define GONE UINT64_C(0xdeadbeef)

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

/* The same schedule, by way of bytes. */
static VELOC_Schedule *moved(VELOC_Schedule *schedule)
{
    static unsigned char bytes[1 << 16];
    size_t needed = 0, size = 3;
    OK(VELOC_Schedule_pack(schedule, NULL, &needed));
    CHECK(0 < needed && needed <= sizeof bytes);
    REFUSED(VELOC_Schedule_pack(schedule, bytes, &size), "room for 3");
    CHECK(size == needed);
    OK(VELOC_Schedule_pack(schedule, bytes, &size));
    OK(VELOC_Schedule_free(schedule));
    REFUSED(VELOC_Schedule_unpack(bytes, size - 1, &schedule), "VELOC_Schedule_unpack|checksum");
    OK(VELOC_Schedule_unpack(bytes, size, &schedule));
    return schedule;
}

static void wrong_uses(void)
{
    VELOC_Schedule *schedule = NULL;
    VELOC_Action action;
    VELOC_Cost cost;
    int64_t distance = 0, beyond[] = {0, 101}, negative[] = {-7, 1}, fit[] = {0, 100, -1};
    const int64_t later[] = {-1, 5, -1}, started[] = {0, 5};
    size_t size = 0;
    REFUSED(VELOC_Schedule_create_online(0, &schedule), "slots = 0");
    /* State 0 is the application's, and is stored before the one that is left is restored. */
    OK(VELOC_Schedule_create_online(3, &schedule));
    OK(VELOC_Schedule_resume(schedule, later, 3, -1));
    OK(VELOC_Schedule_next(schedule, &action));
    CHECK(action.kind == VELOC_ACTION_TAKESHOT && action.from == 0 && action.slot == 0);
    OK(VELOC_Schedule_next(schedule, &action));
    CHECK(action.kind == VELOC_ACTION_RESTORE && action.from == 5 && action.slot == 1);
    OK(VELOC_Schedule_free(schedule));
    OK(VELOC_Schedule_create_online(3, &schedule));
    REFUSED(VELOC_Schedule_end(schedule), "not begun");
    OK(VELOC_Schedule_resume(schedule, started, 2, -1));
    REFUSED(VELOC_Schedule_end_after_next(schedule), "the next action restores it");
    OK(VELOC_Schedule_free(schedule));
    REFUSED(VELOC_Schedule_end_after_next(NULL), "schedule is NULL");
    OK(VELOC_Schedule_create_online(3, &schedule));
    OK(VELOC_Schedule_next(schedule, &action));
    REFUSED(VELOC_Schedule_end(schedule), "no step was made");
    REFUSED(VELOC_Schedule_cost(schedule, &cost), "not known");
    REFUSED(VELOC_Schedule_least_distance(schedule, &distance), "not known");
    OK(VELOC_Schedule_free(schedule));
    OK(VELOC_Schedule_create(100, 5, &schedule));
    REFUSED(VELOC_Schedule_end(schedule), "known: 100");
    REFUSED(VELOC_Schedule_end_after_next(schedule), "known: 100");
    OK(VELOC_Schedule_set_rule(schedule, VELOC_RULE_MONOTONE));
    REFUSED(VELOC_Schedule_set_disk(schedule, 3, 1, 1), "the rule monotone and 3 slots on disk exclude");
    OK(VELOC_Schedule_set_rule(schedule, VELOC_RULE_OPTIMAL));
    REFUSED(VELOC_Schedule_set_disk(schedule, 0, 1, 1), "0 slots on disk");
    REFUSED(VELOC_Schedule_set_disk(schedule, 1, -1, 1), "write cost -1");
    REFUSED(VELOC_Schedule_set_disk(schedule, 1, 1, NAN), "read cost NaN: 0 to 1000000");
    REFUSED(VELOC_Schedule_set_disk(schedule, INT64_MAX, 1, 1), "9223372036854775807 slots on disk");
    REFUSED(VELOC_Schedule_set_resilience_distance(schedule, 19), "95 of the 100 steps|20");
    REFUSED(VELOC_Schedule_set_resilience_distance(schedule, 0), "resilience distance 0: it is 1 or more");
    REFUSED(VELOC_Schedule_set_adjoint_distance(schedule, -2), "adjoint distance -2: it is 1 or more");
    REFUSED(VELOC_Schedule_set_rule(schedule, 5), "rule 5: it must be one of VELOC_RULE_*, 0 to 4");
    REFUSED(VELOC_Schedule_set_failures(schedule, 0, 1, 1), "mtbf = 0");
    REFUSED(VELOC_Schedule_set_failures(schedule, 1, 0, 1), "write_cost = 0: it is a finite number");
    REFUSED(VELOC_Schedule_set_failures(schedule, NAN, 1, 1), "mtbf = NaN");
    REFUSED(VELOC_Schedule_set_failures(schedule, 1e300, 1e300, 1), "mtbf = 1e300 and write_cost = 1e300");
    REFUSED(VELOC_Schedule_least_distance(schedule, NULL), "NULL");
    REFUSED(VELOC_Schedule_resume(schedule, beyond, 2, -1), "state 101 of slot 1: it must be 0 to 100");
    REFUSED(VELOC_Schedule_resume(schedule, negative, 2, -1), "state -7 of slot 0");
    REFUSED(VELOC_Schedule_resume(schedule, fit, 3, 101), "state 101 of the stored adjoint");
    REFUSED(VELOC_Schedule_resume(schedule, fit, 3, -2), "state -2 of the stored adjoint");
    /* What a mixed schedule excludes, both ways. */
    OK(VELOC_Schedule_set_rule(schedule, VELOC_RULE_MIXED));
    REFUSED(VELOC_Schedule_set_disk(schedule, 3, 1, 1), "mixed and 3 slots on disk exclude each other");
    REFUSED(VELOC_Schedule_set_resilience_distance(schedule, 30), "mixed and the resilience distance 30");
    REFUSED(VELOC_Schedule_set_adjoint_distance(schedule, 9), "mixed and the adjoint distance 9");
    REFUSED(VELOC_Schedule_set_failures(schedule, 9, 1, 1), "mixed and a mean time between failures");
    REFUSED(VELOC_Schedule_resume(schedule, fit, 3, -1), "mixed and going on after a crash");
    OK(VELOC_Schedule_set_rule(schedule, VELOC_RULE_OPTIMAL));
    OK(VELOC_Schedule_least_distance(schedule, &distance));
    OK(VELOC_Schedule_cost(schedule, &cost));
    size = (size_t)cost.advances;
    OK(VELOC_Schedule_set_resilience_distance(schedule, distance));
    OK(VELOC_Schedule_cost(schedule, &cost));
    EQUAL(cost.advances, size);
    OK(VELOC_Schedule_set_resilience_distance(schedule, distance - 1));
    OK(VELOC_Schedule_cost(schedule, &cost));
    CHECK(cost.advances > (int64_t)size);
    REFUSED(VELOC_Schedule_pack(schedule, NULL, NULL), "size is NULL");
    REFUSED(VELOC_Schedule_pack(NULL, NULL, &size), "schedule is NULL");
    OK(VELOC_Schedule_resume(schedule, fit, 3, 100));
    OK(VELOC_Schedule_free(schedule));
    REFUSED(VELOC_Schedule_create(0, 5, &schedule), "steps = 0: 1 to 281474976710656 are possible");
    REFUSED(VELOC_Schedule_create(-9, 5, &schedule), "steps = -9");
    REFUSED(VELOC_Schedule_create(INT64_MAX, 5, &schedule), "steps = 9223372036854775807");
    REFUSED(VELOC_Schedule_create(9, 0, &schedule), "slots = 0");
    REFUSED(VELOC_Schedule_create(9, INT64_MIN, &schedule), "slots = -9223372036854775808");
    /* Numbers that fit nowhere are as large as can be. */
    OK(VELOC_Schedule_create(INT64_C(1) << 48, 1, &schedule));
    OK(VELOC_Schedule_cost(schedule, &cost));
    CHECK(cost.advances == INT64_MAX && cost.forward_evaluations == INT64_MAX);
    OK(VELOC_Schedule_free(schedule));
    EQUAL(VELOC_Numforw(INT64_C(1) << 48, 1), -1);
    EQUAL(VELOC_Maxrange(INT64_MAX, INT64_MAX), -1);
    EQUAL(VELOC_Adjust(INT64_MAX), -1);
    REFUSED(VELOC_Schedule_unpack(NULL, 3, &schedule), "NULL");
    REFUSED(VELOC_Schedule_unpack("VSch\1", 5, &schedule), "version 1");
    REFUSED(VELOC_Schedule_unpack("VSch\3", 5, &schedule), "5 bytes are too few");
}

int main(int argc, char **argv)
{
    static uint64_t slots[MOST];
    VELOC_Schedule *schedule = NULL;
    VELOC_Action action;
    VELOC_Cost cost;
    uint64_t state = 42, adjoint = 1;
    int64_t steps, count, on_disk, at = 0, advances = 0, writes = 0, adjoints = 0, actions = 0, records = 0;
    int online, last, mixed;
    CHECK(argc == 6);
    last = strcmp(argv[2], "last") == 0;
    online = last || strcmp(argv[2], "online") == 0;
    mixed = strcmp(argv[2], "mixed") == 0;
    steps = atoll(argv[3]), count = atoll(argv[4]), on_disk = atoll(argv[5]);
    CHECK(steps < MOST && count + on_disk < MOST);
    wrong_uses();
    if (online) {
        OK(VELOC_Schedule_create_online(count, &schedule));
        OK(VELOC_Schedule_set_adjoint_distance(schedule, 7));
        if (last && steps == 1)
            OK(VELOC_Schedule_end_after_next(schedule));
    } else {
        OK(VELOC_Schedule_create(steps, count, &schedule));
        if (mixed) {
            OK(VELOC_Schedule_set_rule(schedule, VELOC_RULE_MIXED));
        } else {
            OK(VELOC_Schedule_set_disk(schedule, on_disk, 2.5, 1.5));
            OK(VELOC_Schedule_set_failures(schedule, 1000, 5, 3));
        }
        OK(VELOC_Schedule_cost(schedule, &cost));
    }
    for (;;) {
        if (online || mixed || actions++ % 199 == 0)
            schedule = moved(schedule);
        OK(VELOC_Schedule_next(schedule, &action));
        switch (action.kind) {
        case VELOC_ACTION_ADVANCE:
            EQUAL(action.from, at);
            for (; at < action.to; at++, advances++)
                state = forward(state, at + 1);
            if (online && at == steps && adjoint == 1) {
                OK(VELOC_Schedule_end(schedule));
                /* The state of the application is not needed from here on. */
                at = -1, state = 0;
            } else if (last && at == steps - 1 && adjoint == 1) {
                OK(VELOC_Schedule_end_after_next(schedule));
                REFUSED(VELOC_Schedule_end_after_next(schedule), "is known");
            }
            break;
        case VELOC_ACTION_TAKESHOT:
            EQUAL(action.from, at);
            CHECK(0 <= action.slot && action.slot < count + on_disk);
            /* What is never read need not be stored. */
            slots[action.slot] = action.read_again ? state : GONE;
            writes += action.slot >= count;
            break;
        case VELOC_ACTION_RESTORE:
            state = slots[action.slot];
            at = action.from;
            if (!action.read_again)
                slots[action.slot] = GONE;
            break;
        case VELOC_ACTION_RECORD:
            EQUAL(action.from, at);
            EQUAL(action.to, at + 1);
            CHECK(action.read_again == 1 && 0 <= action.slot && action.slot < count);
            /* The record of a step is the state from which it begins. */
            slots[action.slot] = state;
            state = forward(state, ++at);
            records++;
            break;
        case VELOC_ACTION_REVERSE:
            CHECK(at == -1 && action.from == action.to - 1 && action.read_again == 0);
            adjoint = backward(adjoint, slots[action.slot], action.to);
            slots[action.slot] = GONE;
            break;
        case VELOC_ACTION_FIRSTURN:
        case VELOC_ACTION_YOUTURN:
        case VELOC_ACTION_YOUTURN_WITH_CHECK:
            EQUAL(action.from, at);
            EQUAL(action.kind == VELOC_ACTION_FIRSTURN, action.to == steps);
            adjoint = backward(adjoint, state, action.to);
            adjoints += action.kind == VELOC_ACTION_YOUTURN_WITH_CHECK;
            state = 0, at = -1;
            break;
        default:
            EQUAL(action.kind, VELOC_ACTION_TERMINATE);
            CHECK(adjoint == with_all_states(steps));
            if (online) {
                OK(VELOC_Schedule_cost(schedule, &cost));
                CHECK(advances >= cost.advances);
                /* As with an end that is known, or nearly. */
                CHECK(!last || cost.repetition > 2 || advances == cost.advances);
                CHECK(!last || advances <= cost.advances + cost.advances / 8);
                EQUAL(adjoints, (steps - 1) / 7);
            } else if (mixed) {
                EQUAL(advances, cost.advances);
                EQUAL(cost.forward_evaluations, advances + steps);
                CHECK(records > 0 || steps == 1);
                CHECK(cost.advances <= VELOC_Numforw(steps, count));
            } else {
                EQUAL(advances, cost.advances);
                CHECK(writes > 0 || steps < 20);
                CHECK(adjoints > 0 || steps < 100);
            }
            OK(VELOC_Schedule_free(schedule));
            puts("done");
            return 0;
        }
    }
}
