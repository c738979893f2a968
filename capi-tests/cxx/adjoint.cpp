/*
 * Adjoint computations from C++: adjoint <configuration>
 *
 * A callback that throws ends the run with its own exception, and the next run goes on.
 */
#include <cmath>
#include <vector>

#define VELOC_NO_MPI
#include "check.hpp"
#include "veloc/adjoint.hpp"

struct interrupted {
    std::int64_t at;
};

template <typename F> static std::string refusal(F &&function)
{
    try {
        function();
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "nothing was thrown";
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    const std::int64_t steps = 200;
    std::vector<double> x(50), gradient(50);
    std::int64_t computed = 0, throws_at = -1, stops_at = -1, hashed = 0;
    const auto start = [&] {
        for (std::size_t i = 0; i < x.size(); i++)
            x[i] = 0.01 * static_cast<double>(i);
    };

    veloc::adjoint_t sweep;
    sweep.name = "cxx";
    sweep.steps = steps;
    sweep.slots = 6;
    sweep.resilience_distance = 40;
    CHECK(refusal([&] { sweep.run(); }).find("protect is NULL") != std::string::npos);
    sweep.protect = [&] {
        veloc::protect_state(0, x.data(), x.size());
        veloc::protect_gradient(0, gradient.data(), gradient.size());
    };
    sweep.forward = [&](std::int64_t from, std::int64_t to) {
        for (; from < to; from++) {
            if (++computed == throws_at)
                throw interrupted{from};
            for (double &value : x)
                value += 0.01 * std::sin(value);
        }
    };
    sweep.adjoint = [&](std::int64_t step) {
        for (std::size_t i = 0; i < x.size(); i++) {
            if (step == steps)
                gradient[i] = 1;
            gradient[i] *= 1 + 0.01 * std::cos(x[i]);
        }
        if (step == stops_at)
            VELOC_Adjoint_stop();
    };

    start();
    CHECK(refusal([&] { sweep.run(); }).find("no job") != std::string::npos);
    EQUAL(VELOC_Init_single(0, argv[1]), VELOC_SUCCESS);
    sweep.mtbf = -1;
    CHECK(refusal([&] { sweep.run(); }).find("mtbf = -1") != std::string::npos);
    sweep.mtbf = 500;
    sweep.write_cost = 2;
    sweep.turn_cost = 3;
    sweep.adjoint_distance = 9;
    CHECK(refusal([&] { sweep.run(); }).find("mtbf = 500") != std::string::npos);
    sweep.adjoint_distance = 0;
    throws_at = 100;
    try {
        sweep.run();
        CHECK(!"an exception of the application's is lost");
    } catch (const interrupted &at) {
        EQUAL(at.at, 99);
    }
    throws_at = -1;
    computed = 0;
    stops_at = 90;
    start();
    CHECK(!sweep.run());
    stops_at = -1;
    // A store of another run is left as it is, and so is one by settings that cannot be.
    sweep.tag = 2;
    CHECK(refusal([&] { sweep.run(); }).find("of another computation") != std::string::npos);
    sweep.tag = 0;
    for (const std::int64_t wrong : {0, -1}) {
        sweep.steps = wrong;
        CHECK(refusal([&] { sweep.run(); }).find("steps = ") != std::string::npos);
    }
    sweep.steps = steps;
    sweep.resilience_distance = 33;
    CHECK(refusal([&] { sweep.run(); }).find("198 of the 200 steps") != std::string::npos);
    sweep.resilience_distance = 40;
    computed = 0;
    sweep.verify_replay = true;
    sweep.hash = [&] {
        hashed++;
        return static_cast<std::uint64_t>(x[49] * 1e15);
    };
    start();
    CHECK(sweep.run());
    CHECK(hashed > 90);
    // It has gone on from where it stopped: from the beginning it takes more than 600.
    CHECK(computed < 300);

    start();
    std::vector<double> wanted(x.size(), 1);
    for (std::int64_t step = 0; step < steps; step++)
        for (std::size_t i = 0; i < x.size(); i++) {
            wanted[i] *= 1 + 0.01 * std::cos(x[i]);
            x[i] += 0.01 * std::sin(x[i]);
        }
    for (std::size_t i = 0; i < x.size(); i++)
        CHECK(std::abs(gradient[i] / wanted[i] - 1) < 1e-12);

    // What is left of a run is removed by its name alone, and the next one begins at state 0.
    stops_at = 90;
    start();
    CHECK(!sweep.run());
    stops_at = -1;
    sweep.tag = 2;
    CHECK(refusal([&] { sweep.run(); }).find("VELOC_Adjoint_discard") != std::string::npos);
    veloc::adjoint_t other;
    other.name = "c x";
    CHECK(refusal([&] { other.discard(); }).find("c x") != std::string::npos);
    other.name = "cxx";
    other.discard();
    computed = 0;
    start();
    CHECK(sweep.run());
    CHECK(computed >= steps - 1);
    other.discard();

    // A hundred times as many states, compressed: more of them have room.
    start();
    CHECK(sweep.run());
    const std::vector<double> right = gradient;
    x.resize(5000);
    gradient.resize(x.size());
    const auto protect_all = sweep.protect;
    sweep.protect = [&] {
        protect_all();
        veloc::compress_state(0, VELOC_COMPRESS_16, 1e-4);
    };
    sweep.verify_replay = false;
    sweep.resilience_distance = 0;
    computed = 0;
    start();
    CHECK(sweep.run());
    for (std::size_t i = 0; i < right.size(); i++)
        CHECK(std::fabs(gradient[i] / right[i] - 1) < 1e-3);
    CHECK(computed < 2 * steps);
    sweep.protect = [&] { veloc::compress_state(0, VELOC_COMPRESS_16, 1e-4); };
    CHECK(refusal([&] { sweep.run(); }).find("region 0 is not protected") != std::string::npos);
    sweep.protect = protect_all;

    sweep.slots = 0;
    CHECK(refusal([&] { sweep.run(); }).find("slots = 0") != std::string::npos);
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    std::puts("done");
}
