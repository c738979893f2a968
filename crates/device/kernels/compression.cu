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
    static __device__ __forceinline__ Bits bits(const u32 *at) { return *at; }
    static __device__ __forceinline__ void put_bits(u32 *at, Bits bits) { *at = bits; }
    static __device__ __forceinline__ u32 width(Bits bits) { return 32 - (u32)__clz((int)bits); }
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
    static __device__ __forceinline__ Bits bits(const u32 *at) { return (u64)at[1] << 32 | at[0]; }
    static __device__ __forceinline__ void put_bits(u32 *at, Bits bits)
    {
        at[0] = (u32)bits;
        at[1] = (u32)(bits >> 32);
    }
    static __device__ __forceinline__ u32 width(Bits bits) { return 64 - (u32)__clzll((long long)bits); }
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

/* Without loss: crates/compression/src/lossless.rs has the layout. */

enum { GROUP = 1024, LANES = 8, ENCODED = 3 };

/* A value with the sign as its lowest bit. */
template <typename T> static __device__ __forceinline__ typename T::Bits turned(const u32 *row, u32 i)
{
    const typename T::Bits bits = T::bits(row + i * T::WORDS);
    return bits << 1 | bits >> (32 * T::WORDS - 1);
}

/* A difference as a number that is small if it is, of either sign; and the reverse. */
template <typename Bits> static __device__ __forceinline__ Bits folded(Bits difference)
{
    return difference << 1 ^ (Bits)(0 - (difference >> (8 * sizeof(Bits) - 1)));
}

template <typename Bits> static __device__ __forceinline__ Bits unfolded(Bits folded)
{
    return folded >> 1 ^ (Bits)(0 - (folded & 1));
}

/* The bytes of a block with this code; of one that means nothing 0. */
template <typename T> static __device__ __forceinline__ u32 len_of(u32 code)
{
    enum { BYTES = 4 * T::WORDS };
    return code == 0 ? 0 : code <= 8 * BYTES ? BYTES + 8 * (code - 1) : code == 8 * BYTES + 1 ? BLOCK * BYTES : 0;
}

template <typename T> static __device__ __forceinline__ u32 code_of(const u32 *row)
{
    typedef typename T::Bits Bits;
    const Bits first = turned<T>(row, 0);
    Bits before = first, all = 0;
#pragma unroll 4
    for (u32 i = 1; i < BLOCK; i++) {
        const Bits now = turned<T>(row, i);
        all |= folded<Bits>(now - before);
        before = now;
    }
    return all == 0 && first == 0 ? 0 : T::width(all) + 1;
}

/* The sum of a number of each thread that has a lower one, and of all. */
static __device__ __forceinline__ u32 sum_before(u32 own, u32 *sums, u32 *all)
{
    const u32 thread = threadIdx.x;
    sums[thread] = own;
    __syncthreads();
#pragma unroll 1
    for (u32 step = 1; step < TILE; step *= 2) {
        const u32 other = thread >= step ? sums[thread - step] : 0;
        __syncthreads();
        sums[thread] += other;
        __syncthreads();
    }
    const u32 before = sums[thread] - own;
    *all = sums[TILE - 1];
    __syncthreads();
    return before;
}

/* Where the thread's block begins, from the start of its group, by the codes of those before it. */
template <typename T>
static __device__ __forceinline__ u32 place_of(const u8 *codes, u64 tile, u32 own, u32 *sums)
{
    u32 part = 0, earlier, all;
    for (u64 block = tile * TILE / GROUP * GROUP + threadIdx.x; block < tile * TILE; block += TILE)
        part += len_of<T>(codes[block]);
    (void)sum_before(part, sums, &earlier);
    return earlier + sum_before(own, sums, &all);
}

/* Loads a tile; values that the array lacks are 0. */
template <typename T>
static __device__ __forceinline__ void load(const u32 *content, u64 words, u64 tile, u32 *rows)
{
    enum { LEN = BLOCK * T::WORDS, ROW = LEN + 1 };
    const u64 begin = tile * TILE * LEN;
#pragma unroll 8
    for (u32 i = threadIdx.x; i < TILE * LEN; i += TILE)
        rows[i / LEN * ROW + i % LEN] = begin + i < words ? content[begin + i] : 0;
    __syncthreads();
}

/* Writes the codes, and adds the bytes of each group to the table, which is 0. */
template <typename T>
static __device__ __forceinline__ void find_codes(const u32 *content, u64 words, u8 *codes, u64 *table, u64 blocks)
{
    enum { ROW = BLOCK * T::WORDS + 1 };
    __shared__ u32 rows[TILE * ROW], sums[TILE];
#pragma unroll 1
    for (u64 tile = blockIdx.x; tile * TILE < blocks; tile += gridDim.x) {
        const u64 block = tile * TILE + threadIdx.x;
        u32 len = 0, all;
        load<T>(content, words, tile, rows);
        if (block < blocks) {
            const u32 code = code_of<T>(rows + threadIdx.x * ROW);
            codes[block] = (u8)code;
            len = len_of<T>(code);
        }
        (void)sum_before(len, sums, &all);
        if (threadIdx.x == 0)
            atomicAdd(table + tile * TILE / GROUP, (u64)all);
    }
}

