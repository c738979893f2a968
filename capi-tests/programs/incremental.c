/*
 * Checkpoints that have what was written since the last one (incremental):
 *
 *   incremental <configuration> [from=N] [to=N] [bytes=N] [writes=N] [check=N] [back=1] [calm=1] [kill=1] [storm=1]
 *               [newest=1] [forbid=1] [device=1] [many=1] [limit=1] [turns=N] [pair=1]
 *
 * Six regions change at random from one version to the next: by stores, by system calls, by memory that is discarded,
 * mapped anew, moved, or protected at another place or with another length; one is captured by protection in some
 * versions. What they are at each version follows from its number alone, so that any process can tell.
 *
 *   from, to   restores version FROM (0: none), and takes those after it up to TO
 *   check=N    restores every Nth version that is there, at the end, the last one first, and says how many
 *   back=1     goes back to an older version now and then, and takes those after it again
 *   calm=1     only stores, to few pages
 *   kill=1     kills itself at the end
 *   storm=1    takes versions until it is killed, and says which calls have returned
 *   newest=1   says which version is there, and that all of it is what it was
 *   forbid=1   the system does not tell what was written
 *   device=1   one of the regions is in device memory
 *   many=1     1500 regions of different lengths, instead
 *   limit=1    a version that cannot be written, and one after it, instead
 *   turns=N    takes N version numbers in turn, up to step TO, instead; with check=1 restores what was taken so
 *   pair=1     takes a version of 400,000 bytes as the script program does, and one in which the first has changed,
 *              instead; with check=1 restores both
 */
#define _GNU_SOURCE
#include "cuda.h"
#include "forbid.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGIONS = 6, ON_DEVICE = 5 };

static CUdeviceptr device;

/* What the regions are at a version. */
static unsigned char *model[REGIONS];
static size_t lengths[REGIONS];
/* Where they are. */
static unsigned char *memory[REGIONS];
static unsigned char fixed[70000];
static size_t most, page;
static int writes, calm, pipes[2];

static size_t below(uint64_t *random, size_t limit)
{
    return (size_t)(next_random(random) % limit);
}

