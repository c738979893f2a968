/*
 * Calls of programs for VELOC's GPU prototype: prototype <configuration> host|device case=accidents|verified|turned|figures
 *
 * `accidents`: what is no READ_ONLY, in each way to write it: the application changes its memory as soon as
 * VELOC_Checkpoint has returned. `verified`: the same with READ_ONLY, which `verify_captures` has to notice.
 * `turned`: restarts to memory that is lent. `figures`: the line of VELOC_Cleanup with two arguments.
 */
#include <functional>
#include <vector>

#define VELOC_NO_MPI
#include "check.hpp"
#include "memory.hpp"

/* So much that no thread can have copied its end when the call has returned. */
static const size_t size = 4 << 20;

enum other { first, second };

static int released = 0;

static int release()
{
    return released++;
}

/* Takes a checkpoint, and changes the memory, its end first. */
static void take_and_change(memory &a, int version, const std::string &name = "x")
{
    a.fill(version);
    EQUAL(VELOC_Checkpoint(name.c_str(), version), VELOC_SUCCESS);
    a.spoil_end();
    a.fill(77);
}

/* `should_compress` is lossless, and `false` takes it back. */
static void permitted()
{
    std::vector<float> field(1 << 16);
    const auto compressed = [&](int version) {
        VELOC_Metrics before, after;
        EQUAL(VELOC_Get_metrics(&before, sizeof before), VELOC_SUCCESS);
        EQUAL(VELOC_Checkpoint("field", version), VELOC_SUCCESS);
        EQUAL(VELOC_Get_metrics(&after, sizeof after), VELOC_SUCCESS);
        return after.compress.bytes - before.compress.bytes;
    };
    const std::size_t n = field.size(), all = n * sizeof(float);
    for (std::size_t i = n / 2; i < n; i++)
        field[i] = static_cast<float>(i) * 0.37f;
    const std::vector<float> was = field;
    EQUAL(VELOC_Mem_protect(7, field.data(), n, sizeof(float), true), VELOC_SUCCESS);
    EQUAL(compressed(1), all);
    EQUAL(VELOC_Mem_protect(7, field.data(), n, sizeof(float), false), VELOC_SUCCESS);
    EQUAL(compressed(2), 0);
    EQUAL(VELOC_Mem_protect(7, field.data(), n, sizeof(float), true, DEFAULT), VELOC_SUCCESS);
    EQUAL(compressed(3), all);
    EQUAL(VELOC_Mem_protect(7, field.data(), n, sizeof(float), false, DEFAULT, release), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_compress(7, VELOC_COMPRESS_LOSSLESS, 0), VELOC_SUCCESS);
    EQUAL(compressed(4), all);
    for (int version = 4; version >= 1; version--) {
        field.assign(n, -1);
        EQUAL(VELOC_Restart("field", version), VELOC_SUCCESS);
        CHECK(field == was);
    }
    EQUAL(VELOC_Mem_unprotect(7), VELOC_SUCCESS);
    released = 0;
}

static void accidents(memory &a)
{
    permitted();
    void *const p = a.address();
    int n = 1;
    const unsigned flags = 1;
    const bool should_compress = true;
    const std::function<int()> ways[] = {
        [&] { return VELOC_Mem_protect(1, p, size, 1); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, DEFAULT); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, should_compress); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, 1); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, 1.0f); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, n > 0); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, second); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, VELOC_CAPTURE_COPY); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, static_cast<char>(257)); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, flags); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, should_compress, DEFAULT); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, should_compress, flags); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, should_compress, true, release); },
        [&] { return VELOC_Mem_protect(1, p, size, 1, flags, release); },
        [&] { return VELOC_Mem_protect_flags(1, p, size, 1, 1, release); },
        [&] { return VELOC_Mem_protect_flags(1, p, size, 1, n > 0, nullptr); },
        [&] { return VELOC_Mem_protect_flags(1, p, size, 1, VELOC_CAPTURE_COPY, nullptr); },
        [&] { return VELOC_Mem_protect_flags(1, p, size, 1, static_cast<char>(257), nullptr); },
        [&] { return VELOC_Mem_protect_guarded(1, p, size, 1, second, nullptr, nullptr); },
    };
    int version = 0;
    for (const auto &protect : ways) {
        EQUAL(protect(), VELOC_SUCCESS);
        take_and_change(a, ++version);
        EQUAL(VELOC_Restart("x", version), VELOC_SUCCESS);
        if (!a.is(version))
            check_failed(__FILE__, __LINE__, "way " + std::to_string(version) + " is deferred");
    }
    EQUAL(released, 3);
    // A mode is no flag, and a flag no mode.
    REFUSED(VELOC_Mem_capture(1, VELOC_READ_ONLY) == VELOC_SUCCESS, "region 1|the mode is");
}

