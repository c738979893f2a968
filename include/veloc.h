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
 * This header has, in the order in which a program meets them: the job, regions, checkpoints, restarts, hints of what
 * is read next, and the reason of an error. Adjoint computations and their schedules are in veloc/adjoint.h, figures
 * in veloc/metrics.h, arrays in persistent memory in veloc/pmem.h, the log of messages in veloc-mpi.h.
 *
 * VELOC_Init and VELOC_Init_options are declared if there is an mpi.h. Define VELOC_NO_MPI to do without them; the
 * library is the same.
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
     * The value, as text. An empty value counts as none; NULL is an error.
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
 * for any memory to be mapped, touched or registered (HiPC'22, section IV). A read-only scratch
 * directory suffices if new checkpoints can go straight to persistent.
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
int VELOC_Init_single(unsigned int id, const char *cfg_file);

/**
 * VELOC_Init_single with options in place of a file.
 *
 * The keys are those of a file; docs/configuration.md lists them. The environment (`VELOC_<KEY>`)
 * overrides the options.
 *
 * @param id       as for VELOC_Init_single
 * @param options  keys and values; NULL if there are none. Not used after the call
 * @param n        how many; 0: the environment has all of the configuration
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init_single, or if a key or value is NULL, a key
 *         is given twice, or a key is unknown (which is a warning in a file)
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
 * @param comm      the communicator, an `MPI_Comm`. The library duplicates it
 * @param cfg_file  path of the configuration; empty: the environment has all of it
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init_single, or if processes that act together are
 *         configured differently (the reason names the keys): if one process fails, all do.
 *         VELOC_FAILURE also if there is no initialised MPI in the process
 *
 * Source: VELOC_Init of VELOC 1.8.
 *
 * @pre `comm` is a communicator of the process's MPI; `cfg_file` is NULL or a string that ends with
 * NUL.
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
 * Ends the job. It may be called in any state, also twice or after `MPI_Finalize`. Afterwards the
 * library can be initialised again. Collective under MPI.
 *
 * @param drain  not 0: first waits until the files of all checkpoints are written, and with
 *         erasure coding (`ec_interval`) until all processes of the group have made their
 *         parities. 0: waits only until the host buffer has everything; veloc-backend then writes
 *         the files. Without a backend it waits for the files even with 0. No checkpoint is lost,
 *         unless `ephemeral = true`. The processes may pass different values; with erasure coding
 *         all wait if one does
 * @return VELOC_SUCCESS; VELOC_FAILURE if there was nothing to finalize, something could not be
 *         written, or an earlier failure in the background was not reported yet (the reason is
 *         that of the oldest). Even then the job has ended, and veloc-backend writes what it can
 *
 * Source: VELOC_Finalize of VELOC 1.8.
 */
int VELOC_Finalize(int drain);

/**
 * Tells the library in which stream the application computes.
 *
 * From now on a capture or restore comes after the work that is queued in this stream; work in
 * other streams does not count. Without a stream (the default, and after NULL) it comes after all
 * work that is queued in the context, in non-blocking streams, too. That may take longer.
 *
 * With `stream_ordered = true` the copies also come before the work that this stream gets later,
 * and VELOC_Checkpoint and VELOC_Restart do not wait for them. Other streams must then wait for an
 * event of this one. A region has to live until its copies have run.
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
 * Protects a region of memory: from now on each checkpoint has it, except those of names with
 * regions of their own (`VELOC_Region_protect`).
 *
 * The driver tells device memory, managed memory and host memory apart; a checkpoint may have
 * regions of every kind. If the id is protected already, the new region replaces the old one.
 *
 * @param id         names the region in checkpoints; any number. In a process that has
 *                   libveloc-mpi.so, -2147483647 to -2146435071 are the library's
 * @param ptr        its first byte, on the host or the device
 * @param count      number of elements
 * @param base_size  bytes of an element
 * @return VELOC_SUCCESS; VELOC_FAILURE if the id is the library's, `ptr` is NULL and the size is
 *         not 0, or the range wraps around the end of memory, reaches past the end of its device
 *         allocation, or belongs to another device or context
 *
 * Source: VELOC_Mem_protect of VELOC 1.8 (which returns -1 when an id is protected again).
 */
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);

