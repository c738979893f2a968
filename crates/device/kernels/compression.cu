/*
 * Arrays of floats in fewer bits: the kernels of crates/compression, whose lib.rs has the layout.
 * What they write is what the processor writes, but for the order of the blocks that are kept whole.
 *
 * A thread has a block of 64 values, and 64 threads have 64 of them, a tile, in shared memory. They
 * load and store a tile together, side by side in global memory, and each works on its own row.
 * Rows have an odd number of words, so that threads at the same column use different banks. All words
 * have one type, so that the compiler knows that packed words take the place of values.
 *
 * scripts/make_ptx.py compiles this to compression.ptx.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

enum { BLOCK = 64, TILE = 64, SUMS = 256 };

/* Numbers of 64 bits in the header. */
enum { BOUND = 3, ERROR = 4, WHOLE = 5, LARGEST = 7, HEADER = 16 };

enum : u64 { INFINITY_BITS = 0x7ff0000000000000ull };

struct F32 {
    typedef float Real;
    typedef u32 Bits;
    typedef u8 Code;
    enum { WORDS = 1, OFFSET = 127, KEPT_WHOLE = 0xff };
    static __device__ __forceinline__ Real rounds(void) { return 12582912.0f; }
    static __device__ __forceinline__ Bits magnitude(const u32 *at) { return *at & 0x7fffffffu; }
    static __device__ __forceinline__ bool is_finite(Bits bits) { return bits < 0x7f800000u; }
    static __device__ __forceinline__ int exponent(Bits bits) { return (int)(bits >> 23); }
    static __device__ __forceinline__ double of_bits(Bits bits) { return (double)__uint_as_float(bits); }
    static __device__ __forceinline__ Real get(const u32 *at) { return __uint_as_float(*at); }
    static __device__ __forceinline__ void put(u32 *at, Real value) { *at = __float_as_uint(value); }
    static __device__ __forceinline__ Real power(int k) { return __int_as_float((k + OFFSET) << 23); }
    static __device__ __forceinline__ u32 lowest(Real value) { return __float_as_uint(value); }
    static __device__ __forceinline__ Real absolute(Real value) { return fabsf(value); }
    /* Never one instruction with another: a product that is infinite has to be. */
    static __device__ __forceinline__ Real times(Real a, Real b) { return __fmul_rn(a, b); }
    static __device__ __forceinline__ Real plus(Real a, Real b) { return __fadd_rn(a, b); }
};

struct F64 {
    typedef double Real;
    typedef u64 Bits;
    typedef u16 Code;
    enum { WORDS = 2, OFFSET = 1023, KEPT_WHOLE = 0xffff };
    static __device__ __forceinline__ Real rounds(void) { return 6755399441055744.0; }
    static __device__ __forceinline__ Bits magnitude(const u32 *at)
    {
        return (u64)(at[1] & 0x7fffffffu) << 32 | at[0];
    }
    static __device__ __forceinline__ bool is_finite(Bits bits) { return bits < INFINITY_BITS; }
    static __device__ __forceinline__ int exponent(Bits bits) { return (int)(bits >> 52); }
    static __device__ __forceinline__ double of_bits(Bits bits) { return __longlong_as_double((long long)bits); }
    static __device__ __forceinline__ Real get(const u32 *at) { return __hiloint2double((int)at[1], (int)at[0]); }
    static __device__ __forceinline__ void put(u32 *at, Real value)
    {
        at[0] = (u32)__double2loint(value);
        at[1] = (u32)__double2hiint(value);
    }
    static __device__ __forceinline__ Real power(int k) { return __hiloint2double((k + OFFSET) << 20, 0); }
    static __device__ __forceinline__ u32 lowest(Real value) { return (u32)__double2loint(value); }
    static __device__ __forceinline__ Real absolute(Real value) { return fabs(value); }
    static __device__ __forceinline__ Real times(Real a, Real b) { return __dmul_rn(a, b); }
    static __device__ __forceinline__ Real plus(Real a, Real b) { return __dadd_rn(a, b); }
};

