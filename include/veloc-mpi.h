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
 * Messages of the part may be sent again instead of logged: those that one process sends and another
 * receives inside it, if the part turns out to be right-tight, which means that nothing in it waits for what
 * comes after it. All processes of `MPI_COMM_WORLD` must begin, end and replay such parts in the same order.
 * The first run decides which messages are sent again: a part that is first begun in the replay of another
 * is logged. The environment variable `VELOC_MPI_STREAMS` is the number of streams of messages (by
 * communicator, other process and tag) that each process can report to the others; a part with more is
 * logged. 64 by default, 2047 at most, 0: no messages are sent again.
 */
#define VELOC_PART_RESEND 1

/**
 * The log is kept after a replay, for further ones, until `VELOC_Part_free`.
 */
#define VELOC_PART_KEEP 2

/**
 * What the log holds. New fields are added at the end only.
 */
typedef struct VELOC_Part_figures {
    /**
     * Bytes received that are in the log now.
     */
    uint64_t logged;
    /**
     * The most bytes that were in the log at once.
     */
    uint64_t peak;
    /**
     * Bytes that were dropped because their messages are sent again.
     */
    uint64_t dropped;
    /**
     * Bytes of messages that were sent again.
     */
    uint64_t resent;
    /**
     * Calls that are logged now, equal polls counted as one; each of several requests that one MPI_Startall
     * starts counts as another.
     */
    uint64_t events;
    /**
     * Runs of parts that are logged or being logged.
     */
    uint64_t parts;
    /**
     * Logged bytes in this library's memory (`VELOC_MPI_LOG_MEMORY`).
     */
    uint64_t memory;
    /**
     * The other logged bytes, which are in files in the scratch directory of the job.
     */
    uint64_t stored;
} VELOC_Part_figures;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Begins to log a part of the program: what its MPI calls receive is kept, so that the part can be replayed.
 * Parts may be nested to any depth.
 *
 * Error handlers and other callbacks that MPI calls must return, or end the job. If one leaves its call by
 * `longjmp` or an exception, all later MPI calls are passed through, nothing is logged or replayed any more,
 * and the functions for parts fail.
 *
 * With the environment variable `VELOC_MPI_COMPARE` = 1, a hash of what each call sends is logged, and a replay that
 * sends other bytes fails, because other processes have answered what was sent in the first run. The hash leaves out
 * what `MPI_Reduce_scatter_block`, `MPI_Neighbor_alltoall` and calls with counts for each process send, and what
 * `MPI_IN_PLACE` stands for outside of reductions.
 *
 * @param id the part's number; the same part may be logged many times, and is then replayed in reverse order
 * @param flags `VELOC_PART_RESEND` and `VELOC_PART_KEEP`, or 0
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: MPI is not running, or was initialised with
 * `MPI_THREAD_MULTIPLE`; the program's calls do not reach this library, which is linked after MPI, or a
 * Fortran interface of MPI was loaded after `MPI_Init`; unknown flags; the environment variable
 * `VELOC_MPI_LOG_MEMORY`, the limit of the log's memory, is not a number of bytes
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
 * Begins to replay the last logged run of a part that was not replayed yet, or the last run of all with
 * `VELOC_PART_KEEP`. Until `VELOC_Part_replay_end`, MPI calls send nothing and return what they returned in
 * that run. They have to be the same calls in the same order, with the same communicators, peers, tags and
 * counts. What a request receives belongs to the call that completes it: if that call came after the end of
 * the part, the replay receives nothing, and a wait for the request after the replay succeeds at once.
 *
 * @param id the part
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: no run of it is logged; there was no memory for what it received; or,
 * with `VELOC_PART_RESEND`, other processes have ended or replay another part instead, have called `MPI_Finalize`,
 * or were restarted from another checkpoint. If the library finds that out later, a call inside the replay that
 * waits for a message of theirs fails. A run that cannot be replayed is kept until `VELOC_Part_free`.
 */
int VELOC_Part_replay_begin(int id);

/**
 * Ends a replay. The log of that run is freed, unless the part has `VELOC_PART_KEEP`. A failed replay stays
 * open: all MPI calls in it fail, so that none gets the data of another, until `VELOC_Part_free` abandons
 * it.
 *
 * @param id the innermost open part, which `VELOC_Part_replay_begin` began
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: it is not the innermost open part, a call of it
 * differed from the logged one, or calls are missing
 */
int VELOC_Part_replay_end(int id);

/**
 * Frees the log of all runs of a part, and abandons the part if it is the innermost open one.
 *
 * @param id the part
 * @return `VELOC_SUCCESS` or `VELOC_FAILURE`: nothing of it is logged, or other parts are open inside it
 */
int VELOC_Part_free(int id);

/**
 * Why the calling thread's last call on parts, or last MPI call inside one, failed.
 *
 * @return a text, valid until the thread's next failure; empty if there was none. Call it in a statement of
 * its own: as an argument beside another call on parts, C may evaluate it first.
 */
const char *VELOC_Part_error(void);

/**
 * Reads what the log holds.
 *
 * @param figures where they are written
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
