/*
 * The prototype's VELOC_Mem_protect with flags and a release routine: release <configuration> host|device
 * [by=worker|caller] [case=fails|unheard|throws]
 *
 * `by`: who brings the bytes of a READ_ONLY region that is alone in its checkpoint. `fails`: the
 * first copy of the driver's fails. `unheard`: the same, and no call but VELOC_Finalize(0) can say so.
 * `throws`: the routines throw.
 */
#include <atomic>
#include <stdexcept>
#include <thread>

#define VELOC_NO_MPI
#include "check.hpp"
#include "memory.hpp"

static std::atomic<int> released_a{0}, released_b{0}, by_worker{0};
static const std::thread::id caller = std::this_thread::get_id();

static int release_a()
{
    by_worker += std::this_thread::get_id() != caller;
    // The library waits for this: it cannot be called.
    CHECK(VELOC_Checkpoint_wait() == VELOC_FAILURE);
    return ++released_a;
}

static int release_b()
{
    CHECK(std::this_thread::get_id() == caller);
    released_b++;
    // Whatever it returns.
    return -1;
}

static void expect(int a, int b)
{
    // At the latest when everything is where it belongs.
    EQUAL(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
    EQUAL(released_a.load(), a);
    EQUAL(released_b.load(), b);
}

/* A loan whose copy fails: it ends all the same, and the checkpoint does not exist. */
static void fails(memory &a, size_t size)
{
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1, READ_ONLY, release_a), VELOC_SUCCESS);
    a.fill(1);
    EQUAL(VELOC_Checkpoint("x", 1), VELOC_SUCCESS);
    REFUSED(VELOC_Checkpoint_wait() == VELOC_SUCCESS, "version 1|host buffer");
    EQUAL(released_a.load(), 1);
    EQUAL(VELOC_Restart_test("x", 0), -1);
    EQUAL(VELOC_Checkpoint("x", 2), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
    EQUAL(released_a.load(), 2);
    a.fill(77);
    EQUAL(VELOC_Restart("x", 2), VELOC_SUCCESS);
    CHECK(a.is(1));
    EQUAL(VELOC_Finalize(1), VELOC_SUCCESS);
    puts("done");
}

/* The same, and the job ends: the checkpoint that was taken is lost. */
static void unheard(memory &a, size_t size)
{
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1, READ_ONLY), VELOC_SUCCESS);
    a.fill(1);
    EQUAL(VELOC_Checkpoint("x", 1), VELOC_SUCCESS);
    while (VELOC_Restart_test("x", 0) != -1) {
    }
    REFUSED(VELOC_Finalize(0) == VELOC_SUCCESS, "version 1|host buffer");
    puts("done");
}

static int throws_an_exception()
{
    throw std::runtime_error("no use for it");
}

static int throws_a_number()
{
    throw 7;
}

/* What a routine throws ends neither the process nor the checkpoint, and is reported once. */
static void throws(memory &a, memory &b, size_t size)
{
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1, READ_ONLY, throws_an_exception), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_protect(2, b.address(), size, 1, DEFAULT, throws_a_number), VELOC_SUCCESS);
    a.fill(1);
    b.fill(2);
    EQUAL(VELOC_Checkpoint("x", 1), VELOC_SUCCESS);
    REFUSED(VELOC_Checkpoint_wait() == VELOC_SUCCESS, "region |its release routine threw|and 1 more");
    EQUAL(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
    a.fill(77);
    b.fill(77);
    EQUAL(VELOC_Restart("x", 1), VELOC_SUCCESS);
    CHECK(a.is(1) && b.is(2));

    // One after the other, and by the call that begins the next checkpoint.
    EQUAL(VELOC_Mem_unprotect(2), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint("x", 2), VELOC_SUCCESS);
    REFUSED(VELOC_Checkpoint_wait() == VELOC_SUCCESS, "region 1|threw: no use for it");
    EQUAL(VELOC_Mem_unprotect(1), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_protect(2, b.address(), size, 1, DEFAULT, throws_a_number), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint("x", 3), VELOC_SUCCESS);
    REFUSED(VELOC_Checkpoint("x", 4) == VELOC_SUCCESS, "region 2|threw what is no std::exception");
    EQUAL(VELOC_Restart_test("x", 0), 3);

    // A checkpoint that is given up, and the end of the job.
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1, READ_ONLY, throws_an_exception), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_unprotect(2), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_begin("x", 5), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_mem(), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_end(VELOC_FAILURE), VELOC_SUCCESS);
    REFUSED(VELOC_Checkpoint_wait() == VELOC_SUCCESS, "region 1|threw: no use for it");
    EQUAL(VELOC_Checkpoint("x", 6), VELOC_SUCCESS);
    REFUSED(VELOC_Finalize(0) == VELOC_SUCCESS, "region 1|threw: no use for it");
    puts("done");
}

