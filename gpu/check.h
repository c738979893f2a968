// What the programs of the CUDA runtime in this folder share: calls that must succeed, options, and
// contents that are known byte by byte, on the host and on the device.
#ifndef CHECK_H
#define CHECK_H

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

#define VELOC_NO_MPI
#include "veloc.h"

#define CHECK(call) check(call, #call)

static inline void check(cudaError_t status, const char *call)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
    std::exit(1);
}

static inline void check(int status, const char *call)
{
    if (status == VELOC_SUCCESS)
        return;
    std::fprintf(stderr, "%s: %s\n", call, VELOC_Last_error());
    std::exit(1);
}

// The number of the argument `key=number` behind the configuration.
static inline long option(int argc, char **argv, const char *key, long otherwise)
{
    size_t length = std::strlen(key);
    for (int i = 2; i < argc; i++)
        if (std::strncmp(argv[i], key, length) == 0 && argv[i][length] == '=')
            otherwise = std::strtol(argv[i] + length + 1, NULL, 10);
    return otherwise;
}

// Eight bytes of the content of a region in a version.
__host__ __device__ static inline unsigned long long content(int region, int version, size_t word)
{
    unsigned long long x = 0x9e3779b97f4a7c15ull * (word + 1);
    x ^= 0xbf58476d1ce4e5b9ull * (unsigned)(64 * version + region + 65);
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebull;
    return x ^ (x >> 29);
}

// Gives the bytes of a word, as far as the region has them, their content.
__host__ __device__ static inline void fill_word(unsigned char *at, size_t bytes, size_t word,
                                                 int region, int version)
{
    unsigned long long value = content(region, version, word);
    if (8 * word + 8 <= bytes)
        ((unsigned long long *)at)[word] = value;
    else
        for (size_t i = 8 * word; i < bytes; i++)
            at[i] = (unsigned char)(value >> 8 * (i % 8));
}

// How many bytes of a word, as far as they lie from `begin` to `end`, have another content.
__host__ __device__ static inline int wrong_in_word(const unsigned char *at, size_t begin,
                                                    size_t end, size_t word, int region,
                                                    int version)
{
    unsigned long long value = content(region, version, word);
    size_t first = 8 * word < begin ? begin : 8 * word;
    size_t behind = 8 * word + 8 > end ? end : 8 * word + 8;
    int wrong = 0;
    if (behind - first == 8 && ((const unsigned long long *)at)[word] == value)
        return 0;
    for (size_t i = first; i < behind; i++)
        wrong += at[i] != (unsigned char)(value >> 8 * (i % 8));
    return wrong;
}

__global__ static void fill_words(unsigned char *at, size_t bytes, int region, int version)
{
    size_t word = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (8 * word < bytes)
        fill_word(at, bytes, word, region, version);
}

__global__ static void compare_words(const unsigned char *at, size_t begin, size_t end, int region,
                                     int version, int *wrong)
{
    size_t word = begin / 8 + (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    int found = 8 * word < end ? wrong_in_word(at, begin, end, word, region, version) : 0;
    if (found != 0)
        atomicAdd(wrong, found);
}

// Blocks of 256 threads for so many bytes.
static inline unsigned blocks(size_t bytes)
{
    return (unsigned)((bytes / 8 + 2 + 255) / 256);
}

// Queues a kernel that fills a region.
static inline void fill(unsigned char *at, size_t bytes, int region, int version,
                        cudaStream_t stream = 0)
{
    fill_words<<<blocks(bytes), 256, 0, stream>>>(at, bytes, region, version);
    CHECK(cudaGetLastError());
}

// How many bytes from `begin` to `end` have another content, as a kernel finds.
static inline long wrong_on_device(const unsigned char *at, size_t begin, size_t end, int region,
                                   int version, cudaStream_t stream = 0)
{
    static int *wrong;
    int found;
    if (wrong == NULL)
        CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
    compare_words<<<blocks(end - begin), 256, 0, stream>>>(at, begin, end, region, version, wrong);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(&found, wrong, sizeof found, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return found;
}

// The same as the host finds in memory that it can read.
static inline long wrong_on_host(const unsigned char *at, size_t begin, size_t end, int region,
                                 int version)
{
    long found = 0;
    for (size_t word = begin / 8; 8 * word < end; word++)
        found += wrong_in_word(at, begin, end, word, region, version);
    return found;
}

// The same of device memory, by a kernel and, in a copy, by the host, which must agree.
static inline long wrong_bytes(const unsigned char *at, size_t begin, size_t end, int region,
                               int version, cudaStream_t stream = 0)
{
    static std::vector<unsigned char> copy;
    long by_kernel = wrong_on_device(at, begin, end, region, version, stream), by_host;
    copy.resize(end);
    CHECK(cudaMemcpy(copy.data(), at, end, cudaMemcpyDeviceToHost));
    by_host = wrong_on_host(copy.data(), begin, end, region, version);
    if (by_kernel != by_host)
        std::fprintf(stderr, "version %d: a kernel finds %ld wrong bytes, the host %ld\n", version,
                     by_kernel, by_host);
    return by_kernel > by_host ? by_kernel : by_host;
}

// Makes one byte wrong, to see that it is found.
static inline void damage(unsigned char *at)
{
    unsigned char byte;
    CHECK(cudaMemcpy(&byte, at, 1, cudaMemcpyDefault));
    byte ^= 1;
    CHECK(cudaMemcpy(at, &byte, 1, cudaMemcpyDefault));
}

// Begins a job, after the first device memory: the library uses the context that is current then.
static inline void begin(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s CONFIGURATION [key=number ...]\n", argv[0]);
        std::exit(2);
    }
    CHECK(VELOC_Init_single(0, argv[1]));
}

// Ends the job. The program's exit status.
static inline int finish(const char *name, int versions, long wrong)
{
    CHECK(VELOC_Finalize(1));
    std::printf("%s: %d versions, %ld bytes wrong\n", name, versions, wrong);
    if (wrong == 0)
        std::puts("done");
    return wrong != 0;
}

#endif
