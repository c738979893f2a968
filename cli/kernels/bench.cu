/*
 * Kernels of the bench: contents that tell every word of every version from all others, and work
 * that keeps the device's memory busy. All loop over the grid, so that any launch covers any size.
 *
 * scripts/make_ptx.py compiles this to bench.ptx.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

/* The word at `index` of `version`; its twin is `word` in src/bench/cuda/software.rs. */
static __device__ u32 word(u64 index, u32 version)
{
    u64 x = (index + 1) * 0x9e3779b97f4a7c15ull ^ ((u64)version + 1) * 0xd1342543de82ef95ull;
    x = (x ^ (x >> 32)) * 0xda942042e4dd58b5ull;
    return (u32)(x >> 32);
}

static __device__ u64 first(void)
{
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ u64 stride(void)
{
    return (u64)gridDim.x * blockDim.x;
}

extern "C" __global__ void bench_fill(u32 *buffer, u64 words, u32 version)
{
    for (u64 i = first(); i < words; i += stride())
        buffer[i] = word(i, version);
}

/* Adds the number of wrong words to *wrong. */
extern "C" __global__ void bench_compare(const u32 *buffer, u64 words, u32 version, u32 *wrong)
{
    u32 found = 0;
    for (u64 i = first(); i < words; i += stride())
        found += buffer[i] != word(i, version);
    if (found)
        atomicAdd(wrong, found);
}

/* Goes over the buffer `rounds` times, as a stencil does: each value is read, changed, written. */
extern "C" __global__ void bench_burn(float *buffer, u64 words, u32 rounds)
{
    for (u32 round = 0; round < rounds; round++)
        for (u64 i = first(); i < words; i += stride())
            buffer[i] = buffer[i] * 0.999f + 0.001f;
}
