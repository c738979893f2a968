/*
 * Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.
 *
 * Generated from src/capi by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef VELOC_PMEM_H
#define VELOC_PMEM_H

#include <stddef.h>
#include <stdint.h>

#include "defs.h"

/**
 * An array of a VELOC_Pmem. Opaque; it ends with VELOC_Pmem_close.
 */
typedef struct VELOC_Array VELOC_Array;

/**
 * An open file of arrays. Opaque. Any thread may use it; a thread drains only what it has flushed
 * itself.
 */
typedef struct VELOC_Pmem VELOC_Pmem;

/**
 * What a crash leaves of a file.
 */
typedef struct VELOC_Domain {
    /**
     * The worst crash after which what was flushed and drained is there: one of VELOC_CRASH_*.
     */
    int crash;
    /**
     * Bytes that reach the file together: 1 where nothing has to be flushed, a line of the cache,
     * or a page.
     */
    int granularity;
    /**
     * Why the file does not survive a worse crash; valid until VELOC_Pmem_close.
     */
    const char *why;
} VELOC_Domain;

/**
 * An iteration that VELOC_Pmem_recover has tried.
 */
typedef struct VELOC_Tried {
    /**
     * The iteration.
     */
    int64_t iteration;
    /**
     * One of VELOC_INVARIANT_*.
     */
    int answer;
    /**
     * The invariant that did not hold, or "" if all held; valid until the next search.
     */
    const char *invariant;
} VELOC_Tried;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Opens a file of arrays, or makes one. Only one process has it open at a time; the death of the
 * process closes it.
 *
 * @param path   the file. A new one appears whole, and has all its room on the disk
 * @param bytes  room for slots of arrays, each of which takes a multiple of 4096
 * @param crash  the crash that the arrays are to survive. VELOC_CRASH_PROCESS: a crash of the
 *               process; any file will do. VELOC_CRASH_PAGE: a crash of the machine; persistent
 *               memory acts as with VELOC_CRASH_POWER, for another file each flush writes pages to
 *               a disk. VELOC_CRASH_POWER: a crash of the machine; only persistent memory will do
 * @param pmem   gets the file, for VELOC_Pmem_close
 * @return VELOC_SUCCESS; VELOC_FAILURE if the file is open elsewhere; is no such file, is damaged,
 *         or is of another version, order of bytes or size; lies where nothing survives such a
 *         crash; or cannot be written; or if the disk has no room
 *
 * Source: an addition of this library, after Yang et al., "Algorithm-directed crash consistence in
 * non-volatile memory for HPC".
 *
 * @pre `path` is NULL or a string that ends with NUL, `pmem` is NULL or has room for a pointer.
 */
int VELOC_Pmem_open(const char *path, size_t bytes, int crash, struct VELOC_Pmem **pmem);

/**
 * Closes a file of arrays, and unmaps them. What was stored stays in the file.
 *
 * @param pmem  the file
 * @return VELOC_SUCCESS; VELOC_FAILURE if it is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or of VELOC_Pmem_open, and nobody uses it or its arrays any more.
 */
int VELOC_Pmem_close(struct VELOC_Pmem *pmem);

/**
 * Tells what a crash leaves of the file, as the library has found out.
 *
 * @param pmem    the file
 * @param domain  gets it
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or an open file; `domain` is NULL or has room for a VELOC_Domain.
 */
int VELOC_Pmem_domain(const struct VELOC_Pmem *pmem, struct VELOC_Domain *domain);

/**
 * Finds an array by its name, or adds one, full of zeros.
 *
 * An array of several slots keeps that many iterations: iteration i is in slot i modulo `slots`.
 * An array of one slot is overwritten in each iteration. A process that is killed meanwhile leaves
 * a mixture of two iterations in it, which an invariant has to detect.
 *
 * @param pmem           the file
 * @param name           1 to 63 bytes
 * @param element_bytes  bytes of an element; 1 or more
 * @param count          elements of a slot; 1 or more
 * @param slots          1 to 64
 * @param array          gets the array, which ends with VELOC_Pmem_close
 * @return VELOC_SUCCESS; VELOC_FAILURE if the array exists with another shape, or there is no room
 *         for it
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section III-A (the
 * dimension that is added to p, q, r and z).
 *
 * @pre `pmem` is NULL or an open file; `name` is NULL or a string that ends with NUL; `array` is NULL
 * or has room for a pointer.
 */
