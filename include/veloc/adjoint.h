/*
 * Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.
 *
 * Generated from src/capi by `cargo xtask header`. Do not edit.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef VELOC_ADJOINT_H
#define VELOC_ADJOINT_H

#include <stddef.h>
#include <stdint.h>

#include "defs.h"

/**
 * The run stopped as it was asked to. The same call goes on with it, also in a later job.
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
 * Compute a step, recording it, and store the record, which is what its adjoint needs, in a slot.
 * The application then has the next state. Only with VELOC_RULE_MIXED.
 */
#define VELOC_ACTION_RECORD 8

/**
 * Read a record from a slot and take the adjoint's step back; no forward step is computed, and the
 * application has no state. Only with VELOC_RULE_MIXED.
 */
#define VELOC_ACTION_REVERSE 9

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
 * The shortest distances that keep the number of repetitions.
 */
#define VELOC_RULE_SHORTEST 3

/**
 * A slot has a state or the record of one step, whichever takes fewer advances. The record is what
 * the step's adjoint needs, and is taken to be about as large as a state. Not with a resilience or
 * adjoint distance, VELOC_Schedule_set_failures, slots on disk, VELOC_Schedule_resume or
 * VELOC_Adjoint_run.
 */
#define VELOC_RULE_MIXED 4

/**
 * A schedule of an adjoint computation: it says which states of a forward pass are stored, which
 * are computed again, and when. Opaque. Each may be used by one thread at a time.
 */
typedef struct VELOC_Schedule VELOC_Schedule;

/**
 * An adjoint computation. Set everything to zero first, then set `size` and the members that you
 * need. The comment of each member says what zero means. Later versions of the library have more
 * members at the end; those that a program lacks count as zero. States are numbered from 0 to
 * `steps`; step `i` goes from state `i - 1` to state `i`.
 *
 * The callbacks run in the thread of the call. They return VELOC_SUCCESS, or VELOC_FAILURE, which
 * ends the run. They may call the library, but must not take, restore or clean up checkpoints of
 * the run's names. They must return: after an exception or `longjmp` out of one the run stays
 * under way, and no other can begin.
 */
typedef struct VELOC_Adjoint {
    /**
     * The size of this structure, `sizeof(VELOC_Adjoint)`.
     */
    size_t size;
    /**
     * The name of the stored states, as VELOC_Checkpoint, of at most 119 bytes; not `default`,
     * which stands for the regions of VELOC_Mem_protect. Stored adjoints have the name
     * `<name>.adjoint`, hashes of states `<name>.hashes`. A run fails if the application has
     * checkpoints of its own under these names.
     */
    const char *name;
    /**
     * Steps of the forward sweep; 1 or more.
     */
    int64_t steps;
    /**
     * States that are stored at a time, state 0 among them; 1 or more. If they are compressed
     * (VELOC_Adjoint_compress), the run stores more. A run that was stopped may have stored one
     * more, the state at which it stopped.
     */
    int64_t slots;
    /**
     * The resilience distance: how many steps stored states may be apart, so that no crash in the
     * first forward sweep costs more; 0: any number.
     */
    int64_t resilience_distance;
    /**
     * The adjoint distance: after how many of its steps the adjoint is stored; 0: as the
     * resilience distance, and never if that is 0, too (but see `mtbf`).
     */
    int64_t adjoint_distance;
    /**
     * Where states are stored: one of VELOC_RULE_*, but not VELOC_RULE_MIXED.
     */
    int rule;
    /**
     * 0 or VELOC_VERIFY_REPLAY.
     */
    unsigned int flags;
    /**
     * After so many seconds the run stops, so that a later one can go on; 0: no limit. A run
     * computes at least one step, and warns if the limit was over by then.
     */
    double time_limit;
    /**
     * A number that tells this computation from others of the same name, for example the iteration
     * of an optimisation. The run fails if the stored states have another number.
     */
    uint64_t tag;
    /**
     * The first argument of the callbacks.
     */
    void *user;
    /**
     * Protects the memory of the state and of the adjoint, by VELOC_Adjoint_protect. Called once,
     * first.
     */
    int (*protect)(void *user);
    /**
     * Computes the states from `from` to `to`, without recording. The application has state `from`
     * before and state `to` after. The callback must compute the same states each time.
     */
    int (*forward)(void *user, int64_t from, int64_t to);
    /**
     * Computes step `step` from state `step - 1`, which the application has, recording it, and
     * takes the adjoint's step from state `step` to state `step - 1`. If `step` is `steps`, it
     * begins the adjoint before that. The state may be anything after that.
     */
    int (*adjoint)(void *user, int64_t step);
    /**
     * Gives a hash of the state that the application has, for VELOC_VERIFY_REPLAY, and to compare
     * state 0 when a run goes on. It must be the same function each time. NULL: for
     * VELOC_VERIFY_REPLAY the library hashes the protected memory of the state (SHA-256), which
     * must be host memory; it compares the bytes of state 0.
     */
    int (*hash)(void *user, uint64_t *hash);
    /**
     * The mean time between failures, in forward steps. If it is not 0, the adjoint is stored
     * where a failure would cost more work than the write (VELOC_Schedule_set_failures), and not
     * at a fixed distance. Give this and the next two members together, or none of them.
     */
    double mtbf;
    /**
     * How long it takes to store the adjoint, in forward steps.
     */
    double write_cost;
    /**
     * How long it takes to record and reverse a step, in forward steps.
     */
    double turn_cost;
} VELOC_Adjoint;

