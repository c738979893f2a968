//! Schedules of adjoint computations. They need no job: they move no bytes.

use std::ffi::{c_int, c_void};

use super::boundary::status;
use adjoint::schedule_error;
use errors::{Error, Result};
use schedule::binomial::MAX_STEPS;
use schedule::configured::ConfiguredSchedule;
use schedule::resume::Survivors;
use schedule::schedule::{Action, Stored};

/// An action of a schedule: compute the states from `from` to `to`, without recording.
pub const VELOC_ACTION_ADVANCE: i32 = 0;
/// Store the state that the application has in a slot.
pub const VELOC_ACTION_TAKESHOT: i32 = 1;
/// Read a state from a slot.
pub const VELOC_ACTION_RESTORE: i32 = 2;
/// Compute the last step, recording it, begin the adjoint and take its first step.
pub const VELOC_ACTION_FIRSTURN: i32 = 3;
/// Compute a step, recording it, and take the adjoint's step back.
pub const VELOC_ACTION_YOUTURN: i32 = 4;
/// The adjoint has come to state 0.
pub const VELOC_ACTION_TERMINATE: i32 = 5;
/// There is no action: the call failed.
pub const VELOC_ACTION_ERROR: i32 = 6;
/// As VELOC_ACTION_YOUTURN, and then store the adjoint.
pub const VELOC_ACTION_YOUTURN_WITH_CHECK: i32 = 7;
/// Compute a step, recording it, and store the record, which is what its adjoint needs, in a slot.
/// The application then has the next state. Only with VELOC_RULE_MIXED.
pub const VELOC_ACTION_RECORD: i32 = 8;
/// Read a record from a slot and take the adjoint's step back; no forward step is computed, and the
/// application has no state. Only with VELOC_RULE_MIXED.
pub const VELOC_ACTION_REVERSE: i32 = 9;
/// A rule of schedules: the least number of advances under the resilience distance.
pub const VELOC_RULE_OPTIMAL: i32 = 0;
/// Revolve's distance between stored states, or the resilience distance if that is less.
pub const VELOC_RULE_RESILIENT: i32 = 1;
/// Distances between stored states that never grow.
pub const VELOC_RULE_MONOTONE: i32 = 2;
/// The shortest distances that keep the number of repetitions.
pub const VELOC_RULE_SHORTEST: i32 = 3;
/// A slot has a state or the record of one step, whichever takes fewer advances. The record is what
/// the step's adjoint needs, and is taken to be about as large as a state. Not with a resilience or
/// adjoint distance, VELOC_Schedule_set_failures, slots on disk, VELOC_Schedule_resume or
/// VELOC_Adjoint_run.
pub const VELOC_RULE_MIXED: i32 = 4;

/// A schedule of an adjoint computation: it says which states of a forward pass are stored, which
/// are computed again, and when. Opaque. Each may be used by one thread at a time.
#[derive(Debug)]
#[allow(non_camel_case_types)] // C's name.
pub struct VELOC_Schedule {
    pub(super) course: ConfiguredSchedule,
}

/// What the application does next.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VELOC_Action {
    /// One of VELOC_ACTION_*.
    pub kind: c_int,
    /// Whether the slot is read after this action, before something else is stored there. 0: no; so
    /// VELOC_ACTION_RESTORE may move the slot's content instead of copying it, and
    /// VELOC_ACTION_TAKESHOT need not store anything. 1: yes, or perhaps, while the end of the pass
    /// is not known. It is 0 where `slot` is -1. A state that was kept in spite of a 0 may be of
    /// use to VELOC_Schedule_resume after a crash.
    pub read_again: c_int,
    /// The state that the application has before the action; for VELOC_ACTION_RESTORE the state
    /// that it has after it.
    pub from: i64,
    /// For VELOC_ACTION_ADVANCE the state that the application has after it; for turns,
    /// VELOC_ACTION_RECORD and VELOC_ACTION_REVERSE `from + 1`, the state from which the adjoint
    /// goes to `from`; else `from`.
    pub to: i64,
    /// The slot, from 0 on, that is written by VELOC_ACTION_TAKESHOT or VELOC_ACTION_RECORD, or
    /// read by VELOC_ACTION_RESTORE or VELOC_ACTION_REVERSE; else -1. The numbers of slots on disk
    /// follow those of the slots in memory.
    pub slot: i64,
}

