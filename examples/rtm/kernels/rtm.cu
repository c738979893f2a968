// The GPU's version of src/wave/kernels.rs, one thread per point.
//
// Threads run along depth (x of the block), which runs fastest in memory, so that a warp reads
// consecutive values; y counts columns. Built to PTX by scripts/make_ptx.py; the driver compiles the PTX
// for the GPU at hand when the program starts.

typedef unsigned int u32;

// Half the width of the differences, and the points added on each side of the model.
#define REACH 4
#define PAD 36

// Weights of the 8th-order differences for a spacing of one.
__constant__ float SECOND[5] = {-205.f / 72, 8.f / 5, -1.f / 5, 8.f / 315, -1.f / 560};
__constant__ float FIRST[4] = {4.f / 5, -1.f / 5, 4.f / 105, -1.f / 280};

static __device__ __forceinline__ float first(const float *field, size_t i, size_t stride)
{
    float sum = 0.f;
#pragma unroll
    for (int k = 1; k <= REACH; k++)
        sum += FIRST[k - 1] * (field[i + k * stride] - field[i - k * stride]);
    return sum;
}

static __device__ __forceinline__ float second(const float *field, size_t i, size_t stride)
{
    float sum = SECOND[0] * field[i];
#pragma unroll
    for (int k = 1; k <= REACH; k++)
        sum += SECOND[k] * (field[i + k * stride] + field[i - k * stride]);
    return sum;
}

// The thread's point of a padded array; false for the points that stay at rest.
static __device__ __forceinline__ bool inside(u32 px, u32 pz, u32 *ix, u32 *iz)
{
    *iz = blockIdx.x * blockDim.x + threadIdx.x;
    *ix = blockIdx.y * blockDim.y + threadIdx.y;
    return *ix >= REACH && *ix < px - REACH && *iz >= REACH && *iz < pz - REACH;
}

// First half of a step: the border's memory of the first differences.
extern "C" __global__ void rtm_border(const float *field, float *psi_x, float *psi_z,
                                      const float *ax, const float *bx, const float *az,
                                      const float *bz, u32 px, u32 pz)
{
    u32 ix, iz;
    if (!inside(px, pz, &ix, &iz))
        return;
    const size_t i = (size_t)ix * pz + iz;
    if (ix < PAD || ix >= px - PAD)
        psi_x[i] = bx[ix] * psi_x[i] + ax[ix] * first(field, i, pz);
    if (iz < PAD || iz >= pz - PAD)
        psi_z[i] = bz[iz] * psi_z[i] + az[iz] * first(field, i, 1);
}

// Second half: `other` holds the wavefield before `field` and gets the one after it.
extern "C" __global__ void rtm_step(const float *field, float *other, const float *courant2,
                                    const float *psi_x, const float *psi_z, float *zeta_x,
                                    float *zeta_z, const float *ax, const float *bx,
                                    const float *az, const float *bz, u32 px, u32 pz)
{
    u32 ix, iz;
    if (!inside(px, pz, &ix, &iz))
        return;
    const size_t i = (size_t)ix * pz + iz;
    const float bend_x = second(field, i, pz), bend_z = second(field, i, 1);
    float bend = bend_x + bend_z;
    // The first difference of psi reaches as far into the model.
    if (ix < PAD + REACH || ix >= px - PAD - REACH) {
        const float slope = first(psi_x, i, pz);
        zeta_x[i] = bx[ix] * zeta_x[i] + ax[ix] * (bend_x + slope);
        bend += slope + zeta_x[i];
    }
    if (iz < PAD + REACH || iz >= pz - PAD - REACH) {
        const float slope = first(psi_z, i, 1);
        zeta_z[i] = bz[iz] * zeta_z[i] + az[iz] * (bend_z + slope);
        bend += slope + zeta_z[i];
    }
    other[i] = 2.f * field[i] - other[i] + courant2[i] * bend;
}

// Adds one sample per place, weighted as the scheme weighs a source.
extern "C" __global__ void rtm_inject(float *field, const float *courant2, const u32 *places,
                                      const float *samples, u32 count)
{
    const u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count)
        field[places[n]] += courant2[places[n]] * samples[n];
}

// Reads the wavefield at each place.
extern "C" __global__ void rtm_record(const float *field, const u32 *places, float *samples,
                                      u32 count)
{
    const u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count)
        samples[n] = field[places[n]];
}

// Copies the wavefield inside the model, without the borders.
extern "C" __global__ void rtm_snapshot(const float *field, float *state, u32 nx, u32 nz)
{
    const u32 iz = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 ix = blockIdx.y * blockDim.y + threadIdx.y;
    if (ix < nx && iz < nz)
        state[(size_t)ix * nz + iz] = field[(size_t)(ix + PAD) * (nz + 2 * PAD) + iz + PAD];
}

// Adds state times wavefield to the image and the state's square to the illumination.
extern "C" __global__ void rtm_correlate(const float *field, const float *state, float *image,
                                         float *illumination, u32 nx, u32 nz)
{
    const u32 iz = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 ix = blockIdx.y * blockDim.y + threadIdx.y;
    if (ix >= nx || iz >= nz)
        return;
    const size_t i = (size_t)ix * nz + iz;
    image[i] += state[i] * field[(size_t)(ix + PAD) * (nz + 2 * PAD) + iz + PAD];
    illumination[i] += state[i] * state[i];
}