/**
 * Protects all regions of a list, each as VELOC_Mem_protect does, or none of them.
 *
 * @param list  the regions, each with an id of its own. The list is not used after the call
 * @param n     their number
 * @return VELOC_SUCCESS; VELOC_FAILURE if the list is NULL and `n` is not 0, two regions have the
 *         same id, or VELOC_Mem_protect would refuse one (the reason names it as `list[i]`). Then
 *         nothing changes
 *
 * Source: an addition of this library.
 *
 * @pre `list` is NULL or points to `n` regions.
 */
int VELOC_Mem_protect_list(const struct VELOC_Region *list, size_t n);

/**
 * Protects a region of memory as VELOC_Mem_protect does, with flags.
 *
 * With VELOC_READ_ONLY the capture is deferred: the application may read the region, but must not
 * change it until it is released. The checkpoint call copies nothing; a thread of the library
 * copies the bytes to the host buffer, and then releases the region. In these cases the call
 * itself copies and releases the region, as without the flag: with `mode = sync`; for a checkpoint
 * that goes straight to a file; for device memory if the host buffer has no room for it at the
 * moment; and for device memory beside device memory without the flag. A program without `release`
 * calls VELOC_Checkpoint_wait, which waits for every deferred capture. If the application is
 * killed, bytes that have not reached the host buffer are lost.
 *
 * @param id         as VELOC_Mem_protect
 * @param ptr        as VELOC_Mem_protect
 * @param count      as VELOC_Mem_protect
 * @param base_size  as VELOC_Mem_protect
 * @param flags      VELOC_DEFAULT or VELOC_READ_ONLY. Any other number counts as VELOC_DEFAULT; a
 *                   warning says so once
 * @param release    called once for each checkpoint that the region is captured into, as soon as
 *         the library no longer needs the region, also if the checkpoint is given up or its copy
 *         fails. NULL: nothing is called. Any thread may call it. Its return value is ignored. If
 *         it calls the library, that call fails. It must not end by an exception or `longjmp`
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
 * Protects a region of memory as VELOC_Mem_protect_flags does, with a release routine of a
 * language that has exceptions. C++ programs need not call it: `veloc.h` gives them
 * VELOC_Mem_protect with flags and a release routine.
 *
 * @param id         as VELOC_Mem_protect
 * @param ptr        as VELOC_Mem_protect
 * @param count      as VELOC_Mem_protect
 * @param base_size  as VELOC_Mem_protect
 * @param flags      as VELOC_Mem_protect_flags
 * @param release    as VELOC_Mem_protect_flags, but `guard` calls it
 * @param guard      calls `release` and catches what it throws. It then returns another value than
 *         VELOC_SUCCESS, and may write the reason, with a NUL at its end, to the `room` bytes at
 *         `reason`. The next VELOC_Checkpoint_begin, _wait or _finished reports this failure once;
 *         the checkpoint is valid all the same. NULL: as VELOC_Mem_protect_flags
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
 * Sets how `VELOC_Checkpoint` takes a region in host memory, in place of the key `host_capture`.
 * The setting ends with the region's protection.
 *
 * @param id    the region, which is protected
 * @param mode  VELOC_CAPTURE_AUTO (as the key says), or another VELOC_CAPTURE_*. With
 *              VELOC_CAPTURE_PROTECT the region may also be shared memory, if no other process and
 *              no device writes to it. VELOC_CAPTURE_FORK needs a host buffer in shared memory: a
 *              job has one with veloc-backend, or with a key host_capture other than copy
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region or mode, or the region is
 *         VELOC_READ_ONLY, an object, or memory of a device. If the system refuses a mode, the
 *         call does not fail: the library takes the next mode, and says so once
 *
 * Source: an addition of this library; CRUM, section III.
 */
