/*
 * Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.
 *
 * Generated from src/capi by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef VELOC_H
#define VELOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "veloc/defs.h"

/*
 * VELOC_Init is declared where there is MPI. Define VELOC_NO_MPI to do without; the library is the
 * same.
 */
#ifndef VELOC_NO_MPI
#ifdef __has_include
#if !__has_include(<mpi.h>)
#define VELOC_NO_MPI
#endif
#endif
#endif

#ifndef VELOC_NO_MPI
#include <mpi.h>
#endif

/**
 * A schedule of an adjoint computation: which states of a forward pass are stored, and which are
 * computed again, and when. Opaque. Each may be used by one thread at a time.
 */
typedef struct VELOC_Schedule VELOC_Schedule;

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
     * Bytes moved per hop. A: application, D: device cache, H: host buffer, F: scratch file,
     * P: persistent file. In order: AtoD, AtoH, AtoF, DtoH, DtoF, HtoF, FtoP, PtoF, FtoH, HtoD,
     * DtoA, HtoA, FtoA.
     */
    struct VELOC_Sum hops[13];
    /**
     * Time the application was kept waiting, per cause. In order: its own copy, its own queued
     * work, mapping of the device cache, room in the device cache, room in the host buffer,
     * bytes on their way up, files, draining that it asked for.
     */
    struct VELOC_Sum blocked[8];
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
     * Waiting for this process's turn to register, in the background.
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
     * Of those, free bytes.
     */
    uint64_t device_free;
    /**
     * Bytes of the host buffer.
     */
    uint64_t host_capacity;
    /**
     * Of those, free bytes.
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
     * How often `touch = auto` has changed its mind.
     */
    uint64_t touch_changes;
    /**
     * What it decides by, in bytes per second, 0 where nothing was measured: touching alone,
     * touching beside a flush, flushing to touched pages, to untouched pages, beside touching.
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
     * Checkpoints that erasure coding was to protect and could not.
     */
    uint64_t encode_failures;
} VELOC_Metrics;

/**
 * What the application does next.
 */
typedef struct VELOC_Action {
    /**
     * One of VELOC_ACTION_*.
     */
    int kind;
    /**
     * The state that the application has when it begins; for VELOC_ACTION_RESTORE the one that it
     * has then.
     */
    int64_t from;
    /**
     * For VELOC_ACTION_ADVANCE the state that the application has then; for turns `from + 1`, the
     * state from which the adjoint goes to `from`; else `from`.
     */
    int64_t to;
    /**
     * The slot, from 0 on, that is written by VELOC_ACTION_TAKESHOT or read by VELOC_ACTION_RESTORE;
     * else -1. Slots on disk have the numbers from the number of slots in memory on.
     */
    int64_t slot;
} VELOC_Action;

/**
 * What a schedule costs if nothing goes wrong. Numbers that do not fit are INT64_MAX.
 */
typedef struct VELOC_Cost {
    /**
     * Forward steps that are not recorded.
     */
    int64_t advances;
    /**
     * All forward steps: these, and those that are recorded.
     */
    int64_t forward_evaluations;
    /**
     * States that are stored, state 0 among them.
     */
    int64_t takeshots;
    /**
     * How often the step that is repeated most is computed without being recorded, at the most.
     */
    int64_t repetition;
    /**
     * The largest distance between states stored in the first sweep, or from the last to the end.
     */
    int64_t max_gap;
} VELOC_Cost;

/**
 * An adjoint computation. Set everything to zero first, then `size`, and what is needed; what is
 * zero has the meaning that is said. Later versions of the library have more members at the end; by
 * `size` they know which of them a program has, and take the others as zero. States are numbered from 0 to `steps`, and step `i` goes from
 * state `i - 1` to state `i`.
 *
 * The callbacks run in the call's thread. They return VELOC_SUCCESS, or VELOC_FAILURE, which ends
 * the run, and may call the library; but checkpoints of the run's names are not taken, restored or cleaned
 * up by them, and what is protected for these names keeps its ids and sizes. They must return: one that
 * is left by an exception or `longjmp` leaves the run under way, and there is one at a time.
 */