static __device__ __forceinline__ u64 first(void)
{
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ u64 stride(void)
{
    return (u64)gridDim.x * blockDim.x;
}

static __device__ __forceinline__ u64 bits_of(double value)
{
    return (u64)__double_as_longlong(value);
}

static __device__ __forceinline__ double number(const u64 *header, int at)
{
    return __longlong_as_double((long long)header[at]);
}

/* The larger one stays. Numbers that are not negative have the order of their bits. */
static __device__ __forceinline__ void raise(u64 *to, u64 bits)
{
    if (bits > *(volatile u64 *)to)
        atomicMax(to, bits);
}

/*
 * Writes the header, and zeros between codes and values and in the side area. `kind` is what stands
 * behind the magic: the layout's number, the bits and the bytes of a value.
 */
extern "C" __global__ void compression_begin(u64 *encoded, u64 content, u64 kind, u64 bound, u64 codes_end,
                                             u64 values, u64 side, u64 end, u64 capacity)
{
    const u64 magic = 0x706662434f4c4556ull; /* VELOCbfp */
    const u64 header[HEADER] = {magic, kind, content, bound, 0, 0, capacity};
    u64 i;
    if (first() == 0)
#pragma unroll
        for (i = 0; i < HEADER; i++)
            encoded[i] = header[i];
    for (i = codes_end + first(); i < values; i += stride())
        ((u8 *)encoded)[i] = 0;
    for (i = side / 4 + first(); i < end / 4; i += stride())
        ((u32 *)encoded)[i] = 0;
}

/* Raises the header's largest magnitude to that of the finite values. */
template <typename T>
static __device__ __forceinline__ void largest(const u32 *content, u64 count, u64 *encoded)
{
    __shared__ typename T::Bits found[SUMS];
    const u32 thread = threadIdx.x;
    typename T::Bits own = 0;
    for (u64 i = first(); i < count; i += stride()) {
        const typename T::Bits bits = T::magnitude(content + i * T::WORDS);
        if (T::is_finite(bits) && bits > own)
            own = bits;
    }
    found[thread] = own;
    __syncthreads();
#pragma unroll 1
    for (u32 half = SUMS / 2; half > 0; half /= 2) {
        if (thread < half && found[thread + half] > found[thread])
            found[thread] = found[thread + half];
        __syncthreads();
    }
    if (thread == 0)
        raise(encoded + LARGEST, bits_of(T::of_bits(found[0])));
}

/* Packs eight integers into bits / 4 words. */
static __device__ __forceinline__ void pack(const u32 *q, u32 bits, u32 *to)
{
    if (bits == 8) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            to[i] = (q[4 * i] & 0xff) | (q[4 * i + 1] & 0xff) << 8 | (q[4 * i + 2] & 0xff) << 16 | q[4 * i + 3] << 24;
    } else if (bits == 16) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i] = (q[2 * i] & 0xffff) | q[2 * i + 1] << 16;
    } else {
        u32 pairs[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[i] = (q[2 * i] & 0xfff) | (q[2 * i + 1] & 0xfff) << 12;
        to[0] = pairs[0] | pairs[1] << 24;
        to[1] = pairs[1] >> 8 | pairs[2] << 16;
        to[2] = pairs[2] >> 16 | pairs[3] << 8;
    }
}

/* The reverse of `pack`. */
static __device__ __forceinline__ void unpack(const u32 *from, u32 bits, int *q)
{
    if (bits == 8) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            q[i] = (int)(from[i / 4] << (24 - 8 * (i % 4))) >> 24;
    } else if (bits == 16) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            q[i] = (int)(from[i / 2] << (16 - 16 * (i % 2))) >> 16;
    } else {
        const u32 pairs[4] = {from[0], from[0] >> 24 | from[1] << 8, from[1] >> 16 | from[2] << 16, from[2] >> 8};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            q[2 * i] = (int)(pairs[i] << 20) >> 20;
            q[2 * i + 1] = (int)(pairs[i] << 8) >> 20;
        }
    }
}

/* The row of a tile's packed word: i / (2 * bits), of a number below 2048 without a division. */
static __device__ __forceinline__ u32 row_of(u32 i, u32 bits)
{
    return i * (bits == 8 ? 4096 : bits == 12 ? 2731 : 2048) >> 16;
}

