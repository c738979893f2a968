/*
 * Regions that checkpoints take with fewer bits, within a bound or without loss (VELOC_Mem_compress):
 *
 *   bounded <configuration> [versions=N] [values=N] [take=0] [restore=0] [kill=1] [parts=1] [refuse=1] [device=1]
 *           [stream=1] [managed=1] [room=N] [fail=1] [list=1] [lent=1] [lossless=WAY]
 *
 * Five regions: a wave in floats with an absolute bound, one in doubles with a relative one, noise of all bit patterns,
 * which no bits but all can hold, a few values with infinities and NaN among them, and one that is not compressed. What
 * they are at each version follows from its number, so that any process can tell.
 *
 *   take=0     takes nothing: restores what another process has taken
 *   restore=0  restores nothing
 *   kill=1     kills itself at the end
 *   parts=1    takes and restores the regions in several calls
 *   list=1     restores the regions by VELOC_Restart_list, to where they are
 *   lent=1     the floats are read-only memory with a release routine
 *   refuse=1   what cannot be, instead
 *   device=1   the regions are in device memory, but the last one; that with special values is not aligned to 8 bytes
 *   stream=1   a stream is handed over, which has work before and after each checkpoint
 *   managed=1  the doubles are in managed memory
 *   fail=1     calls of the driver that compress and decompress fail, one by one, instead
 *   lossless=WAY  without loss, because it is asked for (1), permitted (2), or permitted where it is not done (3)
 *   back=1     takes back that it is compressed, or may be, after the versions
 *   room=N     calls of cuMemAlloc_v2 from the Nth on fail, counted from the first one after the regions' own
 */
#include "cuda.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

enum { FLOATS, DOUBLES, NOISE, SPECIAL, PLAIN, REGIONS };

static size_t values;
static float *floats, *noise, *special;
static double *doubles;
static unsigned char *plain;
static CUdeviceptr on_device[PLAIN], ahead[PLAIN];
static CUstream stream;
static int released, lossless;
static const double BOUND = 1e-3, PART = 0.02;

/* A wave that has come as far as the version says; ahead of it there is nothing. */
static double wave(int version, size_t i)
{
    double front = (double)values * (version % 7 + 1) / 8;
    return (double)i > front ? 0 : sin((double)i * 0.01 + version) * exp(-(front - (double)i) / (double)values * 5);
}

static size_t bytes_of(int id)
{
    return values * (id == DOUBLES ? 8 : 4);
}

static void *on_host(int id)
{
    void *const all[PLAIN] = {floats, doubles, noise, special};
    return all[id];
}

/* Queues that the regions on the device become those on the host. */
static void push(void)
{
    int id;
    for (id = 0; id < PLAIN && on_device[0] != 0; id++) {
        CU(cuStreamSynchronize(stream));
        CU(cuMemcpyHtoD_v2(ahead[id], on_host(id), bytes_of(id)));
        CU(cuMemcpyDtoDAsync_v2(on_device[id], ahead[id], bytes_of(id), stream));
    }
}

/* Queues that the regions on the device are something else. */
static void spoil(void)
{
    int id;
    for (id = 0; id < PLAIN && on_device[0] != 0; id++)
        CU(cuMemsetD32Async(on_device[id], 0xdddddddd, bytes_of(id) / 4, stream));
}

static void pull(void)
{
    int id;
    for (id = 0; id < PLAIN && on_device[0] != 0; id++) {
        CU(cuStreamSynchronize(stream));
        CU(cuMemcpyDtoH_v2(on_host(id), on_device[id], bytes_of(id)));
    }
}

/* All regions as they are at this version. */
static void set(int version)
{
    uint64_t random = (uint64_t)version;
    size_t i;
    for (i = 0; i < values; i++) {
        uint32_t bits = (uint32_t)(next_random(&random) >> 32);
        floats[i] = (float)wave(version, i) * 0.05f;
        doubles[i] = wave(version, i) * 1e200;
        memcpy(&noise[i], &bits, sizeof bits);
        special[i] = floats[i];
    }
    special[values / 3] = INFINITY;
    special[values / 2] = -NAN;
    fill(plain, 100000, PLAIN, version);
}

static void set_all(int version)
{
    set(version);
    push();
}

static int same(float one, float other)
{
    return memcmp(&one, &other, sizeof one) == 0;
}