/* Has the table say where each group begins, the first at `payload`, and the header where all ends. */
extern "C" __global__ void lossless_places(u64 *encoded, u64 *table, u64 groups, u64 payload)
{
    __shared__ u64 sums[SUMS];
    const u32 thread = threadIdx.x;
    const u64 share = (groups + SUMS - 1) / SUMS, from = thread * share;
    const u64 end = from + share < groups ? from + share : groups;
    u64 own = 0, at = payload;
    for (u64 i = from; i < end; i++)
        own += table[i];
    sums[thread] = own;
    __syncthreads();
#pragma unroll 1
    for (u32 i = 0; i < thread; i++)
        at += sums[i];
    for (u64 i = from; i < end; i++) {
        const u64 len = table[i];
        table[i] = at;
        at += len;
    }
    if (thread == SUMS - 1)
        encoded[ENCODED] = at;
}

/* Packs a row with this code. */
template <typename T> static __device__ __forceinline__ void pack_row(const u32 *row, u32 code, typename T::Bits *to)
{
    typedef typename T::Bits Bits;
    enum { BITS = 32 * T::WORDS };
    const u32 width = code - 1;
    u32 filled = 0;
    Bits before = turned<T>(row, 0), words[LANES];
    if (code == 0)
        return;
    if (width == BITS) {
#pragma unroll 1
        for (u32 i = 0; i < BLOCK; i++)
            to[i] = T::bits(row + i * T::WORDS);
        return;
    }
    *to++ = before;
#pragma unroll
    for (u32 lane = 0; lane < LANES; lane++)
        words[lane] = 0;
#pragma unroll 1
    for (u32 eight = 0; eight < BLOCK; eight += LANES) {
        Bits values[LANES];
#pragma unroll
        for (u32 lane = 0; lane < LANES; lane++) {
            const Bits now = turned<T>(row, eight + lane);
            values[lane] = folded<Bits>(now - before);
            before = now;
            words[lane] |= values[lane] << filled;
        }
        filled += width;
        if (filled >= BITS) {
            filled -= BITS;
#pragma unroll
            for (u32 lane = 0; lane < LANES; lane++) {
                to[lane] = words[lane];
                words[lane] = values[lane] >> (width - filled);
            }
            to += LANES;
        }
    }
    u32 *rest = (u32 *)to;
#pragma unroll 1
    for (u32 bit = 0; bit < filled; bit += 8) {
        u32 four[2] = {0, 0};
#pragma unroll
        for (u32 lane = 0; lane < LANES; lane++)
            four[lane / 4] |= ((u32)(words[lane] >> bit) & 0xff) << lane % 4 * 8;
        *rest++ = four[0];
        *rest++ = four[1];
    }
}

/* Packs all blocks, if they end within `room`. */
template <typename T>
static __device__ __forceinline__ void pack_all(const u32 *content, u64 words, u64 *encoded, const u64 *table,
                                                u64 blocks, u64 room)
{
    enum { ROW = BLOCK * T::WORDS + 1 };
    __shared__ u32 rows[TILE * ROW], sums[TILE];
    const u8 *codes = (const u8 *)(encoded + HEADER);
    if (encoded[ENCODED] > room)
        return;
#pragma unroll 1
    for (u64 tile = blockIdx.x; tile * TILE < blocks; tile += gridDim.x) {
        const u64 block = tile * TILE + threadIdx.x;
        const u32 code = block < blocks ? codes[block] : 0;
        load<T>(content, words, tile, rows);
        const u64 at = table[tile * TILE / GROUP] + place_of<T>(codes, tile, len_of<T>(code), sums);
        pack_row<T>(rows + threadIdx.x * ROW, code, (typename T::Bits *)((u8 *)encoded + at));
        __syncthreads();
    }
}

/* The next word of each lane: whole, or what is left of it in so many bits. */
template <typename Bits>
static __device__ __forceinline__ const Bits *next_words(const Bits *from, bool is_whole, u32 bits, Bits *words)
{
    if (is_whole) {
#pragma unroll
        for (u32 lane = 0; lane < LANES; lane++)
            words[lane] = from[lane];
        return from + LANES;
    }
    const u32 *rest = (const u32 *)from;
#pragma unroll
    for (u32 lane = 0; lane < LANES; lane++)
        words[lane] = 0;
#pragma unroll 1
    for (u32 bit = 0; bit < bits; bit += 8, rest += 2)
#pragma unroll
        for (u32 lane = 0; lane < LANES; lane++)
            words[lane] |= (Bits)(rest[lane / 4] >> lane % 4 * 8 & 0xff) << bit;
    return from;
}

