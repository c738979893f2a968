/*
 * A program of the CUDA runtime, built without nvcc: it has the code that nvcc would generate, which
 * registers a fat binary and its kernel, and launches it.
 *
 *     runtime RELEASE
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned x, y, z; } dim3;
typedef void *stream_t, *event_t;

int softcudart_is_software(void);
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, void *thread, void *block, void *block_size,
                            void *grid_size, int *warp);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, stream_t stream);
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, stream_t *stream);
int cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
                     stream_t stream);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
const char *cudaGetErrorName(int code);
const char *cudaGetErrorString(int code);
int cudaGetDeviceCount(int *count);
int cudaSetDevice(int device);
int cudaGetDevice(int *device);
int cudaGetDeviceProperties(void *properties, int device);
int cudaRuntimeGetVersion(int *version);
int cudaDeviceReset(void);
int cudaDeviceSynchronize(void);
int cudaMemGetInfo(size_t *free, size_t *total);
int cudaMalloc(void **address, size_t bytes);
int cudaMallocManaged(void **address, size_t bytes, unsigned flags);
int cudaMallocHost(void **pointer, size_t bytes);
int cudaFree(void *address);
int cudaFreeHost(void *pointer);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, stream_t stream);
int cudaMemset(void *address, int value, size_t bytes);
int cudaStreamCreateWithFlags(stream_t *stream, unsigned flags);
int cudaStreamSynchronize(stream_t stream);
int cudaStreamWaitEvent(stream_t stream, event_t event, unsigned flags);
int cudaStreamDestroy(stream_t stream);
int cudaEventCreate(event_t *event);
int cudaEventRecord(event_t event, stream_t stream);
int cudaEventSynchronize(event_t event);
int cudaEventElapsedTime(float *milliseconds, event_t start, event_t end);
int cudaEventDestroy(event_t event);

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS, COUNT = 1000 };

#define CHECK(condition) \
    ((condition) ? (void)0 : (printf("line %d: %s\n", __LINE__, #condition), exit(1)))
#define OK(call) GIVES(0, call)
#define GIVES(code, call) gives(code, call, #call, __LINE__)

static void gives(int code, int got, const char *call, int line)
{
    if (got != code) {
        printf("line %d: %s: %s (%d), not %s\n", line, call, cudaGetErrorName(got), got,
               cudaGetErrorName(code));
        exit(1);
    }
}

/* add(values, count, by): a thread for each value. */
static const char ptx[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry add(.param .u64 add_0, .param .u32 add_1, .param .u32 add_2)\n{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<5>;\n"
    "ld.param.u64 %rd1, [add_0];\nld.param.u32 %r1, [add_1];\nld.param.u32 %r2, [add_2];\n"
    "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmov.u32 %r5, %tid.x;\n"
    "mad.lo.s32 %r6, %r3, %r4, %r5;\nsetp.ge.u32 %p1, %r6, %r1;\n@%p1 bra $DONE;\n"
    "cvta.to.global.u64 %rd2, %rd1;\nmul.wide.u32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"
    "ld.global.u32 %r7, [%rd4];\nadd.s32 %r8, %r7, %r2;\nst.global.u32 [%rd4], %r8;\n"
    "$DONE:\nret;\n}\n";

/* The layout of a fat binary with one entry, and what is registered of it. */
struct binary {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size;
    uint16_t kind, entry_version;
    uint32_t entry_header;
    uint64_t payload;
    uint32_t compressed, options;
    uint32_t release, architecture;
    uint64_t zero, flags;
    char text[sizeof ptx];
};
struct wrapper {
    int magic, version;
    const void *data, *other;
};

static struct binary binary_of(int kind, uint64_t flags)
{
    struct binary binary = {0xba55ed50, 1, 16, 48 + sizeof ptx, (uint16_t)kind, 0x101, 48,
                            sizeof ptx, 0, 0, 6, 60, 0, flags, {0}};
    memcpy(binary.text, ptx, sizeof ptx);
    return binary;
}

static void **registered(struct binary *binary, struct wrapper *wrapper, const char *host,
                         const char *name)
{
    struct wrapper of_this = {0x466243b1, 1, binary, NULL};
    void **handle;
    *wrapper = of_this;
    handle = __cudaRegisterFatBinary(wrapper);
    __cudaRegisterFunction(handle, host, (char *)host, name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    return handle;
}

/* What stands for kernels. */
static char add, missing, compressed, machine, unknown;

/* host<<<blocks, threads, 0, stream>>>(values, COUNT, by) */
static int launch(const char *host, unsigned blocks, unsigned threads, stream_t stream,
                  void *values, unsigned by)
{
    dim3 grid = {blocks, 1, 1}, block = {threads, 1, 1};
    unsigned count = COUNT;
    void *arguments[] = {&values, &count, &by}, *popped;
    size_t shared;
    OK((int)__cudaPushCallConfiguration(grid, block, 0, stream));
    grid.x = block.x = 0;
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &popped));
    CHECK(grid.x == blocks && block.x == threads && shared == 0 && popped == stream);
    return cudaLaunchKernel(host, grid, block, arguments, shared, popped);
}

static void all_are(const unsigned *values, unsigned value)
{
    int i;
    for (i = 0; i < COUNT; i++)
        CHECK(values[i] == value);
}

/* From memory to memory by way of kernels, in a stream; the same again in a context made anew. */
static void kernels_run(void)
{
    unsigned *device, *other, *managed, *host;
    stream_t stream, second;
    event_t begin, end;
    float milliseconds = -1;
    OK(cudaStreamCreateWithFlags(&stream, 1));
    OK(cudaStreamCreateWithFlags(&second, 1));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaMalloc((void **)&device, COUNT * sizeof *device));
    OK(cudaMalloc((void **)&other, COUNT * sizeof *device));
    OK(cudaMallocManaged((void **)&managed, COUNT * sizeof *device, 1));
    OK(cudaMallocHost((void **)&host, COUNT * sizeof *host));
    /* A fill of device memory does not wait, and the stream not for the default one. */
    OK(cudaMemset(device, 0x01, COUNT * sizeof *device));
    OK(cudaDeviceSynchronize());
    OK(cudaEventRecord(begin, stream));
    OK(launch(&add, 4, 256, stream, device, 2));
    OK(cudaEventRecord(end, stream));
    OK(cudaStreamWaitEvent(second, end, 0));
    OK(cudaMemcpyAsync(other, device, COUNT * sizeof *host, DEVICE_TO_DEVICE, second));
    OK(cudaMemcpyAsync(managed, other, COUNT * sizeof *host, BY_ADDRESS, second));
    OK(launch(&add, 1, COUNT, second, managed, 3));
    OK(cudaMemcpyAsync(host, managed, COUNT * sizeof *host, DEVICE_TO_HOST, second));
    OK(cudaStreamSynchronize(second));
    all_are(host, 0x01010106);
    all_are(managed, 0x01010106);
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECK(milliseconds >= 0);
    OK(cudaMemcpy(device, host, COUNT * sizeof *host, HOST_TO_DEVICE));
    OK(launch(&add, 4, 256, NULL, device, 1));
    OK(cudaMemcpy(host, device, COUNT * sizeof *host, DEVICE_TO_HOST));
    all_are(host, 0x01010107);
    OK(cudaEventDestroy(begin));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(second));
    OK(cudaFree(device));
    OK(cudaFree(other));
    OK(cudaFree(managed));
    OK(cudaFreeHost(host));
}

