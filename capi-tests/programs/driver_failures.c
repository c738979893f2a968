/*
 * A representative job in which one call of the driver fails: driver_failures <configuration> [fail=...] [ordered=0]
 *                                                                                     [compressed=0]
 *
 * `fail` is what softcuda_inject takes, and counts calls from just before VELOC_Init_single. Every
 * call of the library must succeed or return -1 with a text. Whatever it says to have done must be
 * true: a restore that succeeded has brought the right bytes; a checkpoint that was taken can be
 * restored once the failure is over, unless the context is lost; one whose VELOC_Checkpoint_wait
 * succeeded can be restored in any case, if the job writes files.
 *
 * With `ordered=1` a stream is handed over, and there is no managed memory, so that stream_ordered has an effect. Then a
 * checkpoint may fail behind its call: that has to be told.
 *
 * With `compressed=1` the device memory is compressed, with so many bits that nothing is lost.
 *
 * Without `fail` the calls are counted and printed. Software device only.
 */
#include "cuda.h"

enum { VERSIONS = 14, BYTES = 900001, MANAGED = 100003, HOST = 50007 };

static CUcontext context;
static CUdeviceptr device, managed;
static unsigned char *host;
static int taken[VERSIONS], durable[VERSIONS], refusals, ordered, compressed;
static CUstream stream;

/* 1: it succeeded. */
static int tried(const char *call, int status)
{
    if (status == VELOC_SUCCESS)
        return 1;
    refusals++;
    if (status != VELOC_FAILURE || strlen(VELOC_Last_error()) < 10)
        check_failed(__FILE__, __LINE__, call, "failed without a proper reason");
    printf("  refused: %s\n", VELOC_Last_error());
    return 0;
}

#define TRIED(call) tried(#call, (call))

static int context_is_lost(void)
{
    return cuda.cuCtxSynchronize() != 0;
}

static int to_device(const void *from)
{
    return ordered ? cuda.cuMemcpyHtoDAsync_v2(device, from, BYTES, stream)
                   : cuda.cuMemcpyHtoD_v2(device, from, BYTES);
}

static int from_device(void *to)
{
    return ordered ? cuda.cuMemcpyDtoHAsync_v2(to, device, BYTES, stream)
                   : cuda.cuMemcpyDtoH_v2(to, device, BYTES);
}

static void make_memory(void)
{
    device = device_memory(BYTES);
    managed = managed_memory(MANAGED);
}

/* The device memory at a version; compressed are small whole numbers, which have 8 bits. */
static void set_device(unsigned char *to, int version)
{
    size_t i;
    fill(to, BYTES, 1, version);
    for (i = 0; compressed && i < BYTES / 4; i++) {
        float number = (float)((i + (size_t)version) % 61);
        memcpy(to + i * 4, &number, 4);
    }
}

static int protect_all(void)
{
    int device_done = compressed ? TRIED(VELOC_Mem_protect(1, as_pointer(device), BYTES / 4, 4)) &&
                                       TRIED(VELOC_Mem_compress(1, VELOC_COMPRESS_8, 0.25))
                                 : TRIED(VELOC_Mem_protect(1, as_pointer(device), BYTES, 1));
    int managed_done = ordered || TRIED(VELOC_Mem_protect(2, as_pointer(managed), MANAGED, 1));
    int host_done = TRIED(VELOC_Mem_protect(3, host, HOST, 1));
    return device_done && managed_done && host_done;
}

static void capture(int version)
{
    unsigned char *staging = get_memory(BYTES);
    set_device(staging, version);
    fill((void *)(uintptr_t)managed, MANAGED, 2, version);
    fill(host, HOST, 3, version);
    /* After an asynchronous failure the application's own calls fail, too. */
    if (to_device(staging) == 0)
        taken[version] = TRIED(VELOC_Checkpoint("inject", version));
    else
        (void)TRIED(VELOC_Checkpoint("lost", version));
    if (ordered) {
        /* What comes later in the stream is no part of the checkpoint. */
        memset(staging, 0xdd, BYTES);
        (void)to_device(staging);
    }
    free(staging);
}

static void check_regions(int version)
{
    unsigned char *staging = get_memory(BYTES);
    CONTENT(host, HOST, 3, version);
    if (!ordered)
        CONTENT((void *)(uintptr_t)managed, MANAGED, 2, version);
    if (from_device(staging) == 0) {
        unsigned char *was = get_memory(BYTES);
        set_device(was, version);
        CHECK(memcmp(staging, was, compressed ? BYTES / 4 * 4 : BYTES) == 0);
        free(was);
    }
    free(staging);
}

