// Programs that know nothing of checkpoints, after those that CRUM was measured with: an LU decomposition, the heat of
// a chip, a Gaussian elimination, and particles that attract each other. Each prints a checksum of its result at every
// 8th step; on one device they are the same in every run, bit for bit.
//
//     nvcc -cudart shared -o plain plain.cu
//     ./plain lu|hotspot|gauss|particles [SIZE] [STEPS]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <utility>
#include <vector>

#define CHECK(call) check(call, #call)

static void check(cudaError_t status, const char *call)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
    std::exit(1);
}

// Threads of a block: in all, and on a side of one that is a square.
enum { THREADS = 256, SIDE = 16 };

// What a program has on the device: its result, the next one, and more; each is so many numbers, as on the host.
struct State {
    int size;
    size_t count;
    float *now, *next, *more;
    std::vector<float> host;
    cudaStream_t stream;
};

// How many numbers its result has: so many squares of its size, and so many times its size.
struct Program {
    const char *name;
    size_t squares, times;
    void (*step)(State &state, long step);
};

// A number from -0.5 to 0.5 that follows from two others.
static float noise(unsigned long long one, unsigned long long other)
{
    unsigned long long x = 0x9e3779b97f4a7c15ull * (one + 1) ^ 0xbf58476d1ce4e5b9ull * (other + 1);
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebull;
    return (float)((x ^ (x >> 29)) >> 40) / (1 << 24) - 0.5f;
}

static void upload(State &state, float *to)
{
    CHECK(cudaMemcpy(to, state.host.data(), state.count * sizeof(float), cudaMemcpyHostToDevice));
}

static void download(State &state)
{
    size_t bytes = state.count * sizeof(float);
    CHECK(cudaMemcpyAsync(state.host.data(), state.now, bytes, cudaMemcpyDeviceToHost, state.stream));
    CHECK(cudaStreamSynchronize(state.stream));
}

static unsigned blocks(size_t count, int threads = THREADS)
{
    return (unsigned)((count + threads - 1) / threads);
}

// By how much row k has to be multiplied to be taken from each row below it.
static __global__ void multipliers(float *factors, const float *matrix, int rows, int columns, int k)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row > k && row < rows)
        factors[row] = matrix[(size_t)row * columns + k] / matrix[(size_t)k * columns + k];
}

// Takes it from them. What is left of column k is its factors, or nothing.
static __global__ void eliminate(float *matrix, const float *factors, int rows, int columns, int k, bool keeps_factors)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row <= k || row >= rows || column < k || column >= columns)
        return;
    float *at = matrix + (size_t)row * columns + column;
    if (column == k)
        *at = keeps_factors ? factors[row] : 0;
    else
        *at -= factors[row] * matrix[(size_t)k * columns + column];
}

// The solution of the system of equations whose columns are eliminated.
static std::vector<float> solve(State &state)
{
    std::vector<float> solution(state.size);
    download(state);
    for (int row = state.size - 1; row >= 0; row--) {
        const float *at = &state.host[(size_t)row * (state.size + 1)];
        float rest = at[state.size];
        for (int column = row + 1; column < state.size; column++)
            rest -= at[column] * solution[column];
        solution[row] = rest / at[row];
    }
    return solution;
}

// A column of a matrix that needs no pivots; behind the last one, the next matrix. The solution of a system of
// equations is the right side of the next.
static void eliminate_column(State &state, long step, bool is_system)
{
    int rows = state.size, columns = rows + is_system, k = (int)(step % rows);
    if (k == 0) {
        std::vector<float> right = is_system && step > 0 ? solve(state) : std::vector<float>(rows, 1);
        for (size_t at = 0; at < state.count; at++) {
            int row = (int)(at / columns), column = (int)(at % columns);
            state.host[at] = column == rows ? right[row] * rows : noise(at, step) + (row == column ? rows : 0);
        }
        upload(state, state.now);
    }
    dim3 grid(blocks(columns, SIDE), blocks(rows, SIDE)), block(SIDE, SIDE);
    multipliers<<<blocks(rows), THREADS, 0, state.stream>>>(state.more, state.now, rows, columns, k);
    eliminate<<<grid, block, 0, state.stream>>>(state.now, state.more, rows, columns, k, !is_system);
}

static void lu(State &state, long step) { eliminate_column(state, step, false); }

static void gauss(State &state, long step) { eliminate_column(state, step, true); }

// Each cell gets heat from its neighbours and its load, and loses some to the air. The load moves over the chip.
static __global__ void heat(float *to, const float *from, const float *load, int size, long step)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= size || y >= size)
        return;
    size_t at = (size_t)y * size + x;
    float here = from[at];
    float left = x > 0 ? from[at - 1] : here, right = x < size - 1 ? from[at + 1] : here;
    float above = y > 0 ? from[at - size] : here, below = y < size - 1 ? from[at + size] : here;
    float in = 0.2f * (left + right + above + below - 4 * here) + load[(at + step) % ((size_t)size * size)];
    to[at] = here + in - 0.01f * here;
}