static void *another_thread(void *unused)
{
    int device = 7;
    kernels_run();
    OK(cudaGetDevice(&device));
    CHECK(device == 0 && cudaPeekAtLastError() == 0);
    return unused;
}

int main(int argc, char **argv)
{
    static struct binary binaries[3];
    static struct wrapper wrappers[3];
    static int properties[300];
    size_t least, most, shared;
    void *nothing = &nothing, **handle;
    pthread_t thread;
    stream_t stream;
    dim3 grid;
    int count, version;

    binaries[0] = binary_of(1, 0x11);
    binaries[1] = binary_of(1, 0x2011);
    binaries[2] = binary_of(2, 0x11);
    handle = registered(&binaries[0], &wrappers[0], &add, "add");
    __cudaRegisterFunction(handle, &missing, &missing, "missing", -1, NULL, NULL, NULL, NULL, NULL);
    registered(&binaries[1], &wrappers[1], &compressed, "add");
    registered(&binaries[2], &wrappers[2], &machine, "add");

    CHECK(argc == 2 && softcudart_is_software() == 1);
    OK(cudaGetDeviceCount(&count));
    CHECK(count == 2);
    OK(cudaRuntimeGetVersion(&version));
    CHECK(version == 1000 * atoi(argv[1]));

    OK(cudaFree(NULL));
    OK(cudaMalloc(&nothing, 0));
    CHECK(nothing == NULL);
    OK(cudaMemGetInfo(&least, &most));
    CHECK(least <= most && most > 0);
    properties[299] = 77;
    OK(cudaGetDeviceProperties(properties, 0));
    CHECK(strstr((char *)properties, "not a GPU") != NULL && properties[299] == 77);
    CHECK(properties[360 / 4] == 8 && properties[(atoi(argv[1]) < 13 ? 388 : 384) / 4] == 1);

    kernels_run();
    CHECK(pthread_create(&thread, NULL, another_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cudaDeviceReset());
    kernels_run();
    OK(cudaSetDevice(1));
    kernels_run();
    GIVES(101, cudaSetDevice(2));
    OK(cudaGetDevice(&count));
    CHECK(count == 1);

    /* Errors are told once, or looked at. */
    GIVES(101, cudaPeekAtLastError());
    GIVES(101, cudaGetLastError());
    OK(cudaGetLastError());
    GIVES(98, launch(&unknown, 1, 1, NULL, NULL, 0));
    GIVES(500, launch(&missing, 1, 1, NULL, NULL, 0));
    GIVES(200, launch(&compressed, 1, 1, NULL, NULL, 0));
    GIVES(209, launch(&machine, 1, 1, NULL, NULL, 0));
    GIVES(9, launch(&add, 1, 2048, NULL, NULL, 0));
    GIVES(9, launch(&add, 0, 1, NULL, NULL, 0));
    GIVES(21, cudaMemcpy(&count, &version, 4, 5));
    GIVES(1, cudaMalloc(NULL, 4));
    GIVES(52, __cudaPopCallConfiguration(&grid, &grid, &shared, &stream));
    GIVES(52, cudaGetLastError());
    CHECK(strcmp(cudaGetErrorName(2), "cudaErrorMemoryAllocation") == 0);
    CHECK(strstr(cudaGetErrorString(12345), "unrecognized") != NULL);
    __cudaUnregisterFatBinary(handle);
    GIVES(98, launch(&add, 1, 1, NULL, NULL, 0));

    /* A kernel that touches what is not its own ends the context. */
    registered(&binaries[0], &wrappers[0], &add, "add");
    OK(launch(&add, 1, 1, NULL, (void *)4096, 0));
    GIVES(700, cudaStreamSynchronize(NULL));
    GIVES(700, cudaMalloc(&nothing, 4));
    puts("done");
    return 0;
}
