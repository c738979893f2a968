/*
 * The methods of the client: client <configuration> <case> [key=value ...]
 *
 * Each case is a process of its own in directories of its own.
 */
#include <stdexcept>
#include <vector>

#define VELOC_NO_MPI
#include "check.hpp"
#include "veloc.hpp"

using numbers = std::vector<int>;

static std::string configuration;

static veloc::client_t *client()
{
    return veloc::get_client(0u, configuration);
}

/* Every method, with memory. */
static void memory()
{
    numbers a(1000, 1), b(500, 2), own(10, 3);
    veloc::client_t *c = client();
    CHECK(client() == c);
    CHECK(c->mem_protect(1, a.data(), a.size(), sizeof(int)));
    CHECK(c->mem_protect(-2, b.data(), b.size(), sizeof(int)));
    // Upstream updates the region, and returns false.
    CHECK(c->mem_protect(1, a.data(), a.size(), sizeof(int)));
    CHECK(c->mem_protect(7, own.data(), own.size(), sizeof(int), "own"));
    REFUSED(c->mem_protect(3, nullptr, 1, 1), "region 3|NULL");
    REFUSED(c->mem_unprotect(9), "region 9");
    REFUSED(c->mem_unprotect(1, "own"), "region 1|own");

    EQUAL(c->restart_test("all", 0), -1);
    CHECK(c->checkpoint("all", 1));
    CHECK(c->checkpoint("own", 1));
    a.assign(1000, 11);
    CHECK(c->checkpoint_begin("all", 2));
    REFUSED(c->checkpoint_begin("all", 3), "version 2 is open");
    CHECK(c->checkpoint_mem(VELOC_CKPT_SOME, {1}));
    CHECK(c->checkpoint_mem(VELOC_CKPT_REST, {1}));
    CHECK(c->checkpoint_end(true));
    CHECK(c->checkpoint_begin("all", 3));
    CHECK(c->checkpoint_mem(VELOC_CKPT_ALL, {}));
    EQUAL(VELOC_Checkpoint_end(VELOC_FAILURE), VELOC_SUCCESS);
    CHECK(c->checkpoint_wait());
    CHECK(c->checkpoint_finished());
    EQUAL(c->restart_test("all", 0), 2);
    EQUAL(c->restart_test("all", 1), 1);

    a.assign(1000, 0);
    b.assign(500, 0);
    own.assign(10, 0);
    CHECK(c->restart("all", 1));
    CHECK(a == numbers(1000, 1) && b == numbers(500, 2) && own == numbers(10, 0));
    CHECK(c->restart("own", 1));
    CHECK(own == numbers(10, 3));
    a.assign(1000, 0);
    b.assign(500, 0);
    CHECK(c->restart_begin("all", 2));
    EQUAL(c->recover_size(1), 4000u);
    EQUAL(c->recover_size(-2), 2000u);
    EQUAL(c->recover_size(7), 0u);
    CHECK(c->recover_mem(VELOC_RECOVER_SOME, {1}));
    CHECK(a == numbers(1000, 11) && b == numbers(500, 0));
    CHECK(c->recover_mem(VELOC_RECOVER_REST, {1}));
    CHECK(b == numbers(500, 2));
    CHECK(c->restart_end(true));
    REFUSED(c->restart_end(true), "no open restart");
    REFUSED(c->restart("all", 3), "version 3");

    // A name without regions of its own has the others; "default" means those.
    c->mem_clear("own");
    CHECK(c->mem_unprotect(-2, "default"));
    CHECK(c->checkpoint("own", 2));
    CHECK(c->restart_begin("own", 2));
    EQUAL(c->recover_size(1), 4000u);
    EQUAL(c->recover_size(-2), 0u);
    CHECK(c->restart_end(true));
    c->mem_clear();
    REFUSED(c->checkpoint("own", 3), "no region is protected");
    CHECK(c->cleanup("own"));

    // Texts that C would cut.
    const std::string cut("all\0x", 5);
    REFUSED(c->checkpoint(cut, 1), "NUL");
    EQUAL(c->restart_test(cut, 0), -1);
    REFUSED(c->checkpoint("no/name", 1), "no/name");
}

/* The ends that a job can have, and beginnings after them. */
static void ends()
{
    int value = 5;
    bool thrown = false;
    try {
        veloc::get_client(0u, "/there/is/no/such.cfg");
    } catch (const std::runtime_error &error) {
        thrown = std::strstr(error.what(), "/there/is/no/such.cfg") != nullptr;
    }
    CHECK(thrown);

    // Options, as a list or from a map, of one key or more.
    const std::map<std::string, std::string> map = {{"ephemeral", "true"}, {"mode", "sync"}};
    delete veloc::get_client(0u, veloc::options_t(map.begin(), map.end()));
    delete veloc::get_client(0u, {{"mode", "sync"}, {"ephemeral", "true"}, {"touch_threads", "1"}});
    for (const auto &[options, words] : {
             std::pair<veloc::options_t, const char *>{{{"mode", "sink"}}, "option: mode = \"sink\""},
             {{{"mode", "sync"}, {"MODE", "sync"}}, "mode is given twice"},
             {{{"mode", std::string("a\0b", 3)}}, "NUL"},
         }) {
        thrown = false;
        try {
            veloc::get_client(0u, options);
        } catch (const std::runtime_error &error) {
            thrown = std::strstr(error.what(), words) != nullptr;
        }
        CHECK(thrown);
    }

    // Upstream's client is one and the same in both interfaces.
    EQUAL(VELOC_Init_single(0, configuration.c_str()), VELOC_SUCCESS);
    veloc::client_t *c = client();
    EQUAL(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
    CHECK(c->checkpoint("x", 1));
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    REFUSED(c->checkpoint("x", 2), "no job");
    EQUAL(c->restart_test("x", 0), -1);

    CHECK(client() == c);
    EQUAL(c->restart_test("x", 0), 1);
    delete c;
    EQUAL(VELOC_Finalize(1), VELOC_FAILURE);
    c = client();
    CHECK(c->mem_protect(0, &value, 1, sizeof value));
    value = 6;
    CHECK(c->restart("x", 1));
    EQUAL(value, 5);
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    delete c;
}

/* A file of the program's own. */
static void routed(const std::string &original)
{
    veloc::client_t *c = client();
    EQUAL(c->route_file(original), "");
    CHECK(c->checkpoint_begin("file", 1));
    const std::string path = c->route_file(original);
    CHECK(!path.empty() && path != original);
    FILE *file = std::fopen(path.c_str(), "w");
    CHECK(file != nullptr && std::fputs("routed", file) >= 0 && std::fclose(file) == 0);
    CHECK(c->checkpoint_end(true));
    CHECK(c->checkpoint_wait());
    file = std::fopen(original.c_str(), "r");
    char text[16] = "";
    CHECK(file != nullptr && std::fgets(text, sizeof text, file) != nullptr);
    EQUAL(std::string(text), "routed");
    std::fclose(file);
}

int main(int argc, char **argv)
{
    configuration = argv[1];
    const std::string what = argv[2];
    if (what == "memory")
        memory();
    else if (what == "ends")
        ends();
    else if (what == "routed")
        routed(option(argc, argv, "original"));
    else
        CHECK(!"a case");
    if (what != "ends")
        delete client();
    puts("done");
    return 0;
}
