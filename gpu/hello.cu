// A program of the CUDA runtime: one checkpoint of device, managed and host memory, changed by
// kernels before and after, and restored. Ends with "done" as its last line if all values came back.
//
//     nvcc -o hello hello.cu -I../include -L../lib -lveloc-client
//     ./hello CONFIGURATION
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define VELOC_NO_MPI
#include "veloc.h"

static const int count = 1 << 20;
static const int versions = 8;

static void check(cudaError_t status, const char *call)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "hello: %s: %s\n", call, cudaGetErrorString(status));
    std::exit(1);
}

static void check(int status, const char *call)
{
    if (status == VELOC_SUCCESS)
        return;
    std::fprintf(stderr, "hello: %s: %s\n", call, VELOC_Last_error());
    std::exit(1);
}

#define CHECK(call) check(call, #call)

__host__ __device__ static unsigned content(int region, int version, int i)
{
    unsigned x = 0x9e3779b9u * (unsigned)(i + 1) ^ 0x85ebca6bu * (unsigned)(8 * version + region);
    x = (x ^ (x >> 16)) * 0x7feb352du;
    return x ^ (x >> 15);
}

__global__ static void fill(unsigned *values, int region, int version)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = content(region, version, i);
}

__global__ static void compare(const unsigned *values, int region, int version, int *wrong)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && values[i] != content(region, version, i))
        atomicAdd(wrong, 1);
}

static void launch_fill(unsigned *values, int region, int version)
{
    fill<<<(count + 255) / 256, 256>>>(values, region, version);
    CHECK(cudaGetLastError());
}

static int wrong_values(const unsigned *values, int region, int version, int *wrong)
{
    int found;
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    compare<<<(count + 255) / 256, 256>>>(values, region, version, wrong);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
    return found;
}

int main(int argc, char **argv)
{
    unsigned *device, *managed;
    std::vector<unsigned> host(count);
    int *wrong, all_wrong = 0;
    if (argc != 2) {
        std::fprintf(stderr, "usage: hello CONFIGURATION\n");
        return 2;
    }
    CHECK(cudaMalloc(&device, count * sizeof *device));
    CHECK(cudaMallocManaged(&managed, count * sizeof *managed));
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(VELOC_Init_single(0, argv[1]));
    CHECK(VELOC_Mem_protect(0, device, count, sizeof *device));
    CHECK(VELOC_Mem_protect(1, managed, count, sizeof *managed));
    CHECK(VELOC_Mem_protect(2, host.data(), count, sizeof host[0]));
    for (int version = 0; version < versions; version++) {
        // The library waits for the kernels that are queued.
        launch_fill(device, 0, version);
        launch_fill(managed, 1, version);
        for (int i = 0; i < count; i++)
            host[i] = content(2, version, i);
        CHECK(VELOC_Checkpoint("hello", version));
    }
    launch_fill(device, 0, -1);
    launch_fill(managed, 1, -1);
    for (int version = versions - 1; version >= 0; version--) {
        CHECK(VELOC_Restart("hello", version));
        all_wrong += wrong_values(device, 0, version, wrong);
        all_wrong += wrong_values(managed, 1, version, wrong);
        for (int i = 0; i < count; i++)
            all_wrong += host[i] != content(2, version, i);
    }
    CHECK(VELOC_Finalize(1));
    CHECK(cudaFree(wrong));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(device));
    std::printf("hello: %d versions of three regions, %d values wrong\n", versions, all_wrong);
    if (all_wrong == 0)
        std::puts("done");
    return all_wrong != 0;
}
