/*
 * Other ranks' checkpoints: ranks <configuration> case=... [original=...]
 *   write   is rank 3, and leaves versions 1 and 2 of "x", and a file
 *   read    is rank 0, has a version 2 of its own, and wants rank 3's
 */
#include <vector>

#define VELOC_NO_MPI
#include "check.hpp"
#include "veloc.hpp"

static std::vector<int> memory(100000, 0);
static std::string text;

static veloc::client_t *start(unsigned int rank, const std::string &configuration)
{
    veloc::client_t *c = veloc::get_client(rank, configuration);
    CHECK(c->mem_protect(1, memory.data(), memory.size(), sizeof(int)));
    CHECK(c->mem_protect(
        2, [](std::ostream &out) { out << text; },
        [](std::istream &in) { return static_cast<bool>(in >> text); }));
    return c;
}

static void take(veloc::client_t *c, int version, int value)
{
    memory.assign(memory.size(), value);
    text = "text" + std::to_string(value);
    CHECK(c->checkpoint("x", version));
}

static void expect(int value)
{
    CHECK(memory == std::vector<int>(memory.size(), value));
    EQUAL(text, "text" + std::to_string(value));
    memory.assign(memory.size(), -1);
    text = "";
}

int main(int argc, char **argv)
{
    const std::string original = option(argc, argv, "original");
    if (option(argc, argv, "case") == "write") {
        veloc::client_t *c = start(3, argv[1]);
        take(c, 1, 31);
        take(c, 2, 32);
        CHECK(c->checkpoint_begin("file", 5));
        FILE *file = std::fopen(c->route_file(original).c_str(), "w");
        CHECK(file != nullptr && std::fputs("of rank 3", file) >= 0 && std::fclose(file) == 0);
        CHECK(c->checkpoint_end(true));
        CHECK(c->checkpoint_wait());
        EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
        puts("done");
        return 0;
    }
    veloc::client_t *c = start(0, argv[1]);
    take(c, 2, 2);
    take(c, 7, 7);
    EQUAL(c->restart_test("x", 0), 7);
    EQUAL(c->restart_test("x", 0, 3), 2);
    EQUAL(c->restart_test("x", 1, 3), 1);
    EQUAL(c->restart_test("x", 0, 0), 7);
    CHECK(c->restart_test("x", 0, 1) < 0);
    CHECK(c->restart_test("y", 0, 3) < 0);
    CHECK(c->restart("x", 2, 3));
    expect(32);
    CHECK(c->restart("x", 1, 3));
    expect(31);
    // Its own are as they were, in memory and in files.
    CHECK(c->restart("x", 2));
    expect(2);
    CHECK(c->restart("x", 7, 0));
    expect(7);
    REFUSED(c->restart("x", 7, 3), "version 7|rank 3");
    REFUSED(c->restart("x", 2, 1), "version 2|rank 1");

    CHECK(c->restart_begin("x", 1, 3));
    EQUAL(c->recover_size(1), memory.size() * sizeof(int));
    CHECK(c->recover_mem(VELOC_RECOVER_SOME, {2}));
    EQUAL(text, "text31");
    CHECK(c->restart_end(true));

    CHECK(c->restart_begin("file", 5, 3));
    FILE *file = std::fopen(c->route_file(original).c_str(), "r");
    char line[32] = "";
    CHECK(file != nullptr && std::fgets(line, sizeof line, file) != nullptr);
    std::fclose(file);
    EQUAL(std::string(line), "of rank 3");
    CHECK(c->restart_end(true));
    CHECK(c->restart_test("file", 0) < 0);
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    puts("done");
    return 0;
}
