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

#include "veloc/adjoint.h"
#include "veloc/defs.h"
#include "veloc/metrics.h"
#include "veloc/pmem.h"

/*
 * In the order in which a program meets them: the job, regions, checkpoints, restarts, hints of what
 * is read next, and the reason of an error. Adjoint computations and their schedules are in
 * veloc/adjoint.h, figures in veloc/metrics.h, arrays in persistent memory in veloc/pmem.h, the log of
 * messages in veloc-mpi.h.
 *
 * VELOC_Init and VELOC_Init_options are declared where there is MPI. Define VELOC_NO_MPI to do
 * without; the library is the same.
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
 * A key of the configuration and its value, as they would stand in the file.
 */
typedef struct VELOC_Option {
    /**
     * The key. Case does not matter.
     */
    const char *key;
    /**
     * The value, as text. An empty one is as good as none; NULL is an error.
     */
    const char *value;
} VELOC_Option;

/**
 * A region of memory, for VELOC_Mem_protect_list and VELOC_Restart_list.
 *
 * Source: an addition of this library.
 */
typedef struct VELOC_Region {
    /**
     * Names the region in checkpoints, as for VELOC_Mem_protect.
     */
    int id;
    /**
     * Its first byte, on the host or the device.
     */
    void *ptr;
    /**
     * Number of elements.
     */
    size_t count;
    /**
     * Bytes of an element.
     */
    size_t base_size;
} VELOC_Region;

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

/**
 * VELOC_Init_single with options in place of a file.
 *
 * What a file may say, options may: docs/configuration.md has the keys. The environment
 * (`VELOC_<KEY>`) stands above them.
 *
 * @param id       as for VELOC_Init_single
 * @param options  keys and values; NULL if there are none. Not used after the call
 * @param n        how many; 0: the environment has all of the configuration
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init_single, if a key or value is NULL, a key is
 *         unknown (which in a file is a warning), or given twice
 *
 * Source: an addition of this library.
 *
 * @pre `options` is NULL or points to `n` of them, whose texts are NULL or strings that end with NUL.
 */
int VELOC_Init_single_options(unsigned int id, const struct VELOC_Option *options, size_t n);

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

#ifndef VELOC_NO_MPI
/**
 * VELOC_Init with options in place of a file. Collective.
 *
 * @param comm     as for VELOC_Init
 * @param options  as for VELOC_Init_single_options, those of this process
 * @param n        how many
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init and VELOC_Init_single_options
 *
 * Source: an addition of this library.
 *
 * @pre `comm` is a communicator of the process's MPI; `options` as for VELOC_Init_single_options.
 */
int VELOC_Init_options(MPI_Comm comm, const struct VELOC_Option *options, size_t n);
#endif

/**
 * Ends the job. Safe in any state, also twice and after `MPI_Finalize`. Afterwards the library can
 * be initialised again. Collective under MPI.
 *
 * @param drain  not 0: first waits until everything that is to reach a file is there, and with
 *         erasure coding (`ec_interval`) until all processes of the group have made their parities.
 *         0: waits only until the host buffer has everything, from where veloc-backend writes it;
 *         without a backend it waits for the files all the same. Nothing that was taken is lost,
 *         unless `ephemeral = true`. The processes may pass different values; with erasure coding
 *         all wait if one does
 * @return VELOC_SUCCESS; VELOC_FAILURE if there was nothing to finalize, if something could not be
 *         written, or if an earlier failure in the background was not reported yet; the reason is
 *         that of the oldest. The job has ended all the same, and veloc-backend writes what it can
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
 * With `stream_ordered = true` the copies also come before what this stream gets later, and
 * VELOC_Checkpoint and VELOC_Restart do not wait for them. Other streams need an event of this one,
 * and a region has to live until its copies have run.
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
 * Protects all regions of a list, each as VELOC_Mem_protect does, or none of them.
 *
 * @param list  the regions, each with an id of its own. It is not needed after the call
 * @param n     their number
 * @return VELOC_SUCCESS; VELOC_FAILURE if the list is NULL and `n` is not 0, two regions have the
 *         same id, or VELOC_Mem_protect would refuse one, which the reason names as `list[i]`: then
 *         what was protected before is protected as before
 *
 * Source: an addition of this library.
 *
 * @pre `list` is NULL or points to `n` regions.
 */
