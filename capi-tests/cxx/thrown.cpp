/*
 * A callback that throws on one rank only: thrown <configuration>
 *
 * Its exception comes out of the run there; on the others comes an error that names the rank and the
 * callback. The next run goes on, on all of them.
 */
#include <vector>

#include "check.hpp"
#include "veloc.hpp"
#include "veloc/adjoint.hpp"

struct interrupted {
    std::int64_t at;
};

int main(int argc, char **argv)
{
    int rank = -1;
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    veloc::client_t *c = veloc::get_client(MPI_COMM_WORLD, argv[1]);

    const std::int64_t steps = 200;
    double x = 0, gradient = 0;
    bool throws = rank == 1;
    veloc::adjoint_t sweep;
    sweep.name = "thrown";
    sweep.steps = steps;
    sweep.slots = 6;
    sweep.protect = [&] {
        veloc::protect_state(0, &x);
        veloc::protect_gradient(0, &gradient);
    };
    sweep.forward = [&](std::int64_t from, std::int64_t to) {
        for (; from < to; from++) {
            if (throws && from == 60)
                throw interrupted{from};
            x += rank + 1;
        }
    };
    sweep.adjoint = [&](std::int64_t step) {
        EQUAL(x, static_cast<double>((step - 1) * (rank + 1)));
        gradient = step == steps ? x : gradient + x;
    };
    try {
        sweep.run();
        CHECK(!"the run goes on without the rank that has thrown");
    } catch (const interrupted &thrown) {
        EQUAL(rank, 1);
        EQUAL(thrown.at, 60);
    } catch (const std::runtime_error &told) {
        const std::string text = told.what();
        EQUAL(rank, 0);
        CHECK(text.find("process 1 failed after ") != std::string::npos);
    }
    throws = false;
    x = 0;
    CHECK(sweep.run());
    EQUAL(gradient, static_cast<double>(steps * (steps - 1) / 2 * (rank + 1)));
    delete c;
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    return 0;
}
