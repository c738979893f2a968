/*
 * One shot of an adjoint computation: a forward pass that keeps a version of the buffer every
 * interval, and a backward pass that brings them back in reverse.
 */
#ifndef SHOT_H
#define SHOT_H

#include "common.h"
#include "driver.h"

struct plan {
    size_t bytes;    /* of a version */
    int versions;
    double interval; /* seconds of computing between two calls */
    size_t device_cache, host_cache;
    const char *settings; /* further lines of the library's configuration */
    CUdeviceptr buffer;
    CUstream stream;
};

/* A way of keeping versions. */
struct keeper {
    void (*start)(const struct plan *plan);
    void (*keep)(const struct plan *plan, int version);
    void (*bring_back)(const struct plan *plan, int version);
    void (*finish)(const struct plan *plan);
};

struct figures {
    int present;
    double init, forward, backward; /* seconds */
    struct series keep, bring_back; /* blocked, per call */
    int wrong;                      /* versions that did not come back as they were */
    int whole;                      /* every byte was compared, not windows alone */
};

/* Runs a shot. `audit` has room for every version, so that they can be compared after the passes,
 * or is 0. */
void shot(const struct plan *plan, const struct keeper *keeper, CUdeviceptr audit,
          struct figures *figures);

extern const struct keeper library_keeper, direct_keeper;

#endif
