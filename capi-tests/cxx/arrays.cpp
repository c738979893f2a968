/*
 * veloc::pmem_t: arrays <file>. No job is needed. Prints "done" if everything was as it should be.
 */
#include <numeric>
#include <type_traits>

#include "veloc/pmem.hpp"

#include "check.hpp"

namespace {

using veloc::pmem_t;

static_assert(!std::is_copy_constructible_v<pmem_t> && !std::is_copy_assignable_v<pmem_t>);
static_assert(std::is_nothrow_move_constructible_v<pmem_t>);

constexpr std::size_t COUNT = 500;

template <typename function> void throws(function call, const std::string &words)
{
    try {
        call();
    } catch (const std::exception &error) {
        CHECK(std::string(error.what()).find(words) != std::string::npos);
        return;
    }
    CHECK(!"an exception");
}

void computes(const std::string &path, std::int64_t expected)
{
    pmem_t first(path, 100000);
    pmem_t file = std::move(first);
    CHECK(first.get() == nullptr);
    EQUAL(file.domain().crash, VELOC_CRASH_PROCESS);
    throws([&] { pmem_t(path, 100000); }, "it is open already");
    const auto p = file.array<double>("p", COUNT, 3);
    EQUAL(p.size(), COUNT);
    CHECK(p.data() == p.at(3));
    throws([&] { file.array<float>("p", COUNT, 3); }, "\"p\" has 500 elements");
    throws([&] { file.array<std::int64_t>("p", COUNT, 3); }, "kind 'f', not 'i'");
    bool fails = false;
    file.invariant("sum", [&](std::int64_t iteration, const std::vector<double> &scalars) {
        if (fails)
            throw std::logic_error("cannot judge");
        return std::accumulate(p.at(iteration), p.at(iteration) + COUNT, 0.0) == scalars.at(0);
    });
    EQUAL(file.recover(), expected);
    EQUAL(file.scalars().size(), expected < 0 ? 0 : 1);
    for (std::int64_t i = expected + 1; i <= expected + 5; i++) {
        std::fill(p.at(i), p.at(i) + COUNT, static_cast<double>(i));
        file.flush(p.at(i), COUNT);
        file.drain();
        file.mark(i, {static_cast<double>(i) * COUNT});
    }
    p.at(expected + 5)[7] += 1;
    EQUAL(file.recover(), expected + 4);
    CHECK(file.scalars() == std::vector<double>{static_cast<double>(expected + 4) * COUNT});
    const auto report = file.report();
    EQUAL(report.size(), 2);
    CHECK(report[0].iteration == expected + 5 && report[0].answer == VELOC_INVARIANT_FAILS);
    CHECK(report[0].invariant == "sum" && report[1].invariant.empty());
    /* An exception of an invariant is that of the call, and the next call is as if it had not been. */
    fails = true;
    throws([&] { file.recover(); }, "cannot judge");
    fails = false;
    EQUAL(file.recover(), expected + 4);
    throws([&] { file.mark(0); }, "not after");
    throws([&] { file.restart("x"); }, "there is no job");
}

}  // namespace

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    computes(argv[1], -1);
    computes(argv[1], 3);
    pmem_t file(argv[1], 100000);
    file.forget();
    EQUAL(file.recover(), -1);
    std::puts("done");
    return 0;
}