/**
 * What the application does next.
 */
typedef struct VELOC_Action {
    /**
     * One of VELOC_ACTION_*.
     */
    int kind;
    /**
     * Whether the slot is read after this action, before something else is stored there. 0: no; so
     * VELOC_ACTION_RESTORE may move the slot's content instead of copying it, and
     * VELOC_ACTION_TAKESHOT need not store anything. 1: yes, or perhaps, while the end of the pass
     * is not known. It is 0 where `slot` is -1. A state that was kept in spite of a 0 may be of
     * use to VELOC_Schedule_resume after a crash.
     */
    int read_again;
    /**
     * The state that the application has before the action; for VELOC_ACTION_RESTORE the state
     * that it has after it.
     */
    int64_t from;
    /**
     * For VELOC_ACTION_ADVANCE the state that the application has after it; for turns,
     * VELOC_ACTION_RECORD and VELOC_ACTION_REVERSE `from + 1`, the state from which the adjoint
     * goes to `from`; else `from`.
     */
    int64_t to;
    /**
     * The slot, from 0 on, that is written by VELOC_ACTION_TAKESHOT or VELOC_ACTION_RECORD, or
     * read by VELOC_ACTION_RESTORE or VELOC_ACTION_REVERSE; else -1. The numbers of slots on disk
     * follow those of the slots in memory.
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
     * All forward steps: these, and those that are recorded, each step once.
     */
    int64_t forward_evaluations;
    /**
     * States that are stored, state 0 among them; with VELOC_RULE_MIXED states and records.
     */
    int64_t takeshots;
    /**
     * How often any one step is computed without being recorded, at the most.
     */
    int64_t repetition;
    /**
     * The largest distance between states stored in the first sweep, or from the last of them to
     * the end. A record counts as the state from which its step begins.
     */
    int64_t max_gap;
} VELOC_Cost;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Computes an adjoint: it goes through the schedule, calls the application's callbacks, and keeps
 * the states and the adjoint as checkpoints. Called again after a crash or a stop, it goes on from
 * what is left with the least number of steps, in the same job or in a later one with as many
 * processes. Collective under MPI: all processes pass the same values, except `user` and the
 * callbacks.
 *
 * The application has state 0 in memory when it calls this, the same state each time. A run that
 * goes on compares it with the stored one. If both jobs have given a `hash`, it compares the
 * hashes, and fails if they differ. Otherwise it compares the bytes, and warns if they differ.
 * When the run is finished, the adjoint is in the memory protected for it, and nothing of the run
 * stays stored. Until then everything stays, whatever `max_versions` and `scratch_versions` say.
 * Afterwards VELOC_Region_protect has no regions for the names of the run.
 *
 * Each slot is a version of the name, and each stored adjoint a version of `<name>.adjoint`:
 * ordinary checkpoints, which are prefetched in the order in which the schedule reads them. With
 * VELOC_VERIFY_REPLAY each state is hashed when it is first computed, and compared when it is
 * computed or restored again, also by a later job. Of more than 1,048,576 states only so many are
 * hashed, at equal distances.
 *
 * @param what  the computation
 * @return VELOC_SUCCESS: it is finished. VELOC_STOPPED: the time limit was reached, or
 *         VELOC_Adjoint_stop was called; everything that was computed is in files, and the same
 *         call goes on from there. VELOC_FAILURE: an argument is wrong; what is stored belongs to
 *         another computation or, by `hash`, to another state 0 (then nothing was changed); a
 *         callback failed; a state was not the same again (the reason names the step); or a state
 *         could not be stored or read back (the reason names the state and its slot). What was
 *         stored stays, and the same call goes on from there. A failure of one process ends the
 *         run on all: that process gets its own error, and the error of the others names it. If
 *         the others wait inside their callbacks for a process whose callback has failed, that
 *         process gets its error after 10 s or some steps, and should end the job (MPI_Abort)
 *
 * Source: an addition of this library, after Walther, Narayanan, "Extending the binomial
 * checkpointing technique for resilience".
 *
 * @pre `what` is NULL or points to what its `size` says, with what its members are to have.
 */
