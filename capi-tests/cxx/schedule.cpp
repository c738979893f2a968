/*
 * veloc::schedule_t: schedule. No job is needed. Prints "done" if everything was as it should be.
 */
#include <map>
#include <type_traits>

#include "veloc/schedule.hpp"

#include "check.hpp"

namespace {

using veloc::schedule_t;

static_assert(!std::is_copy_constructible_v<schedule_t> && !std::is_copy_assignable_v<schedule_t>);
static_assert(std::is_nothrow_move_constructible_v<schedule_t>);

template <typename function> void throws(function call, const std::string &words)
{
    try {
        call();
    } catch (const std::runtime_error &error) {
        CHECK(std::string(error.what()).find(words) != std::string::npos);
        return;
    }
    CHECK(!"an exception");
}

/** Goes to the end, or to so many actions; what was advanced. A pass ends at state `end`, or behind it. */
std::int64_t play(schedule_t &schedule, std::map<std::int64_t, std::int64_t> &slots, int actions,
                  std::int64_t end = -1, bool behind = false)
{
    std::int64_t advances = 0, at = 0;
    while (actions-- != 0) {
        const VELOC_Action action = schedule.next();
        if (action.kind == VELOC_ACTION_TERMINATE)
            break;
        if (action.kind == VELOC_ACTION_TAKESHOT) {
            slots[action.slot] = at;
        } else if (action.kind == VELOC_ACTION_RESTORE) {
            EQUAL(slots.at(action.slot), action.from);
            at = action.from;
        } else if (action.kind == VELOC_ACTION_ADVANCE) {
            EQUAL(at, action.from);
            at = action.to;
            advances += action.to - action.from;
            if (at == end) {
                if (behind)
                    schedule.end_after_next();
                else
                    schedule.end();
                end = -1;
            }
        } else {
            EQUAL(at, action.from);
        }
    }
    return advances;
}

void all()
{
    std::map<std::int64_t, std::int64_t> slots;
    schedule_t schedule(100, 5);
    schedule.set_resilience_distance(30).set_adjoint_distance(12).set_rule(VELOC_RULE_RESILIENT);
    const VELOC_Cost cost = schedule.cost();
    schedule_t same = schedule.clone();
    EQUAL(play(same, slots, -1), cost.advances);
    throws([&] { same.next(); }, "ended");

    // One that was moved in its middle, and one made anew of its bytes.
    CHECK(play(schedule, slots, 40) > 0);
    schedule_t moved = std::move(schedule);
    CHECK(schedule.get() == nullptr);
    throws([&] { schedule.next(); }, "schedule is NULL");
    schedule = schedule_t::unpack(moved.pack());
    for (VELOC_Action one{}, other{}; one.kind != VELOC_ACTION_TERMINATE;) {
        one = schedule.next(), other = moved.next();
        EQUAL(one.kind, other.kind);
        EQUAL(one.to, other.to);
        EQUAL(one.slot, other.slot);
    }
    moved = schedule_t::online(3);

    slots.clear();
    CHECK(play(moved, slots, -1, 60) >= VELOC_Numforw(60, 3));
    slots.clear();
    moved = schedule_t::online(3);
    EQUAL(play(moved, slots, -1, 9, true), VELOC_Numforw(10, 3));
    EQUAL(moved.cost().advances, VELOC_Numforw(10, 3));
    EQUAL(schedule_t::online(3).end_after_next().cost().advances, 0);
    throws([&] { moved.end_after_next(); }, "known: 10");
    throws([] { schedule_t::unpack({}); }, "0 bytes");
    throws([] { schedule_t(0, 3); }, "steps = 0");
    throws([] { schedule_t(10, 0); }, "slots = 0");
    throws([] { schedule_t::online(-1); }, "slots = -1");
    throws([] { schedule_t(100, 5).set_resilience_distance(19); }, "95 of the 100 steps");

    schedule_t crashed(100, 5);
    crashed.set_failures(500, 3, 2).resume({0, 30, 44, 51, 56}, 64);
    EQUAL(crashed.next().from, 56);
    schedule_t on_disk(400, 3);
    slots.clear();
    const VELOC_Cost with_disk = on_disk.set_disk(6, 2, 2).cost();
    EQUAL(play(on_disk, slots, -1), with_disk.advances);
    CHECK(slots.count(8) == 1 && slots.rbegin()->first == 8);
    EQUAL(schedule_t(350000, 52).least_distance(), 20020);
    // Each slot has a state or a record, and is free after its last read.
    schedule_t mixed = schedule_t(100, 5).set_rule(VELOC_RULE_MIXED);
    EQUAL(mixed.cost().forward_evaluations, 352);
    throws([&] { mixed.set_adjoint_distance(9); }, "the rule mixed and the adjoint distance 9");
    std::map<std::int64_t, bool> kept;
    std::int64_t fine = 100;
    for (VELOC_Action action{}; (action = mixed.next()).kind != VELOC_ACTION_TERMINATE;) {
        const bool is_record = action.kind == VELOC_ACTION_RECORD || action.kind == VELOC_ACTION_REVERSE;
        if (action.kind == VELOC_ACTION_RECORD || action.kind == VELOC_ACTION_TAKESHOT) {
            CHECK(kept.emplace(action.slot, is_record).second && action.read_again);
        } else if (action.kind != VELOC_ACTION_ADVANCE) {
            if (action.slot >= 0)
                EQUAL(kept.at(action.slot), is_record);
            if (!action.read_again)
                kept.erase(action.slot);
            if (action.kind != VELOC_ACTION_RESTORE)
                EQUAL(action.to, fine--);
        }
    }
    EQUAL(fine, 0);
    CHECK(kept.empty());
    schedule_t set = schedule_t(100, 5).set_rule(VELOC_RULE_MONOTONE).set_resilience_distance(40);
    EQUAL(set.cost().max_gap <= 40, true);
}

} // namespace

int main()
{
    all();
    std::cout << "done\n";
}
