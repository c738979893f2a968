#include "shot.h"

#include <string.h>

#include "content.h"

/* Stands for the computation: the stream's work is done, and the interval over. */
static void compute(const struct plan *plan, double since)
{
    CU(cuStreamSynchronize(plan->stream));
    sleep_until(since + plan->interval);
}

static void forward(const struct plan *plan, const struct keeper *keeper, struct figures *figures)
{
    double since = now();
    int version;
    for (version = 0; version < plan->versions; version++) {
        double called;
        content_fill(plan->buffer, plan->bytes, version, plan->stream);
        compute(plan, since);
        called = now();
        keeper->keep(plan, version);
        since = now();
        series_add(&figures->keep, since - called);
    }
}

static void backward(const struct plan *plan, const struct keeper *keeper, CUdeviceptr audit,
                     struct figures *figures)
{
    double since = now();
    int version;
    for (version = plan->versions - 1; version >= 0; version--) {
        double called;
        content_spoil(plan->buffer, plan->bytes, plan->stream);
        compute(plan, since);
        called = now();
        keeper->bring_back(plan, version);
        since = now();
        series_add(&figures->bring_back, since - called);
        if (audit != 0) {
            CU(cuMemcpyDtoDAsync_v2(audit + (CUdeviceptr)version * plan->bytes, plan->buffer,
                                    plan->bytes, plan->stream));
        } else if (content_check_windows(plan->buffer, plan->bytes, version, plan->stream) != 0) {
            figures->wrong++;
        }
    }
    CU(cuStreamSynchronize(plan->stream));
}

/* Compares what the backward pass has put aside. */
static int compare(const struct plan *plan, CUdeviceptr audit)
{
    void *room;
    int version, wrong = 0;
    CU(cuMemHostAlloc(&room, plan->bytes, 0));
    for (version = 0; version < plan->versions; version++)
        wrong += content_check_whole(audit + (CUdeviceptr)version * plan->bytes, plan->bytes,
                                     version, plan->stream, room) != 0;
    CU(cuMemFreeHost(room));
    return wrong;
}

void shot(const struct plan *plan, const struct keeper *keeper, CUdeviceptr audit,
          struct figures *figures)
{
    double since;
    memset(figures, 0, sizeof *figures);
    figures->present = 1;
    figures->whole = audit != 0;
    content_spoil(plan->buffer, plan->bytes, plan->stream);
    if (audit != 0)
        CU(cuMemsetD32Async(audit, 0, (size_t)plan->versions * (plan->bytes / 4), plan->stream));
    CU(cuStreamSynchronize(plan->stream));

    since = now();
    keeper->start(plan);
    figures->init = now() - since;
    since = now();
    forward(plan, keeper, figures);
    figures->forward = now() - since;
    since = now();
    backward(plan, keeper, audit, figures);
    figures->backward = now() - since;
    keeper->finish(plan);
    if (audit != 0)
        figures->wrong = compare(plan, audit);
}