int VELOC_Adjoint_run(const struct VELOC_Adjoint *what);

/**
 * Protects memory of the computation under way. Call it in the callbacks of VELOC_Adjoint_run.
 * Once the callback `protect` has returned, ids and sizes are fixed until the run ends. If a
 * region moves, protect it again at its new address, with the same size. If the size of a state
 * varies, protect the largest size.
 *
 * @param what       VELOC_ADJOINT_STATE: it is part of each stored state; VELOC_ADJOINT_GRADIENT:
 *                   it is part of each stored adjoint
 * @param id         names the region; states and adjoints have ids of their own
 * @param ptr        as VELOC_Mem_protect
 * @param count      as VELOC_Mem_protect
 * @param base_size  as VELOC_Mem_protect
 * @return as VELOC_Mem_protect; VELOC_FAILURE also if no run is under way, `what` is neither of
 *         the two, or, after `protect`, the id is new or has another size (then nothing changes)
 *
 * Source: an addition of this library.
 */
int VELOC_Adjoint_protect(int what, int id, void *ptr, size_t count, size_t base_size);

/**
 * Compresses a region of floats or doubles in stored states, as VELOC_Mem_compress does. Call it
 * in the callback `protect` of VELOC_Adjoint_run, after the region is protected.
 *
 * The run keeps as many compressed states as have room where `slots` uncompressed states would be;
 * a line of the log says how many, and how many forward steps that saves. A state that does not
 * fit its bits is stored uncompressed, and takes more than its share of that room. A restored
 * state is only within the bound of what it was, and so are the steps that are computed from it:
 * VELOC_VERIFY_REPLAY is not possible, and the gradient is that of such states. The adjoint is not
 * compressed, because it is the result. With VELOC_COMPRESS_LOSSLESS the states take less room,
 * but the run does not keep more of them, because it is not known beforehand how much less.
 *
 * @param id     as VELOC_Adjoint_protect, of VELOC_ADJOINT_STATE
 * @param mode   as VELOC_Mem_compress
 * @param bound  as VELOC_Mem_compress
 * @return as VELOC_Mem_compress; VELOC_FAILURE also if no run is under way, or `protect` has
 *         returned
 *
 * Source: an addition of this library, after Kukreja et al., "Combining checkpointing and data
 * compression to accelerate adjoint-based optimization problems".
 */
int VELOC_Adjoint_compress(int id, int mode, double bound);

/**
 * Asks the adjoint computation under way, or the next one, to stop as soon as a later one can go
 * on from there. One of several processes is enough to ask. The function may be called from any
 * thread, from a callback, and from a signal handler.
 *
 * @return VELOC_SUCCESS
 *
 * Source: an addition of this library.
 */
int VELOC_Adjoint_stop(void);

/**
 * Removes everything that VELOC_Adjoint_run has stored under a name, so that the next run of that
 * name begins anew: states, adjoints and hashes of states, from memory, scratch and persistent
 * (which VELOC_Cleanup leaves). Each process removes its own.
 *
 * @param name  the name of the run
 * @return VELOC_SUCCESS, also if there is nothing; VELOC_FAILURE if the application has
 *         checkpoints of its own under one of the names, or the run is under way (then nothing is
 *         removed), or if something could not be removed
 *
 * Source: an addition of this library.
 *
 * @pre `name` is NULL or a string that ends with NUL.
 */
