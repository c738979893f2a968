// Checkpoints of each state of a forward pass, and the states in reverse.
#include <iostream>
#include <memory>
#include <vector>

#include <veloc.hpp>

int main()
{
    const int steps = 100;
    std::vector<double> state(100000);
    double sum = 0;
    const std::unique_ptr<veloc::client_t> client(veloc::get_client(0u, "veloc.cfg"));
    if (!client->mem_protect(0, state.data(), state.size(), sizeof state[0]))
        return 1;
    for (int step = 0; step < steps; step++) {
        for (std::size_t i = 0; i < state.size(); i++)
            state[i] += static_cast<double>(i % 3);
        if (!client->checkpoint("forward", step))
            return 1;
    }
    for (int step = steps - 1; step >= 0; step--) {
        if (!client->restart("forward", step))
            return 1;
        sum += state[2];
    }
    std::cout << "sum " << sum << "\n";
    return 0;
}
