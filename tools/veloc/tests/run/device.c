/*
 * A program of the CUDA driver that knows nothing of checkpoints: device STEPS OUT [managed]
 *
 * Two threads, each with a stream: one runs a kernel on memory of cuMemAlloc, one copies between page-locked memory and
 * mapped memory of cuMemCreate, and both wait in the driver in different ways. Prints a line for each 10 steps; writes one
 * for each to OUT. With "managed", it allocates managed memory as well. While there is a file "held" it does not end.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "held.h"

typedef int R;
typedef uint64_t D;
typedef void *H;
typedef struct { int kind; int handles; int at[2]; void *unused; char flags[8]; } Properties;
typedef struct { int at[2]; int flags; } Access;
R cuInit(unsigned); R cuDeviceGet(int *, int); R cuDevicePrimaryCtxRetain(H *, int); R cuCtxSetCurrent(H);
R cuMemAlloc_v2(D *, size_t); R cuMemAllocManaged(D *, size_t, unsigned); R cuMemAllocHost_v2(void **, size_t);
R cuMemAddressReserve(D *, size_t, size_t, D, uint64_t); R cuMemCreate(uint64_t *, size_t, const Properties *, uint64_t);
R cuMemMap(D, size_t, size_t, uint64_t, uint64_t); R cuMemSetAccess(D, size_t, const Access *, size_t);
R cuMemcpyHtoD_v2(D, const void *, size_t); R cuMemcpyDtoHAsync_v2(void *, D, size_t, H);
R cuMemcpyHtoDAsync_v2(D, const void *, size_t, H); R cuStreamCreate(H *, unsigned); R cuStreamSynchronize(H);
R cuEventCreate(H *, unsigned); R cuEventRecord(H, H); R cuEventSynchronize(H); R cuModuleLoadData(H *, const void *);
R cuModuleGetFunction(H *, H, const char *);
R cuLaunchKernel(H, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, H, void **, void **);

enum { WORDS = 4096, GRANULE = 2 << 20 };

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)
#define CU(call) do { R code = call; if (code) { fprintf(stderr, "%s: %d\n", #call, code); exit(1); } } while (0)

/* Each word becomes three times itself, plus the step. */
static const char PTX[] =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    ".visible .entry mix(.param .u64 mix_0, .param .u32 mix_1)\n{\n"
    ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
    "ld.param.u64 %rd1, [mix_0];\nld.param.u32 %r1, [mix_1];\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"
    "mad.lo.s32 %r5, %r2, %r3, %r4;\nmul.wide.s32 %rd2, %r5, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
    "ld.global.u32 %r6, [%rd3];\nmul.lo.s32 %r7, %r6, 3;\nadd.s32 %r8, %r7, %r1;\n"
    "st.global.u32 [%rd3], %r8;\nret;\n}\n";

static pthread_barrier_t barrier;
static H context;
static int steps;
static uint32_t seen[2];

static void *copy(void *unused)
{
    H stream, event;
    D at;
    uint64_t handle;
    uint32_t *pinned;
    Properties properties = {1, 0, {1, 0}, NULL, {0}};
    Access access = {{1, 0}, 3};
    CU(cuCtxSetCurrent(context));
    CU(cuMemAddressReserve(&at, GRANULE, 0, 0, 0));
    CU(cuMemCreate(&handle, GRANULE, &properties, 0));
    CU(cuMemMap(at, GRANULE, 0, handle, 0));
    CU(cuMemSetAccess(at, GRANULE, &access, 1));
    CU(cuMemAllocHost_v2((void **)&pinned, WORDS * 4));
    CU(cuStreamCreate(&stream, 1));
    CU(cuEventCreate(&event, 2));
    for (int i = 0; i < WORDS; i++)
        pinned[i] = (uint32_t)i;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < WORDS; i++)
            pinned[i] = pinned[i] * 5 + (uint32_t)step;
        CU(cuMemcpyHtoDAsync_v2(at, pinned, WORDS * 4, stream));
        CU(cuEventRecord(event, stream));
        memset(pinned, 0, 0);
        CU(cuEventSynchronize(event));
        memset(pinned, 0xff, WORDS * 4);
        CU(cuMemcpyDtoHAsync_v2(pinned, at, WORDS * 4, stream));
        CU(cuStreamSynchronize(stream));
        seen[1] = pinned[step % WORDS];
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int device;
    H stream, module, kernel;
    D at, managed;
    static uint32_t words[WORDS];
    pthread_t thread;
    CHECK(argc >= 3);
    steps = atoi(argv[1]);
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    CU(cuModuleLoadData(&module, PTX));
    CU(cuModuleGetFunction(&kernel, module, "mix"));
    CU(cuMemAlloc_v2(&at, sizeof words));
    CU(cuStreamCreate(&stream, 0));
    if (argc > 3)
        CU(cuMemAllocManaged(&managed, 1 << 20, 1));
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint32_t)i * 7919;
    CU(cuMemcpyHtoD_v2(at, words, sizeof words));
    FILE *out = fopen(argv[2], "w");
    CHECK(out != NULL);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, copy, NULL) == 0);
    for (int step = 0; step < steps; step++) {
        void *arguments[] = {&at, &step};
        CU(cuLaunchKernel(kernel, WORDS / 64, 1, 1, 64, 1, 1, 0, stream, arguments, NULL));
        CU(cuMemcpyDtoHAsync_v2(words, at, sizeof words, stream));
        CU(cuStreamSynchronize(stream));
        pthread_barrier_wait(&barrier);
        seen[0] = words[step % WORDS];
        fprintf(out, "%d %08" PRIx32 " %08" PRIx32 "\n", step, seen[0], seen[1]);
        if (step % 10 == 9) {
            printf("%d %08" PRIx32 " %08" PRIx32 "\n", step, seen[0], seen[1]);
            fflush(stdout);
        }
        pthread_barrier_wait(&barrier);
        usleep(2000);
    }
    wait_while_held();
    CHECK(pthread_join(thread, NULL) == 0 && fclose(out) == 0);
    puts("done");
    return 0;
}
