/*
 * Adjoint computations from C++: VELOC_Adjoint_run with functions of any kind, which may throw.
 *
 *     veloc::adjoint_t sweep;
 *     sweep.name = "shot";
 *     sweep.steps = 1000;
 *     sweep.slots = 20;
 *     sweep.protect = [&] {
 *         veloc::protect_state(0, u.data(), u.size());
 *         veloc::protect_gradient(0, lambda.data(), lambda.size());
 *     };
 *     sweep.forward = [&](std::int64_t from, std::int64_t to) { ... };
 *     sweep.adjoint = [&](std::int64_t step) { ... };
 *     sweep.run();
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_ADJOINT_HPP
#define VELOC_ADJOINT_HPP

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

#include "../veloc.h"

namespace veloc {

/** Protects memory of the state, in `protect`. If that fails, it throws std::runtime_error with the reason. */
template <typename T> void protect_state(int id, T *memory, std::size_t count = 1)
{
    if (VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, id, memory, count, sizeof(T)) != VELOC_SUCCESS)
        throw std::runtime_error(VELOC_Last_error());
}

/** Compresses a region of the state in stored states, in `protect` (VELOC_Adjoint_compress). Throws as above. */
inline void compress_state(int id, int mode, double bound)
{
    if (VELOC_Adjoint_compress(id, mode, bound) != VELOC_SUCCESS)
        throw std::runtime_error(VELOC_Last_error());
}

/** Protects memory of the adjoint, and of what it computes. */
template <typename T> void protect_gradient(int id, T *memory, std::size_t count = 1)
{
    if (VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, id, memory, count, sizeof(T))
        != VELOC_SUCCESS)
        throw std::runtime_error(VELOC_Last_error());
}

/** An adjoint computation. Its members are those of VELOC_Adjoint, whose comments say what they mean. */
struct adjoint_t {
    std::string name;
    std::int64_t steps = 0;
    std::int64_t slots = 0;
    std::int64_t resilience_distance = 0;
    std::int64_t adjoint_distance = 0;
    double mtbf = 0;
    double write_cost = 0;
    double turn_cost = 0;
    int rule = VELOC_RULE_OPTIMAL;
    bool verify_replay = false;
    std::chrono::duration<double> time_limit{0};
    std::uint64_t tag = 0;
    std::function<void()> protect;
    std::function<void(std::int64_t from, std::int64_t to)> forward;
    std::function<void(std::int64_t step)> adjoint;
    /** Without it, the library hashes or compares the memory of the state (see VELOC_Adjoint). */
    std::function<std::uint64_t()> hash;

    /**
     * Computes the adjoint. True: the run is finished; false: it has stopped as it was asked to.
     *
     * An exception from one of the functions ends the run, and run() throws it again; what was stored stays. Any
     * other failure is a std::runtime_error with the reason.
     *
     * Under MPI, a function that throws on one rank ends the run on all. The exception comes out on that rank. The
     * others get a std::runtime_error with the number of that rank, when they next look at the time, restore a state,
     * or end. If they wait for that rank within their functions, the exception comes out after 10 s or some steps, as
     * VELOC_Adjoint_run says. In that case nobody can go on, and the program should end the job (MPI_Abort).
     * Otherwise all ranks may call this again, and go on from what all have.
     */
    bool run()
    {
        call of{*this, nullptr};
        VELOC_Adjoint what{};
        what.size = sizeof what;
        what.name = name.c_str();
        what.steps = steps;
        what.slots = slots;
        what.resilience_distance = resilience_distance;
        what.adjoint_distance = adjoint_distance;
        what.rule = rule;
        what.flags = verify_replay ? VELOC_VERIFY_REPLAY : 0;
        what.time_limit = time_limit.count();
        what.tag = tag;
        what.mtbf = mtbf;
        what.write_cost = write_cost;
        what.turn_cost = turn_cost;
        what.user = &of;
        if (protect)
            what.protect = [](void *user) { return guard(user, [&](adjoint_t &a) { a.protect(); }); };
        if (forward)
            what.forward = [](void *user, std::int64_t from, std::int64_t to) {
                return guard(user, [&](adjoint_t &a) { a.forward(from, to); });
            };
        if (adjoint)
            what.adjoint = [](void *user, std::int64_t step) {
                return guard(user, [&](adjoint_t &a) { a.adjoint(step); });
            };
        if (hash)
            what.hash = [](void *user, std::uint64_t *word) {
                return guard(user, [&](adjoint_t &a) { *word = a.hash(); });
            };
        const int status = VELOC_Adjoint_run(&what);
        if (of.thrown)
            std::rethrow_exception(of.thrown);
        if (status == VELOC_FAILURE)
            throw std::runtime_error(VELOC_Last_error());
        return status == VELOC_SUCCESS;
    }

    /**
     * Removes what run() has left under `name` on this process, as VELOC_Adjoint_discard does. The other members do
     * not matter. If it fails, it throws std::runtime_error with the reason.
     */
    void discard() const
    {
        if (VELOC_Adjoint_discard(name.c_str()) != VELOC_SUCCESS)
            throw std::runtime_error(VELOC_Last_error());
    }

private:
    struct call {
        adjoint_t &of;
        std::exception_ptr thrown;
    };

    /** No exception may pass through the library. */
    template <typename F> static int guard(void *user, F &&function)
    {
        auto &of = *static_cast<call *>(user);
        try {
            function(of.of);
            return VELOC_SUCCESS;
        } catch (...) {
            of.thrown = std::current_exception();
            return VELOC_FAILURE;
        }
    }
};

} // namespace veloc

#endif /* VELOC_ADJOINT_HPP */