int VELOC_Mem_protect_list(const struct VELOC_Region *list, size_t n);

/**
 * Protects a region of memory as VELOC_Mem_protect does, with flags.
 *
 * With VELOC_READ_ONLY the capture is deferred: the application leaves the region as it is until it
 * is released, and may read it meanwhile. The checkpoint call copies nothing; a thread of the
 * library copies the bytes to the host buffer, and then releases the region. Where that is not
 * possible the region is copied and released before the call returns, as without the flag: with
 * `mode = sync`, for a checkpoint that goes straight to a file, and for device memory if the host
 * buffer has no room for it at the moment, or beside device memory without the flag. Without
 * `release`, VELOC_Checkpoint_wait waits for every deferred capture. If the application is killed,
 * bytes that have not reached the host buffer are lost.
 *
 * @param id         as VELOC_Mem_protect
 * @param ptr        as VELOC_Mem_protect
 * @param count      as VELOC_Mem_protect
 * @param base_size  as VELOC_Mem_protect
 * @param flags      VELOC_DEFAULT or VELOC_READ_ONLY. Any other number is as good as VELOC_DEFAULT, which is said
 *                   once: the capture is not deferred
 * @param release    called once for each checkpoint that the region is captured into, as soon as
 *         the library needs it no more, also if the checkpoint is given up or its copy fails. Any
 *         thread may call it; what it returns is ignored; NULL: nothing is called. Its calls of the
 *         library fail, and it must not end by an exception or `longjmp`
 * @return as VELOC_Mem_protect
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
 * that has exceptions. C++ programs need not call it: `veloc.h` gives them VELOC_Mem_protect with flags
 * and a release routine.
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
 * Sets how `VELOC_Checkpoint` takes a region in host memory, in place of the key `host_capture`, until it is
 * unprotected.
 *
 * @param id    the region, which is protected
 * @param mode  VELOC_CAPTURE_AUTO (the key's), or another VELOC_CAPTURE_*. With VELOC_CAPTURE_PROTECT the region may
 *              also be shared memory, if no other process and no device writes to it; VELOC_CAPTURE_FORK needs a job
 *              with veloc-backend, or a key host_capture other than copy, so that the host buffer is shared memory
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region or mode, or the region is VELOC_READ_ONLY, an
 *         object, or memory of a device. A mode that the system refuses is no error: the next one is taken, which is said once
 *
 * Source: an addition of this library; CRUM, section III.
 */
int VELOC_Mem_capture(int id,
                      int mode);

/**
 * Has checkpoints take a region of floats or doubles with fewer bits, within a bound on the error or without loss, until it
 * is unprotected.
 *
 * Blocks of 64 values have one step and 8, 12 or 16 bits for each value. The largest error of each block is computed as it
 * is made, and a block beyond the bound is kept whole, as are those with infinities and NaN; a region with too many of
 * them is taken whole. So after a restart each value is within the bound of what it was. Other readers of VELOC's files
 * refuse one that has such a region.
 *
 * Device memory is compressed on the device, where the call takes memory for it; managed memory is taken as it is.
 *
 * @param id     the region, which is protected, with elements of 4 bytes (float) or 8 (double)
 * @param mode   VELOC_COMPRESS_8, VELOC_COMPRESS_12 or VELOC_COMPRESS_16, to which VELOC_COMPRESS_RELATIVE may be added;
 *               VELOC_COMPRESS_LOSSLESS: all bits come back, and the region is taken as it is where that saves less than an
 *               eighth; VELOC_COMPRESS_NONE: it is taken as it is
 * @param bound  the most by which a value may differ after a restart, above 0; with VELOC_COMPRESS_RELATIVE, as a part of the
 *               largest absolute value of the region, at least 2 to the power of minus the bits and below 1;
 *               0 with VELOC_COMPRESS_LOSSLESS
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region, mode or bound, the region is an object or of other
 *         elements, the job has `incremental = true`, or the driver cannot load what compresses device memory
 *
 * Source: an addition of this library; the prototype of HiPC'22 compresses in front of VELOC_Mem_protect (section VI).
 */
