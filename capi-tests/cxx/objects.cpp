/*
 * Objects with serializers, and observers: objects <configuration> <case>
 */
#include <map>
#include <stdexcept>
#include <vector>

#define VELOC_NO_MPI
#include "check.hpp"
#include "veloc.hpp"

static std::string configuration;

static veloc::client_t *client()
{
    return veloc::get_client(0u, configuration);
}

/* A text of any length, its length in front. */
struct text_t {
    std::string text;
    int writes = 0, reads = 0;

    void write(std::ostream &out)
    {
        writes++;
        // The length is known only afterwards.
        const auto start = out.tellp();
        const size_t length = text.size();
        out.seekp(sizeof length, std::ios_base::cur);
        for (size_t at = 0; at < length; at += 1000)
            out << text.substr(at, 1000);
        const auto end = out.tellp();
        out.seekp(start);
        out.write(reinterpret_cast<const char *>(&length), sizeof length);
        out.seekp(end);
    }

    bool read(std::istream &in)
    {
        reads++;
        size_t length = 0;
        in.read(reinterpret_cast<char *>(&length), sizeof length);
        text.resize(length);
        in.read(&text[0], static_cast<std::streamsize>(length));
        // Nothing is behind it, and its begin can be read again.
        if (!in || in.peek() != std::char_traits<char>::eof())
            return false;
        in.clear();
        in.seekg(0);
        size_t again = 0;
        in.read(reinterpret_cast<char *>(&again), sizeof again);
        return again == length && in.tellg() == std::istream::pos_type(sizeof again);
    }
};

static bool protect(int id, text_t &object, const std::string &name = "default")
{
    return client()->mem_protect(
        id, [&](std::ostream &out) { object.write(out); },
        [&](std::istream &in) { return object.read(in); }, name);
}

static std::string pattern(size_t length, int seed)
{
    std::string text(length, '\0');
    for (size_t at = 0; at < length; at++)
        text[at] = static_cast<char>(at * 31 + at / 251 + static_cast<size_t>(seed));
    return text;
}

/* Large, small and empty ones, beside memory, with ids on both sides of it. */
static void round_trips()
{
    text_t large{pattern(3000000, 1)}, small{"small"}, none{""}, own{"own"};
    std::vector<int> memory(1000, 1);
    int empty_reads = 0;
    veloc::client_t *c = client();
    CHECK(protect(-7, large));
    CHECK(c->mem_protect(0, memory.data(), memory.size(), sizeof(int)));
    CHECK(protect(3, small));
    CHECK(protect(4, none));
    CHECK(protect(3, own, "own"));
    // One that writes not a byte.
    CHECK(c->mem_protect(
        5, [](std::ostream &) {},
        [&](std::istream &in) { return in.peek() == EOF && ++empty_reads > 0; }));
    for (int version = 1; version <= 3; version++) {
        large.text = pattern(3000000 + static_cast<size_t>(version), version);
        small.text = "small " + std::to_string(version);
        memory.assign(1000, version);
        CHECK(c->checkpoint("x", version));
        // What was written stays as it was.
        large.text.assign(100, 'x');
    }
    CHECK(c->checkpoint("own", 1));
    EQUAL(large.writes, 3);
    EQUAL(own.writes, 1);
    own.text = "";
    for (int version = 3; version >= 1; version--) {
        small.text = none.text = "?";
        CHECK(c->restart("x", version));
        CHECK(large.text == pattern(3000000 + static_cast<size_t>(version), version));
        EQUAL(small.text, "small " + std::to_string(version));
        EQUAL(none.text, "");
        EQUAL(memory[999], version);
        EQUAL(empty_reads, 4 - version);
    }
    CHECK(c->restart("own", 1));
    EQUAL(own.text, "own");
    EQUAL(own.reads, 1);

    // Only those that are asked for.
    CHECK(c->checkpoint_begin("some", 1));
    CHECK(c->checkpoint_mem(VELOC_CKPT_SOME, {3}));
    CHECK(c->checkpoint_mem(VELOC_CKPT_REST, {-7, 3, 5}));
    CHECK(c->checkpoint_end(true));
    EQUAL(large.writes, 3);
    CHECK(c->restart_begin("some", 1));
    EQUAL(c->recover_size(3), sizeof(size_t) + std::strlen("small 1"));
    EQUAL(c->recover_size(-7), 0u);
    const int reads = none.reads;
    CHECK(c->recover_mem(VELOC_RECOVER_SOME, {3}));
    EQUAL(none.reads, reads);
    CHECK(c->restart_end(true));

    // The file of an earlier life.
    CHECK(c->checkpoint_wait());
    delete c;
    CHECK(protect(-7, large) && protect(3, small) && protect(4, none));
    CHECK(client()->mem_protect(0, memory.data(), memory.size(), sizeof(int)));
    REFUSED(client()->restart("x", 2), "region 5");
    CHECK(client()->restart_begin("x", 2));
    CHECK(client()->recover_mem(VELOC_RECOVER_REST, {5}));
    CHECK(client()->restart_end(true));
    CHECK(large.text == pattern(3000002, 2));
}