static int restore(int version)
{
    unsigned char *staging = get_memory(BYTES);
    memset(staging, 0xee, BYTES);
    memset(host, 0xee, HOST);
    memset((void *)(uintptr_t)managed, 0xee, MANAGED);
    (void)to_device(staging);
    free(staging);
    if (!TRIED(VELOC_Restart("inject", version)))
        return 0;
    check_regions(version);
    return 1;
}

/* What is there after VELOC_Checkpoint_wait has succeeded: of ordered checkpoints, what was not told to have failed. */
static void note_durable(void)
{
    for (int version = 0; version < VERSIONS; version++)
        durable[version] = taken[version] && (!ordered || VELOC_Restart_test("inject", version + 1) == version);
}

static void first_life(const char *configuration, int writes_files)
{
    int version, tries;
    if (!TRIED(VELOC_Init_single(0, configuration)))
        return;
    if (!protect_all()) {
        /* Once more, when the failure may be over. */
        if (!protect_all()) {
            (void)TRIED(VELOC_Finalize(1));
            return;
        }
    }
    if (ordered)
        (void)TRIED(VELOC_Set_stream(stream));
    for (version = 0; version < VERSIONS; version++)
        capture(version);
    if (TRIED(VELOC_Checkpoint_wait()) && writes_files)
        note_durable();
    for (version = VERSIONS - 1; version >= VERSIONS / 2; version--) {
        (void)TRIED(VELOC_Prefetch_enqueue("inject", version));
    }
    (void)TRIED(VELOC_Prefetch_start());
    for (version = VERSIONS - 1; version >= 0; version--)
        if (taken[version])
            (void)restore(version);

    /* The failure is over. */
    softcuda.inject("");
    if (!context_is_lost()) {
        CHECK(protect_all());
        for (version = 0; version < VERSIONS; version++)
            if (taken[version] && !restore(version) && !(ordered && refusals > 0))
                check_failed(__FILE__, __LINE__, "a checkpoint that was taken",
                             "cannot be restored though the failure is over");
        /* A background failure may still be waiting to be reported, once each. */
        for (tries = 0; tries < VERSIONS && !TRIED(VELOC_Checkpoint_wait()); tries++)
            ;
        if (tries < VERSIONS && writes_files)
            note_durable();
    }
    (void)TRIED(VELOC_Finalize(1));
}

static void print_calls(void)
{
    static char text[16384];
    char *line;
    softcuda.calls(text, sizeof text);
    for (line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        printf("call %s\n", line);
}

/* A new process would do the same: what is durable is in the files. */
static void second_life(const char *configuration)
{
    int version;
    softcuda.inject("");
    if (context_is_lost()) {
        puts("  the context was lost");
        (void)cuda.cuCtxDestroy_v2(context);
        context = cuda_context(0);
        make_memory();
        if (ordered)
            CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    }
    OK(VELOC_Init_single(0, configuration));
    if (!protect_all()) {
        /* That the driver would not start is kept for the life of the process. */
        CHECK(strstr(VELOC_Last_error(), "cuInit") != NULL);
        OK(VELOC_Finalize(1));
        return;
    }
    if (ordered)
        OK(VELOC_Set_stream(stream));
    for (version = 0; version < VERSIONS; version++)
        if (durable[version] && !restore(version))
            check_failed(__FILE__, __LINE__, "a durable checkpoint", "cannot be restored");
    OK(VELOC_Checkpoint("inject", VERSIONS));
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Finalize(1));
}

int main(int argc, char **argv)
{
    const char *fail = option(argc, argv, "fail", "");
    int writes_files = (int)number(argc, argv, "files", 1);
    CHECK(argc > 1);
    context = cuda_start();
    CHECK(softcuda.inject != NULL);
    make_memory();
    host = get_memory(HOST);
    ordered = (int)number(argc, argv, "ordered", 0);
    compressed = (int)number(argc, argv, "compressed", 0);
    if (ordered)
        CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    softcuda.reset_counts();
    CHECK(softcuda.inject(fail) == 0);
    first_life(argv[1], writes_files);
    if (fail[0] == '\0') {
        print_calls();
        EQUAL(refusals, 0);
    }
    check_no_misuse();
    second_life(argv[1]);
    check_no_misuse();
    puts("done");
    return 0;
}
