/*
 * Kernels of the bench: contents that tell every word of every version from all others, and work
 * that keeps the device's memory busy. All loop over the grid, so that any launch covers any size,
 * and go by 16 bytes: with less under way in each thread, latency and not bandwidth is the limit.
 *
 * scripts/make_ptx.py compiles this to bench.ptx.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

/*
 * Group `index` of 4 words of `version`; its twin is `content` in src/bench/cuda/software.rs. One
 * round of the generator "splitmix64" gives two words, and those the other two.
 */
static __device__ __forceinline__ uint4 content(u64 index, u32 version)
{
    u64 z = ((u64)version + 1) * 0xd1342543de82ef95ull + index * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    const u32 low = (u32)z, high = (u32)(z >> 32);
    return make_uint4(low, high, low ^ 0x85ebca6bu, high ^ 0xc2b2ae35u);
}

/* Word `at` of a group; of a group that is not whole, there are 3 at the most. */
static __device__ __forceinline__ u32 word(uint4 group, u32 at)
{
    return at == 0 ? group.x : at == 1 ? group.y : group.z;
}

static __device__ __forceinline__ u64 first(void)
{
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ u64 stride(void)
{
    return (u64)gridDim.x * blockDim.x;
}

extern "C" __global__ void bench_fill(uint4 *buffer, u64 words, u32 version)
{
    const u64 groups = words / 4;
    for (u64 i = first(); i < groups; i += stride())
        buffer[i] = content(i, version);
    if (first() < words % 4)
        ((u32 *)buffer)[4 * groups + first()] = word(content(groups, version), (u32)first());
}

/* Adds the number of wrong words to *wrong. */
extern "C" __global__ void bench_compare(const uint4 *buffer, u64 words, u32 version, u32 *wrong)
{
    const u64 groups = words / 4;
    u32 found = 0;
    for (u64 i = first(); i < groups; i += stride()) {
        const uint4 is = buffer[i], was = content(i, version);
        found += (is.x != was.x) + (is.y != was.y) + (is.z != was.z) + (is.w != was.w);
    }
    if (first() < words % 4)
        found += ((const u32 *)buffer)[4 * groups + first()] !=
                 word(content(groups, version), (u32)first());
    if (found)
        atomicAdd(wrong, found);
}

static __device__ __forceinline__ u32 stepped(u32 value)
{
    return value * 1664525u + 1013904223u;
}

/* Reads and writes each of `groups` groups of 4 words once, as a step of a stencil does. */
extern "C" __global__ void bench_burn(uint4 *buffer, u64 groups)
{
    for (u64 i = first(); i < groups; i += stride()) {
        uint4 group = buffer[i];
        group.x = stepped(group.x);
        group.y = stepped(group.y);
        group.z = stepped(group.z);
        group.w = stepped(group.w);
        buffer[i] = group;
    }
}