int VELOC_Pmem_array(struct VELOC_Pmem *pmem,
                     const char *name,
                     size_t element_bytes,
                     size_t count,
                     int slots,
                     struct VELOC_Array **array);

/**
 * As VELOC_Pmem_array, and refuses an array with elements of another kind, which may be as many
 * bytes. An array that was added by VELOC_Pmem_array has no kind to compare with.
 *
 * @param pmem           the file
 * @param name           1 to 63 bytes
 * @param kind           the kind of the elements, one of NumPy's letters: 'f' numbers with a
 *                       fraction, 'c' complex numbers, 'i' and 'u' integers with and without a
 *                       sign, 'b' truth values; 0: not said
 * @param element_bytes  bytes of an element; 1 or more
 * @param count          elements of a slot; 1 or more
 * @param slots          1 to 64
 * @param array          gets the array, which ends with VELOC_Pmem_close
 * @return VELOC_SUCCESS; VELOC_FAILURE if the array exists with another shape or kind, or there is
 *         no room for it
 *
 * Source: an addition of this library.
 *
 * @pre As VELOC_Pmem_array.
 */
int VELOC_Pmem_array_of(struct VELOC_Pmem *pmem,
                        const char *name,
                        char kind,
                        size_t element_bytes,
                        size_t count,
                        int slots,
                        struct VELOC_Array **array);

/**
 * The slot that an array has for an iteration.
 *
 * @param array      the array
 * @param iteration  0 or more
 * @return its address, a multiple of 4096; NULL if the array is NULL or the iteration negative
 *
 * Source: an addition of this library.
 *
 * @pre `array` is NULL or an array of an open file.
 */
void *VELOC_Pmem_at(const struct VELOC_Array *array, int64_t iteration);

/**
 * Says that an iteration is done. Once this returns, the iteration's number and scalars survive a
 * crash, and so does everything that was flushed before. Other stored data may be lost: the
 * invariants detect that.
 *
 * @param pmem       the file
 * @param iteration  0 or more, after the last one marked or recovered, with fewer iterations
 *                   between them than there are slots
 * @param scalars    numbers for the invariants, or NULL
 * @param n          how many; 0 to 5
 * @return VELOC_SUCCESS; VELOC_FAILURE for another iteration, or more scalars (then nothing is
 *         marked)
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section III-B (the
 * line with the number of the iteration, which alone is flushed).
 *
 * @pre `pmem` is NULL or an open file; `scalars` is NULL or points to `n` numbers.
 */
int VELOC_Pmem_mark(struct VELOC_Pmem *pmem, int64_t iteration, const double *scalars, int n);

/**
 * Has part of an array written back. That part survives a crash once this thread has called
 * VELOC_Pmem_drain or VELOC_Pmem_mark.
 *
 * @param pmem     the file
 * @param address  where the part begins, within an array
 * @param bytes    its length
 * @return VELOC_SUCCESS; VELOC_FAILURE if the part is not within the file; for an ordinary file
 *         also if the disk fails
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or an open file.
 */
int VELOC_Pmem_flush(struct VELOC_Pmem *pmem, const void *address, size_t bytes);

/**
 * Waits until everything that this thread has flushed survives a crash.
 *
 * @param pmem  the file
 * @return VELOC_SUCCESS; VELOC_FAILURE if it is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or an open file.
 */
int VELOC_Pmem_drain(struct VELOC_Pmem *pmem);