/// What a schedule costs if nothing goes wrong. Numbers that do not fit are INT64_MAX.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VELOC_Cost {
    /// Forward steps that are not recorded.
    pub advances: i64,
    /// All forward steps: these, and those that are recorded, each step once.
    pub forward_evaluations: i64,
    /// States that are stored, state 0 among them; with VELOC_RULE_MIXED states and records.
    pub takeshots: i64,
    /// How often any one step is computed without being recorded, at the most.
    pub repetition: i64,
    /// The largest distance between states stored in the first sweep, or from the last of them to
    /// the end. A record counts as the state from which its step begins.
    pub max_gap: i64,
}

/// Makes a schedule for the adjoint of a forward pass. No job is needed.
///
/// @param steps     steps of the pass, from state 0 to state `steps`; 1 to 2^48
/// @param slots     states that can be stored at a time, state 0 among them; 1 to 2^48
/// @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong
///
/// Source: an addition of this library, after revolve (Griewank, Walther, ACM TOMS 26).
///
/// # Safety
/// `schedule` is NULL or has room for a pointer.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_create(
    steps: i64,
    slots: i64,
    schedule: *mut *mut VELOC_Schedule,
) -> c_int {
    status("VELOC_Schedule_create", || {
        let course = ConfiguredSchedule::new(steps, slots).map_err(schedule_error)?;
        // SAFETY: the caller's promise.
        unsafe { give(course, schedule) }
    })
}

/// Makes a schedule for the adjoint of a forward pass whose number of steps is not known, because
/// the step is adaptive or a condition decides the end. Each VELOC_ACTION_ADVANCE is one step,
/// until VELOC_Schedule_end says that it was the last, or VELOC_Schedule_end_after_next that the
/// next one is. No step is computed more often than with a schedule that was made for the true
/// number of steps (after VELOC_Schedule_end: for one step more). Such a schedule has no resilience
/// distance, no disk and no rule to choose.
///
/// @param slots     states that can be stored at a time, state 0 among them; 1 to 2^48
/// @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong
///
/// Source: an addition of this library, after Wang, Moin, Iaccarino, SIAM J. Sci. Comput. 31
/// (2009).
///
/// # Safety
/// `schedule` is NULL or has room for a pointer.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_create_online(
    slots: i64,
    schedule: *mut *mut VELOC_Schedule,
) -> c_int {
    status("VELOC_Schedule_create_online", || {
        let course = ConfiguredSchedule::online(slots).map_err(schedule_error)?;
        // SAFETY: the caller's promise.
        unsafe { give(course, schedule) }
    })
}

/// Ends the forward pass of a schedule that VELOC_Schedule_create_online has made: the state to
/// which the last VELOC_ACTION_ADVANCE went is the last one. The next action begins the way back.
/// From now on the schedule is one for a known number of steps; after a crash, make such a schedule
/// by VELOC_Schedule_create for VELOC_Schedule_resume.
///
/// @param schedule  a schedule
/// @return VELOC_SUCCESS; VELOC_FAILURE if no step was made, or the number of steps is known
///
/// Source: an addition of this library.
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_end(schedule: *mut VELOC_Schedule) -> c_int {
    status("VELOC_Schedule_end", || {
        // SAFETY: the caller's promise.
        unsafe { course(schedule) }?.end().map_err(schedule_error)
    })
}

/// Ends the forward pass of a schedule that VELOC_Schedule_create_online has made, one step later
/// than VELOC_Schedule_end: the application has the state from which the last step begins. That
/// step is recorded at once, without a VELOC_ACTION_ADVANCE: the next action is
/// VELOC_ACTION_FIRSTURN. Called before the first action, the pass has one step, and state 0 is
/// stored first.
///
/// @param schedule  a schedule
/// @return VELOC_SUCCESS; VELOC_FAILURE if the number of steps is known, or, after a crash, if the
///         state from which the pass goes on is not restored yet (then nothing was changed)
///
/// Source: an addition of this library.
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_end_after_next(schedule: *mut VELOC_Schedule) -> c_int {
    status("VELOC_Schedule_end_after_next", || {
        // SAFETY: the caller's promise.
        unsafe { course(schedule) }?.end_after_next().map_err(schedule_error)
    })
}

