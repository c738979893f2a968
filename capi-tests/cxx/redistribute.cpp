/*
 * A job of four ranks, and one of two that restores from its files: redistribute <configuration>
 */
#include "check.hpp"
#include "veloc.hpp"

#include <vector>

int main(int argc, char **argv)
{
    int rank = -1, ranks = 0;
    std::vector<int> value(1000);
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    veloc::client_t *c = veloc::get_client(MPI_COMM_WORLD, argv[1]);
    CHECK(c->mem_protect(0, value.data(), value.size(), sizeof value[0]));
    if (ranks == 4) {
        for (int version = 1; version <= 2; version++) {
            value.assign(value.size(), 10 * version + rank);
            CHECK(c->checkpoint("x", version));
        }
        CHECK(c->checkpoint_wait());
    } else {
        // Who names no rank restores nothing of a job of another size.
        EQUAL(c->restart_test("x", 0), -1);
        REFUSED(c->restart("x", 2), "4 ranks|2");
        for (int of = rank; of < 4; of += ranks) {
            EQUAL(c->restart_test("x", 0, of), 2);
            EQUAL(c->restart_test("x", 1, of), 1);
            for (int version = 1; version <= 2; version++) {
                value.assign(value.size(), 0);
                CHECK(c->restart("x", version, of));
                CHECK(value == std::vector<int>(value.size(), 10 * version + of));
            }
        }
        // It has restored from that name, so it may replace it.
        value.assign(value.size(), 77);
        CHECK(c->checkpoint("x", 2));
        CHECK(c->checkpoint_wait());
        CHECK(c->restart("x", 2));
        EQUAL(value[999], 77);
    }
    delete c;
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    return 0;
}