/* Checks that the regions are what they were at this version, within their bounds. */
static void check_all(int version)
{
    float *was[3] = {get_memory(values * 4), get_memory(values * 4), get_memory(values * 4)};
    double *doubles_were = get_memory(values * 8), largest = 0;
    size_t i, differ = 0;
    float *are[3] = {floats, noise, special};
    pull();
    for (i = 0; i < 3; i++)
        memcpy(was[i], are[i], values * 4);
    memcpy(doubles_were, doubles, values * 8);
    CONTENT(plain, 100000, PLAIN, version);
    set(version);
    for (i = 0; i < values; i++)
        largest = fabs(doubles[i]) > largest ? fabs(doubles[i]) : largest;
    for (i = 0; i < values; i++) {
        CHECK(fabs((double)was[0][i] - (double)floats[i]) <= BOUND);
        CHECK(same(was[1][i], noise[i]));
        CHECK(!lossless || (same(was[0][i], floats[i]) && same(was[2][i], special[i])));
        CHECK(!lossless || memcmp(&doubles_were[i], &doubles[i], sizeof *doubles) == 0);
        CHECK(same(was[2][i], special[i]) || fabs((double)was[2][i] - (double)special[i]) <= BOUND);
        CHECK(fabs(doubles_were[i] - doubles[i]) <= PART * largest);
        differ += !same(was[0][i], floats[i]);
    }
    /* It was compressed. */
    CHECK(lossless ? differ == 0 : differ > values / 100);
    for (i = 0; i < 3; i++)
        free(was[i]);
    free(doubles_were);
}

static void get_all(void)
{
    floats = get_memory(values * 4);
    noise = get_memory(values * 4);
    special = get_memory(values * 4);
    doubles = get_memory(values * 8);
    plain = get_memory(100000);
}

/* Where a region is. */
static void *place(int id)
{
    return on_device[0] != 0 ? as_pointer(on_device[id]) : on_host(id);
}

/* Puts the regions on the device. */
static void use_device(int argc, char **argv)
{
    const int managed = number(argc, argv, "managed", 0) != 0, with_stream = number(argc, argv, "stream", 0) != 0;
    int id;
    (void)cuda_start();
    for (id = 0; id < PLAIN; id++) {
        ahead[id] = device_memory(bytes_of(id));
        on_device[id] = managed && id == DOUBLES ? managed_memory(bytes_of(id)) : device_memory(bytes_of(id) + 4);
    }
    on_device[SPECIAL] += 4;
    if (with_stream)
        CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
}

static int release(void)
{
    return released++;
}

static void let_fail(const char *calls)
{
    softcuda.reset_counts();
    CHECK(softcuda.inject(calls) == 0);
}

static void leave_no_room(int from)
{
    char calls[64];
    snprintf(calls, sizeof calls, "cuMemAlloc_v2:%d+=2", from);
    if (from > 0)
        let_fail(calls);
}

static void protect(void)
{
    OK(VELOC_Mem_protect(FLOATS, place(FLOATS), values, sizeof *floats));
    OK(VELOC_Mem_protect(DOUBLES, place(DOUBLES), values, sizeof *doubles));
    OK(VELOC_Mem_protect(NOISE, place(NOISE), values, sizeof *noise));
    OK(VELOC_Mem_protect(SPECIAL, place(SPECIAL), values, sizeof *special));
    OK(VELOC_Mem_protect(PLAIN, plain, 100000, 1));
}

static void lend(void)
{
    OK(VELOC_Mem_protect_flags(FLOATS, place(FLOATS), values, sizeof *floats, VELOC_READ_ONLY, release));
}

static void restore_list(int version)
{
    const struct VELOC_Region all[] = {
        {FLOATS, place(FLOATS), values, 4}, {DOUBLES, place(DOUBLES), values, 8}, {NOISE, place(NOISE), values, 4},
        {SPECIAL, place(SPECIAL), values, 4}, {PLAIN, plain, 100000, 1},
    };
    OK(VELOC_Restart_list("wave", version, all, REGIONS, 1));
}

static void refuse(void)
{
    REFUSED(VELOC_Mem_compress(77, VELOC_COMPRESS_8, 1), "region 77|VELOC_Adjoint_compress");
    REFUSED(VELOC_Mem_compress(PLAIN, VELOC_COMPRESS_8, 1), "region 4|elements of 1 bytes|floats (4) and doubles (8)");
    REFUSED(VELOC_Mem_compress(FLOATS, 9, 1), "region 0|mode is 9|_12 (12)");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_RELATIVE, 1), "region 0|mode is 256");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, 0), "region 0|bound");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, -1), "region 0|bound|-1");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, NAN), "region 0|bound|NaN");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, INFINITY), "region 0|bound|inf");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8 | VELOC_COMPRESS_RELATIVE, 1e-4), "region 0|bound|below one bit");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_LOSSLESS, 1e-3), "region 0|bound is 0.001|LOSSLESS it must be 0");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_LOSSLESS | VELOC_COMPRESS_RELATIVE, 0), "region 0|mode is 320");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, -1e-300), "region 0|bound -1e-300 ");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8 | VELOC_COMPRESS_RELATIVE, 1), "region 0|bound 1.0 is not below 1");
    REFUSED(VELOC_Mem_compress(PLAIN, VELOC_COMPRESS_LOSSLESS, 0), "region 4|elements of 1 bytes");
    REFUSED(VELOC_Mem_may_compress(77, 1), "region 77");
    OK(VELOC_Mem_may_compress(PLAIN, 1));
    OK(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_LOSSLESS, 0));
    OK(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_NONE, 0));
}

