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
 * The call failed, and changed nothing that it does not say; `VELOC_Last_error` has the reason.
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
 * No flag of a region.
 */
#define VELOC_DEFAULT 0

/**
 * A flag of a region: the application does not change it until it is released.
 */
#define VELOC_READ_ONLY 1

/**
 * A kind of event that C++ programs can observe: a checkpoint has ended.
 */
#define VELOC_OBSERVE_CKPT_END 0

/**
 * An action of a schedule: compute the states from `from` to `to`, without recording.
 */
#define VELOC_ACTION_ADVANCE 0

/**
 * Store the state that the application has in a slot.
 */
#define VELOC_ACTION_TAKESHOT 1

/**
 * Read a state from a slot.
 */
#define VELOC_ACTION_RESTORE 2

/**
 * Compute the last step, recording it, begin the adjoint and take its first step.
 */
#define VELOC_ACTION_FIRSTURN 3

/**
 * Compute a step, recording it, and take the adjoint's step back.
 */
#define VELOC_ACTION_YOUTURN 4

/**
 * The adjoint has come to state 0.
 */
#define VELOC_ACTION_TERMINATE 5

/**
 * There is no action: the call failed.
 */
#define VELOC_ACTION_ERROR 6

/**
 * As VELOC_ACTION_YOUTURN, and then store the adjoint.
 */
#define VELOC_ACTION_YOUTURN_WITH_CHECK 7

/**
 * A rule of schedules: the least number of advances under the resilience distance.
 */
#define VELOC_RULE_OPTIMAL 0

/**
 * Revolve's distance between stored states, or the resilience distance if that is less.
 */
#define VELOC_RULE_RESILIENT 1

/**
 * Distances between stored states that never grow.
 */
#define VELOC_RULE_MONOTONE 2

/**
 * The shortest distances that do not repeat more.
 */
#define VELOC_RULE_SHORTEST 3

/**
 * The call stopped as it was asked to; the same call goes on, also in a later job.
 */
#define VELOC_STOPPED 1

/**
 * Memory of VELOC_Adjoint_protect: the state of the forward steps.
 */
#define VELOC_ADJOINT_STATE 0

/**
 * Memory of VELOC_Adjoint_protect: the state of the adjoint, and what it computes.
 */
#define VELOC_ADJOINT_GRADIENT 1

/**
 * A flag of VELOC_Adjoint: states that are computed again are compared with what they were.
 */
#define VELOC_VERIFY_REPLAY 1

#endif  /* VELOC_DEFS_H */
