/*
 * A program as if it had been compiled against VELOC 1.8's own veloc.hpp: upstream <configuration>
 *
 * None of our headers is in it. What stands here is what a compiler makes of upstream's: the names
 * of the functions, and which virtual function has which number. upstream_calls.cpp has our header:
 * the two must agree.
 */
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <sys/types.h>
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

class cached_file_t {
    void *ptr;

public:
    cached_file_t(name_t);
    ~cached_file_t();
    bool open(name_t, int, mode_t);
    bool pread(void *, size_t, off_t);
    bool pwrite(const void *, size_t, off_t);
    void close();
    static void flush();
    static void shutdown();
    void *used() { return ptr; }
};

} // namespace veloc

static void check(bool is_so, int line)
{
    if (!is_so) {
        std::cout << "upstream.cpp:" << line << " is not so" << std::endl;
        std::_Exit(1);
    }
}

#define CHECK(expression) check((expression), __LINE__)

/* A client of the program's own. Its functions say which one was called. */
class mock : public veloc::client_t {
public:
    std::string called;

private:
    template <typename T> T note(const char *name, T result)
    {
        called += name;
        called += ' ';
        return result;
    }
    bool mem_protect(int, void *, size_t, size_t, veloc::name_t) override
    {
        return note("memory", true);
    }
    bool mem_protect(int, const veloc::write_t &, const veloc::read_t &, veloc::name_t) override
    {
        return note("object", true);
    }
    bool mem_unprotect(int, veloc::name_t) override { return note("mem_unprotect", true); }
    void mem_clear(veloc::name_t) override { note("mem_clear", true); }
    bool register_observer(int, const veloc::observer_t &) override
    {
        return note("register_observer", true);
    }
    std::string route_file(veloc::name_t) override { return note("route_file", std::string()); }
    bool cleanup(veloc::name_t) override { return note("cleanup", true); }
    bool checkpoint(veloc::name_t, int) override { return note("checkpoint", true); }
    bool checkpoint_begin(veloc::name_t, int) override { return note("checkpoint_begin", true); }
    bool checkpoint_mem(int, const std::set<int> &) override
    {
        return note("checkpoint_mem", true);
    }
    bool checkpoint_end(bool) override { return note("checkpoint_end", true); }
    bool checkpoint_wait() override { return note("checkpoint_wait", true); }
    bool checkpoint_finished() override { return note("checkpoint_finished", true); }
    int restart_test(veloc::name_t, int, int) override { return note("restart_test", 0); }
    bool restart(veloc::name_t, int, int) override { return note("restart", true); }
    bool restart_begin(veloc::name_t, int, int) override { return note("restart_begin", true); }
    size_t recover_size(int) override { return note("recover_size", size_t(0)); }
    bool recover_mem(int, const std::set<int> &) override { return note("recover_mem", true); }
    bool restart_end(bool) override { return note("restart_end", true); }
};

/* In upstream_calls.cpp, which has our header: calls all functions in the order above. */
void call_all(veloc::client_t *client);

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

    mock *const own = new mock;
    call_all(own);
    CHECK(own->called
          == "memory object mem_unprotect mem_clear register_observer route_file cleanup "
             "checkpoint checkpoint_begin checkpoint_mem checkpoint_end checkpoint_wait "
             "checkpoint_finished restart_test restart restart_begin recover_size recover_mem "
             "restart_end ");
    delete static_cast<veloc::client_t *>(own);

    {
        const std::string configuration = argv[1];
        veloc::cached_file_t file(configuration);
        char bytes[3] = "";
        CHECK(file.used() != nullptr);
        CHECK(file.open(configuration + ".cached", O_RDWR | O_CREAT, 0600));
        CHECK(file.pwrite("abcd", 4, 0));
        veloc::cached_file_t::flush();
        CHECK(file.pread(bytes, 2, 1) && std::string(bytes) == "bc");
        file.close();
        veloc::cached_file_t::shutdown();
    }
    puts("done");
    return 0;
}