template <typename T>
static __device__ __forceinline__ void unpack_row(const typename T::Bits *from, u32 code, u32 *row)
{
    typedef typename T::Bits Bits;
    enum { BITS = 32 * T::WORDS };
    const u32 width = code - 1, bits = 8 * width % BITS;
    u32 used = BITS, whole = 8 * width / BITS;
    if (code == 0 || width == BITS) {
#pragma unroll 1
        for (u32 i = 0; i < BLOCK; i++)
            T::put_bits(row + i * T::WORDS, code == 0 ? 0 : from[i]);
        return;
    }
    Bits before = *from++, words[LANES];
    const Bits mask = ((Bits)1 << width) - 1;
#pragma unroll 1
    for (u32 eight = 0; eight < BLOCK; eight += LANES) {
        Bits values[LANES];
        if (used == BITS && width > 0) {
            from = next_words<Bits>(from, whole > 0, bits, words);
            whole -= whole > 0;
            used = 0;
        }
#pragma unroll
        for (u32 lane = 0; lane < LANES; lane++)
            values[lane] = width > 0 ? words[lane] >> used : 0;
        used += width;
        if (used > BITS) {
            from = next_words<Bits>(from, whole > 0, bits, words);
            whole -= whole > 0;
            used -= BITS;
#pragma unroll
            for (u32 lane = 0; lane < LANES; lane++)
                values[lane] |= words[lane] << (width - used);
        }
#pragma unroll
        for (u32 lane = 0; lane < LANES; lane++) {
            before += unfolded<Bits>(values[lane] & mask);
            T::put_bits(row + (eight + lane) * T::WORDS, before >> 1 | before << (BITS - 1));
        }
    }
}

/*
 * Decodes to `words` words of floats. Blocks whose code means nothing, or that are not where they have to be, become
 * zeros, and are counted in *wrong.
 */
template <typename T>
static __device__ __forceinline__ void unpack_all(const u64 *encoded, const u64 *table, u32 *content, u64 words,
                                                  u64 blocks, u64 payload, u64 end, u32 *wrong)
{
    enum { LEN = BLOCK * T::WORDS, ROW = LEN + 1, BYTES = 4 * T::WORDS };
    __shared__ u32 rows[TILE * ROW], sums[TILE];
    const u8 *codes = (const u8 *)(encoded + HEADER);
#pragma unroll 1
    for (u64 tile = blockIdx.x; tile * TILE < blocks; tile += gridDim.x) {
        const u64 block = tile * TILE + threadIdx.x, begin = tile * TILE * LEN, group = tile * TILE / GROUP;
        const u32 code = block < blocks ? codes[block] : 0, len = len_of<T>(code);
        const u64 base = table[group], at = base + place_of<T>(codes, tile, len, sums);
        const bool is_last = block + 1 == blocks || block % GROUP == GROUP - 1;
        const bool is_known = code <= 8 * BYTES + 1, is_aligned = base % BYTES == 0;
        const bool is_within = base >= payload && base <= end && at <= end && len <= end - at;
        bool is_right = is_known && is_aligned && is_within && (block != 0 || base == payload);
        if (is_last)
            is_right = is_right && at + len == (block + 1 == blocks ? end : table[group + 1]);
        if (block < blocks && !is_right)
            atomicAdd(wrong, 1u);
        unpack_row<T>((const typename T::Bits *)((const u8 *)encoded + at), is_right ? code : 0,
                      rows + threadIdx.x * ROW);
        __syncthreads();
#pragma unroll 4
        for (u32 i = threadIdx.x; i < TILE * LEN; i += TILE)
            if (begin + i < words)
                content[begin + i] = rows[i / LEN * ROW + i % LEN];
        __syncthreads();
    }
}

extern "C" __global__ void lossless_codes_f32(const u32 *content, u64 words, u64 *encoded, u64 *table, u64 blocks)
{
    find_codes<F32>(content, words, (u8 *)(encoded + HEADER), table, blocks);
}

extern "C" __global__ void lossless_codes_f64(const u32 *content, u64 words, u64 *encoded, u64 *table, u64 blocks)
{
    find_codes<F64>(content, words, (u8 *)(encoded + HEADER), table, blocks);
}

extern "C" __global__ void lossless_pack_f32(const u32 *content, u64 words, u64 *encoded, const u64 *table, u64 blocks,
                                             u64 room)
{
    pack_all<F32>(content, words, encoded, table, blocks, room);
}

extern "C" __global__ void lossless_pack_f64(const u32 *content, u64 words, u64 *encoded, const u64 *table, u64 blocks,
                                             u64 room)
{
    pack_all<F64>(content, words, encoded, table, blocks, room);
}

extern "C" __global__ void lossless_unpack_f32(const u64 *encoded, const u64 *table, u32 *content, u64 words,
                                               u64 blocks, u64 payload, u64 end, u32 *wrong)
{
    unpack_all<F32>(encoded, table, content, words, blocks, payload, end, wrong);
}

extern "C" __global__ void lossless_unpack_f64(const u64 *encoded, const u64 *table, u32 *content, u64 words,
                                               u64 blocks, u64 payload, u64 end, u32 *wrong)
{
    unpack_all<F64>(encoded, table, content, words, blocks, payload, end, wrong);
}