int VELOC_Mem_capture(int id, int mode);

/**
 * Has checkpoints compress a region of floats or doubles, within a bound on the error or without
 * loss. The setting ends with the region's protection.
 *
 * With a bound, each block of 64 values has one step, and each value 8, 12 or 16 bits. The library
 * computes the largest error of each block. It keeps a block whole if the error exceeds the bound,
 * or if there are infinities or NaN in it. It does not compress a region with too many such
 * blocks. So after a restart each value is within the bound of what it was. Other readers of
 * VELOC's files refuse a file with a compressed region.
 *
 * Device memory is compressed on the device; this call allocates device memory for that. Managed
 * memory is not compressed.
 *
 * @param id     the region, which is protected, with elements of 4 bytes (float) or 8 (double)
 * @param mode   VELOC_COMPRESS_8, VELOC_COMPRESS_12 or VELOC_COMPRESS_16, to which
 *               VELOC_COMPRESS_RELATIVE may be added; VELOC_COMPRESS_LOSSLESS: all bits come back,
 *               and a region of which this saves less than an eighth is not compressed;
 *               VELOC_COMPRESS_NONE: the region is not compressed
 * @param bound  the most by which a value may differ after a restart, above 0. With
 *               VELOC_COMPRESS_RELATIVE it is a fraction of the largest absolute value of the
 *               region: at least 2 to the power of minus the bits, and below 1. With
 *               VELOC_COMPRESS_LOSSLESS it is 0
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region, mode or bound, the region is an
 *         object or has other elements, the job has `incremental = true`, or the driver cannot
 *         load the kernels that compress device memory
 *
 * Source: an addition of this library; the prototype of HiPC'22 compresses in front of
 * VELOC_Mem_protect (section VI).
 */
int VELOC_Mem_compress(int id, int mode, double bound);

/**
 * Permits checkpoints to compress a region without loss (VELOC_COMPRESS_LOSSLESS), or withdraws
 * that. In C++ it is the fifth argument of VELOC_Mem_protect. The permission is not used for
 * elements of other sizes than 4 and 8 bytes, for VELOC_READ_ONLY regions, for regions that
 * host_capture takes otherwise than by a copy, or with `incremental = true` or `stream_ordered =
 * true`. VELOC_Mem_compress takes precedence over it.
 *
 * @param id   the region, which is protected
 * @param may  whether it may be compressed
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region
 *
 * Source: an addition of this library, for `should_compress` of later prototypes.
 */
int VELOC_Mem_may_compress(int id, int may);

/**
 * Says which part of an array a region is, so that another number of processes can restore it.
 *
 * Each process of a job protects a block of an array: a range of indices in each of one to three
 * dimensions, in C's order (the last index changes fastest), without halo. The blocks of all
 * processes make up the array. Checkpoints remember how it was cut. A job of any number of
 * processes then finds such a version in persistent (VELOC_Restart_test), and VELOC_Restart gives
 * each process the block that it says it has. Regions of which nothing is said have to be alike
 * on all processes. The block stays with a region that is protected again with the same size, and
 * ends with its protection.
 *
 * A checkpoint with such a region has one more, -2147483648 + 1048578 (-2146435070).
 *
 * @param id            the region, which is protected, with as many bytes as the block
 * @param dimensions    1 to 3; 0: the region is no part of an array any more
 * @param global_sizes  elements of the array in each dimension
 * @param offsets       elements before the block in each dimension
 * @param sizes         elements of the block in each dimension; they may be 0
 * @param element_size  bytes of an element
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region, it is an object or has another
 *         size, a pointer is NULL, the block does not lie in the array, or a checkpoint is open
 *         that has regions already
 *
 * Source: an addition of this library.
 *
 * @pre `global_sizes`, `offsets` and `sizes` are NULL or point to `dimensions` numbers each.
 */
