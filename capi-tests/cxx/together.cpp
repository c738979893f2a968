/*
 * The client over a communicator: together <configuration>
 */
#include "check.hpp"
#include "veloc.hpp"

int main(int argc, char **argv)
{
    int rank = -1, value = 0;
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    veloc::client_t *c = veloc::get_client(MPI_COMM_WORLD, argv[1]);
    CHECK(c->mem_protect(0, &value, 1, sizeof value));
    value = 10 + rank;
    CHECK(c->checkpoint("together", 1));
    CHECK(c->checkpoint_wait());
    value = 0;
    EQUAL(c->restart_test("together", 0), 1);
    CHECK(c->restart("together", 1));
    EQUAL(value, 10 + rank);

    // One rank asks for itself what the other has; the restore is everybody's.
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        EQUAL(c->restart_test("together", 0, 1), 1);
    CHECK(c->restart("together", 1, 1 - rank));
    EQUAL(value, 10 + 1 - rank);
    delete c;
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    return 0;
}