/* Encodes a row in place. Returns its code; of a row that is to be kept whole the words mean nothing. */
template <typename T>
static __device__ __forceinline__ u32 encode(u32 *row, u32 bits, double bound, double *error)
{
    typedef typename T::Real Real;
    typename T::Bits largest_bits = 0;
#pragma unroll 4
    for (int i = 0; i < BLOCK; i++) {
        const typename T::Bits magnitude = T::magnitude(row + i * T::WORDS);
        largest_bits = magnitude > largest_bits ? magnitude : largest_bits;
    }
    const int exponent = T::exponent(largest_bits);
    if (exponent > 2 * T::OFFSET)
        return T::KEPT_WHOLE;
    /* Of zeros all results are 0. */
    const int wanted = exponent - T::OFFSET + 2 - (int)bits, least = 1 - T::OFFSET;
    const int k = wanted > least ? wanted : least;
    const Real step = T::power(k), per_step = T::power(-k), rounds = T::rounds();
    const Real most = T::plus(rounds, (Real)((1 << (bits - 1)) - 1));
    Real off = 0;
#pragma unroll 1
    for (u32 eight = 0; eight < BLOCK / 8; eight++) {
        u32 q[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const Real value = T::get(row + (8 * eight + i) * T::WORDS);
            const Real near = T::plus(T::times(value, per_step), rounds), rounded = near > most ? most : near;
            const Real by = T::absolute(T::plus(value, -T::times(T::plus(rounded, -rounds), step)));
            off = by > off ? by : off;
            q[i] = T::lowest(rounded);
        }
        pack(q, bits, row + eight * (bits / 4));
    }
    if ((double)off > bound)
        return T::KEPT_WHOLE;
    *error = (double)off > *error ? (double)off : *error;
    return largest_bits == 0 ? 0 : (u32)(k + T::OFFSET);
}

/*
 * Encodes `words` words of floats. `bound` is a part of the header's largest magnitude if that `is_relative`.
 * More whole blocks in the header than there is room for are an overflow.
 */
template <typename T>
static __device__ __forceinline__ void compress(const u32 *content, u64 words, u64 *encoded, u64 blocks, u64 values,
                                                u64 side, u64 capacity, double bound, u64 is_relative, u32 bits)
{
    enum { LEN = BLOCK * T::WORDS, ROW = LEN + 1 };
    __shared__ u32 rows[TILE * ROW];
    const u32 thread = threadIdx.x, len = 2 * bits;
    u32 *own = rows + thread * ROW, *packed = (u32 *)((u8 *)encoded + values);
    double error = 0;
    if (is_relative) {
        const u64 product = bits_of(__dmul_rn(bound, number(encoded, LARGEST)));
        bound = __longlong_as_double((long long)(product < INFINITY_BITS ? product : INFINITY_BITS - 1));
        if (first() == 0)
            encoded[BOUND] = bits_of(bound);
    }
#pragma unroll 1
    for (u64 tile = blockIdx.x; tile * TILE < blocks; tile += gridDim.x) {
        const u64 block = tile * TILE + thread, begin = tile * TILE * LEN, left = blocks - tile * TILE;
#pragma unroll 8
        for (u32 i = thread; i < TILE * LEN; i += TILE)
            rows[i / LEN * ROW + i % LEN] = begin + i < words ? content[begin + i] : 0;
        __syncthreads();
        if (block < blocks) {
            const u32 code = encode<T>(own, bits, bound, &error);
            ((typename T::Code *)(encoded + HEADER))[block] = (typename T::Code)code;
            if (code == T::KEPT_WHOLE) {
                const u64 slot = atomicAdd(encoded + WHOLE, 1ull);
                if (slot < capacity) {
                    u32 *entry = (u32 *)((u8 *)encoded + side) + slot * LEN;
#pragma unroll 1
                    for (u32 i = 0; i < LEN && block * LEN + i < words; i++)
                        entry[i] = content[block * LEN + i];
                }
                own[0] = (u32)slot;
#pragma unroll 1
                for (u32 i = 1; i < len; i++)
                    own[i] = 0;
            }
        }
        __syncthreads();
        const u32 count = (u32)(left < TILE ? left : TILE) * len;
#pragma unroll 4
        for (u32 i = thread; i < count; i += TILE)
            packed[tile * TILE * len + i] = rows[row_of(i, bits) * ROW + i - row_of(i, bits) * len];
        __syncthreads();
    }
    raise(encoded + ERROR, bits_of(error));
}