static void verified(memory &a)
{
    // Who keeps the promise is not told anything.
    EQUAL(VELOC_Mem_protect(3, a.address(), size, 1, READ_ONLY), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_protect(4, nullptr, 0, 1, READ_ONLY), VELOC_SUCCESS);
    // Where this thread had to wait for a processor, all may have been copied before it changed anything.
    for (int attempt = 0;; attempt++) {
        const std::string name = "x" + std::to_string(attempt);
        a.fill(1);
        EQUAL(VELOC_Checkpoint(name.c_str(), 1), VELOC_SUCCESS);
        EQUAL(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
        take_and_change(a, 2, name);
        const int waited = VELOC_Checkpoint_wait();
        if (waited == VELOC_SUCCESS) {
            CHECK(attempt < 100);
            EQUAL(VELOC_Cleanup(name.c_str()), VELOC_SUCCESS);
            continue;
        }
        REFUSED(waited == VELOC_SUCCESS, "\"" + name + "\" version 2|region 3|has changed");
        EQUAL(VELOC_Restart_test(name.c_str(), 0), 1);
        EQUAL(VELOC_Restart(name.c_str(), 1), VELOC_SUCCESS);
        CHECK(a.is(1));
        break;
    }
    // Nor is a program that may change it.
    EQUAL(VELOC_Mem_protect(3, a.address(), size, 1), VELOC_SUCCESS);
    take_and_change(a, 3);
    EQUAL(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
    EQUAL(VELOC_Restart("x", 3), VELOC_SUCCESS);
    CHECK(a.is(3));
}

/* A restart writes to memory whose capture is deferred: an adjoint that begins two steps back. */
static void turned(memory &a)
{
    EQUAL(VELOC_Mem_protect(3, a.address(), size, 1, READ_ONLY), VELOC_SUCCESS);
    for (int version = 0; version < 8; version++) {
        // A restart, too, waits until the memory is its own again.
        if (version > 1) {
            EQUAL(VELOC_Restart("x", version - 2), VELOC_SUCCESS);
            CHECK(a.is(version - 2));
        } else {
            EQUAL(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
        }
        a.fill(version);
        EQUAL(VELOC_Checkpoint("x", version), VELOC_SUCCESS);
    }
    EQUAL(VELOC_Restart("x", 6), VELOC_SUCCESS);
    EQUAL(VELOC_Restart("x", 5), VELOC_SUCCESS);
    for (int version = 7; version >= 0; version--) {
        EQUAL(VELOC_Restart("x", version), VELOC_SUCCESS);
        CHECK(a.is(version));
    }
}

static void figures(memory &a)
{
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1, true), VELOC_SUCCESS);
    for (int version = 0; version < 3; version++) {
        EQUAL(VELOC_Prefetch_enqueue("x", 2 - version, 0), VELOC_SUCCESS);
        EQUAL(VELOC_Checkpoint("x", version), VELOC_SUCCESS);
    }
    EQUAL(VELOC_Restart("x", 2), VELOC_SUCCESS);
    EQUAL(VELOC_Cleanup("x", false), VELOC_SUCCESS);
    EQUAL(VELOC_Restart_test("x", 0), -1);
    EQUAL(VELOC_Cleanup("x", true), VELOC_SUCCESS);
}

int main(int argc, char **argv)
{
    memory a(std::string(argv[2]) == "device", size);
    EQUAL(VELOC_Init_single(0, argv[1]), VELOC_SUCCESS);
    const std::string which = option(argc, argv, "case");
    if (which == "turned")
        turned(a);
    else
        (which == "accidents" ? accidents : which == "verified" ? verified : figures)(a);
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    puts("done");
    return 0;
}
