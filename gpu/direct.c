/*
 * The baseline: all memory is taken and pinned up front, versions go through a ring on the device
 * into the pinned buffer in the background, and come back from there when asked for.
 */
#include <stdlib.h>

#include "shot.h"

static CUdeviceptr ring;
static char *pinned;
static CUstream flushes;
static CUevent captured;
static CUevent *flushed; /* one for each place of the ring */
static int places;

static CUdeviceptr place_of(const struct plan *plan, int version)
{
    return ring + (CUdeviceptr)(version % places) * plan->bytes;
}

static char *host_of(const struct plan *plan, int version)
{
    return pinned + (size_t)version * plan->bytes;
}

static void start(const struct plan *plan)
{
    void *memory;
    int i;
    places = (int)(plan->device_cache / plan->bytes);
    CU(cuMemAlloc_v2(&ring, plan->device_cache));
    CU(cuMemHostAlloc(&memory, plan->host_cache, 0));
    pinned = memory;
    CU(cuStreamCreate(&flushes, STREAM_NON_BLOCKING));
    CU(cuEventCreate(&captured, EVENT_DISABLE_TIMING));
    flushed = get_memory((size_t)places * sizeof *flushed);
    for (i = 0; i < places; i++)
        CU(cuEventCreate(&flushed[i], EVENT_DISABLE_TIMING));
}

static void keep(const struct plan *plan, int version)
{
    CUdeviceptr place = place_of(plan, version);
    CUevent done = flushed[version % places];
    if (version >= places)
        CU(cuEventSynchronize(done));
    CU(cuMemcpyDtoDAsync_v2(place, plan->buffer, plan->bytes, plan->stream));
    CU(cuEventRecord(captured, plan->stream));
    CU(cuStreamWaitEvent(flushes, captured, 0));
    CU(cuMemcpyDtoHAsync_v2(host_of(plan, version), place, plan->bytes, flushes));
    CU(cuEventRecord(done, flushes));
    CU(cuStreamSynchronize(plan->stream));
}

static void bring_back(const struct plan *plan, int version)
{
    if (version >= plan->versions - places)
        CU(cuMemcpyDtoDAsync_v2(plan->buffer, place_of(plan, version), plan->bytes,
                                plan->stream));
    else
        CU(cuMemcpyHtoDAsync_v2(plan->buffer, host_of(plan, version), plan->bytes,
                                plan->stream));
    CU(cuStreamSynchronize(plan->stream));
}

static void finish(const struct plan *plan)
{
    int i;
    (void)plan;
    CU(cuStreamSynchronize(flushes));
    for (i = 0; i < places; i++)
        CU(cuEventDestroy_v2(flushed[i]));
    free(flushed);
    CU(cuEventDestroy_v2(captured));
    CU(cuStreamDestroy_v2(flushes));
    CU(cuMemFreeHost(pinned));
    CU(cuMemFree_v2(ring));
}

const struct keeper direct_keeper = {start, keep, bring_back, finish};