static void hotspot(State &state, long step)
{
    dim3 grid(blocks(state.size, SIDE), blocks(state.size, SIDE)), block(SIDE, SIDE);
    if (step == 0)
        for (float *to : {state.now, state.more}) {
            for (size_t at = 0; at < state.count; at++)
                state.host[at] = noise(at, to == state.now);
            upload(state, to);
        }
    heat<<<grid, block, 0, state.stream>>>(state.next, state.now, state.more, state.size, step);
    std::swap(state.now, state.next);
}

// The sum of the squares of all velocities, by one block, always in the same order.
static __global__ void energy(float *sum, const float4 *velocities, int size)
{
    __shared__ float sums[THREADS];
    float own = 0;
    for (int i = threadIdx.x; i < size; i += THREADS) {
        float4 v = velocities[i];
        own += v.x * v.x + v.y * v.y + v.z * v.z;
    }
    sums[threadIdx.x] = own;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        *sum = sums[0];
}

// All attract each other; velocities are scaled so that their energy stays near that of the beginning.
static __global__ void move(float4 *to, const float4 *from, const float *energy, int size)
{
    int own = blockIdx.x * blockDim.x + threadIdx.x;
    if (own >= size)
        return;
    float4 at = from[own], v = from[size + own];
    float scale = sqrtf(size / (*energy + 1e-9f)), pull = 0.01f / size;
    for (int i = 0; i < size; i++) {
        float x = from[i].x - at.x, y = from[i].y - at.y, z = from[i].z - at.z;
        float square = x * x + y * y + z * z + 0.01f, by = pull / (square * sqrtf(square));
        v.x += by * x, v.y += by * y, v.z += by * z;
    }
    v.x *= scale, v.y *= scale, v.z *= scale;
    to[own] = make_float4(at.x + 0.01f * v.x, at.y + 0.01f * v.y, at.z + 0.01f * v.z, 0);
    to[size + own] = v;
}

// The places of all, and behind them the velocities.
static void particles(State &state, long step)
{
    if (step == 0) {
        for (size_t at = 0; at < state.count; at++)
            state.host[at] = at % 4 < 3 ? noise(at, 0) : 0;
        upload(state, state.now);
    }
    const float4 *from = (const float4 *)state.now;
    energy<<<1, THREADS, 0, state.stream>>>(state.more, from + state.size, state.size);
    move<<<blocks(state.size), THREADS, 0, state.stream>>>((float4 *)state.next, from, state.more, state.size);
    std::swap(state.now, state.next);
}

static const Program PROGRAMS[] = {
    {"lu", 1, 0, lu}, {"hotspot", 1, 0, hotspot}, {"gauss", 1, 1, gauss}, {"particles", 0, 8, particles}};

// The number that is this argument, or -1.
static long number(const char *text, long most)
{
    char *end;
    long value = std::strtol(text, &end, 10);
    return end != text && *end == 0 && value >= 1 && value <= most ? value : -1;
}

int main(int argc, char **argv)
{
    const Program *program = NULL;
    for (const Program &known : PROGRAMS)
        if (argc > 1 && std::strcmp(argv[1], known.name) == 0)
            program = &known;
    long size = argc > 2 ? number(argv[2], 16384) : 64, steps = argc > 3 ? number(argv[3], 1l << 40) : 4096;
    if (program == NULL || size < 0 || steps < 0 || argc > 4) {
        std::fprintf(stderr, "usage: %s lu|hotspot|gauss|particles [SIZE, at most 16384] [STEPS]\n", argv[0]);
        return 2;
    }
    State state = {};
    state.size = (int)size;
    state.count = program->squares * size * size + program->times * size;
    state.host.resize(state.count);
    for (float **memory : {&state.now, &state.next, &state.more})
        CHECK(cudaMalloc(memory, state.count * sizeof(float)));
    CHECK(cudaStreamCreate(&state.stream));
    for (long step = 0; step < steps; step++) {
        program->step(state, step);
        CHECK(cudaGetLastError());
        if (step % 8 == 7) {
            download(state);
            const unsigned char *bytes = (const unsigned char *)state.host.data();
            unsigned long long sum = 0xcbf29ce484222325ull; // FNV-1a
            for (size_t i = 0; i < state.count * sizeof(float); i++)
                sum = (sum ^ bytes[i]) * 0x100000001b3ull;
            std::printf("%ld %016llx\n", step + 1, sum);
            std::fflush(stdout);
        }
    }
    std::puts("done");
    return 0;
}