static unsigned char *map_as(int kind, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void protect(int id)
{
    void *at = device != 0 && id == ON_DEVICE ? as_pointer(device) : memory[id];
    OK(VELOC_Mem_protect(id, at, lengths[id], 1));
}

/* What a region is now, in host memory. */
static unsigned char *now(int id)
{
    if (device != 0 && id == ON_DEVICE)
        CU(cuMemcpyDtoH_v2(memory[id], device, lengths[id]));
    return memory[id];
}

/* Writes to a region and to its model, or to the model alone. */
static void write_at(int id, size_t at, const unsigned char *bytes, size_t count, int how, int both)
{
    memcpy(model[id] + at, bytes, count);
    if (!both)
        return;
    if (device != 0 && id == ON_DEVICE) {
        CU(cuMemcpyHtoD_v2(device + at, bytes, count));
    } else if (how == 0) {
        memcpy(memory[id] + at, bytes, count);
    } else {
        EQUAL(write(pipes[1], bytes, count), (ssize_t)count);
        EQUAL(read(pipes[0], memory[id] + at, count), (ssize_t)count);
    }
}

static void zero(int id, size_t at, size_t count, int how, int both)
{
    unsigned char *begin = memory[id] + at;
    memset(model[id] + at, 0, count);
    if (!both)
        return;
    if (how == 0) {
        OK(madvise(begin, count, MADV_DONTNEED));
    } else if (how == 1) {
        CHECK(mmap(begin, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == begin);
    } else {
        void *other = map_as(MAP_PRIVATE, count);
        /* The call itself: UCX, which MPICH loads, has a mremap that forgets where to. */
        CHECK((void *)syscall(SYS_mremap, other, count, count, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == begin);
    }
}

/* Moves a region to another place, or gives it another length. */
static void move(int id, size_t length, int both)
{
    unsigned char *to;
    if (length > lengths[id])
        memset(model[id] + lengths[id], 0, length - lengths[id]);
    if (both) {
        to = map_as(id == 3 ? MAP_SHARED : MAP_PRIVATE, most);
        memcpy(to, memory[id], length < lengths[id] ? length : lengths[id]);
        OK(munmap(memory[id], most));
        memory[id] = to;
    }
    lengths[id] = length;
}

/* From one version to the next: the models, and the memory. */
static void step(int version, int both)
{
    uint64_t random = (uint64_t)version * 77;
    int nth, id;
    for (nth = 0; nth < writes; nth++) {
        unsigned char bytes[64];
        size_t at, count = 1 + below(&random, sizeof bytes);
        int what = (int)below(&random, 40);
        id = (int)below(&random, REGIONS);
        at = below(&random, lengths[id] - count);
        fill(bytes, sizeof bytes, id, version * 1000 + nth);
        if (calm || what > 3 || id == 2 || id == ON_DEVICE) {
            write_at(id, at, bytes, count, calm ? 0 : what % 3 == 0, both);
        } else if (what > 0 && id != 3) {
            at = at / page * page;
            if (at + 3 * page <= lengths[id])
                zero(id, at, (1 + below(&random, 3)) * page, what - 1, both);
        } else if (nth % 4 == 0) {
            move(id, nth % 8 == 0 ? lengths[id] : most / 2 + below(&random, most / 2), both);
        }
    }
    /* All of it now and then. */
    if (!calm && version % 7 == 3) {
        fill(model[1], lengths[1], 1, version);
        if (both)
            fill(memory[1], lengths[1], 1, version);
    }
    if (both) {
        for (id = 0; id < REGIONS; id++)
            protect(id);
        if (!calm)
            OK(VELOC_Mem_capture(4, version % 5 == 2 ? VELOC_CAPTURE_PROTECT : VELOC_CAPTURE_AUTO));
    }
}

static void begin(void)
{
    int id;
    for (id = 0; id < REGIONS; id++) {
        lengths[id] = id == 2 ? sizeof fixed : most - (size_t)id * 1000;
        memset(model[id], 0, most);
    }
}

/* The models of a version. */
static void become(int version)
{
    int at;
    begin();
    for (at = 1; at <= version; at++)
        step(at, 0);
}

static void same(int version)
{
    int id;
    for (id = 0; id < REGIONS; id++) {
        if (memcmp(now(id), model[id], lengths[id]) != 0) {
            char detail[96];
            size_t at = 0;
            while (memory[id][at] == model[id][at])
                at++;
            snprintf(detail, sizeof detail, "version %d, region %d: another byte at %zu of %zu", version, id, at,
                     lengths[id]);
            check_failed(__FILE__, __LINE__, "the content", detail);
        }
    }
}

static void restore(int version)
{
    int id;
    become(version);
    for (id = 0; id < REGIONS; id++) {
        protect(id);
        memset(memory[id], 0xee, lengths[id]);
        if (device != 0 && id == ON_DEVICE)
            CU(cuMemcpyHtoD_v2(device, memory[id], lengths[id]));
    }
    /* Before sizes are asked for: it may have to be rebuilt. */
    OK(VELOC_Restart("x", version));
    for (id = 0; id < REGIONS; id++)
        EQUAL(VELOC_Recover_ckpt_size("x", version, id), lengths[id]);
    same(version);
}

/* Memory in whose place there is other memory, of another kind, or none; and two regions that share a page. */
static void odd(void)
{
    const size_t bytes = 100 * page, half = bytes / 2 + 100;
    unsigned char *memory = map_as(MAP_PRIVATE, bytes), *other;
    int version;
    OK(VELOC_Mem_protect(1, memory, half, 1));
    OK(VELOC_Mem_protect(2, memory + half, bytes - half, 1));
    for (version = 1; version < 9; version++) {
        if (version == 3) {
            other = mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            CHECK(other == memory);
        }
        if (version > 3) {
            /* Another process writes, and only there. */
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                fill(memory, bytes, 1, version);
                _exit(0);
            }
            EQUAL(waitpid(child, NULL, 0), child);
        } else {
            fill(memory + half - 100, 200, 1, version);
        }
        OK(VELOC_Checkpoint("odd", version));
        other = get_memory(bytes);
        memcpy(other, memory, bytes);
        memset(memory, 0xee, bytes);
        OK(VELOC_Restart("odd", version));
        EQUAL(memcmp(memory, other, bytes), 0);
        free(other);
    }
    OK(munmap(memory, bytes));
    memory = map_as(MAP_PRIVATE, bytes);
    OK(VELOC_Mem_protect(1, memory, half, 1));
    OK(VELOC_Mem_protect(2, memory + half, bytes - half, 1));
    OK(VELOC_Checkpoint("odd", 9));
    OK(munmap(memory + 20 * page, page));
    REFUSED(VELOC_Checkpoint("odd", 10), "region 1|not mapped any more");
    CHECK(mmap(memory + 20 * page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
          == memory + 20 * page);
    OK(VELOC_Checkpoint("odd", 10));
    OK(VELOC_Restart("odd", 10));
    OK(VELOC_Mem_unprotect(1));
    OK(VELOC_Mem_unprotect(2));
}

static void many(void)
{
    enum { MANY = 1500, VERSIONS = 5 };
    static unsigned char *at[MANY], *were[VERSIONS][MANY];
    static size_t bytes[MANY];
    int version, id;
    for (id = 0; id < MANY; id++) {
        bytes[id] = 65536 + (size_t)(id * 7919 % 1500) * 8;
        at[id] = map_as(MAP_PRIVATE, bytes[id] + page);
        fill(at[id], bytes[id], id, 0);
        OK(VELOC_Mem_protect(id, at[id], bytes[id], 1));
    }
    for (version = 0; version < VERSIONS; version++) {
        for (id = version; id < MANY; id += 3)
            fill(at[id] + (size_t)id * 13 % 50000, 500, id, version);
        OK(VELOC_Checkpoint("many", version));
        for (id = 0; id < MANY; id += 7) {
            were[version][id] = get_memory(bytes[id]);
            memcpy(were[version][id], at[id], bytes[id]);
        }
    }
    for (version = VERSIONS - 1; version >= 0; version--) {
        OK(VELOC_Restart("many", version));
        for (id = 0; id < MANY; id += 7)
            EQUAL(memcmp(at[id], were[version][id], bytes[id]), 0);
    }
    OK(VELOC_Finalize(1));
    puts("done");
}

/* The wait tells of the failure: the next call does not hear of it. */
static void limit(void)
{
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY}, little = {1000, RLIM_INFINITY};
    const size_t bytes = 100 * page;
    unsigned char *memory = map_as(MAP_PRIVATE, bytes);
    int version;
    signal(SIGXFSZ, SIG_IGN);
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    for (version = 1; version < 6; version++) {
        memset(memory + (size_t)version * page, version, page);
        if (version == 4) {
            OK(VELOC_Checkpoint_wait());
            OK(setrlimit(RLIMIT_FSIZE, &little));
        }
        OK(VELOC_Checkpoint("x", version));
        if (version == 4) {
            REFUSED(VELOC_Checkpoint_wait(), "\"x\" version 4|that are deltas of it cannot be restored");
            REFUSED(VELOC_Restart("x", version), "could not be written to a file");
            OK(setrlimit(RLIMIT_FSIZE, &none));
        }
    }
    memset(memory, 0xee, bytes);
    OK(VELOC_Restart("x", 5));
    for (version = 0; version < 100; version++)
        EQUAL(memory[(size_t)version * page], version < 6 ? version : 0);
    /* It may have been tried again by now. */
    OK(VELOC_Finalize(1));
    puts("done");
}

enum { PAGES = 300 };

/* Each step writes some pages; what they are follows from the step, which the first page says. */
static int step_of_page(int at, int step)
{
    while (step > 0 && at % 7 != step % 7)
        step--;
    return step;
}

static void turns(int numbers, int to, int check)
{
    const size_t bytes = PAGES * page;
    unsigned char *memory = map_as(MAP_PRIVATE, bytes);
    int step, number, at;
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    for (step = 1; step <= to && !check; step++) {
        memcpy(memory, &step, sizeof step);
        for (at = 1; at < PAGES; at++)
            if (step_of_page(at, step) == step)
                memset(memory + (size_t)at * page, step, page);
        OK(VELOC_Checkpoint("turns", step % numbers + 1));
    }
    if (!check)
        OK(VELOC_Checkpoint_wait());
    for (number = 1; number <= numbers && check; number++) {
        memset(memory, 0xee, bytes);
        OK(VELOC_Restart("turns", number));
        memcpy(&step, memory, sizeof step);
        EQUAL(step % numbers + 1, number);
        CHECK(step <= to && step > to - numbers);
        for (at = 1; at < PAGES; at++)
            EQUAL(memory[(size_t)at * page + 77], step_of_page(at, step));
    }
    OK(VELOC_Finalize(1));
    puts("done");
}

static void pair(int check)
{
    const size_t bytes = 400000;
    unsigned char *memory = map_as(MAP_PRIVATE, bytes);
    OK(VELOC_Mem_protect(1, memory, bytes, 1));
    if (check) {
        OK(VELOC_Restart("x", 2));
        memory[0]--;
        CONTENT(memory, bytes, 1, 1);
        OK(VELOC_Restart("x", 1));
    } else {
        fill(memory, bytes, 1, 1);
        OK(VELOC_Checkpoint("x", 1));
        memory[0]++;
        OK(VELOC_Checkpoint("x", 2));
        memory[0]--;
    }
    CONTENT(memory, bytes, 1, 1);
    OK(VELOC_Finalize(1));
    puts("done");
}

int main(int argc, char **argv)
{
    int from = (int)number(argc, argv, "from", 0), to = (int)number(argc, argv, "to", 30);
    int check = (int)number(argc, argv, "check", 0), back = (int)number(argc, argv, "back", 0);
    int storm = (int)number(argc, argv, "storm", 0);
    int version, id, found = 0;
    CHECK(argc > 1);
    page = (size_t)sysconf(_SC_PAGESIZE);
    most = (size_t)number(argc, argv, "bytes", 1000000) / page * page;
    writes = (int)number(argc, argv, "writes", 60);
    calm = (int)number(argc, argv, "calm", 0);
    OK(pipe(pipes));
    for (id = 0; id < REGIONS; id++) {
        model[id] = get_memory(most);
        memory[id] = id == 2 ? fixed : map_as(id == 3 ? MAP_SHARED : MAP_PRIVATE, most);
    }
    begin();
    if (number(argc, argv, "device", 0)) {
        cuda_start();
        device = device_memory(most);
        CU(cuMemcpyHtoD_v2(device, model[ON_DEVICE], most));
    }
    if (number(argc, argv, "forbid", 0))
        forbid();
#ifdef CHECK_WITH_MPI
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
#else
    OK(VELOC_Init_single(0, argv[1]));
#endif
    if (number(argc, argv, "turns", 0)) {
        turns((int)number(argc, argv, "turns", 0), to, check);
        return 0;
    }
    if (number(argc, argv, "pair", 0)) {
        pair(check);
        return 0;
    }
    if (number(argc, argv, "newest", 0)) {
        version = VELOC_Restart_test("x", 0);
        printf("newest %d\n", version < 0 ? 0 : version);
        if (version > 0)
            restore(version);
        OK(VELOC_Finalize(0));
        puts("done");
        return 0;
    }
    if (number(argc, argv, "many", 0) || number(argc, argv, "limit", 0)) {
        if (number(argc, argv, "many", 0))
            many();
        else
            limit();
        return 0;
    }
    if (from == 0 && !storm)
        odd();
    if (from > 0)
        restore(from);
    for (version = from + 1; storm || version <= to; version++) {
        step(version, 1);
        same(version);
        if (version % 3 == 0) {
            /* Others between them. */
            OK(VELOC_Checkpoint("y", version));
            OK(VELOC_Checkpoint_begin("x", version));
            OK(VELOC_Checkpoint_mem());
            OK(VELOC_Checkpoint_end(version % 2 ? 1 : VELOC_FAILURE));
            if (version % 2 == 0)
                OK(VELOC_Checkpoint("x", version));
        } else {
            OK(VELOC_Checkpoint("x", version));
        }
        /* What is protected for a capture must not be discarded before it is copied. */
        if (!calm && version % 5 == 2)
            OK(VELOC_Checkpoint_wait());
        if (storm) {
            printf("returned %d\n", version);
            fflush(stdout);
        }
        if (back && version % 11 == 10) {
            restore(version - 3);
            version -= 3;
            back = 0;
        } else if (version % 11 == 0) {
            back = (int)number(argc, argv, "back", 0);
        }
    }
    if (number(argc, argv, "kill", 0)) {
        fflush(stdout);
        raise(SIGKILL);
    }
    for (version = to; check > 0 && version > 0; version -= check) {
        if (VELOC_Restart_test("x", version) == version) {
            restore(version);
            found++;
        }
    }
    if (check > 0)
        printf("found %d\n", found);
    OK(VELOC_Finalize(1));
#ifdef CHECK_WITH_MPI
    MPI_Finalize();
#endif
    puts("done");
    return 0;
}