int VELOC_Mem_compress(int id,
                       int mode,
                       double bound);

/**
 * Permits to compress a region without loss (VELOC_COMPRESS_LOSSLESS) in checkpoints, or takes that back: the fifth
 * argument of VELOC_Mem_protect in C++. It is done where it needs no other promise: not of elements of other sizes than 4 and
 * 8, of VELOC_READ_ONLY regions, of those that host_capture takes otherwise than by a copy, nor with `incremental = true` or
 * `stream_ordered = true`. VELOC_Mem_compress goes before it.
 *
 * @param id   the region, which is protected
 * @param may  whether it may be compressed
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region
 *
 * Source: an addition of this library, for `should_compress` of later prototypes.
 */
int VELOC_Mem_may_compress(int id,
                           int may);

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
 * Returns when the application may change its memory again. Waits for room in the first level and
 * for its own copy, not for the checkpoint before; with `mode = sync`, until the files are
 * complete.
 *
 * With `stream_ordered = true` and a stream (VELOC_Set_stream) it does not wait for its copies of
 * device memory: they stand in that stream's order. What that stream gets after the call may change
 * the memory, another stream once it has waited for an event of that one. A region has to live
 * until its copy has run: free it after the stream was synchronized, or by cuMemFreeAsync in it.
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
 * @param success  1: it can be restored from here on. VELOC_FAILURE: it is as if it had never been begun,
 *                 and an older one of the same name and version stays. 0, which is also VELOC_SUCCESS: a
 *                 checkpoint of memory is kept if its regions were captured, one of a file is given up;
 *                 a warning says which, once
 * @return VELOC_SUCCESS; VELOC_FAILURE without an open checkpoint, or if nothing was captured, or
 *         written to the path of VELOC_Route_file; with `mode = sync` also if a file could not be
 *         written
 *
 * Source: VELOC_Checkpoint_end of VELOC 1.8 (which keeps every checkpoint).
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
 * @return the version; VELOC_FAILURE if there is none (nothing is printed then; VELOC_Last_error
 *         has what was asked for and where it was looked for), or if the arguments are wrong
 *
 * Source: VELOC_Restart_test of VELOC 1.8 (which returns -2 when there is none).
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Restart_test(const char *name, int version);

/**
 * Restores a checkpoint into the protected regions, from the nearest copy. Collective under MPI.
 *
 * With `stream_ordered = true` and a stream (VELOC_Set_stream) it does not wait for copies within the
 * device's memory: they stand in that stream's order. What that stream gets after the call finds the
 * bytes, another stream after an event of that one, the host once the stream was synchronized. A
 * region has to live until its copy has run, as in VELOC_Checkpoint.
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
 * Restores regions of a checkpoint into the memory of a list, whatever is protected, and whatever checkpoint or restart
 * is open, which stays open: so several threads of a process each restore their own. Collective under MPI.
 *
 * @param name      as VELOC_Checkpoint
 * @param version   the version
 * @param list      the regions, each with an id of its own; the checkpoint may have more. It is not needed after the
 *                  call
 * @param n         their number; 0: nothing is restored, and the return value says whether the checkpoint could be
 * @param consumed  as the argument of VELOC_Restart_end: not 0, if the version is not to be read again
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Restart and VELOC_Mem_protect_list, or if the checkpoint lacks a region
 *         of the list
 *
 * Source: an addition of this library.
 *
 * @pre `name` is NULL or a string that ends with NUL; `list` is NULL or points to `n` regions, whose memory is valid.
 */
int VELOC_Restart_list(const char *name,
                       int version,
                       const struct VELOC_Region *list,
                       size_t n,
                       int consumed);

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
 * The reason of the calling thread's last failed call, in English, with the thing and the value.
 *
 * The library prints it on standard error as well, but not any more once the program has asked for one:
 * a program that prints errors itself asks once at its start. The key print_errors decides otherwise.
 *
 * @return a string, empty if no call of this thread has failed; valid until eight more calls of the
 *         thread have failed; never NULL. Ask in a statement of its own: beside another call in one
 *         list of arguments, C may evaluate this one first.
 *
 * Source: an addition of this library.
 */