int VELOC_Adjoint_discard(const char *name);

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
 * Makes a schedule for the adjoint of a forward pass whose number of steps is not known, because
 * the step is adaptive or a condition decides the end. Each VELOC_ACTION_ADVANCE is one step,
 * until VELOC_Schedule_end says that it was the last, or VELOC_Schedule_end_after_next that the
 * next one is. No step is computed more often than with a schedule that was made for the true
 * number of steps (after VELOC_Schedule_end: for one step more). Such a schedule has no resilience
 * distance, no disk and no rule to choose.
 *
 * @param slots     states that can be stored at a time, state 0 among them; 1 to 2^48
 * @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong
 *
 * Source: an addition of this library, after Wang, Moin, Iaccarino, SIAM J. Sci. Comput. 31
 * (2009).
 *
 * @pre `schedule` is NULL or has room for a pointer.
 */
int VELOC_Schedule_create_online(int64_t slots, struct VELOC_Schedule **schedule);

/**
 * Ends the forward pass of a schedule that VELOC_Schedule_create_online has made: the state to
 * which the last VELOC_ACTION_ADVANCE went is the last one. The next action begins the way back.
 * From now on the schedule is one for a known number of steps; after a crash, make such a schedule
 * by VELOC_Schedule_create for VELOC_Schedule_resume.
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
 * Ends the forward pass of a schedule that VELOC_Schedule_create_online has made, one step later
 * than VELOC_Schedule_end: the application has the state from which the last step begins. That
 * step is recorded at once, without a VELOC_ACTION_ADVANCE: the next action is
 * VELOC_ACTION_FIRSTURN. Called before the first action, the pass has one step, and state 0 is
 * stored first.
 *
 * @param schedule  a schedule
 * @return VELOC_SUCCESS; VELOC_FAILURE if the number of steps is known, or, after a crash, if the
 *         state from which the pass goes on is not restored yet (then nothing was changed)
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_end_after_next(struct VELOC_Schedule *schedule);

/**
 * Goes on after a crash with the states that are left in the slots, at the least number of steps.
 * With hundreds of states that number can take long to find; the schedule then takes no more steps
 * than keeping all of them does. Call it before the first action.
 *
 * If state 0 is not among them, the application must have it, as at its beginning; it is then
 * stored first, if need be in place of another one. With slots on disk all states on disk are
 * kept, those in memory count as lost, and the number of steps need not be the least. The
 * resilience distance binds only what is left of the first sweep, if no adjoint was stored. A
 * schedule whose end is not known goes on with its pass; if the end was known before the crash,
 * resume a schedule for that number of steps. States in slots that the schedule does not have
 * count as lost.
 *
 * @param schedule  a schedule with the settings that the one before the crash had
 * @param states    for each slot the state that was stored there last, needed or not; -1: none
 *                  that is whole
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
 * VELOC_Schedule_end or VELOC_Schedule_end_after_next the figures are those of a schedule that
 * knew the end.
 *
 * @param schedule  a schedule
 * @param cost      gets the figures
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, the number of steps is not known,
 *         more than 10,000,000 states can be stored in the first sweep, or, with slots on disk,
 *         there are more than 20,000,000 actions
 *
 * Source: an addition of this library, after numforw and expense of revolve.
 *
 * @pre `schedule` is NULL or a schedule, `cost` is NULL or has room for one.
 */
int VELOC_Schedule_cost(const struct VELOC_Schedule *schedule, struct VELOC_Cost *cost);

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
 * Writes where a schedule stands, for VELOC_Schedule_unpack. Takes some bytes for each stored
 * state, and 32 for a checksum.
 *
 * @param schedule  a schedule
 * @param bytes     gets the bytes; NULL asks for their number
 * @param size      how many bytes there is room for; gets how many they are
 * @return VELOC_SUCCESS; VELOC_FAILURE if `schedule` or `size` is NULL, or there is too little
 *         room (then `size` has how much is needed)
 *
 * Source: an addition of this library.
 *
 * @pre `schedule` is NULL or a schedule, `size` is NULL or has a number, and there is room for so many
 * bytes at `bytes` unless that is NULL.
 */
int VELOC_Schedule_pack(const struct VELOC_Schedule *schedule, void *bytes, size_t *size);

