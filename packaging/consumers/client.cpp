/*
 * Saves and restores by the C++ interface, an array and an object: save-client <configuration>
 *
 * Prints "done" if everything was as it should be, on every process.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <string>
#include <vector>

#include <veloc.hpp>
#include <veloc/schedule.hpp>

#include "program.hpp"

namespace {

void save(const char *config, int rank)
{
#ifdef WITH_MPI
    veloc::client_t *client = veloc::get_client(MPI_COMM_WORLD, config);
#else
    veloc::client_t *client = veloc::get_client(0U, config);
#endif
    check(veloc::schedule_t(100, 5).cost().advances == VELOC_Numforw(100, 5), "the schedule");
    std::vector<double> state(10000);
    std::string text;
    check(client->mem_protect(0, state.data(), state.size(), sizeof state[0]), "mem_protect");
    check(client->mem_protect(
              1, [&](std::ostream &out) { out << text; },
              [&](std::istream &in) { return bool(in >> text); }),
          "mem_protect");
    for (int version = 1; version <= 3; version++) {
        state.back() = 100 * rank + version;
        text = std::string(static_cast<size_t>(version), 'x');
        check(client->checkpoint("save", version), "checkpoint");
    }
    check(client->checkpoint_wait(), "checkpoint_wait");
    check(client->restart_test("save", 0) == 3, "restart_test");
    check(client->restart("save", 2), "restart");
    check(state.back() == 100 * rank + 2 && text == "xx", "the restored state");
    delete client;
}

} // namespace

int main(int argc, char **argv)
{
    return run(argc, argv, save);
}