/// Goes on after a crash with the states that are left in the slots, at the least number of steps.
/// With hundreds of states that number can take long to find; the schedule then takes no more steps
/// than keeping all of them does. Call it before the first action.
///
/// If state 0 is not among them, the application must have it, as at its beginning; it is then
/// stored first, if need be in place of another one. With slots on disk all states on disk are
/// kept, those in memory count as lost, and the number of steps need not be the least. The
/// resilience distance binds only what is left of the first sweep, if no adjoint was stored. A
/// schedule whose end is not known goes on with its pass; if the end was known before the crash,
/// resume a schedule for that number of steps. States in slots that the schedule does not have
/// count as lost.
///
/// @param schedule  a schedule with the settings that the one before the crash had
/// @param states    for each slot the state that was stored there last, needed or not; -1: none
///                  that is whole
/// @param slots     how many slots that are
/// @param adjoint   the state that the last stored adjoint belongs to; -1: none was stored
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong
///
/// Source: an addition of this library; resrevolve restores its whole state from a file.
///
/// # Safety
/// `schedule` is NULL or a schedule; `states` is NULL or has `slots` numbers.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_resume(
    schedule: *mut VELOC_Schedule,
    states: *const i64,
    slots: i64,
    adjoint: i64,
) -> c_int {
    status("VELOC_Schedule_resume", || {
        let Some(length) = usize::try_from(slots).ok().filter(|n| *n == 0 || !states.is_null())
        else {
            return Err(Error::invalid(format!("states is NULL, or slots = {slots} is negative")));
        };
        let states = match length {
            0 => &[],
            // SAFETY: not NULL, and the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(states, length) },
        };
        // SAFETY: the caller's promise.
        let course = unsafe { course(schedule) }?;
        let mut survivors = Survivors {
            states: Vec::new(),
            adjoint: survived(adjoint, course.steps(), || "the stored adjoint".into())?,
            at_start: true,
        };
        for (&state, slot) in states.iter().zip(0_u64..) {
            let state = survived(state, course.steps(), || format!("slot {slot}"))?;
            survivors.states.extend(state.map(|state| Stored { state, slot }));
        }
        course.resume(&survivors).map_err(schedule_error)
    })
}

/// The state that a slot has or an adjoint belongs to, `None` for -1. No state is beyond the last
/// of `steps`, which is 0 where it is not known yet.
fn survived(state: i64, steps: u64, place: impl Fn() -> String) -> Result<Option<u64>> {
    let most = if steps == 0 { MAX_STEPS } else { steps };
    match u64::try_from(state) {
        Ok(state) if state <= most => Ok(Some(state)),
        Err(_) if state == -1 => Ok(None),
        _ => Err(Error::invalid(format!(
            "state {state} of {}: it must be 0 to {most}, or -1 for none",
            place()
        ))),
    }
}

/// The next action.
///
/// @param schedule  a schedule
/// @param action    gets the action; its kind is VELOC_ACTION_ERROR if there is none
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL or VELOC_ACTION_TERMINATE was given
///         before
///
/// Source: next of resrevolve (Walther, Narayanan, section 3).
///
/// # Safety
/// `schedule` is NULL or a schedule, `action` is NULL or has room for one.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_next(
    schedule: *mut VELOC_Schedule,
    action: *mut VELOC_Action,
) -> c_int {
    status("VELOC_Schedule_next", || {
        if action.is_null() {
            return Err(Error::invalid("action is NULL"));
        }
        // SAFETY: the caller's promise.
        let next = unsafe { course(schedule) }
            .and_then(|course| course.next_action().map_err(schedule_error));
        let given = next.as_ref().map_or(VELOC_Action::ERROR, |next| VELOC_Action::from(*next));
        // SAFETY: not NULL, and the caller's promise.
        unsafe { action.write(given) };
        next.map(|_| ())
    })
}