int main(int argc, char **argv)
{
    const bool device = std::string(argv[2]) == "device";
    const size_t size = 1000000;
    memory a(device, size), b(device, size), c(device, 1000);
    EQUAL(VELOC_Init_single(0, argv[1]), VELOC_SUCCESS);
    if (option(argc, argv, "case") == "fails") {
        fails(a, size);
        return 0;
    }
    if (option(argc, argv, "case") == "unheard") {
        unheard(a, size);
        return 0;
    }
    if (option(argc, argv, "case") == "throws") {
        throws(a, b, size);
        return 0;
    }
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1, READ_ONLY, release_a), VELOC_SUCCESS);

    // One region that is lent.
    for (int version = 1; version <= 3; version++) {
        a.fill(version);
        EQUAL(VELOC_Checkpoint("x", version), VELOC_SUCCESS);
        while (released_a.load() < version) {
        }
        a.fill(77);
    }
    expect(3, 0);
    EQUAL(by_worker.load(), option(argc, argv, "by") == "worker" ? 3 : 0);
    for (int version = 3; version >= 1; version--) {
        EQUAL(VELOC_Restart("x", version), VELOC_SUCCESS);
        CHECK(a.is(version));
    }

    // Beside one that is not, and one that is copied and released.
    EQUAL(VELOC_Mem_protect(2, b.address(), size, 1, DEFAULT, release_b), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_protect(3, c.address(), 1000, 1), VELOC_SUCCESS);
    a.fill(4);
    b.fill(5);
    c.fill(6);
    EQUAL(VELOC_Checkpoint("mixed", 1), VELOC_SUCCESS);
    // Without the flag it is released by now.
    EQUAL(released_b.load(), 1);
    b.fill(77);
    c.fill(77);
    while (released_a.load() < 4) {
    }
    a.fill(77);
    EQUAL(VELOC_Restart("mixed", 1), VELOC_SUCCESS);
    CHECK(a.is(4) && b.is(5) && c.is(6));
    expect(4, 1);

    // What is read right away, and replaced right away.
    for (int version = 0; version < 20; version++) {
        a.fill(version);
        EQUAL(VELOC_Checkpoint("often", version % 3), VELOC_SUCCESS);
        if (version % 2 == 0) {
            EQUAL(VELOC_Restart("often", version % 3), VELOC_SUCCESS);
            CHECK(a.is(version));
        }
        while (released_a.load() < 5 + version) {
        }
    }
    expect(24, 21);

    // Several calls, and none at all for what is not captured or is given up before.
    EQUAL(VELOC_Checkpoint_begin("x", 9), VELOC_SUCCESS);
    int ids[] = {3};
    EQUAL(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_end(1), VELOC_SUCCESS);
    expect(24, 21);
    EQUAL(VELOC_Checkpoint_begin("x", 10), VELOC_SUCCESS);
    ids[0] = 1;
    EQUAL(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_selective(VELOC_CKPT_REST, ids, 1), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_end(1), VELOC_SUCCESS);
    expect(25, 22);
    EQUAL(VELOC_Checkpoint_begin("x", 11), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_mem(), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint_end(VELOC_FAILURE), VELOC_SUCCESS);
    expect(26, 23);

    // Protected again on other terms.
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1), VELOC_SUCCESS);
    EQUAL(VELOC_Mem_protect(2, b.address(), size, 1, READ_ONLY), VELOC_SUCCESS);
    b.fill(8);
    EQUAL(VELOC_Checkpoint("x", 12), VELOC_SUCCESS);
    expect(26, 23);
    b.fill(77);
    EQUAL(VELOC_Restart("x", 12), VELOC_SUCCESS);
    CHECK(b.is(8));

    // The end of a job is the end of every loan.
    EQUAL(VELOC_Mem_protect(1, a.address(), size, 1, READ_ONLY, release_a), VELOC_SUCCESS);
    EQUAL(VELOC_Checkpoint("x", 13), VELOC_SUCCESS);
    EQUAL(VELOC_Finalize(0), VELOC_SUCCESS);
    EQUAL(released_a.load(), 27);
    puts("done");
    return 0;
}