/* Decodes a row in place, from its end. */
template <typename T> static __device__ __forceinline__ void decode(u32 *row, u32 bits, int k)
{
    const typename T::Real step = T::power(k);
#pragma unroll 1
    for (int eight = BLOCK / 8 - 1; eight >= 0; eight--) {
        int q[8];
        unpack(row + eight * (int)(bits / 4), bits, q);
#pragma unroll
        for (int i = 0; i < 8; i++)
            T::put(row + (8 * eight + i) * T::WORDS, T::times((typename T::Real)q[i], step));
    }
}

/* Decodes to `words` words of floats. Blocks that mean nothing become zeros, and are counted in *wrong. */
template <typename T>
static __device__ __forceinline__ void decompress(const u64 *encoded, u32 *content, u64 words, u64 blocks, u64 values,
                                                  u64 side, u64 entries, u32 *wrong, u32 bits)
{
    enum { LEN = BLOCK * T::WORDS, ROW = LEN + 1 };
    __shared__ u32 rows[TILE * ROW];
    const u32 thread = threadIdx.x, len = 2 * bits, *packed = (const u32 *)((const u8 *)encoded + values);
    u32 *own = rows + thread * ROW;
#pragma unroll 1
    for (u64 tile = blockIdx.x; tile * TILE < blocks; tile += gridDim.x) {
        const u64 block = tile * TILE + thread, begin = tile * TILE * LEN, left = blocks - tile * TILE;
        const u32 count = (u32)(left < TILE ? left : TILE) * len;
#pragma unroll 4
        for (u32 i = thread; i < count; i += TILE)
            rows[row_of(i, bits) * ROW + i - row_of(i, bits) * len] = packed[tile * TILE * len + i];
        __syncthreads();
        if (block < blocks) {
            const u32 code = ((const typename T::Code *)(encoded + HEADER))[block], entry = own[0];
            const int k = (int)code - T::OFFSET;
            if (code != 0 && k <= T::OFFSET + 2 - (int)bits) {
                decode<T>(own, bits, k);
            } else {
                const bool is_whole = code == T::KEPT_WHOLE && entry < entries;
                const u32 *from = (const u32 *)((const u8 *)encoded + side) + (u64)entry * LEN;
#pragma unroll 1
                for (u32 i = 0; i < LEN; i++)
                    own[i] = is_whole ? from[i] : 0;
                if (code != 0 && !is_whole)
                    atomicAdd(wrong, 1u);
            }
        }
        __syncthreads();
#pragma unroll 4
        for (u32 i = thread; i < TILE * LEN; i += TILE)
            if (begin + i < words)
                content[begin + i] = rows[i / LEN * ROW + i % LEN];
        __syncthreads();
    }
}

extern "C" __global__ void compression_largest_f32(const u32 *content, u64 count, u64 *encoded)
{
    largest<F32>(content, count, encoded);
}

extern "C" __global__ void compression_largest_f64(const u32 *content, u64 count, u64 *encoded)
{
    largest<F64>(content, count, encoded);
}

extern "C" __global__ void compression_compress_f32(const u32 *content, u64 words, u64 *encoded, u64 blocks,
                                                    u64 values, u64 side, u64 capacity, double bound,
                                                    u64 is_relative, u64 bits)
{
    compress<F32>(content, words, encoded, blocks, values, side, capacity, bound, is_relative, (u32)bits);
}

extern "C" __global__ void compression_compress_f64(const u32 *content, u64 words, u64 *encoded, u64 blocks,
                                                    u64 values, u64 side, u64 capacity, double bound,
                                                    u64 is_relative, u64 bits)
{
    compress<F64>(content, words, encoded, blocks, values, side, capacity, bound, is_relative, (u32)bits);
}

extern "C" __global__ void compression_decompress_f32(const u64 *encoded, u32 *content, u64 words, u64 blocks,
                                                      u64 values, u64 side, u64 entries, u32 *wrong, u64 bits)
{
    decompress<F32>(encoded, content, words, blocks, values, side, entries, wrong, (u32)bits);
}

extern "C" __global__ void compression_decompress_f64(const u64 *encoded, u32 *content, u64 words, u64 blocks,
                                                      u64 values, u64 side, u64 entries, u32 *wrong, u64 bits)
{
    decompress<F64>(encoded, content, words, blocks, values, side, entries, wrong, (u32)bits);
}