/**
 * Adds an invariant: what must hold between the data of an iteration. VELOC_Pmem_recover asks the
 * invariants in the order in which they were added.
 *
 * @param pmem      the file
 * @param name      names the invariant in reports; it replaces an invariant of the same name
 * @param function  gets an iteration and its scalars, and answers VELOC_INVARIANT_HOLDS, _FAILS or
 *                  _UNKNOWN. It decides its own tolerance. Of this library it may call only
 *                  VELOC_Pmem_at and the sums
 * @param context   the last argument of the function
 * @return VELOC_SUCCESS; VELOC_FAILURE if another argument than the context is NULL
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section II-C.
 *
 * @pre `pmem` is NULL or an open file, `name` is NULL or a string that ends with NUL; the function can
 * be called as long as the file is open.
 */
int VELOC_Pmem_invariant(struct VELOC_Pmem *pmem,
                         const char *name,
                         int (*function)(int64_t iteration,
                                         const double *scalars,
                                         int n,
                                         void *context),
                         void *context);

/**
 * Finds the newest marked iteration in which all invariants hold. Iterations go on after it; newer
 * marks are removed.
 *
 * The search begins with the newest iteration, and tries as many as the array with the fewest
 * slots has slots. Arrays of one slot do not count: the invariants decide about them. If all
 * arrays have one slot and there is no invariant, a warning says that nothing tells whether the
 * iteration is whole.
 *
 * @param pmem       the file
 * @param iteration  gets it; -1: nothing was marked yet
 * @return VELOC_SUCCESS; VELOC_FAILURE if no iteration is consistent, or an invariant answered
 *         none of VELOC_INVARIANT_HOLDS, _FAILS and _UNKNOWN; VELOC_Pmem_report and
 *         VELOC_Last_error tell. Then nothing is changed: VELOC_Pmem_forget begins anew
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section III-A.
 *
 * @pre `pmem` is NULL or an open file; `iteration` is NULL or has room for a number.
 */
int VELOC_Pmem_recover(struct VELOC_Pmem *pmem, int64_t *iteration);

/**
 * Gives the scalars of the iteration that VELOC_Pmem_recover or VELOC_Pmem_restart has found, or
 * that was marked since. A program that goes on after that iteration begins with these numbers.
 * Before a search they are those of the newest mark, consistent or not.
 *
 * @param pmem     the file
 * @param scalars  gets them; NULL for their number alone
 * @param room     how many it has room for; 5 are enough
 * @return how many scalars its mark has; 0 also if there is no such iteration, or a checkpoint has
 *         it; VELOC_FAILURE if the file is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or an open file; `scalars` is NULL or has so much room.
 */
int VELOC_Pmem_scalars(const struct VELOC_Pmem *pmem, double *scalars, int room);

/**
 * Gives the iterations that the last search has tried, the newest first.
 *
 * @param pmem   the file
 * @param tried  gets them; NULL for their number alone
 * @param room   how many it has room for
 * @return how many were tried; VELOC_FAILURE if the file is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or an open file; `tried` is NULL or has so much room.
 */
int VELOC_Pmem_report(const struct VELOC_Pmem *pmem, struct VELOC_Tried *tried, int room);

/**
 * Forgets all marks, so that iterations begin anew. The arrays keep their content.
 *
 * @param pmem  the file
 * @return VELOC_SUCCESS; VELOC_FAILURE if it is NULL
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or an open file.
 */
int VELOC_Pmem_forget(struct VELOC_Pmem *pmem);

/**
 * Finds what is newer: the newest consistent iteration, or the newest checkpoint of a name. The
 * versions of that name must be numbers of iterations. Needs a job. Collective under MPI: it finds
 * what all processes have.
 *
 * @param pmem       the file
 * @param name       the name of the checkpoints
 * @param iteration  gets the iteration after which to go on; -1: nothing was marked yet, and there
 *                   is no checkpoint
 * @param version    gets -1 if the arrays have the iteration, as after VELOC_Pmem_recover; else
 *                   the checkpoint that the application restores by VELOC_Restart. In that case
 *                   all marks are forgotten, and the application fills the arrays
 * @return VELOC_SUCCESS; VELOC_FAILURE if the search failed, or no iteration is consistent and
 *         there is no checkpoint, here or, under MPI, on another process; then nothing is changed
 *
 * Source: an addition of this library.
 *
 * @pre `pmem` is NULL or an open file; `name` is NULL or a string that ends with NUL; `iteration` and
 * `version` are NULL or have room for a number.
 */
