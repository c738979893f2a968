/*
 * Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.
 *
 * Generated from src/capi by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef VELOC_DEFS_H
#define VELOC_DEFS_H

/**
 * The call did what it says.
 */
#define VELOC_SUCCESS 0

/**
 * The call failed; `VELOC_Last_error` has the reason. It changed nothing, unless its description
 * says so.
 */
#define VELOC_FAILURE (-1)

/**
 * Bytes of the longest name or path that the interface takes or gives, the final NUL included.
 */
#define VELOC_MAX_NAME 1024

/**
 * All protected regions.
 */
#define VELOC_CKPT_ALL 0

/**
 * The regions whose ids are listed.
 */
#define VELOC_CKPT_SOME 1

/**
 * The regions whose ids are not listed.
 */
#define VELOC_CKPT_REST 2

/**
 * All regions of the checkpoint.
 */
#define VELOC_RECOVER_ALL 0

/**
 * The regions whose ids are listed.
 */
#define VELOC_RECOVER_SOME 1

/**
 * The regions whose ids are not listed.
 */
#define VELOC_RECOVER_REST 2

/**
 * How a region is captured: as the key `host_capture` says.
 */
#define VELOC_CAPTURE_AUTO 0

/**
 * How a region is captured: the call copies it.
 */
#define VELOC_CAPTURE_COPY 1

/**
 * How a region is captured: it is protected against writes until it is copied.
 */
#define VELOC_CAPTURE_PROTECT 2

/**
 * How a region is captured: a copy-on-write child of the process copies it.
 */
#define VELOC_CAPTURE_FORK 3

/**
 * How a region is compressed: not at all.
 */
#define VELOC_COMPRESS_NONE 0

/**
 * How a region is compressed: without loss.
 */
#define VELOC_COMPRESS_LOSSLESS 64

/**
 * How a region is compressed: to 8 bits for each value, within a bound.
 */
#define VELOC_COMPRESS_8 8

/**
 * How a region is compressed: to 12 bits for each value, within a bound.
 */
#define VELOC_COMPRESS_12 12

/**
 * How a region is compressed: to 16 bits for each value, within a bound.
 */
#define VELOC_COMPRESS_16 16

/**
 * May be added to VELOC_COMPRESS_8, _12 or _16: the bound is a fraction of the region's largest
 * absolute value.
 */
#define VELOC_COMPRESS_RELATIVE 256

/**
 * A crash: the process dies, and the machine goes on.
 */
#define VELOC_CRASH_PROCESS 0

/**
 * A crash: the machine loses power. Each word of a cache line that was not written back may be old
 * or new.
 */
#define VELOC_CRASH_POWER 1

/**
 * A crash: the machine loses power. Each sector of a page that was not written back may be old or
 * new.
 */
#define VELOC_CRASH_PAGE 2

/**
 * What an invariant answers: it holds.
 */
#define VELOC_INVARIANT_HOLDS 1

/**
 * What an invariant answers: it does not hold.
 */
#define VELOC_INVARIANT_FAILS 0

/**
 * What VELOC_Pmem_matrix_correct answers: one word was wrong and has been corrected.
 */
#define VELOC_INVARIANT_CORRECTED 2

/**
 * What an invariant answers: it cannot tell.
 */
#define VELOC_INVARIANT_UNKNOWN (-1)

/**
 * A kind of event that C++ programs can observe: a checkpoint has ended.
 */
#define VELOC_OBSERVE_CKPT_END 0

/**
 * Flags of a protected region. In C++ they have a type of their own. No condition, count or other
 * constant has the number of VELOC_READ_ONLY.
 */
typedef enum VELOC_Flags {
    /**
     * None.
     */
    VELOC_DEFAULT = 0,
    /**
     * The application does not change the region until it is released.
     */
    VELOC_READ_ONLY = 1380270404
} VELOC_Flags;

#endif  /* VELOC_DEFS_H */