/* Whatever a function does, the call fails with the region's number, and the next one works. */
static void refusals()
{
    veloc::client_t *c = client();
    text_t good{"good"};
    CHECK(protect(1, good));
    using serializer = std::function<void(std::ostream &)>;
    using deserializer = std::function<bool(std::istream &)>;
    const deserializer any = [](std::istream &) { return true; };
    REFUSED(c->mem_protect(2, serializer(), any), "region 2|empty serializer");
    REFUSED(c->mem_protect(2, [](std::ostream &) {}, deserializer()), "empty deserializer");
    REFUSED(c->mem_protect(2, [](std::ostream &) {}, any, "no/name"), "no/name");

    const std::vector<std::pair<serializer, std::string>> bad = {
        {[](std::ostream &) { throw std::runtime_error("out of ideas"); }, "out of ideas"},
        {[](std::ostream &) { throw 7; }, "no std::exception"},
        {[](std::ostream &out) { out.setstate(std::ios::badbit); }, "could not write"},
        // The library waits for the serializer: it cannot serve it.
        {[&](std::ostream &) {
             if (!c->checkpoint_wait())
                 throw std::runtime_error(VELOC_Last_error());
         },
         "a serializer, deserializer, release routine or invariant must not call the library"},
        // What is written behind a failure is lost.
        {[](std::ostream &out) {
             out.seekp(-1);
             out << "lost";
         },
         "could not write"},
    };
    int version = 0;
    for (const auto &one : bad) {
        CHECK(c->mem_protect(2, one.first, any));
        version++;
        REFUSED(c->checkpoint("x", version), "region 2|" + one.second);
        EQUAL(c->restart_test("x", 0), -1);
        CHECK(c->checkpoint_begin("part", version));
        REFUSED(c->checkpoint_mem(VELOC_CKPT_ALL, {}), "region 2");
        // The others are not half in it.
        CHECK(c->checkpoint_mem(VELOC_CKPT_REST, {2}));
        CHECK(c->checkpoint_end(true));
    }

    int answer = 0;
    CHECK(c->mem_protect(
        2, [](std::ostream &out) { out << "two"; },
        [&](std::istream &in) -> bool {
            if (answer == 1)
                throw std::runtime_error("what is this?");
            if (answer == 2)
                throw "a text";
            if (answer == 3)
                return c->restart_end(true);
            char bytes[4];
            if (answer == 4)
                in.read(bytes, sizeof bytes);
            if (answer == 5)
                in.seekg(4);
            return answer > 3;
        }));
    CHECK(c->checkpoint("x", 9));
    const char *const words[] = {"region 2|refused its 3 bytes", "region 2|what is this?",
                                 "region 2|no std::exception", "region 2|refused",
                                 "region 2|read past the end of its 3 bytes",
                                 "region 2|made the stream fail"};
    for (answer = 0; answer < 6; answer++) {
        good.text = "?";
        REFUSED(c->restart("x", 9), words[answer]);
        CHECK(c->restart_begin("x", 9));
        REFUSED(c->recover_mem(VELOC_RECOVER_ALL, {}), "region 2");
        CHECK(c->recover_mem(VELOC_RECOVER_SOME, {1}));
        EQUAL(good.text, "good");
        CHECK(c->restart_end(false));
    }
    CHECK(c->restart("x", 9));
    CHECK(c->checkpoint_wait());
}

