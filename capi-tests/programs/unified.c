/*
 * Managed memory is captured and restored where its pages are: none moves, and every byte is right.
 *
 *     unified CONFIGURATION CASE [bytes=16777216]
 *
 *   where     a region on the host, on the device, and half on each
 *   shared    one that both only read
 *   beyond    a region larger than the device, of which half was pushed out to the host (software device alone)
 *   fresh     a version of a job that has ended: to the device, or to the host where so advised
 *   full      the same, on a device without room
 *   forked    a forked child cannot read it, and a checkpoint beside that is right
 */
#include "cuda.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_MOSTLY = 1, PREFER = 3, HOST = -1 };

static size_t bytes;

/* How many bytes of it are in this process's page table, which are those on the host. */
static size_t on_host(CUdeviceptr at, size_t len)
{
    size_t count = (len + 4095) / 4096, number, found = 0;
    uint64_t *entries = get_memory(count * sizeof *entries);
    int map = open("/proc/self/pagemap", O_RDONLY);
    CHECK(map >= 0);
    CHECK(pread(map, entries, count * sizeof *entries, (off_t)(at / 4096 * sizeof *entries))
          == (ssize_t)(count * sizeof *entries));
    for (number = 0; number < count; number++)
        found += (size_t)(entries[number] >> 63) * 4096;
    close(map);
    free(entries);
    return found < len ? found : len;
}

/* The bytes that have moved, as the software device counts them. */
static uint64_t moved(void)
{
    uint64_t to_device = 0, to_host = 0;
    if (softcuda.migrated != NULL)
        softcuda.migrated(&to_device, &to_host);
    return to_device + to_host;
}

static void place(CUdeviceptr at, size_t len, CUdevice where)
{
    if (len > 0)
        CU(cuMemPrefetchAsync(at, len, where, NULL));
    CU(cuCtxSynchronize());
}

/* Overwrites it from the side that has it. */
static void scramble(CUdeviceptr at, size_t host)
{
    memset(as_pointer(at), 0xdd, host);
    if (host < bytes)
        clear_device(at + host, bytes - host);
}

/* Has the first `host` bytes on the host, the rest on the device, takes a version and restores it. */
static void there_and_back(CUdeviceptr at, size_t host, int version)
{
    uint64_t before;
    fill(as_pointer(at), bytes, 1, version);
    place(at, host, HOST);
    place(at + host, bytes - host, 0);
    EQUAL(on_host(at, bytes), host);
    before = moved();
    OK(VELOC_Checkpoint("unified", version));
    EQUAL(on_host(at, bytes), host);
    scramble(at, host);
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Restart("unified", version));
    EQUAL(on_host(at, bytes), host);
    EQUAL(moved(), before);
    CONTENT(as_pointer(at), bytes, 1, version);
}

static void where(CUdeviceptr at)
{
    const size_t half = bytes / 2 / (2 << 20) * (2 << 20);
    const size_t hosts[] = {0, bytes, half, 0, bytes};
    int version;
    for (version = 0; version < 5; version++)
        there_and_back(at, hosts[version], version);
    for (version = 0; version < 5; version++) {
        memset(as_pointer(at), 0xdd, bytes);
        OK(VELOC_Restart("unified", version));
        CONTENT(as_pointer(at), bytes, 1, version);
    }
}

static void shared(CUdeviceptr at)
{
    fill(as_pointer(at), bytes, 1, 1);
    CU(cuMemAdvise(at, bytes, READ_MOSTLY, 0));
    OK(VELOC_Checkpoint("unified", 1));
    EQUAL(on_host(at, bytes), bytes);
    memset(as_pointer(at), 0xdd, bytes);
    OK(VELOC_Restart("unified", 1));
    CONTENT(as_pointer(at), bytes, 1, 1);
}

static void beyond(CUdeviceptr at)
{
    uint64_t to_device[2], to_host[2];
    int version, call;
    for (version = 0; version < 3; version++) {
        fill_device(at, bytes, 1, version);
        CHECK(on_host(at, bytes) > 0 && on_host(at, bytes) < bytes);
        for (call = 0; call < 2; call++) {
            softcuda.migrated(&to_device[0], &to_host[0]);
            if (call == 0)
                OK(VELOC_Checkpoint("unified", version));
            else
                OK(VELOC_Restart("unified", version));
            softcuda.migrated(&to_device[1], &to_host[1]);
            CHECK(to_device[1] - to_device[0] <= bytes && to_host[1] - to_host[0] <= bytes);
            if (call == 0) {
                /* The capture leaves all where it is. */
                EQUAL(to_device[1] - to_device[0] + to_host[1] - to_host[0], 0);
                clear_device(at, bytes);
            }
        }
        CONTENT(as_pointer(at), bytes, 1, version);
    }
}

static void fresh(CUdeviceptr at, int full)
{
    int version = VELOC_Restart_test("unified", 0);
    if (version < 0) {
        fill(as_pointer(at), bytes, 1, 1);
        OK(VELOC_Checkpoint("unified", 1));
        OK(VELOC_Checkpoint_wait());
        return;
    }
    OK(VELOC_Restart("unified", version));
    EQUAL(on_host(at, bytes), full ? bytes : 0);
    CONTENT(as_pointer(at), bytes, 1, version);
    if (!full) {
        CUdeviceptr other = managed_memory(bytes);
        CU(cuMemAdvise(other, bytes, PREFER, HOST));
        OK(VELOC_Mem_protect(1, as_pointer(other), bytes, 1));
        OK(VELOC_Restart("unified", version));
        EQUAL(on_host(other, bytes), bytes);
        CONTENT(as_pointer(other), bytes, 1, version);
    }
}

static void forked(CUdeviceptr at)
{
    const struct rlimit none = {0, 0};
    int status;
    pid_t child;
    fill(as_pointer(at), bytes, 1, 1);
    OK(VELOC_Checkpoint("unified", 1));
    child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(*(volatile unsigned char *)as_pointer(at) & 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CONTENT(as_pointer(at), bytes, 1, 1);
    memset(as_pointer(at), 0xdd, bytes);
    OK(VELOC_Restart("unified", 1));
    CONTENT(as_pointer(at), bytes, 1, 1);
}

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[2] : "";
    CUcontext context;
    CUdeviceptr at;
    bytes = (size_t)number(argc, argv, "bytes", 16 << 20);
    context = cuda_start();
    at = managed_memory(bytes);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, as_pointer(at), bytes, 1));
    REFUSED(VELOC_Mem_capture(1, VELOC_CAPTURE_FORK), "region 1|managed memory");
    if (strcmp(name, "where") == 0)
        where(at);
    else if (strcmp(name, "shared") == 0)
        shared(at);
    else if (strcmp(name, "beyond") == 0)
        beyond(at);
    else if (strcmp(name, "fresh") == 0 || strcmp(name, "full") == 0)
        fresh(at, strcmp(name, "full") == 0);
    else if (strcmp(name, "forked") == 0)
        forked(at);
    else
        CHECK(!"a case");
    OK(VELOC_Finalize(1));
    check_no_misuse();
    CU(cuCtxDestroy_v2(context));
    printf("done\n");
    return 0;
}
