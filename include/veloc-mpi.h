/*
 * Messages of checkpointed parts of adjoint codes, logged and replayed.
 *
 * Generated from crates/message-log/src/capi.rs by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef VELOC_MPI_H
#define VELOC_MPI_H

#include <stddef.h>
#include <stdint.h>

#include "veloc/defs.h"

/**
 * Messages of the part may be sent again instead of kept: those that one process sends and another
 * receives inside it, if the part turns out to be right-tight, which means that nothing in it waits
 * for what is behind it. All processes of `MPI_COMM_WORLD` must begin, end and replay such parts in
 * the same order. Which messages, is decided by the first run: a part that is first begun in the
 * replay of another is logged. The environment variable `VELOC_MPI_STREAMS` says of how many streams
 * of messages (by communicator, other process and tag) each process can tell the others; a part with
 * more is logged. 64 by default, 2047 at the most, 0: nothing is sent again.
 */
#define VELOC_PART_RESEND 1

/**
 * The log stays after a replay, for further ones, until `VELOC_Part_free`.
 */
#define VELOC_PART_KEEP 2

/**
 * What the log holds. Grows at its end only.
 */
typedef struct VELOC_Part_figures {
    /**
     * Bytes received that are kept now.
     */
    uint64_t logged;
    /**
     * The most bytes that were kept at once.
     */
    uint64_t peak;
    /**
     * Bytes that were given up because their messages are sent again.
     */
    uint64_t dropped;
    /**
     * Bytes that were sent again.
     */
    uint64_t resent;
    /**
     * Calls that are kept now, equal polls counted as one; each of several requests that
     * MPI_Startall starts is another.
     */
    uint64_t events;
    /**
     * Runs of parts that are logged or being logged.
     */
    uint64_t parts;
    /**
     * Of the bytes that are kept, those in this library's memory (`VELOC_MPI_LOG_MEMORY`).
     */
    uint64_t memory;
    /**
     * The others, which are in files in the scratch directory of the job.
     */
    uint64_t stored;
} VELOC_Part_figures;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Begins to log a part of the program: what its calls of MPI receive is kept, so that the part can
 * be replayed. Parts may be nested to any depth.
 *
 * Error handlers and other functions that MPI calls for the program return, or end the job: if one leaves
 * its call by `longjmp` or an exception, calls of MPI are passed on from then on, nothing is logged or
 * replayed any more, and the functions for parts fail.
 *
 * @param id what the part is called; the same part may be logged many times, and is then replayed
 * in reverse order
 * @param flags `VELOC_PART_RESEND` and `VELOC_PART_KEEP`, or 0
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: MPI is not running, or initialised with
 * `MPI_THREAD_MULTIPLE`; the program's calls do not come to this library, which is linked behind MPI,
 * or an interface of MPI for Fortran was loaded after `MPI_Init`; unknown flags; the environment
 * variable `VELOC_MPI_LOG_MEMORY`, the memory that the log may have, is no number of bytes
 */
int VELOC_Part_begin(int id,
                     int flags);

/**
 * Ends the logging of a part.
 *
 * @param id the innermost open part, which `VELOC_Part_begin` began
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: it is not the innermost open part
 */
int VELOC_Part_end(int id);

/**
 * Begins to replay the last run of a part that is logged, which is one that was not replayed, or the
 * last one of all with `VELOC_PART_KEEP`: until `VELOC_Part_replay_end`, calls of MPI send nothing, and
 * give what they gave then. They have to be the same calls in the same order, with the same
 * communicators, peers, tags and counts. What a request receives belongs to the call that completes it:
 * if that was behind the end of the part, the replay gives the request nothing, and a wait for it
 * behind the replay succeeds at once.
 *
 * @param id the part
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: no run of it is logged; there was no memory for what it
 * has received; or, with `VELOC_PART_RESEND`, other processes have ended or replay another part instead,
 * have called `MPI_Finalize`, or go on from another checkpoint; where that is known later, a call inside the
 * replay fails that waits for a message of theirs. A run that cannot be replayed stays until `VELOC_Part_free`.
 */
int VELOC_Part_replay_begin(int id);

/**
 * Ends a replay. The log of that run goes, unless the part has `VELOC_PART_KEEP`. A replay that has gone
 * wrong stays open: all calls of MPI's fail in it, so that none gets what is not its own, until
 * `VELOC_Part_free` gives it up.
 *
 * @param id the innermost open part, which `VELOC_Part_replay_begin` began
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: it is not the innermost open part, a call of it
 * differed from the logged one, or calls are missing
 */
int VELOC_Part_replay_end(int id);

/**
 * Drops what is logged of all runs of a part, and gives the part up if it is the innermost open
 * one.
 *
 * @param id the part
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: nothing of it is logged, or others are open inside it
 */
int VELOC_Part_free(int id);

/**
 * Why the calling thread's last call on parts, or last call of MPI's inside one, failed.
 *
 * @return a text, valid until the thread's next failure; empty if there was none. Ask in a statement of
 * its own: beside another call on parts in one list of arguments, C may evaluate this one first.
 */
const char *VELOC_Part_error(void);

/**
 * Reads what the log holds.
 *
 * @param figures where it is written
 * @param size `sizeof(VELOC_Part_figures)`, so that the struct can grow
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: a null pointer, MPI is not running, or several threads may
 * call it at a time
 *
 * @pre `figures` is null or has room for `size` bytes.
 */
int VELOC_Part_get_figures(struct VELOC_Part_figures *figures,
                           size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif /* __cplusplus */

#endif  /* VELOC_MPI_H */
