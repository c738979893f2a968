/*
 * Schedules of adjoint computations for C++17, on top of the C functions VELOC_Schedule_*:
 *
 *     veloc::schedule_t schedule(steps, slots);
 *     for (;;) {
 *         VELOC_Action action = schedule.next();
 *         if (action.kind == VELOC_ACTION_TERMINATE)
 *             break;
 *         ...
 *     }
 *
 * Header only. A function that fails throws std::runtime_error with the reason, and changes nothing.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_SCHEDULE_HPP
#define VELOC_SCHEDULE_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../veloc.h"

namespace veloc {

/**
 * A schedule, which its destructor frees. A schedule that was moved from can only be assigned to or destroyed. The
 * functions that set something return the schedule; on a temporary one they return an rvalue:
 *
 *     veloc::schedule_t schedule = veloc::schedule_t(steps, slots).set_rule(VELOC_RULE_MONOTONE);
 */
class schedule_t {
public:
    /** As VELOC_Schedule_create. */
    schedule_t(std::int64_t steps, std::int64_t slots)
    {
        check(VELOC_Schedule_create(steps, slots, &handle_));
    }

    /** As VELOC_Schedule_create_online: the number of steps is not known. */
    static schedule_t online(std::int64_t slots)
    {
        VELOC_Schedule *handle = nullptr;
        check(VELOC_Schedule_create_online(slots, &handle));
        return schedule_t(handle);
    }

    /** As VELOC_Schedule_unpack. */
    static schedule_t unpack(const void *bytes, std::size_t size)
    {
        VELOC_Schedule *handle = nullptr;
        check(VELOC_Schedule_unpack(bytes, size, &handle));
        return schedule_t(handle);
    }

    static schedule_t unpack(const std::vector<unsigned char> &bytes)
    {
        // Of an empty one the C function would get a null pointer.
        return unpack(bytes.empty() ? static_cast<const void *>("") : bytes.data(), bytes.size());
    }

    schedule_t(const schedule_t &) = delete;
    schedule_t &operator=(const schedule_t &) = delete;
    schedule_t(schedule_t &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

    schedule_t &operator=(schedule_t &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }

    ~schedule_t() { VELOC_Schedule_free(handle_); }

    /** As VELOC_Schedule_clone. */
    schedule_t clone() const
    {
        VELOC_Schedule *handle = nullptr;
        check(VELOC_Schedule_clone(handle_, &handle));
        return schedule_t(handle);
    }

    /** As VELOC_Schedule_set_rule: one of VELOC_RULE_*. */
    schedule_t &set_rule(int rule) & { return done(VELOC_Schedule_set_rule(handle_, rule)); }
    schedule_t &&set_rule(int rule) && { return std::move(set_rule(rule)); }

    /** As VELOC_Schedule_set_resilience_distance. */
    schedule_t &set_resilience_distance(std::int64_t distance) &
    {
        return done(VELOC_Schedule_set_resilience_distance(handle_, distance));
    }
    schedule_t &&set_resilience_distance(std::int64_t distance) &&
    {
        return std::move(set_resilience_distance(distance));
    }

    /** As VELOC_Schedule_set_adjoint_distance. */
    schedule_t &set_adjoint_distance(std::int64_t distance) &
    {
        return done(VELOC_Schedule_set_adjoint_distance(handle_, distance));
    }
    schedule_t &&set_adjoint_distance(std::int64_t distance) &&
    {
        return std::move(set_adjoint_distance(distance));
    }

    /** As VELOC_Schedule_set_failures, in forward steps. */
    schedule_t &set_failures(double mtbf, double write_cost, double turn_cost) &
    {
        return done(VELOC_Schedule_set_failures(handle_, mtbf, write_cost, turn_cost));
    }
    schedule_t &&set_failures(double mtbf, double write_cost, double turn_cost) &&
    {
        return std::move(set_failures(mtbf, write_cost, turn_cost));
    }

    /** As VELOC_Schedule_set_disk, with costs in forward steps. */
    schedule_t &set_disk(std::int64_t slots, double write, double read) &
    {
        return done(VELOC_Schedule_set_disk(handle_, slots, write, read));
    }
    schedule_t &&set_disk(std::int64_t slots, double write, double read) &&
    {
        return std::move(set_disk(slots, write, read));
    }

    /** As VELOC_Schedule_resume: the state in each slot, -1 for none; the state of the adjoint. */
    schedule_t &resume(const std::vector<std::int64_t> &states, std::int64_t adjoint = -1) &
    {
        const auto slots = static_cast<std::int64_t>(states.size());
        return done(VELOC_Schedule_resume(handle_, states.data(), slots, adjoint));
    }
    schedule_t &&resume(const std::vector<std::int64_t> &states, std::int64_t adjoint = -1) &&
    {
        return std::move(resume(states, adjoint));
    }

    /** As VELOC_Schedule_end: the state that was reached is the last one. */
    schedule_t &end() & { return done(VELOC_Schedule_end(handle_)); }
    schedule_t &&end() && { return std::move(end()); }

    /** As VELOC_Schedule_end_after_next: the next step is the last one. */
    schedule_t &end_after_next() & { return done(VELOC_Schedule_end_after_next(handle_)); }
    schedule_t &&end_after_next() && { return std::move(end_after_next()); }

    /** As VELOC_Schedule_next. */
    VELOC_Action next()
    {
        VELOC_Action action{};
        check(VELOC_Schedule_next(handle_, &action));
        return action;
    }

    /** As VELOC_Schedule_cost. */
    VELOC_Cost cost() const
    {
        VELOC_Cost cost{};
        check(VELOC_Schedule_cost(handle_, &cost));
        return cost;
    }

    /** As VELOC_Schedule_least_distance. */
    std::int64_t least_distance() const
    {
        std::int64_t distance = 0;
        check(VELOC_Schedule_least_distance(handle_, &distance));
        return distance;
    }

    /** As VELOC_Schedule_pack. */
    std::vector<unsigned char> pack() const
    {
        std::size_t size = 0;
        check(VELOC_Schedule_pack(handle_, nullptr, &size));
        std::vector<unsigned char> bytes(size);
        check(VELOC_Schedule_pack(handle_, bytes.data(), &size));
        return bytes;
    }

    /** For the C functions; still owned by this. */
    VELOC_Schedule *get() const noexcept { return handle_; }

private:
    explicit schedule_t(VELOC_Schedule *handle) noexcept : handle_(handle) {}

    static void check(int status)
    {
        if (status != VELOC_SUCCESS)
            throw std::runtime_error(VELOC_Last_error());
    }

    schedule_t &done(int status)
    {
        check(status);
        return *this;
    }

    VELOC_Schedule *handle_ = nullptr;
};

} // namespace veloc

#endif /* VELOC_SCHEDULE_HPP */