int VELOC_Pmem_restart(struct VELOC_Pmem *pmem, const char *name, int64_t *iteration, int *version);

/**
 * Computes the sum of each block of words. A word has 8 bytes, and may be a double. Words are
 * summed as integers modulo 2^64: exactly, in any order.
 *
 * @param data   the words
 * @param words  how many
 * @param block  words of a block; 1 or more; the last block may be shorter
 * @param sums   gets a sum for each block
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL or `block` is 0
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section II-C.
 *
 * @pre `data` is NULL or points to so many aligned words, `sums` to one for each block.
 */
int VELOC_Pmem_block_sums(const void *data, size_t words, size_t block, uint64_t *sums);

/**
 * Tells whether each block of words has its sum. An invariant may return the answer.
 *
 * @param data   as VELOC_Pmem_block_sums
 * @param words  as VELOC_Pmem_block_sums
 * @param block  as VELOC_Pmem_block_sums
 * @param sums   the sums of VELOC_Pmem_block_sums
 * @param wrong  gets the number of the first block with another sum, or -1; may be NULL
 * @return VELOC_INVARIANT_HOLDS or VELOC_INVARIANT_FAILS; VELOC_FAILURE if an argument is NULL or
 *         `block` is 0
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section II-C.
 *
 * @pre As VELOC_Pmem_block_sums; `wrong` is NULL or has room for a number.
 */
int VELOC_Pmem_blocks_hold(const void *data,
                           size_t words,
                           size_t block,
                           const uint64_t *sums,
                           int64_t *wrong);

/**
 * Computes the sums of a matrix's rows and columns: words of 8 bytes, as for
 * VELOC_Pmem_block_sums.
 *
 * @param matrix       its words, row by row
 * @param rows         its rows; 1 or more
 * @param columns      its columns; 1 or more
 * @param stride       words between the beginnings of two rows; `columns` or more
 * @param row_sums     gets a sum for each row
 * @param column_sums  gets a sum for each column
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL or 0, or `stride` is too small
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section III-C
 * (checksums of a product).
 *
 * @pre The pointers are NULL or point to so many aligned words.
 */
int VELOC_Pmem_matrix_sums(const void *matrix,
                           size_t rows,
                           size_t columns,
                           size_t stride,
                           uint64_t *row_sums,
                           uint64_t *column_sums);

/**
 * Compares a matrix with its sums. If one word is wrong, it corrects all bits of that word. An
 * invariant may return the answer, with VELOC_INVARIANT_HOLDS in place of
 * VELOC_INVARIANT_CORRECTED. Four wrong words whose differences cancel in two rows and two columns
 * are not noticed.
 *
 * @param matrix       as VELOC_Pmem_matrix_sums
 * @param rows         as VELOC_Pmem_matrix_sums
 * @param columns      as VELOC_Pmem_matrix_sums
 * @param stride       as VELOC_Pmem_matrix_sums
 * @param row_sums     the sums of VELOC_Pmem_matrix_sums
 * @param column_sums  the sums of VELOC_Pmem_matrix_sums
 * @param row          gets the row of the word that was corrected, or -1; may be NULL
 * @param column       gets its column, or -1; may be NULL
 * @return VELOC_INVARIANT_HOLDS; VELOC_INVARIANT_CORRECTED; VELOC_INVARIANT_FAILS: more than one
 *         word is wrong, or a sum; VELOC_FAILURE as VELOC_Pmem_matrix_sums
 *
 * Source: an addition of this library; algorithm-directed crash consistence, section III-C.
 *
 * @pre As VELOC_Pmem_matrix_sums; `row` and `column` are NULL or have room for a number.
 */
int VELOC_Pmem_matrix_correct(void *matrix,
                              size_t rows,
                              size_t columns,
                              size_t stride,
                              const uint64_t *row_sums,
                              const uint64_t *column_sums,
                              int64_t *row,
                              int64_t *column);

#ifdef __cplusplus
}  // extern "C"
#endif /* __cplusplus */

#endif  /* VELOC_PMEM_H */