const char *VELOC_Last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif /* __cplusplus */

#ifdef __cplusplus
extern "C++" { /* also where a program includes this header within extern "C" */
#include <stdio.h>

#include <exception>

/*
 * For programs that were written for VELOC's GPU prototype. The names are short and may be taken: define
 * VELOC_NO_SHORT_NAMES to do without them. One that is a macro already stays that.
 */
typedef int (*release_routine)();
#ifndef VELOC_NO_SHORT_NAMES
#ifndef DEFAULT
static const VELOC_Flags DEFAULT = VELOC_DEFAULT;
#endif
#ifndef READ_ONLY
static const VELOC_Flags READ_ONLY = VELOC_READ_ONLY;
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
                                    VELOC_Flags flags, release_routine release = NULL)
{
    return VELOC_Mem_protect_guarded(id, ptr, count, base_size, flags, release,
                                     veloc_call_release);
}

/** The same with flags that are a number. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    unsigned int flags, release_routine release)
{
    return VELOC_Mem_protect_guarded(id, ptr, count, base_size, flags, release,
                                     veloc_call_release);
}
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size, int flags,
                                    release_routine release)
{
    return VELOC_Mem_protect(id, ptr, count, base_size, (unsigned int)flags, release);
}

#if __cplusplus >= 201103L
/* A text or a release routine as fifth argument would be a bool that is true. */
template <typename T>
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size, T *) = delete;
#endif

/** As VELOC_Mem_protect with four arguments, and VELOC_Mem_may_compress. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    bool may_compress)
{
    const int result = VELOC_Mem_protect(id, ptr, count, base_size);
    return result == VELOC_SUCCESS ? VELOC_Mem_may_compress(id, may_compress) : result;
}

/** The same with flags and a release routine, as VELOC_Mem_protect_flags. */
static inline int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size,
                                    bool may_compress, unsigned int flags,
                                    release_routine release = NULL)
{
    const int result = VELOC_Mem_protect_guarded(id, ptr, count, base_size, flags, release,
                                                 veloc_call_release);
    return result == VELOC_SUCCESS ? VELOC_Mem_may_compress(id, may_compress) : result;
}

/** As VELOC_Prefetch_enqueue with two arguments: the whole checkpoint is hinted, not `region` alone. */
static inline int VELOC_Prefetch_enqueue(const char *name, int version, int region)
{
    (void)region;
    return VELOC_Prefetch_enqueue(name, version);
}

/**
 * As VELOC_Cleanup with one argument. With `print_stats` it prints a line to standard output then, what the job
 * has done until then: `<<<<<===== n, bytes, checkpoint, restart, 0.0, 0.0 =====>>>>>`, the number of checkpoints,
 * their bytes, the seconds that VELOC_Checkpoint and VELOC_Restart have taken; the last two are for compression,
 * which the application does not wait for.
 */
static inline int VELOC_Cleanup(const char *name, bool print_stats)
{
    const int result = VELOC_Cleanup(name);
    VELOC_Metrics job;
    if (result == VELOC_SUCCESS && print_stats
        && VELOC_Get_metrics(&job, sizeof job) == VELOC_SUCCESS)
        printf("<<<<<===== %.0f, %.0f, %.6f, %.6f, 0.0, 0.0 =====>>>>>\n", (double)job.checkpoints,
               (double)job.hops[VELOC_HOP_ATOD].bytes + (double)job.hops[VELOC_HOP_ATOH].bytes
                   + (double)job.hops[VELOC_HOP_ATOF].bytes,
               (double)job.checkpoint_calls.nanoseconds / 1e9,
               (double)job.restart_calls.nanoseconds / 1e9);
    return result;
}
}  /* extern "C++" */
#endif /* __cplusplus */

#endif  /* VELOC_H */
