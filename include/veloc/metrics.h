/*
 * Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.
 *
 * Generated from src/capi by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef VELOC_METRICS_H
#define VELOC_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "defs.h"

/**
 * Index in `hops`: from the application's memory to the device cache.
 */
#define VELOC_HOP_ATOD 0

/**
 * Index in `hops`: from the application's memory to the host buffer.
 */
#define VELOC_HOP_ATOH 1

/**
 * Index in `hops`: from the application's memory to a scratch file.
 */
#define VELOC_HOP_ATOF 2

/**
 * Index in `hops`: from the device cache to the host buffer.
 */
#define VELOC_HOP_DTOH 3

/**
 * Index in `hops`: from the device cache to a scratch file.
 */
#define VELOC_HOP_DTOF 4

/**
 * Index in `hops`: from the host buffer to a scratch file.
 */
#define VELOC_HOP_HTOF 5

/**
 * Index in `hops`: from a scratch file to a persistent file.
 */
#define VELOC_HOP_FTOP 6

/**
 * Index in `hops`: from a persistent file to a scratch file.
 */
#define VELOC_HOP_PTOF 7

/**
 * Index in `hops`: from a scratch file to the host buffer.
 */
#define VELOC_HOP_FTOH 8

/**
 * Index in `hops`: from the host buffer to the device cache.
 */
#define VELOC_HOP_HTOD 9

/**
 * Index in `hops`: from the device cache to the application's memory.
 */
#define VELOC_HOP_DTOA 10

/**
 * Index in `hops`: from the host buffer to the application's memory.
 */
#define VELOC_HOP_HTOA 11

/**
 * Index in `hops`: from a scratch file to the application's memory.
 */
#define VELOC_HOP_FTOA 12

/**
 * The number of hops.
 */
#define VELOC_HOPS 13

/**
 * Index in `blocked`: the call's own copy, into or out of the first level.
 */
#define VELOC_WAIT_COPY 0

/**
 * Index in `blocked`: the application's own work that was queued before the checkpoint.
 */
#define VELOC_WAIT_ORDER 1

/**
 * Index in `blocked`: mapping of the device cache.
 */
#define VELOC_WAIT_MAP 2

/**
 * Index in `blocked`: room in the device cache.
 */
#define VELOC_WAIT_DEVICE_ROOM 3

/**
 * Index in `blocked`: room in the host buffer.
 */
#define VELOC_WAIT_HOST_ROOM 4

/**
 * Index in `blocked`: in a restore, bytes that come up from a lower level.
 */
#define VELOC_WAIT_FETCH 5

/**
 * Index in `blocked`: files: `mode = sync`, a checkpoint larger than memory, or a restore from a
 * file.
 */
#define VELOC_WAIT_FILE 6

/**
 * Index in `blocked`: `VELOC_Checkpoint_wait` or a draining `VELOC_Finalize`.
 */
#define VELOC_WAIT_DRAIN 7

/**
 * The number of causes of waiting.
 */
#define VELOC_WAITS 8

/**
 * Bytes of the reason in a VELOC_Snapshot.
 */
#define VELOC_SNAPSHOT_REASON 256

/**
 * A sum over events: how much, how long, how many.
 */
typedef struct VELOC_Sum {
    /**
     * Bytes moved; 0 where nothing moves.
     */
    uint64_t bytes;
    /**
     * Time in nanoseconds.
     */
    uint64_t nanoseconds;
    /**
     * Number of events.
     */
    uint64_t count;
} VELOC_Sum;

/**
 * The figures of a job. New members are added at the end only; VELOC_Get_metrics fills as many as
 * the caller's size covers.
 */