/* Catches a name's own region that is not compressed, or that the regions of all names are set for. */
static void of_a_name(void)
{
    struct VELOC_Metrics before, after;
    size_t i;
    OK(VELOC_Region_protect(FLOATS, floats, values, sizeof *floats, "own"));
    REFUSED(VELOC_Region_compress(77, VELOC_COMPRESS_8, BOUND, "own"), "region 77");
    REFUSED(VELOC_Region_compress(FLOATS, 9, BOUND, "own"), "region 0|mode is 9");
    REFUSED(VELOC_Region_compress(FLOATS, VELOC_COMPRESS_8, BOUND, "a/b"), "a/b");
    REFUSED(VELOC_Region_compress(FLOATS, VELOC_COMPRESS_8, BOUND, NULL), "name");
    OK(VELOC_Region_compress(FLOATS, VELOC_COMPRESS_16, BOUND, "own"));
    for (i = 0; i < values; i++)
        floats[i] = (float)wave(1, i);
    OK(VELOC_Get_metrics(&before, sizeof before));
    OK(VELOC_Checkpoint("own", 0));
    OK(VELOC_Get_metrics(&after, sizeof after));
    EQUAL(after.compress.count - before.compress.count, 1);
    memset(floats, 0, values * sizeof *floats);
    OK(VELOC_Restart("own", 0));
    for (i = 0; i < values; i++)
        CHECK(fabs(floats[i] - wave(1, i)) <= BOUND);
    OK(VELOC_Checkpoint("wave", 0));
    OK(VELOC_Get_metrics(&before, sizeof before));
    EQUAL(before.compress.count, after.compress.count);
}

/* Checks that the metrics count what was compressed without loss, or that there is none. */
static void check_metrics(int versions)
{
    struct VELOC_Metrics metrics;
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    EQUAL(metrics.compress.count, lossless == 3 ? 0 : 3 * versions);
    EQUAL(metrics.uncompressed, lossless == 3 ? 0 : versions);
    EQUAL(metrics.compressed_whole, 0);
    CHECK(lossless == 3 || metrics.compressed_bytes <= metrics.compress.bytes / 8 * 7);
}

/* A region with zeros, by VELOC_Mem_compress, by a permission, and when either is taken back. */
static void take_back(void)
{
    const int ends = lossless == 1;
    size_t i;
    struct VELOC_Metrics before, after;
    for (i = 0; i < 3; i++) {
        if (i == 1)
            OK(ends ? VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_NONE, 0) : VELOC_Mem_may_compress(FLOATS, 0));
        if (i == 2)
            OK(VELOC_Mem_may_compress(FLOATS, 1));
        OK(VELOC_Get_metrics(&before, sizeof before));
        OK(VELOC_Mem_protect(FLOATS, place(FLOATS), values, sizeof *floats));
        OK(VELOC_Checkpoint("back", (int)i));
        OK(VELOC_Get_metrics(&after, sizeof after));
        EQUAL(after.compress.bytes - before.compress.bytes, i == 1 ? values * 12 : values * 16);
    }
}

/* Checks how many bytes of this region are compressed with elements of another size. */
static void with_elements(size_t size, uint64_t compressed)
{
    static int version;
    struct VELOC_Metrics before, after;
    OK(VELOC_Get_metrics(&before, sizeof before));
    OK(VELOC_Mem_protect(FLOATS, place(FLOATS), values * 4 / size, size));
    OK(VELOC_Checkpoint("elements", version++));
    OK(VELOC_Get_metrics(&after, sizeof after));
    EQUAL(after.compress.bytes - before.compress.bytes, compressed);
}

static void change_elements(void)
{
    int id;
    for (id = FLOATS + 1; id < REGIONS; id++)
        OK(VELOC_Mem_unprotect(id));
    set_all(1);
    OK(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, 1e300));
    with_elements(4, values * 4);
    with_elements(8, values * 4 / 8 * 8);
    with_elements(1, 0);
    with_elements(4, values * 4);
    OK(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_NONE, 0));
    with_elements(4, 0);
}