typedef struct VELOC_Adjoint {
    /**
     * The size of this structure, `sizeof(VELOC_Adjoint)`.
     */
    size_t size;
    /**
     * The name of the states in the store, as VELOC_Checkpoint, of at most 119 bytes; `<name>.adjoint` is
     * that of stored adjoints, `<name>.hashes` that of hashes of states. What else is stored under them
     * is refused, and so is the name `default`, which stands for what VELOC_Mem_protect has.
     */
    const char *name;
    /**
     * Steps of the forward sweep; 1 or more.
     */
    int64_t steps;
    /**
     * States that are stored at a time, state 0 among them; 1 or more. A run that was stopped may have one
     * more in the store, that at which it was.
     */
    int64_t slots;
    /**
     * The resilience distance: how many steps stored states may be apart, so that no crash in the
     * first forward sweep costs more; 0: any number.
     */
    int64_t resilience_distance;
    /**
     * The adjoint distance: after how many of its steps the adjoint is stored; 0: as the resilience
     * distance, and never if that is 0, too (but see `mtbf`).
     */
    int64_t adjoint_distance;
    /**
     * Where states are stored: one of VELOC_RULE_*.
     */
    int rule;
    /**
     * VELOC_DEFAULT or VELOC_VERIFY_REPLAY.
     */
    unsigned int flags;
    /**
     * After so many seconds the run stops, so that a later one can go on; 0: it does not. However short it
     * is, a run computes one step; a warning says so if it was over by then.
     */
    double time_limit;
    /**
     * A number of the application's, by which it tells this computation from others of the same name:
     * a store with another one is refused. The iteration of an optimisation, for example.
     */
    uint64_t tag;
    /**
     * What the callbacks get.
     */
    void *user;
    /**
     * Protects the memory of the state and of the adjoint, by VELOC_Adjoint_protect. Called once,
     * first.
     */
    int (*protect)(void *user);
    /**
     * Computes the states from `from`, which the application has, to `to`, which it has then,
     * without recording. The same states each time.
     */
    int (*forward)(void *user, int64_t from, int64_t to);
    /**
     * Computes step `step` from state `step - 1`, which the application has, recording it, and takes
     * the adjoint's step from state `step` to state `step - 1`. If `step` is `steps`, it begins the
     * adjoint before that. The state may be anything then.
     */
    int (*adjoint)(void *user, int64_t step);
    /**
     * A hash of the state that the application has, for VELOC_VERIFY_REPLAY, and to compare state 0 when a run
     * goes on. The same function each time. NULL: the protected memory of the state, which must be the host's,
     * is hashed (SHA-256) for the former, and compared for the latter.
     */
    int (*hash)(void *user, uint64_t *hash);
    /**
     * The mean time between failures. Not 0: the adjoint is stored where the work that a failure would
     * cost outweighs the write, as by VELOC_Schedule_set_failures, and not every so many steps. This
     * and the next two are in forward steps, and given all or not at all.
     */
    double mtbf;
    /**
     * How long it takes to store the adjoint.
     */
    double write_cost;
    /**
     * How long a step takes that is recorded and reversed.
     */
    double turn_cost;
} VELOC_Adjoint;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Initialises the library for a process without MPI.
 *
 * Reads the configuration, makes the directories and reserves the caches. Returns without waiting
 * for any memory to be mapped, touched or registered (HiPC'22, section IV). A scratch directory that
 * can only be read will do where persistent may take the new checkpoints.
 *
 * @param id        number of this process in file names (`<name>-<id>-<version>.dat`)
 * @param cfg_file  path of the configuration; empty: the environment has all of it
 * @return VELOC_SUCCESS; VELOC_FAILURE if the configuration is missing or wrong, a size does not
 *         fit the machine, a directory cannot be made or written to, or the library is initialised
 *         already
 *
 * Source: VELOC_Init_single of VELOC 1.8.
 *
 * @pre `cfg_file` is NULL or a string that ends with NUL.
 */
int VELOC_Init_single(unsigned int id,
                      const char *cfg_file);

#ifndef VELOC_NO_MPI
/**
 * Initialises the library over an MPI communicator. Collective.
 *
 * MPI is not linked: its functions are found in the process. Open MPI, MPICH and the standard ABI
 * of MPI 5 are recognised.
 *
 * @param comm      the communicator, an `MPI_Comm`; duplicated, so that it stays the caller's
 * @param cfg_file  path of the configuration; empty: the environment has all of it
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init_single, on every process if on one, if
 *         processes that act together are configured differently (the reason names the keys), and
 *         if there is no initialised MPI in the process
 *
 * Source: VELOC_Init of VELOC 1.8.
 *
 * @pre `comm` is a communicator of the process's MPI; `cfg_file` is NULL or a string that ends with NUL.
 */
int VELOC_Init(MPI_Comm comm, const char *cfg_file);
#endif

/**
 * Ends the job. Safe in any state, also twice and after `MPI_Finalize`. Afterwards the library can
 * be initialised again. Collective under MPI.
 *
 * @param drain  not 0: first waits for everything that is to reach a file, and with erasure coding
 *         (`ec_interval`) until all processes of the group have made their parities; 0: waits only
 *         until everything is in the host buffer, from where veloc-backend writes it; without one
 *         (`threaded = true`, or none to be had) it waits for the files all the same. Nothing that
 *         was taken is lost, unless `ephemeral = true`. The processes may pass different values;
 *         with erasure coding all wait if one does. What the log of messages (`libveloc-mpi.so`)
 *         had no memory for is waited for until it is in files, which stay for its replays
 * @return VELOC_SUCCESS; VELOC_FAILURE if there was nothing to finalize, if something could not be
 *         written, or if something else has failed in the background of which no call has told yet,
 *         with the reason of the oldest of these (the job has ended all the same, and what veloc-backend
 *         has it writes, also what could not be written before)
 *
 * Source: VELOC_Finalize of VELOC 1.8.
 */
int VELOC_Finalize(int drain);

/**
 * Hands over the stream in which the application computes.
 *
 * From here on a capture or restore comes after what is queued in this stream, and in no other.
 * Without a stream (the default, and after NULL) it comes after everything that is queued in the
 * context, on non-blocking streams too, which may take longer.
 *
 * @param stream  a `CUstream` or `cudaStream_t`; must stay alive until another one is set
 * @return VELOC_SUCCESS; VELOC_FAILURE if it is no stream of the context in use
 *
 * Source: an addition of this library.
 *
 * @pre `stream` is NULL or a stream that stays alive until another one is set.
 */
int VELOC_Set_stream(void *stream);

/**
 * The reason of the calling thread's last failed call, in English, with the thing and the value.
 *
 * The library prints it on standard error as well, but not any more once the program has asked for one:
 * a program that prints errors itself asks once at its start. The key print_errors decides otherwise.
 *
 * @return a string, empty if no call of this thread has failed; valid until the thread's next
 *         failing call; never NULL. Ask in a statement of its own: beside another call in one list of
 *         arguments, C may evaluate this one first.
 *
 * Source: an addition of this library.
 */
const char *VELOC_Last_error(void);

/**
 * Protects a region of memory: it is part of checkpoints from here on, except of names that have
 * regions of their own (`VELOC_Region_protect`).
 *
 * Device memory, managed memory and host memory are told apart by the driver; a checkpoint may
 * have regions of every kind. An id that is protected already gets the new region.
 *
 * @param id         names the region in checkpoints; any but, in a process that has libveloc-mpi.so,
 *                   -2147483647 to -2146435071
 * @param ptr        its first byte, on the host or the device
 * @param count      number of elements
 * @param base_size  bytes of an element
 * @return VELOC_SUCCESS; VELOC_FAILURE if the id is the library's, or if the range is none, NULL with a
 *         size, reaches past the end of its device allocation, or belongs to another device or context
 *
 * Source: VELOC_Mem_protect of VELOC 1.8 (which returns -1 when an id is protected again).
 */
int VELOC_Mem_protect(int id,
                      void *ptr,
                      size_t count,
                      size_t base_size);

/**
 * Protects a region of memory as VELOC_Mem_protect does, on terms of the application's.
 *
 * With VELOC_READ_ONLY the application lends the region: it leaves it as it is until it is
 * released, and may read it meanwhile. The checkpoint call then copies nothing; a thread of the
 * library brings the bytes to the host buffer, and releases the region. Where it cannot be so the
 * region is copied, and released before the call returns, as it is without the flag: with
 * `mode = sync`, for a checkpoint that goes straight to a file, and for device memory if the host
 * buffer has no room for it at the moment, or beside device memory that is not lent. Without
 * `release`, VELOC_Checkpoint_wait ends every loan. If the application is killed, what was lent
 * and has not reached the host buffer is lost.
 *
 * @param id         as VELOC_Mem_protect
 * @param ptr        as VELOC_Mem_protect
 * @param count      as VELOC_Mem_protect
 * @param base_size  as VELOC_Mem_protect
 * @param flags      VELOC_DEFAULT or VELOC_READ_ONLY
 * @param release    called once for each checkpoint that the region is captured into, as soon as
 *         the library needs it no more, also if the checkpoint is given up or its copy fails; by
 *         any thread; what it returns is ignored; NULL: nothing is called. Its calls of the library
 *         fail, and it must not end by an exception or `longjmp`; VELOC_Mem_protect_guarded is for
 *         routines that may throw
 * @return as VELOC_Mem_protect; VELOC_FAILURE also if there is no such flag
 *
 * Source: VELOC_Mem_protect of VELOC's GPU prototype, which has it for C++ with six arguments, and
 * never calls `release`.
 */
int VELOC_Mem_protect_flags(int id,
                            void *ptr,
                            size_t count,
                            size_t base_size,
                            unsigned int flags,
                            int (*release)(void));

/**
 * Protects a region of memory as VELOC_Mem_protect_flags does, with a release routine of a language
 * that has exceptions. C++ programs need not call it: `veloc.h` gives them VELOC_Mem_protect with six
 * arguments.
 *
 * @param id         as VELOC_Mem_protect
 * @param ptr        as VELOC_Mem_protect
 * @param count      as VELOC_Mem_protect
 * @param base_size  as VELOC_Mem_protect
 * @param flags      as VELOC_Mem_protect_flags
 * @param release    as VELOC_Mem_protect_flags, but that `guard` calls it
 * @param guard      calls `release` and catches what it throws: then it returns another value than
 *         VELOC_SUCCESS, and may write why, with a NUL, to the `room` bytes at `reason`. That is a
 *         failure in the background, which is reported once, by the next VELOC_Checkpoint_begin, _wait
 *         or _finished; the checkpoint is as good as any. NULL: as VELOC_Mem_protect_flags
 * @return as VELOC_Mem_protect_flags
 *
 * Source: an addition of this library.
 */
int VELOC_Mem_protect_guarded(int id,
                              void *ptr,
                              size_t count,
                              size_t base_size,
                              unsigned int flags,
                              int (*release)(void),
                              int (*guard)(int (*release)(void), char *reason, size_t room));

/**
 * Ends the protection of a region. Checkpoints that have it keep it.
 *
 * @param id  the region
 * @return VELOC_SUCCESS; VELOC_FAILURE if it is not protected
 *
 * Source: VELOC_Mem_unprotect of VELOC 1.8.
 */
int VELOC_Mem_unprotect(int id);

/**
 * Ends the protection of all regions but those of `VELOC_Region_protect`.
 *
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a job
 *
 * Source: VELOC_Mem_clear of VELOC 1.8.
 */
int VELOC_Mem_clear(void);

/**
 * Protects a region of memory for the checkpoints of one name alone.
 *
 * A name that has regions of its own has no others: `VELOC_Mem_protect` then concerns only other
 * names. Ids are counted for each name by itself.
 *
 * @param id         names the region in checkpoints of that name
 * @param ptr        its first byte, on the host or the device
 * @param count      number of elements
 * @param base_size  bytes of an element
 * @param name       the name of the checkpoints
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Mem_protect, or if the name is NULL or not allowed
 *
 * Source: VELOC_Region_protect of VELOC 1.8 (where later changes of other regions are ignored once
 * a name has had its first checkpoint; here they count).
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);

/**
 * Ends the protection of a region of a name's own. With the last one the name has again those of
 * `VELOC_Mem_protect`.
 *
 * @param id    the region
 * @param name  the name of the checkpoints
 * @return VELOC_SUCCESS; VELOC_FAILURE if it is not protected for that name
 *
 * Source: VELOC_Region_unprotect of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Region_unprotect(int id, const char *name);

/**
 * Ends the protection of all regions of a name's own.
 *
 * @param name  the name of the checkpoints
 * @return VELOC_SUCCESS; VELOC_FAILURE if the name is NULL or not allowed
 *
 * Source: VELOC_Region_clear of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Region_clear(const char *name);

/**
 * Takes a checkpoint of all protected regions.
 *
 * Returns when the application may change its memory again. Waits for room in the first tier and
 * for its own copy, not for the checkpoint before; with `mode = sync`, until the files are
 * complete.
 *
 * @param name     names the sequence of checkpoints: `[a-zA-Z0-9_.]+`, at most 127 bytes
 * @param version  0 or more; an existing version is replaced
 * @return VELOC_SUCCESS; VELOC_FAILURE if nothing is protected, there is no room and none can
 *         come, a copy failed, or an earlier checkpoint failed in the background (reported once;
 *         then this one is not taken)
 *
 * Source: VELOC_Checkpoint of VELOC 1.8 (which first waits for the checkpoint before).
 *
 * @pre `name` is NULL or a string that ends with NUL; protected memory is valid.
 */
int VELOC_Checkpoint(const char *name, int version);

/**
 * Opens a checkpoint, to be filled by VELOC_Checkpoint_mem, _selective or a routed file.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  as VELOC_Checkpoint
 * @return VELOC_SUCCESS; VELOC_FAILURE if a checkpoint is open, the name is one of an adjoint computation
 *         under way (VELOC_Adjoint_run), or an earlier checkpoint failed in
 *         the background (reported once). A restart that is open ends, as by VELOC_Restart_end(0)
 *
 * Source: VELOC_Checkpoint_begin of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Checkpoint_begin(const char *name,
                           int version);

/**
 * Captures all protected regions into the open checkpoint. The application may change its memory
 * when this returns.
 *
 * @return VELOC_SUCCESS; VELOC_FAILURE without an open checkpoint, or as VELOC_Checkpoint; the
 *         checkpoint stays open
 *
 * Source: VELOC_Checkpoint_mem of VELOC 1.8.
 */
int VELOC_Checkpoint_mem(void);

/**
 * Captures some of the protected regions into the open checkpoint. Several calls add up; a region
 * can be captured once.
 *
 * @param mode  VELOC_CKPT_ALL, VELOC_CKPT_SOME (those listed) or VELOC_CKPT_REST (those not
 *              listed)
 * @param ids   the list
 * @param n     its length
 * @return VELOC_SUCCESS; VELOC_FAILURE if a listed id is not protected (SOME), nothing is
 *         selected, or as VELOC_Checkpoint_mem
 *
 * Source: VELOC_Checkpoint_selective of VELOC 1.8.
 *
 * @pre `ids` is NULL or points to `n` ids.
 */
int VELOC_Checkpoint_selective(int mode, int *ids, int n);

/**
 * Closes the open checkpoint.
 *
 * @param success  not 0: it can be restored from here on; 0: it is as if it had never been begun,
 *                 and an older one of the same name and version stays
 * @return VELOC_SUCCESS; VELOC_FAILURE without an open checkpoint, or if nothing was captured, or
 *         written to the path of VELOC_Route_file; with `mode = sync` also if a file could not be
 *         written
 *
 * Source: VELOC_Checkpoint_end of VELOC 1.8.
 */
int VELOC_Checkpoint_end(int success);

/**
 * Waits until every checkpoint has come as far down as the configuration asks for.
 *
 * @return VELOC_SUCCESS; VELOC_FAILURE if one could not (the reason of the first; what failed was
 *         tried again), or while a checkpoint is open
 *
 * Source: VELOC_Checkpoint_wait of VELOC 1.8.
 */
int VELOC_Checkpoint_wait(void);

/**
 * Whether every checkpoint has come as far down as the configuration asks for. Does not wait.
 *
 * @return 1: yes; 0: not yet; VELOC_FAILURE: one could not, and has not been since (a successful
 *         VELOC_Checkpoint_wait, a newer checkpoint of that version or VELOC_Cleanup ends this)
 *
 * Source: VELOC_Checkpoint_finished of VELOC 1.8.
 */
int VELOC_Checkpoint_finished(void);

/**
 * The path at which to write a file that is the open checkpoint, or to read it in a restart.
 *
 * The file goes to `original` in the background, and `persistent` gets a link to it. A checkpoint is
 * one file; asked for the same `original` again, the path is the same. It is in scratch, or, where that
 * is full, read-only or broken and each checkpoint is copied to persistent, beside `original`.
 *
 * @param original  the path the application would have written to
 * @param routed    gets the path to use: VELOC_MAX_NAME bytes
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a checkpoint and a restart, without scratch or room,
 *         if the checkpoint has memory regions or another file already, or if the path is too long
 *
 * Source: VELOC_Route_file of VELOC 1.8.
 *
 * @pre `original` is NULL or a string that ends with NUL; `routed` is NULL or has VELOC_MAX_NAME bytes.
 */
int VELOC_Route_file(const char *original,
                     char *routed);

/**
 * Removes the checkpoints of a name from memory and scratch. Persistent copies stay; one that is
 * still to be made is made first. What earlier jobs have left in scratch and should be in persistent
 * stays, until `veloc sync` has copied it.
 *
 * @param name  as VELOC_Checkpoint
 * @return VELOC_SUCCESS, also if there were none; VELOC_FAILURE if a file could not be removed
 *
 * Source: VELOC_Cleanup of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Cleanup(const char *name);

/**
 * The newest version that can be restored. Collective under MPI: the newest that every process
 * can restore. With erasure coding (`ec_interval`) a process that lacks it first rebuilds it, if
 * the others have enough of it.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the newest version to consider; 0: the newest of all
 * @return the version; VELOC_FAILURE if there is none or the arguments are wrong
 *
 * Source: VELOC_Restart_test of VELOC 1.8 (which returns -2 when there is none).
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Restart_test(const char *name, int version);

/**
 * Restores a checkpoint into the protected regions, from the nearest copy. Collective under MPI.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the version
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such checkpoint, one of its regions has no
 *         protected memory, too little, or memory that may only be read (then no byte was changed),
 *         or a copy failed (then what is in the regions is undefined; so it is if all files turned
 *         out not to have their checksums, which VELOC_Restart_test would have told before). Over
 *         MPI also if one of that is so on another process, which the reason names; then no byte was
 *         changed on any, unless a copy failed
 *
 * Source: VELOC_Restart of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL; protected memory is valid.
 */
int VELOC_Restart(const char *name,
                  int version);

/**
 * Opens a checkpoint for recovery. Collective under MPI: on every process or on none.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the version
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such checkpoint, or a checkpoint is open. A
 *         restart that is open ends, as by VELOC_Restart_end(0)
 *
 * Source: VELOC_Restart_begin of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Restart_begin(const char *name, int version);

/**
 * Recovers every region of the open checkpoint into the protected memory of the same id. Regions that are
 * protected, and not in it, keep their memory, with a warning that names them.
 *
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Restart, or without an open restart
 *
 * Source: VELOC_Recover_mem of VELOC 1.8.
 */
int VELOC_Recover_mem(void);

/**
 * Recovers some of the regions of the open checkpoint.
 *
 * @param mode  VELOC_RECOVER_ALL, VELOC_RECOVER_SOME (those listed) or VELOC_RECOVER_REST (those
 *              not listed)
 * @param ids   the list
 * @param n     its length
 * @return VELOC_SUCCESS; VELOC_FAILURE if the checkpoint lacks a listed id (SOME), or has none of the
 *         regions that are not listed (REST), or as VELOC_Recover_mem
 *
 * Source: VELOC_Recover_selective of VELOC 1.8.
 *
 * @pre `ids` is NULL or points to `n` ids.
 */
int VELOC_Recover_selective(int mode,
                            int *ids,
                            int n);

/**
 * The size of a region in the open checkpoint.
 *
 * @param id  the region
 * @return bytes; VELOC_FAILURE if the checkpoint has no such region, there is no open restart, or
 *         the size is beyond an int (VELOC_Recover_ckpt_size has no such limit)
 *
 * Source: VELOC_Recover_size of VELOC 1.8.
 */
int VELOC_Recover_size(int id);

/**
 * The size of a region in any checkpoint. Needs no open restart.
 *
 * @param name       as VELOC_Checkpoint
 * @param version    the version
 * @param region_id  the region
 * @return bytes; 0 if there is no such checkpoint or region (VELOC_Last_error tells)
 *
 * Source: VELOC_Recover_ckpt_size of VELOC's GPU prototype.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
size_t VELOC_Recover_ckpt_size(const char *name, int version, int region_id);

/**
 * Closes the checkpoint that is open for recovery.
 *
 * @param success  not 0: the checkpoint counts as consumed, so that its room may go to others
 *                 first (in an ephemeral job without scratch it may then be discarded); 0: not
 * @return VELOC_SUCCESS; VELOC_FAILURE without an open restart
 *
 * Source: VELOC_Restart_end of VELOC 1.8.
 */
int VELOC_Restart_end(int success);

/**
 * Hints that a checkpoint will be read, after those hinted before. It may still be to come: the
 * hint keeps its place in the order, and is the checkpoint's when that is taken, or taken anew. It
 * ends with the restore of that version, with VELOC_Cleanup of the name, or with the job; one that
 * is to be read twice is hinted twice.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the version
 * @return VELOC_SUCCESS; VELOC_FAILURE if the name or the version is none, or outside a job
 *
 * Source: VELOC_Prefetch_enqueue of VELOC's GPU prototype.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Prefetch_enqueue(const char *name, int version);

/**
 * Lets fetching ahead begin. A first restore does so, too.
 *
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a job
 *
 * Source: VELOC_Prefetch_start of VELOC's GPU prototype.
 */
int VELOC_Prefetch_start(void);

/**
 * Whether a region of a checkpoint is wholly in the device cache.
 *
 * @param name       as VELOC_Checkpoint
 * @param version    the version
 * @param region_id  the region
 * @return true if it is; false if not, or if there is no such checkpoint or region
 *
 * Source: VELOC_Next_prefetched of VELOC's GPU prototype.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
bool VELOC_Next_prefetched(const char *name, int version, int region_id);

/**
 * The bytes moved per hop, as text: a line for each hop, as `DtoH: 1048576 bytes, 12.50 GB/s`.
 *
 * @param text  gets at most 1024 bytes, the final NUL included; empty outside a job
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
 * Makes a schedule for the adjoint of a forward pass. No job is needed.
 *
 * @param steps     steps of the pass, from state 0 to state `steps`; 1 to 2^48
 * @param slots     states that can be stored at a time, state 0 among them; 1 to 2^48
 * @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong
 *
 * Source: an addition of this library, after revolve (Griewank, Walther, ACM TOMS 26).
 *
 * @pre `schedule` is NULL or has room for a pointer.
 */
int VELOC_Schedule_create(int64_t steps, int64_t slots, struct VELOC_Schedule **schedule);

/**
 * Makes a schedule for the adjoint of a forward pass whose number of steps is not known: an adaptive
 * step, or an end that a condition decides. Each VELOC_ACTION_ADVANCE is then one step, until
 * VELOC_Schedule_end says that it was the last, or VELOC_Schedule_end_after_next that the next one is. No step
 * is computed more often than with a schedule that knew of one step more, or, with the latter, of the end. Has
 * no resilience distance, no disk and no rule to choose.
 *
 * @param slots     states that can be stored at a time, state 0 among them; 1 to 2^48
 * @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong
 *
 * Source: an addition of this library, after Wang, Moin, Iaccarino, SIAM J. Sci. Comput. 31 (2009).
 *
 * @pre `schedule` is NULL or has room for a pointer.
 */
int VELOC_Schedule_create_online(int64_t slots,
                                 struct VELOC_Schedule **schedule);

/**
 * Ends the forward pass of a schedule that VELOC_Schedule_create_online has made: the state to which
 * the last VELOC_ACTION_ADVANCE went is the last one. The next action begins the way back, and the
 * schedule is from now on one for so many steps; after a crash, VELOC_Schedule_create makes such a
 * one for VELOC_Schedule_resume.
 *
 * @param schedule  a schedule
 * @return VELOC_SUCCESS; VELOC_FAILURE if no step was made, or the number of steps is known
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_end(struct VELOC_Schedule *schedule);

/**
 * Ends the forward pass of a schedule that VELOC_Schedule_create_online has made one step later than
 * VELOC_Schedule_end: the application has the state that the next step begins from, and that step is the last
 * one. It is not computed by a VELOC_ACTION_ADVANCE, but recorded at once: the next action is
 * VELOC_ACTION_FIRSTURN. So this takes fewer steps. (Before the first action the pass has one step, and state 0
 * is stored first.)
 *
 * @param schedule  a schedule
 * @return VELOC_SUCCESS; VELOC_FAILURE if the number of steps is known, or, after a crash, the state that the
 *         pass goes on from is not restored yet (then nothing was changed)
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_end_after_next(struct VELOC_Schedule *schedule);

/**
 * Goes on after a crash, at the least number of steps, with the states that are left in the slots. (With
 * hundreds of them, where that can take long to find, at no more than keeping all of them takes.)
 * In place of the first action. If state 0 is not among them, the application must have it, as at
 * its beginning; it is then stored first, if need be in place of another one. With slots on disk, what is
 * in the others counts as lost, and all states on disk are kept (none without state 0 among them), which
 * need not be the least number of steps. A resilience distance binds what is left of the first sweep alone: the
 * way on from the last state that is kept, if no adjoint was stored. A schedule whose end is not known goes on
 * with its pass, from the last state that is left; once it was known, a schedule for so many steps is resumed.
 * States in slots that the schedule does not have count as lost.
 *
 * @param schedule  a schedule with the settings that the one before the crash had
 * @param states    for each slot the state that was stored there last, needed or not; -1: none that
 *                  is whole; no other number that is not a state's is taken
 * @param slots     how many slots that are
 * @param adjoint   the state that the last stored adjoint belongs to; -1: none was stored
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong
 *
 * Source: an addition of this library; resrevolve restores its whole state from a file.
 *
 * @pre `schedule` is NULL or a schedule; `states` is NULL or has `slots` numbers.
 */
int VELOC_Schedule_resume(struct VELOC_Schedule *schedule,
                          const int64_t *states,
                          int64_t slots,
                          int64_t adjoint);

/**
 * The next action.
 *
 * @param schedule  a schedule
 * @param action    gets the action; its kind is VELOC_ACTION_ERROR if there is none
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL or VELOC_ACTION_TERMINATE was given
 *         before
 *
 * Source: next of resrevolve (Walther, Narayanan, section 3).
 *
 * @pre `schedule` is NULL or a schedule, `action` is NULL or has room for one.
 */
int VELOC_Schedule_next(struct VELOC_Schedule *schedule, struct VELOC_Action *action);

/**
 * What the schedule costs from beginning to end if nothing goes wrong. Takes time in proportion to
 * the states that are stored in the first sweep; with slots on disk, to all actions. After
 * VELOC_Schedule_end or VELOC_Schedule_end_after_next it is what a schedule costs that knew the end.
 *
 * @param schedule  a schedule
 * @param cost      gets the figures
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, the number of steps is not known, more
 *         than 10,000,000 states can be stored in the first sweep, or, with slots on disk, there are
 *         more than 20,000,000 actions
 *
 * Source: an addition of this library, after numforw and expense of revolve.
 *
 * @pre `schedule` is NULL or a schedule, `cost` is NULL or has room for one.
 */
int VELOC_Schedule_cost(const struct VELOC_Schedule *schedule,
                        struct VELOC_Cost *cost);

/**
 * Makes another schedule that stands where this one does.
 *
 * @param schedule  a schedule
 * @param clone     gets the other, to be freed by VELOC_Schedule_free
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule, `clone` is NULL or has room for a pointer.
 */
int VELOC_Schedule_clone(const struct VELOC_Schedule *schedule, struct VELOC_Schedule **clone);

/**
 * Writes where a schedule stands, for VELOC_Schedule_unpack. Takes some bytes for each stored state, and
 * 32 for a checksum.
 *
 * @param schedule  a schedule
 * @param bytes     gets the bytes; or NULL, to ask for their number
 * @param size      how many bytes there is room for; gets how many they are
 * @return VELOC_SUCCESS; VELOC_FAILURE if `schedule` or `size` is NULL, or there is too little room
 *         (then `size` has how much is needed)
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule, `size` is NULL or has a number, and there is room for so many
 * bytes at `bytes` unless that is NULL.
 */
int VELOC_Schedule_pack(const struct VELOC_Schedule *schedule,
                        void *bytes,
                        size_t *size);

/**
 * Makes a schedule that stands where the one did that VELOC_Schedule_pack has written. That is for
 * planned stops, after which every slot has what it had; after a crash, VELOC_Schedule_resume goes on
 * with whatever is left.
 *
 * @param bytes     the bytes
 * @param size      how many they are
 * @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, or the bytes are not those of a
 *         schedule, of another version of the format, or have changed since they were written
 *
 * Source: an addition of this library.
 *
 * @pre There are `size` bytes at `bytes` unless that is NULL; `schedule` is NULL or has room for a pointer.
 */
int VELOC_Schedule_unpack(const void *bytes,
                          size_t size,
                          struct VELOC_Schedule **schedule);

/**
 * Frees a schedule.
 *
 * @param schedule  a schedule, which must not be used any more; or NULL, which has no effect
 * @return VELOC_SUCCESS
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_free(struct VELOC_Schedule *schedule);

/**
 * Adds slots on disk. Those of the schedule are then slots in memory, whose use costs nothing, and
 * what is stored in which is chosen so that advances, writes and reads take the least time together
 * (for up to 1024 steps; some per cent more for longer passes). Slots on disk have the numbers from
 * `slots` of VELOC_Schedule_create on. After a crash VELOC_Schedule_resume goes on with what is on
 * disk. Before the first action; not together with a resilience distance, or with a rule other than
 * VELOC_RULE_OPTIMAL.
 *
 * @param schedule    a schedule
 * @param disk_slots  states that disk can have at a time; 1 to 2^48
 * @param write       how long a write to disk takes, in forward steps; 0 to 1,000,000
 * @param read        how long a read takes
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
 *
 * Source: an addition of this library, after H-Revolve (Herrmann, Pallez, ACM TOMS 46 (2020)).
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_set_disk(struct VELOC_Schedule *schedule,
                            int64_t disk_slots,
                            double write,
                            double read);

/**
 * Sets the resilience distance: how many steps stored states may be apart in the first forward pass, so that
 * no crash in it costs more. Before the first action.
 *
 * @param schedule  a schedule
 * @param distance  1 or more; times the slots it must not be less than the steps
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
 *
 * Source: set_resilience_distance of resrevolve (Walther, Narayanan, section 3).
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_set_resilience_distance(struct VELOC_Schedule *schedule,
                                           int64_t distance);

/**
 * Sets the adjoint distance: after how many of its steps the adjoint is to be stored. It is then
 * also to be stored after VELOC_ACTION_FIRSTURN. Before the first action.
 *
 * @param schedule  a schedule
 * @param distance  1 or more
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
 *
 * Source: set_adjoint_distance of resrevolve (Walther, Narayanan, section 3).
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_set_adjoint_distance(struct VELOC_Schedule *schedule, int64_t distance);

/**
 * Has the adjoint stored where the work that a failure would cost outweighs the write, instead of
 * every so many steps: the work between two steps of the adjoint differs much. It is not stored after
 * VELOC_ACTION_FIRSTURN then. Times are in forward steps. Before the first action; the last of this
 * and VELOC_Schedule_set_adjoint_distance counts.
 *
 * @param schedule    a schedule
 * @param mtbf        the mean time between failures; a finite number above 0, as the others are
 * @param write_cost  how long it takes to store the adjoint; if that takes next to nothing, a small number:
 *                    its product with `mtbf` is one above 0 that a double holds
 * @param turn_cost   how long a step takes that is recorded and reversed
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
 *
 * Source: an addition of this library, after Young, Commun. ACM 17 (1974).
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_set_failures(struct VELOC_Schedule *schedule,
                                double mtbf,
                                double write_cost,
                                double turn_cost);

/**
 * Chooses where states are stored. Before the first action; with slots on disk or an end that is not known
 * there is VELOC_RULE_OPTIMAL alone.
 *
 * @param schedule  a schedule
 * @param rule      one of VELOC_RULE_*
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
 *
 * Source: an addition of this library; the rules are those of Walther, Narayanan, section 4.
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_set_rule(struct VELOC_Schedule *schedule,
                            int rule);

/**
 * Gives the least resilience distance that costs nothing: with any less, more steps are computed.
 *
 * @param schedule  a schedule
 * @param distance  gets the distance
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, or the number of steps is not known
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule, `distance` is NULL or has room for a number.
 */
int VELOC_Schedule_least_distance(const struct VELOC_Schedule *schedule, int64_t *distance);

/**
 * The next step of an adjoint computation, with the arguments of the original revolve. A loop that
 * was written for it goes on by renaming; VELOC_Schedule_next does more. Computations are told apart
 * by their thread and where their `check` is.
 *
 * @param check  the slot that was written last of those in use; -1 before the first call
 * @param capo   the state that the application has; 0 before the first call
 * @param fine   the state that the adjoint has come to; the steps before the first call
 * @param snaps  slots
 * @param info   as it is, but if the step is VELOC_ACTION_ERROR: 11 where `check` is beyond the
 *               slots, else 9
 * @return one of VELOC_ACTION_*: ADVANCE (to the new `capo`), TAKESHOT (into slot `check`), RESTORE
 *         (from slot `check`), FIRSTURN and YOUTURN (the step behind `capo`), TERMINATE; ERROR if an
 *         argument is wrong
 *
 * Source: revolve (Griewank, Walther, ACM TOMS 26, section 4).
 *
 * @pre The pointers are NULL or point to what they should.
 */
int VELOC_Revolve(int64_t *check,
                  int64_t *capo,
                  int64_t *fine,
                  int64_t snaps,
                  int *info);

/**
 * The largest number of steps whose adjoint can be computed with some slots and repetitions.
 *
 * @param ss  slots
 * @param tt  repetitions
 * @return the steps; -1 if an argument is negative or the steps do not fit
 *
 * Source: maxrange of revolve.
 */
int64_t VELOC_Maxrange(int64_t ss, int64_t tt);

/**
 * The least number of forward steps that are not recorded.
 *
 * @param steps  steps
 * @param snaps  slots
 * @return the number; -1 if an argument is not positive or above 2^48, or if the number does not
 *         fit
 *
 * Source: numforw of revolve.
 */
int64_t VELOC_Numforw(int64_t steps, int64_t snaps);

/**
 * The least number of forward steps that are not recorded, for each step.
 *
 * @param steps  steps
 * @param snaps  slots
 * @return the quotient; -1 where VELOC_Numforw gives -1
 *
 * Source: expense of revolve.
 */
double VELOC_Expense(int64_t steps, int64_t snaps);

/**
 * A number of slots for which slots and repetitions are about as many.
 *
 * @param steps  steps
 * @return the slots; -1 if the steps are not positive or above 2^48
 *
 * Source: adjust of revolve.
 */
int64_t VELOC_Adjust(int64_t steps);

/**
 * Computes an adjoint: goes through the schedule, has the application compute, and keeps the states
 * and the adjoint as checkpoints. Called again after a crash or a stop, in the same job or a later
 * one with as many processes, it goes on from what is left, at the least number of steps. Collective
 * under MPI: all processes are given the same, but for `user` and the callbacks.
 *
 * The application has state 0 when it calls this, the same each time: going on from a store that has state 0,
 * the two are compared. By `hash`, if it is given now and was when state 0 was stored, and another state is refused;
 * else byte by byte, in host and in device memory, and a warning says which bytes differ. When it is finished, the
 * adjoint is in the memory protected for it, and the store is as if there had been no run; before that, what is
 * stored stays, whatever `max_versions` and `scratch_versions` say. What
 * VELOC_Region_protect had for the two names is not protected afterwards.
 *
 * Each slot is a version of the name, and each stored adjoint one of the other name, in all tiers, as
 * other checkpoints; states are fetched ahead in the order in which the schedule reads them. With
 * VELOC_VERIFY_REPLAY each state (of more than 1,048,576, as many at equal distances) is hashed when
 * it is first computed, and compared when it is computed or restored again, also by a later job: the
 * hashes of all states between two stored ones are stored before the second one.
 *
 * @param what  the computation
 * @return VELOC_SUCCESS: it is finished; VELOC_STOPPED: the time is over, or VELOC_Adjoint_stop was
 *         called, everything that was computed is in its files, and the same call goes on from there;
 *         VELOC_FAILURE: an argument is wrong, the store is of another computation or, by `hash`, of
 *         another state 0 (then it is as it was, and so is the state), a callback
 *         failed, a state was not the same again (VELOC_Last_error names the step), or a state cannot be
 *         stored or read back, also because a write has failed in the background: VELOC_Last_error names the
 *         state, its slot and the reason. The store has what it had, and the same call goes on from there.
 *         What fails on one process ends the run on all: that one has its own error, and the others are told
 *         its number. If a callback of its own has failed, and the others wait for it in their
 *         callbacks, it gets its error after 10 s or some steps, and should end the job (MPI_Abort)
 *
 * Source: an addition of this library, after Walther, Narayanan, "Extending the binomial
 * checkpointing technique for resilience".
 *
 * @pre `what` is NULL or points to what its `size` says, with what its members are to have.
 */
int VELOC_Adjoint_run(const struct VELOC_Adjoint *what);

/**
 * Protects memory of the computation that VELOC_Adjoint_run is at: for use in its callbacks. When the
 * callback `protect` has returned, the ids and sizes stay until the run ends, and a region may move: it is
 * protected again, at another address with the same size. A state that varies protects its largest size.
 *
 * @param what       VELOC_ADJOINT_STATE: it is part of each stored state; VELOC_ADJOINT_GRADIENT: it
 *                   is part of each stored adjoint
 * @param id         names the region, for each of the two by itself
 * @param ptr        as VELOC_Mem_protect
 * @param count      as VELOC_Mem_protect
 * @param base_size  as VELOC_Mem_protect
 * @return as VELOC_Mem_protect; VELOC_FAILURE also if no run is under way, `what` is neither, or the id is
 *         new or has another size behind `protect` (then nothing changes)
 *
 * Source: an addition of this library.
 */
int VELOC_Adjoint_protect(int what,
                          int id,
                          void *ptr,
                          size_t count,
                          size_t base_size);

/**
 * Asks the adjoint computation under way, or the next one, to stop as soon as a later one can go on
 * from there. Of several processes it is enough that one asks. May be called from any thread, from a
 * callback, and from a handler of signals.
 *
 * @return VELOC_SUCCESS
 *
 * Source: an addition of this library.
 */
int VELOC_Adjoint_stop(void);

/**
 * Removes what VELOC_Adjoint_run has left under a name, of a run that is not to be gone on with, so that
 * the next one of that name begins anew: states, adjoints and hashes of states, from memory and from files,
 * the persistent ones too (which VELOC_Cleanup leaves). Each process removes its own.
 *
 * @param name  the name of the run
 * @return VELOC_SUCCESS, also if there is nothing; VELOC_FAILURE if a checkpoint of the application's own has
 *         one of the names, or the run is under way (then nothing is removed), or if something could not
 *         be removed
 *
 * Source: an addition of this library.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Adjoint_discard(const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif /* __cplusplus */

#ifdef __cplusplus
#include <stdio.h>

#include <exception>

/*
 * As programs for VELOC's GPU prototype have it. The names are short and may be taken: define
 * VELOC_NO_SHORT_NAMES to do without them. One that is a macro already stays that.
 */
typedef int (*release_routine)();
#ifndef VELOC_NO_SHORT_NAMES
#ifndef DEFAULT
enum { DEFAULT = VELOC_DEFAULT };
#endif
#ifndef READ_ONLY
enum { READ_ONLY = VELOC_READ_ONLY };
#endif
#endif

/* Calls a release routine: a guard of VELOC_Mem_protect_guarded. */
static inline int veloc_call_release(release_routine release, char *reason, size_t room)
{
#ifdef __cpp_exceptions
    try {
        release();
        return VELOC_SUCCESS;
    } catch (const std::exception &error) {
        (void)snprintf(reason, room, "threw: %s", error.what());
        return VELOC_FAILURE;
    } catch (...) {
        (void)snprintf(reason, room, "threw what is no std::exception");
        return VELOC_FAILURE;
    }
#else
    (void)reason;
    (void)room;
    release();
    return VELOC_SUCCESS;
#endif
}

/** As VELOC_Mem_protect_flags. What `release` throws is reported as VELOC_Mem_protect_guarded says. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    unsigned int flags, release_routine release = NULL)
{
    return VELOC_Mem_protect_guarded(id, ptr, count, base_size, flags, release,
                                     veloc_call_release);
}
#endif /* __cplusplus */

#endif  /* VELOC_H */