typedef struct VELOC_Metrics {
    /**
     * Bytes moved from one place to another, by `VELOC_HOP_*`.
     */
    struct VELOC_Sum hops[VELOC_HOPS];
    /**
     * Time the application was kept waiting, by `VELOC_WAIT_*`.
     */
    struct VELOC_Sum blocked[VELOC_WAITS];
    /**
     * Mapping of the device cache in the background.
     */
    struct VELOC_Sum map;
    /**
     * Touching of the host buffer in the background, time added over the threads.
     */
    struct VELOC_Sum touch;
    /**
     * Registration of the host buffer in the background.
     */
    struct VELOC_Sum registration;
    /**
     * Waiting for the node's lock on registration, in the background.
     */
    struct VELOC_Sum turn;
    /**
     * Time that initialisation took.
     */
    struct VELOC_Sum init;
    /**
     * Bytes of the device cache that are mapped.
     */
    uint64_t device_capacity;
    /**
     * Free bytes of the mapped device cache.
     */
    uint64_t device_free;
    /**
     * Bytes of the host buffer.
     */
    uint64_t host_capacity;
    /**
     * Free bytes of the host buffer.
     */
    uint64_t host_free;
    /**
     * Bytes of the host buffer whose pages exist.
     */
    uint64_t host_touched;
    /**
     * Bytes of the host buffer that are registered.
     */
    uint64_t host_registered;
    /**
     * Checkpoints taken.
     */
    uint64_t checkpoints;
    /**
     * Checkpoints restored.
     */
    uint64_t restores;
    /**
     * Checkpoints that can be restored from memory, or from files that this job has met.
     */
    uint64_t live;
    /**
     * Copies that left the device cache to make room.
     */
    uint64_t device_evictions;
    /**
     * Copies that left the host buffer to make room.
     */
    uint64_t host_evictions;
    /**
     * Consumed checkpoints of an ephemeral job that were discarded to make room.
     */
    uint64_t discards;
    /**
     * Checkpoints of an ephemeral job that overflowed to files.
     */
    uint64_t spills;
    /**
     * Copies fetched to the device cache ahead of their restore.
     */
    uint64_t fetches;
    /**
     * Restores of device memory that found their bytes in the device cache.
     */
    uint64_t device_hits;
    /**
     * Restores of device memory that did not.
     */
    uint64_t device_misses;
    /**
     * The touching in force: 0 sequential, 1 concurrent.
     */
    uint64_t touch_mode;
    /**
     * How often `touch = auto` has changed its mode.
     */
    uint64_t touch_changes;
    /**
     * Rates that decide the touching, in bytes per second; 0 where not measured. In this order:
     * touching alone, touching beside a flush, flushing to touched pages, flushing to untouched
     * pages, flushing beside touching.
     */
    double touch_rates[5];
    /**
     * Bytes of a checkpoint, a running mean.
     */
    double touch_checkpoint_bytes;
    /**
     * Seconds from the end of one checkpoint to the beginning of the next, a running mean.
     */
    double touch_interval;
    /**
     * Predicted seconds of a flush with sequential and with concurrent touching, from what was
     * measured until now; 0 before there is a prediction.
     */
    double touch_predictions[2];
    /**
     * Whether the device in use is the software device, whose times say nothing about a GPU.
     */
    uint64_t software_device;
    /**
     * Parities of erasure coding that this process has made, in the background.
     */
    struct VELOC_Sum encode;
    /**
     * Checkpoints that erasure coding failed to protect.
     */
    uint64_t encode_failures;
    /**
     * Calls of VELOC_Checkpoint that have taken one, and their time, waiting included.
     */
    struct VELOC_Sum checkpoint_calls;
    /**
     * Calls of VELOC_Restart that have restored one, and their time, waiting included.
     */
    struct VELOC_Sum restart_calls;
    /**
     * Compression of regions (VELOC_Mem_compress): their bytes before it, and its time.
     */
    struct VELOC_Sum compress;
    /**
     * Decompression of regions: their bytes after it, and its time.
     */
    struct VELOC_Sum decompress;
    /**
     * Bytes of the compressed regions after compression.
     */
    uint64_t compressed_bytes;
    /**
     * Blocks of 64 values in compressed regions that were kept whole, to stay within the bound.
     */
    uint64_t compressed_whole;
    /**
     * Regions that were to be compressed and were not.
     */
    uint64_t uncompressed;
} VELOC_Metrics;

/**
 * How `VELOC_Checkpoint` took host memory, and what that cost. New members are added at the end
 * only.
 */
typedef struct VELOC_Snapshot {
    /**
     * How the last VELOC_Checkpoint took host memory: VELOC_CAPTURE_COPY, VELOC_CAPTURE_PROTECT or
     * VELOC_CAPTURE_FORK; 0: there was none.
     */
    uint64_t mode;
    /**
     * Checkpoints of host memory since the start of the job.
     */
    uint64_t checkpoints;
    /**
     * Their bytes.
     */
    uint64_t bytes;
    /**
     * Nanoseconds that their calls have taken.
     */
    uint64_t blocked;
    /**
     * Bytes that were copied because the application was about to write to them
     * (VELOC_CAPTURE_PROTECT).
     */
    uint64_t copied_ahead;
    /**
     * Checkpoints that could not be completed after their call; their versions do not exist.
     */
    uint64_t failed;
    /**
     * Why the last one was taken in its mode: a text that ends with NUL.
     */
    char reason[VELOC_SNAPSHOT_REASON];
} VELOC_Snapshot;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * The bytes that the job has moved per hop, as one line of text: `{AtoD : 1048576, AtoH : 0,
 * ...}`.
 *
 * @param text  gets at most 379 bytes, the final NUL included; the prototype asks for 1024. Empty
 *              outside a job
 *
 * Source: VELOC_Get_trf_metrics of VELOC's GPU prototype.
 *
 * @pre `text` is NULL or has 1024 bytes.
 */
void VELOC_Get_trf_metrics(char *text);

/**
 * All figures of the job.
 *
 * @param metrics  gets the figures
 * @param size     `sizeof(VELOC_Metrics)` of the caller; members beyond it are left out, members
 *                 that this library does not know are set to 0
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a job or if `metrics` is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `metrics` is NULL or has `size` bytes.
 */
int VELOC_Get_metrics(struct VELOC_Metrics *metrics, size_t size);

/**
 * How checkpoints have taken host memory, why, and what that has cost the application.
 *
 * @param stats  gets the figures
 * @param size   `sizeof(VELOC_Snapshot)` of the caller; members beyond it are left out, members
 *               that this library does not know are set to 0
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a job or if `stats` is NULL
 *
 * Source: an addition of this library; CRUM, section V.
 *
 * @pre `stats` points to `size` bytes that can be written.
 */
int VELOC_Snapshot_stats(struct VELOC_Snapshot *stats, size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif /* __cplusplus */

#endif  /* VELOC_METRICS_H */