/**
 * Makes a schedule from the bytes of VELOC_Schedule_pack. It stands where the packed one stood:
 * this is for planned stops, after which every slot has what it had. After a crash,
 * VELOC_Schedule_resume goes on with whatever is left.
 *
 * @param bytes     the bytes
 * @param size      how many they are
 * @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, or the bytes are not those of a
 *         schedule, are of another version of the format, or have changed since they were written
 *
 * Source: an addition of this library.
 *
 * @pre There are `size` bytes at `bytes` unless that is NULL; `schedule` is NULL or has room for a
 * pointer.
 */
int VELOC_Schedule_unpack(const void *bytes, size_t size, struct VELOC_Schedule **schedule);

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
 * Adds slots on disk. The slots of VELOC_Schedule_create are then in memory, and their use costs
 * nothing. The schedule chooses where each state is stored, so that advances, writes and reads
 * together take the least time (for up to 1024 steps; some per cent more for longer passes). The
 * numbers of slots on disk follow those in memory. After a crash VELOC_Schedule_resume goes on
 * with what is on disk. Before the first action; not together with a resilience distance, or with
 * a rule other than VELOC_RULE_OPTIMAL.
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
 * Sets the resilience distance: how many steps stored states may be apart in the first forward
 * pass, so that no crash in it costs more. Before the first action.
 *
 * @param schedule  a schedule
 * @param distance  1 or more; times the slots it must not be less than the steps
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
 *
 * Source: set_resilience_distance of resrevolve (Walther, Narayanan, section 3).
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_set_resilience_distance(struct VELOC_Schedule *schedule, int64_t distance);

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
 * Has the adjoint stored where a failure would cost more work than the write, instead of at a
 * fixed distance, because the work between two steps of the adjoint differs much. The adjoint is
 * then not stored after VELOC_ACTION_FIRSTURN. Times are in forward steps. Before the first
 * action; the last of this and VELOC_Schedule_set_adjoint_distance counts.
 *
 * @param schedule    a schedule
 * @param mtbf        the mean time between failures; a finite number above 0, as the others are
 * @param write_cost  how long it takes to store the adjoint. If that takes next to nothing, give a
 *                    small number whose product with `mtbf` is a finite double above 0
 * @param turn_cost   how long it takes to record and reverse a step
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
 * Chooses where states are stored. Before the first action. With slots on disk, or an end that is
 * not known, only VELOC_RULE_OPTIMAL is possible. If VELOC_RULE_MIXED excludes a setting, the
 * error names it.
 *
 * @param schedule  a schedule
 * @param rule      one of VELOC_RULE_*
 * @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
 *
 * Source: an addition of this library; the rules are those of Walther, Narayanan, section 4, and
 * the mixed one of Maddison, J. Comput. Sci. 82 (2024).
 *
 * @pre `schedule` is NULL or a schedule.
 */
int VELOC_Schedule_set_rule(struct VELOC_Schedule *schedule, int rule);

/**
 * Gives the least resilience distance that costs nothing: with a smaller one, more steps are
 * computed.
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
 * was written for revolve needs only new names; VELOC_Schedule_next does more. The library tells
 * computations apart by their thread and by the address of `check`.
 *
 * @param check  the slot that was written last of those in use; -1 before the first call
 * @param capo   the state that the application has; 0 before the first call
 * @param fine   the state that the adjoint has come to; the steps before the first call
 * @param snaps  slots
 * @param info   changed only with VELOC_ACTION_ERROR: 11 if `check` is beyond the slots, else 9
 * @return one of VELOC_ACTION_*: ADVANCE (to the new `capo`), TAKESHOT (into slot `check`),
 *         RESTORE (from slot `check`), FIRSTURN and YOUTURN (the step behind `capo`), TERMINATE;
 *         ERROR if an argument is wrong
 *
 * Source: revolve (Griewank, Walther, ACM TOMS 26, section 4).
 *
 * @pre The pointers are NULL or point to what they should.
 */
int VELOC_Revolve(int64_t *check, int64_t *capo, int64_t *fine, int64_t snaps, int *info);

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
 * The least number of forward steps that are not recorded, divided by the number of steps.
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

#ifdef __cplusplus
}  // extern "C"
#endif /* __cplusplus */

#endif  /* VELOC_ADJOINT_H */