int VELOC_Mem_decompose(int id,
                        int dimensions,
                        const size_t *global_sizes,
                        const size_t *offsets,
                        const size_t *sizes,
                        size_t element_size);

/**
 * Ends the protection of a region. Earlier checkpoints keep the region.
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
 * A name with regions of its own has no others: checkpoints of that name do not have the regions
 * of `VELOC_Mem_protect`. Each name has ids of its own.
 *
 * @param id         names the region in checkpoints of that name
 * @param ptr        its first byte, on the host or the device
 * @param count      number of elements
 * @param base_size  bytes of an element
 * @param name       the name of the checkpoints
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Mem_protect, or if the name is NULL or not allowed
 *
 * Source: VELOC_Region_protect of VELOC 1.8 (which ignores later changes of other regions once a
 * name has had its first checkpoint; here they count).
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);

/**
 * Ends the protection of one of a name's own regions. After the last one the name has the regions
 * of `VELOC_Mem_protect` again.
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
 * Compresses one of a name's own regions, as VELOC_Mem_compress does. The setting ends with the region's protection.
 *
 * @param id     the region, which is protected for that name
 * @param mode   as VELOC_Mem_compress
 * @param bound  as VELOC_Mem_compress
 * @param name   the name of the checkpoints
 * @return as VELOC_Mem_compress; VELOC_FAILURE also if the name is NULL or not allowed
 *
 * Source: an addition of this library.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Region_compress(int id,
                          int mode,
                          double bound,
                          const char *name);

/**
 * Ends the protection of all of a name's own regions.
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
 * Returns when the application may change its memory again. It waits for room in the first level
 * and for its own copy, but not for the checkpoint before. With `mode = sync` it waits until the
 * files are complete.
 *
 * With `stream_ordered = true` and a stream (VELOC_Set_stream) it does not wait for its copies of
 * device memory: they run in that stream's order. Work that this stream gets after the call may
 * change the memory. Work in another stream may do so once that stream has waited for an event of
 * this one. A region has to live until its copy has run: free it after the stream was
 * synchronized, or by cuMemFreeAsync in the stream.
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
 * Opens a checkpoint, to be filled by VELOC_Checkpoint_mem, _selective or a routed file. If a
 * restart is open, it ends, as by VELOC_Restart_end(0).
 *
 * @param name     as VELOC_Checkpoint
 * @param version  as VELOC_Checkpoint
 * @return VELOC_SUCCESS; VELOC_FAILURE if a checkpoint is open, the name is one of an adjoint
 *         computation under way (VELOC_Adjoint_run), or an earlier checkpoint failed in the
 *         background (reported once)
 *
 * Source: VELOC_Checkpoint_begin of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Checkpoint_begin(const char *name, int version);

/**
 * Captures all protected regions into the open checkpoint. When the call returns, the application
 * may change its memory.
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
 * @param success  1: the checkpoint can be restored from now on. VELOC_FAILURE: the checkpoint is
 *                 given up, and an older one of the same name and version stays. 0, which is also
 *                 VELOC_SUCCESS: a checkpoint of memory is kept if its regions were captured, and
 *                 a checkpoint of a file is given up; a warning says once which of them happened
 * @return VELOC_SUCCESS; VELOC_FAILURE without an open checkpoint, if no region was captured and
 *         no file was written to the path of VELOC_Route_file, or, with `mode = sync`, if a file
 *         could not be written
 *
 * Source: VELOC_Checkpoint_end of VELOC 1.8 (which keeps every checkpoint).
 */
int VELOC_Checkpoint_end(int success);

/**
 * Waits until every checkpoint has reached the last level that the configuration asks for.
 *
 * @return VELOC_SUCCESS; VELOC_FAILURE while a checkpoint is open, or if a checkpoint could not
 *         reach that level although the call has tried again (the reason is that of the first)
 *
 * Source: VELOC_Checkpoint_wait of VELOC 1.8.
 */
