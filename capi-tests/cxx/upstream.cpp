/*
 * A program as if it had been compiled against VELOC 1.8's own veloc.hpp: upstream <configuration>
 *
 * None of our headers is in it. What stands here is what a compiler makes of upstream's: the names
 * of the functions, and which virtual function has which number.
 */
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

namespace veloc {

using name_t = const std::string &;
using write_t = std::function<void(std::ostream &)>;
using read_t = std::function<bool(std::istream &)>;
using observer_t = std::function<void(name_t, int)>;

class client_t {
public:
    virtual bool mem_protect(int, void *, size_t, size_t, name_t) = 0;
    virtual bool mem_protect(int, const write_t &, const read_t &, name_t) = 0;
    virtual bool mem_unprotect(int, name_t) = 0;
    virtual void mem_clear(name_t) = 0;
    virtual bool register_observer(int, const observer_t &) = 0;
    virtual std::string route_file(name_t) = 0;
    virtual bool cleanup(name_t) = 0;
    virtual bool checkpoint(name_t, int) = 0;
    virtual bool checkpoint_begin(name_t, int) = 0;
    virtual bool checkpoint_mem(int, const std::set<int> &) = 0;
    virtual bool checkpoint_end(bool) = 0;
    virtual bool checkpoint_wait() = 0;
    virtual bool checkpoint_finished() = 0;
    virtual int restart_test(name_t, int, int) = 0;
    virtual bool restart(name_t, int, int) = 0;
    virtual bool restart_begin(name_t, int, int) = 0;
    virtual size_t recover_size(int) = 0;
    virtual bool recover_mem(int, const std::set<int> &) = 0;
    virtual bool restart_end(bool) = 0;
    virtual ~client_t() = 0;
};

client_t *get_client(unsigned int, name_t);

} // namespace veloc

static void check(bool is_so, int line)
{
    if (!is_so) {
        std::cout << "upstream.cpp:" << line << " is not so" << std::endl;
        std::_Exit(1);
    }
}

#define CHECK(expression) check((expression), __LINE__)

/* A program may have a client of its own, for its tests. */
class mock : public veloc::client_t {
    bool mem_protect(int, void *, size_t, size_t, veloc::name_t) override { return true; }
    bool mem_protect(int, const veloc::write_t &, const veloc::read_t &, veloc::name_t) override
    {
        return true;
    }
    bool mem_unprotect(int, veloc::name_t) override { return true; }
    void mem_clear(veloc::name_t) override {}
    bool register_observer(int, const veloc::observer_t &) override { return true; }
    std::string route_file(veloc::name_t) override { return ""; }
    bool cleanup(veloc::name_t) override { return true; }
    bool checkpoint(veloc::name_t, int) override { return true; }
    bool checkpoint_begin(veloc::name_t, int) override { return true; }
    bool checkpoint_mem(int, const std::set<int> &) override { return true; }
    bool checkpoint_end(bool) override { return true; }
    bool checkpoint_wait() override { return true; }
    bool checkpoint_finished() override { return true; }
    int restart_test(veloc::name_t, int, int) override { return 0; }
    bool restart(veloc::name_t, int, int) override { return true; }
    bool restart_begin(veloc::name_t, int, int) override { return true; }
    size_t recover_size(int) override { return 0; }
    bool recover_mem(int, const std::set<int> &) override { return true; }
    bool restart_end(bool) override { return true; }
};

int main(int, char **argv)
{
    const std::string all = "default";
    std::vector<int> numbers(100, 1);
    std::string text = "a text";
    int seen = 0;

    veloc::client_t *c = veloc::get_client(0, argv[1]);
    CHECK(c != nullptr);
    // By the library's type information, which is ours, too.
    CHECK(dynamic_cast<mock *>(c) == nullptr);
    CHECK(c->register_observer(0, [&](veloc::name_t name, int version) {
        seen += name == "x" ? version : 1000;
    }));
    CHECK(c->mem_protect(1, numbers.data(), numbers.size(), sizeof(int), all));
    CHECK(c->mem_protect(
        2, [&](std::ostream &out) { out << text; },
        [&](std::istream &in) { return static_cast<bool>(std::getline(in, text)); }, all));
    CHECK(c->mem_protect(3, numbers.data(), 1, 1, "other"));
    CHECK(c->mem_unprotect(3, "other"));
    c->mem_clear("other");
    CHECK(c->checkpoint("x", 1));
    CHECK(c->checkpoint_begin("x", 2));
    CHECK(c->checkpoint_mem(1, {1}));
    CHECK(c->checkpoint_end(true));
    CHECK(seen == 3);
    CHECK(c->checkpoint_wait());
    CHECK(c->checkpoint_finished());
    CHECK(c->restart_test("x", 0, -1) == 2);
    CHECK(c->restart_test("x", 0, 1) < 0);
    CHECK(!c->restart("x", 1, 1));
    numbers.assign(100, 0);
    text = "";
    CHECK(c->restart("x", 1, -1));
    CHECK(numbers == std::vector<int>(100, 1) && text == "a text");
    CHECK(c->restart_begin("x", 2, -1));
    CHECK(c->recover_size(1) == 400 && c->recover_size(2) == 0);
    CHECK(c->recover_mem(0, {}));
    CHECK(c->restart_end(true));
    CHECK(c->checkpoint_begin("file", 1));
    CHECK(!c->route_file("file").empty());
    CHECK(c->checkpoint_end(false));
    CHECK(c->cleanup("x"));
    delete c;

    delete static_cast<veloc::client_t *>(new mock);
    puts("done");
    return 0;
}
