/*
 * The other half of upstream.cpp: what a compiler makes of our own header.
 */
#define VELOC_NO_MPI
#include "veloc.hpp"

void call_all(veloc::client_t *client)
{
    bool used = false;
    client->mem_protect(1, nullptr, 0, 0);
    client->mem_protect(1, [](std::ostream &) {}, [](std::istream &) { return true; });
    client->mem_unprotect(1);
    client->mem_clear();
    client->register_observer(0, nullptr);
    client->route_file("x");
    client->cleanup("x");
    client->checkpoint("x", 1);
    client->checkpoint_begin("x", 1);
    client->checkpoint_mem(0, {});
    client->checkpoint_end(true);
    client->checkpoint_wait();
    client->checkpoint_finished();
    client->restart_test("x", 1);
    used = client->restart("x", 1);
    client->restart_begin("x", 1);
    client->recover_size(1);
    used = client->recover_mem(0, {});
    client->restart_end(true);
    (void)used;
}