int VELOC_Checkpoint_wait(void);

/**
 * Tells whether every checkpoint has reached the last level that the configuration asks for. It
 * does not wait.
 *
 * @return 1: yes; 0: not yet; VELOC_FAILURE: something failed in the background (reported once),
 *         or a checkpoint could not reach that level (reported until VELOC_Checkpoint_wait
 *         succeeds, that version is taken anew, or VELOC_Cleanup removes it)
 *
 * Source: VELOC_Checkpoint_finished of VELOC 1.8.
 */
int VELOC_Checkpoint_finished(void);

/**
 * Gives the path at which the application writes a file that is the open checkpoint, or reads it
 * in a restart.
 *
 * The library copies the file to `original` in the background, and makes a link to it in
 * `persistent`. A checkpoint has one file: a second call with the same `original` gives the same
 * path. The path is in scratch. If scratch is full, read-only or broken, and each checkpoint is
 * copied to persistent, the path is beside `original`.
 *
 * @param original  the path the application would have written to
 * @param routed    gets the path to use: VELOC_MAX_NAME bytes
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a checkpoint and a restart, without scratch or
 *         room, if the checkpoint has memory regions or another file already, or if the path is
 *         too long
 *
 * Source: VELOC_Route_file of VELOC 1.8.
 *
 * @pre `original` is NULL or a string that ends with NUL; `routed` is NULL or has VELOC_MAX_NAME bytes.
 */
int VELOC_Route_file(const char *original, char *routed);

/**
 * Removes the checkpoints of a name from memory and scratch. Persistent copies stay; copies that
 * are still to be made are made first. Files that earlier jobs left in scratch, and that should be
 * in persistent, stay until `veloc sync` has copied them.
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
 * Finds the newest version that can be restored. Collective under MPI: it finds the newest that
 * every process can restore. With erasure coding (`ec_interval`) a process that lacks the version
 * first rebuilds it, if the others have enough of it.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the newest version to consider; 0: the newest of all
 * @return the version; VELOC_FAILURE if there is none (this is not printed; VELOC_Last_error says
 *         what was sought and where), or if the arguments are wrong
 *
 * Source: VELOC_Restart_test of VELOC 1.8 (which returns -2 when there is none).
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Restart_test(const char *name, int version);

/**
 * Restores a checkpoint into the protected regions, from the nearest copy. Collective under MPI.
 *
 * With `stream_ordered = true` and a stream (VELOC_Set_stream) it does not wait for copies within
 * the device's memory: they run in that stream's order. Work that this stream gets after the call
 * finds the bytes. Another stream finds them after an event of this one, the host once this stream
 * was synchronized. A region has to live until its copy has run, as in VELOC_Checkpoint.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the version
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such checkpoint, or one of its regions has
 *         no protected memory, too little, or read-only memory: then no byte was changed.
 *         VELOC_FAILURE also if a copy failed, or if no file turned out to have its checksum: then
 *         the content of the regions is undefined. VELOC_Restart_test finds wrong checksums before
 *         that. Over MPI the call fails also if it fails on another process, which the reason
 *         names; then no byte was changed on any process, unless a copy failed
 *
 * Source: VELOC_Restart of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL; protected memory is valid.
 */
int VELOC_Restart(const char *name, int version);

/**
 * Restores regions of a checkpoint into the memory of a list. Collective under MPI. The call does
 * not use protected regions, and a checkpoint or restart that is open stays open. So several
 * threads of a process can each restore their own regions.
 *
 * @param name      as VELOC_Checkpoint
 * @param version   the version
 * @param list      the regions, each with an id of its own; the checkpoint may have more. The list
 *                  is not used after the call
 * @param n         their number; 0: nothing is restored, and the return value says whether the
 *                  checkpoint could be restored
 * @param consumed  as the argument of VELOC_Restart_end: not 0 if the version will not be read
 *                  again
 * @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Restart and VELOC_Mem_protect_list, or if the
 *         checkpoint lacks a region of the list
 *
 * Source: an addition of this library.
 *
 * @pre `name` is NULL or a string that ends with NUL; `list` is NULL or points to `n` regions, whose
 * memory is valid.
 */