static void compress(void)
{
    int id;
    for (id = 0; id < PLAIN && lossless == 1; id++)
        OK(VELOC_Mem_compress(id, VELOC_COMPRESS_LOSSLESS, 0));
    for (id = 0; id < REGIONS && lossless > 1; id++)
        OK(VELOC_Mem_may_compress(id, 1));
    if (lossless)
        return;
    OK(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, BOUND));
    OK(VELOC_Mem_compress(DOUBLES, VELOC_COMPRESS_12 | VELOC_COMPRESS_RELATIVE, PART));
    OK(VELOC_Mem_compress(NOISE, VELOC_COMPRESS_16, 1e-30));
    OK(VELOC_Mem_compress(SPECIAL, VELOC_COMPRESS_16, BOUND));
}

/* Takes a version in three calls. */
static void take_parts(int version)
{
    int some[] = {DOUBLES, PLAIN}, none[] = {SPECIAL};
    OK(VELOC_Checkpoint_begin("wave", version));
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, some, 2));
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, none, 1));
    some[0] = FLOATS;
    some[1] = NOISE;
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, some, 2));
    OK(VELOC_Checkpoint_end(1));
}

static void restore_parts(int version)
{
    int some[] = {NOISE, PLAIN};
    OK(VELOC_Restart_begin("wave", version));
    EQUAL(VELOC_Recover_size(FLOATS), values * 4);
    EQUAL(VELOC_Recover_size(DOUBLES), values * 8);
    EQUAL(VELOC_Recover_size(PLAIN), 100000);
    OK(VELOC_Recover_selective(VELOC_RECOVER_SOME, some, 2));
    OK(VELOC_Recover_selective(VELOC_RECOVER_REST, some, 2));
    OK(VELOC_Restart_end(1));
}

/* What fails is told, and goes the next time. */
static void fail_each(void)
{
    let_fail("cuModuleLoadData:1=999");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, BOUND), "region 0|cuModuleLoadData");
    let_fail("cuModuleGetFunction:3=999");
    REFUSED(VELOC_Mem_compress(FLOATS, VELOC_COMPRESS_8, BOUND), "region 0|cuModuleGetFunction");
    let_fail("");
    compress();
    set_all(1);
    let_fail("cuLaunchKernel:2=999");
    REFUSED(VELOC_Checkpoint("wave", 1), "region 0|cuLaunchKernel");
    let_fail("cuMemcpyDtoHAsync_v2:1=999");
    REFUSED(VELOC_Checkpoint("wave", 1), "region 0|cuMemcpyDtoHAsync_v2");
    let_fail("");
    OK(VELOC_Checkpoint("wave", 1));
    spoil();
    let_fail("cuLaunchKernel:1=999");
    REFUSED(VELOC_Restart("wave", 1), "region 0|cuLaunchKernel");
    let_fail("");
    OK(VELOC_Restart("wave", 1));
    check_all(1);
}

int main(int argc, char **argv)
{
    const int versions = (int)number(argc, argv, "versions", 5), parts = number(argc, argv, "parts", 0) != 0;
    int version;
    values = (size_t)number(argc, argv, "values", 70013);
    lossless = (int)number(argc, argv, "lossless", 0);
    get_all();
    if (number(argc, argv, "device", 0))
        use_device(argc, argv);
    OK(VELOC_Init_single(0, argv[1]));
    protect();
    if (number(argc, argv, "lent", 0))
        lend();
    if (stream != NULL)
        OK(VELOC_Set_stream(stream));
    leave_no_room((int)number(argc, argv, "room", 0));
    if (number(argc, argv, "refuse", 0)) {
        refuse();
        of_a_name();
        OK(VELOC_Finalize(0));
        puts("done");
        return 0;
    }
    if (number(argc, argv, "fail", 0) || number(argc, argv, "elements", 0)) {
        if (number(argc, argv, "fail", 0))
            fail_each();
        else
            change_elements();
        OK(VELOC_Finalize(1));
        if (on_device[0] != 0)
            check_no_misuse();
        puts("done");
        return 0;
    }
    if (number(argc, argv, "take", 1)) {
        compress();
        for (version = 1; version <= versions; version++) {
            set_all(version);
            if (parts)
                take_parts(version);
            else
                OK(VELOC_Checkpoint("wave", version));
            spoil();
        }
    }
    if (lossless && number(argc, argv, "take", 1))
        check_metrics(versions);
    if (lossless && number(argc, argv, "back", 0))
        take_back();
    if (number(argc, argv, "restore", 1)) {
        for (version = versions; version >= 1; version--) {
            set_all(version + 1);
            if (parts)
                restore_parts(version);
            else if (number(argc, argv, "list", 0))
                restore_list(version);
            else
                OK(VELOC_Restart("wave", version));
            check_all(version);
        }
    }
    if (number(argc, argv, "kill", 0))
        kill(getpid(), SIGKILL);
    OK(VELOC_Finalize(1));
    if (number(argc, argv, "lent", 0) && number(argc, argv, "take", 1))
        EQUAL(released, versions);
    if (on_device[0] != 0)
        check_no_misuse();
    puts("done");
    return 0;
}