/// What the schedule costs from beginning to end if nothing goes wrong. Takes time in proportion to
/// the states that are stored in the first sweep; with slots on disk, to all actions. After
/// VELOC_Schedule_end or VELOC_Schedule_end_after_next the figures are those of a schedule that
/// knew the end.
///
/// @param schedule  a schedule
/// @param cost      gets the figures
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, the number of steps is not known,
///         more than 10,000,000 states can be stored in the first sweep, or, with slots on disk,
///         there are more than 20,000,000 actions
///
/// Source: an addition of this library, after numforw and expense of revolve.
///
/// # Safety
/// `schedule` is NULL or a schedule, `cost` is NULL or has room for one.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_cost(
    schedule: *const VELOC_Schedule,
    cost: *mut VELOC_Cost,
) -> c_int {
    status("VELOC_Schedule_cost", || {
        if cost.is_null() {
            return Err(Error::invalid("cost is NULL"));
        }
        let fit = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        // SAFETY: the caller's promise.
        let course = unsafe { schedule.as_ref() }.ok_or_else(no_schedule)?.course.clone();
        let plan_cost = course.cost().map_err(schedule_error)?;
        let given = VELOC_Cost {
            advances: fit(plan_cost.advances),
            forward_evaluations: fit(plan_cost.advances + u128::from(course.steps())),
            takeshots: fit(plan_cost.takeshots),
            repetition: fit(plan_cost.repetition.into()),
            max_gap: fit(plan_cost.max_gap.into()),
        };
        // SAFETY: not NULL, and the caller's promise.
        unsafe { cost.write(given) };
        Ok(())
    })
}

/// Makes another schedule that stands where this one does.
///
/// @param schedule  a schedule
/// @param clone     gets the other, to be freed by VELOC_Schedule_free
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `schedule` is NULL or a schedule, `clone` is NULL or has room for a pointer.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_clone(
    schedule: *const VELOC_Schedule,
    clone: *mut *mut VELOC_Schedule,
) -> c_int {
    status("VELOC_Schedule_clone", || {
        // SAFETY: the caller's promise.
        let course = unsafe { schedule.as_ref() }.ok_or_else(no_schedule)?.course.clone();
        // SAFETY: the caller's promise.
        unsafe { give(course, clone) }
    })
}

/// Writes where a schedule stands, for VELOC_Schedule_unpack. Takes some bytes for each stored
/// state, and 32 for a checksum.
///
/// @param schedule  a schedule
/// @param bytes     gets the bytes; NULL asks for their number
/// @param size      how many bytes there is room for; gets how many they are
/// @return VELOC_SUCCESS; VELOC_FAILURE if `schedule` or `size` is NULL, or there is too little
///         room (then `size` has how much is needed)
///
/// Source: an addition of this library.
///
/// # Safety
/// `schedule` is NULL or a schedule, `size` is NULL or has a number, and there is room for so many
/// bytes at `bytes` unless that is NULL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_pack(
    schedule: *const VELOC_Schedule,
    bytes: *mut c_void,
    size: *mut usize,
) -> c_int {
    status("VELOC_Schedule_pack", || {
        if size.is_null() {
            return Err(Error::invalid("size is NULL"));
        }
        // SAFETY: the caller's promise.
        let packed = unsafe { schedule.as_ref() }.ok_or_else(no_schedule)?.course.pack();
        // SAFETY: not NULL, and the caller's promise.
        let room = unsafe { size.replace(packed.len()) };
        if bytes.is_null() {
            return Ok(());
        }
        if room < packed.len() {
            let needed = packed.len();
            return Err(Error::invalid(format!(
                "the schedule has {needed} bytes, but there is room for {room}"
            )));
        }
        // SAFETY: there is room, and the bytes are new.
        unsafe { std::ptr::copy_nonoverlapping(packed.as_ptr(), bytes.cast(), packed.len()) };
        Ok(())
    })
}