int VELOC_Restart_list(const char *name,
                       int version,
                       const struct VELOC_Region *list,
                       size_t n,
                       int consumed);

/**
 * Opens a checkpoint for recovery. Collective under MPI: on every process or on none. If a restart
 * is open, it ends, as by VELOC_Restart_end(0).
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the version
 * @return VELOC_SUCCESS; VELOC_FAILURE if there is no such checkpoint, or a checkpoint is open
 *
 * Source: VELOC_Restart_begin of VELOC 1.8.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Restart_begin(const char *name, int version);

/**
 * Recovers every region of the open checkpoint into the protected memory of the same id. Protected
 * regions that the checkpoint lacks keep their content; a warning names them.
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
 * @return VELOC_SUCCESS; VELOC_FAILURE if the checkpoint lacks a listed id (SOME), or has none of
 *         the regions that are not listed (REST), or as VELOC_Recover_mem
 *
 * Source: VELOC_Recover_selective of VELOC 1.8.
 *
 * @pre `ids` is NULL or points to `n` ids.
 */
int VELOC_Recover_selective(int mode, int *ids, int n);

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
 * @return bytes; 0 if there is no such checkpoint or region (VELOC_Last_error says which)
 *
 * Source: VELOC_Recover_ckpt_size of VELOC's GPU prototype.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
size_t VELOC_Recover_ckpt_size(const char *name, int version, int region_id);

/**
 * Closes the checkpoint that is open for recovery.
 *
 * @param success  not 0: the checkpoint counts as consumed. Its room goes to others first, and an
 *                 ephemeral job without scratch may discard it. 0: it does not count as consumed
 * @return VELOC_SUCCESS; VELOC_FAILURE without an open restart
 *
 * Source: VELOC_Restart_end of VELOC 1.8.
 */
int VELOC_Restart_end(int success);

/**
 * Hints that a checkpoint will be read, after those hinted before. The checkpoint may be taken
 * later, or taken anew: the hint keeps its place in the order. A hint ends with the restore of
 * that version, with VELOC_Cleanup of the name, or with the job. Hint a version twice if it will
 * be read twice.
 *
 * @param name     as VELOC_Checkpoint
 * @param version  the version
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a job, or if the name or the version is not allowed
 *
 * Source: VELOC_Prefetch_enqueue of VELOC's GPU prototype.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Prefetch_enqueue(const char *name, int version);

/**
 * Starts prefetching. The first restore does so, too.
 *
 * @return VELOC_SUCCESS; VELOC_FAILURE outside a job
 *
 * Source: VELOC_Prefetch_start of VELOC's GPU prototype.
 */
int VELOC_Prefetch_start(void);

/**
 * Tells whether a region of a checkpoint is wholly in the device cache.
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
 * The library also prints each reason on standard error, until the program first calls this
 * function: a program that prints errors itself calls it once at its start. The key print_errors
 * overrides this.
 *
 * @return a string, empty if no call of this thread has failed; valid until eight more calls of
 *         the thread have failed; never NULL. Call it in a statement of its own: in a list of
 *         arguments C may evaluate it before another call.
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
 * For programs that were written for VELOC's GPU prototype. If the program uses these short names itself, define
 * VELOC_NO_SHORT_NAMES. A name that is a macro already stays that macro.
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
 * As VELOC_Cleanup with one argument. With `print_stats` it then prints to standard output what the job has done so
 * far: `<<<<<===== n, bytes, checkpoint, restart, 0.0, 0.0 =====>>>>>`. These are the number of checkpoints, their
 * bytes, and the seconds that VELOC_Checkpoint and VELOC_Restart have taken; the last two stand for compression,
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