/* Deserializers that leave bytes, of regions 1, 2 and 6, and such as have read them all. */
static void leftovers()
{
    veloc::client_t *c = client();
    const auto protect = [&](int id, const std::string &bytes,
                             const std::function<bool(std::istream &)> &read) {
        CHECK(c->mem_protect(
            id, [=](std::ostream &out) { out << bytes; }, read));
    };
    const auto one_number = [](std::istream &in) {
        int number = 0;
        return in >> number && number == 12;
    };
    protect(1, "12 34", one_number);
    protect(2, "12", [](std::istream &) { return true; });
    // The end of a line is no more than that.
    protect(3, "12\n", one_number);
    // All of it, by whatever way, and from its begin again.
    protect(4, "12 34", [](std::istream &in) {
        std::string word, all;
        while (in >> word)
            all += word;
        in.clear();
        in.seekg(0);
        return all == "1234" && in.get() == '1';
    });
    // Its length first, which needs no reading.
    protect(5, "12 34", [](std::istream &in) {
        in.seekg(0, std::ios_base::end);
        std::string all(static_cast<size_t>(in.tellg()), '?');
        in.seekg(0);
        in.read(&all[0], static_cast<std::streamsize>(all.size()));
        return all == "12 34";
    });
    // The length alone is not the bytes.
    protect(6, "12 34", [](std::istream &in) {
        in.seekg(0, std::ios_base::end);
        const auto length = in.tellg();
        in.seekg(0);
        return length == std::istream::pos_type(5);
    });
    for (int version = 1; version <= 3; version++) {
        CHECK(c->checkpoint("x", version));
        CHECK(c->restart("x", version));
    }
}

struct watched {
    static int alive;
    watched() { alive++; }
    watched(const watched &) { alive++; }
    ~watched() { alive--; }
};
int watched::alive = 0;

/* What a function holds goes when it is not needed any more. */
static void lifetimes()
{
    veloc::client_t *c = client();
    const auto protect = [&](int id, const std::string &name) {
        watched held;
        CHECK(c->mem_protect(
            id, [held](std::ostream &) {}, [](std::istream &) { return true; }, name));
    };
    protect(1, "default");
    protect(1, "default");
    protect(2, "default");
    protect(1, "own");
    EQUAL(watched::alive, 3);
    CHECK(c->mem_unprotect(1));
    EQUAL(watched::alive, 2);
    c->mem_clear("own");
    EQUAL(watched::alive, 1);
    CHECK(c->checkpoint("x", 1));
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    EQUAL(watched::alive, 0);
}

/* Observers hear of every checkpoint that exists, from either interface, and of no other. */
static void observers()
{
    int value = 1;
    std::map<std::string, std::vector<int>> seen;
    veloc::client_t *c = client();
    CHECK(c->mem_protect(1, &value, 1, sizeof value));
    const auto watch = [&](const std::string &name, int version) {
        // It exists by now, and the library can be called.
        EQUAL(c->restart_test(name, 0), version);
        seen[name].push_back(version);
        if (version == 4)
            throw std::runtime_error("not version 4");
    };
    REFUSED(c->register_observer(1, watch), "no event 1");
    CHECK(c->register_observer(VELOC_OBSERVE_CKPT_END, watch));
    CHECK(c->checkpoint("x", 1));
    CHECK(c->checkpoint_begin("y", 2));
    CHECK(c->checkpoint_mem(VELOC_CKPT_ALL, {}));
    CHECK(seen.count("y") == 0);
    CHECK(c->checkpoint_end(true));
    CHECK(c->checkpoint_begin("x", 3));
    CHECK(c->checkpoint_mem(VELOC_CKPT_ALL, {}));
    EQUAL(VELOC_Checkpoint_end(VELOC_FAILURE), VELOC_SUCCESS);
    CHECK(!c->checkpoint("x", -1));
    CHECK(!c->checkpoint_end(true));
    // What it throws changes nothing of the checkpoint.
    CHECK(c->checkpoint("x", 4));
    CHECK(std::strstr(VELOC_Last_error(), "not version 4") != nullptr);
    EQUAL(VELOC_Checkpoint("x", 5), VELOC_SUCCESS);
    CHECK((seen["x"] == std::vector<int>{1, 4, 5} && seen["y"] == std::vector<int>{2}));

    int other = 0;
    CHECK(c->register_observer(VELOC_OBSERVE_CKPT_END,
                               [&](const std::string &, int version) { other = version; }));
    CHECK(c->checkpoint("x", 6));
    CHECK(c->register_observer(VELOC_OBSERVE_CKPT_END, nullptr));
    CHECK(c->checkpoint("x", 7));
    EQUAL(other, 6);
    EQUAL(seen["x"].size(), 3u);
    CHECK(c->checkpoint_wait());
}

int main(int, char **argv)
{
    configuration = argv[1];
    const std::string what = argv[2];
    if (what == "round-trips")
        round_trips();
    else if (what == "refusals")
        refusals();
    else if (what == "leftovers")
        leftovers();
    else if (what == "lifetimes")
        lifetimes();
    else if (what == "observers")
        observers();
    else
        CHECK(!"a case");
    VELOC_Finalize(1);
    puts("done");
    return 0;
}