/// Makes a schedule from the bytes of VELOC_Schedule_pack. It stands where the packed one stood:
/// this is for planned stops, after which every slot has what it had. After a crash,
/// VELOC_Schedule_resume goes on with whatever is left.
///
/// @param bytes     the bytes
/// @param size      how many they are
/// @param schedule  gets the schedule, to be freed by VELOC_Schedule_free
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, or the bytes are not those of a
///         schedule, are of another version of the format, or have changed since they were written
///
/// Source: an addition of this library.
///
/// # Safety
/// There are `size` bytes at `bytes` unless that is NULL; `schedule` is NULL or has room for a
/// pointer.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_unpack(
    bytes: *const c_void,
    size: usize,
    schedule: *mut *mut VELOC_Schedule,
) -> c_int {
    status("VELOC_Schedule_unpack", || {
        if bytes.is_null() {
            return Err(Error::invalid("bytes is NULL"));
        }
        // SAFETY: not NULL, and the caller's promise.
        let course =
            ConfiguredSchedule::unpack(unsafe { std::slice::from_raw_parts(bytes.cast(), size) })
                .map_err(schedule_error)?;
        // SAFETY: the caller's promise.
        unsafe { give(course, schedule) }
    })
}

/// Frees a schedule.
///
/// @param schedule  a schedule, which must not be used any more; or NULL, which has no effect
/// @return VELOC_SUCCESS
///
/// Source: an addition of this library.
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_free(schedule: *mut VELOC_Schedule) -> c_int {
    status("VELOC_Schedule_free", || {
        if !schedule.is_null() {
            // SAFETY: it was made by `give`, and the caller does not use it any more.
            drop(unsafe { Box::from_raw(schedule) });
        }
        Ok(())
    })
}

/// Gives the caller a schedule.
///
/// # Safety
/// `to` is NULL or has room for a pointer.
unsafe fn give(course: ConfiguredSchedule, to: *mut *mut VELOC_Schedule) -> Result<()> {
    if to.is_null() {
        return Err(Error::invalid("the pointer that is to get the schedule is NULL"));
    }
    // SAFETY: not NULL, and the caller's promise.
    unsafe { to.write(Box::into_raw(Box::new(VELOC_Schedule { course }))) };
    Ok(())
}

/// The course of a schedule.
///
/// # Safety
/// `schedule` is NULL or a schedule that nobody else uses meanwhile.
pub(super) unsafe fn course<'a>(
    schedule: *mut VELOC_Schedule,
) -> Result<&'a mut ConfiguredSchedule> {
    // SAFETY: the caller's promise.
    let schedule = unsafe { schedule.as_mut() }.ok_or_else(no_schedule)?;
    Ok(&mut schedule.course)
}

pub(super) fn no_schedule() -> Error {
    Error::invalid("schedule is NULL")
}

impl VELOC_Action {
    const ERROR: VELOC_Action =
        VELOC_Action { kind: VELOC_ACTION_ERROR, read_again: 0, from: -1, to: -1, slot: -1 };
}

impl From<Action> for VELOC_Action {
    fn from(action: Action) -> VELOC_Action {
        // All are at most MAX_STEPS.
        let turn = |kind, step: u64| (kind, step - 1, step, -1);
        let (kind, from, to, slot) = match action {
            Action::Advance { from, to } => (VELOC_ACTION_ADVANCE, from, to, -1),
            Action::Takeshot { state, slot, .. } => {
                (VELOC_ACTION_TAKESHOT, state, state, slot as i64)
            }
            Action::Restore { state, slot, .. } => {
                (VELOC_ACTION_RESTORE, state, state, slot as i64)
            }
            Action::Record { step, slot } => (VELOC_ACTION_RECORD, step - 1, step, slot as i64),
            Action::Reverse { step, slot } => (VELOC_ACTION_REVERSE, step - 1, step, slot as i64),
            Action::Firsturn { step, .. } => turn(VELOC_ACTION_FIRSTURN, step),
            Action::Youturn { step, check: false } => turn(VELOC_ACTION_YOUTURN, step),
            Action::Youturn { step, check: true } => turn(VELOC_ACTION_YOUTURN_WITH_CHECK, step),
            Action::Terminate => (VELOC_ACTION_TERMINATE, 0, 0, -1),
        };
        let read_again = match action {
            Action::Takeshot { read_again, .. } | Action::Restore { read_again, .. } => read_again,
            // A record is read only once.
            Action::Record { .. } => true,
            _ => false,
        };
        let (read_again, from, to) = (read_again.into(), from as i64, to as i64);
        VELOC_Action { kind, read_again, from, to, slot }
    }
}
