//! Settings of a schedule before its first action.

use std::ffi::c_int;

use super::boundary::status;
use super::schedule::{course, no_schedule, VELOC_Schedule, VELOC_RULE_MIXED};
use adjoint::schedule_error;
use errors::Error;
use schedule::rule::Rule;

/// Adds slots on disk. The slots of VELOC_Schedule_create are then in memory, and their use costs
/// nothing. The schedule chooses where each state is stored, so that advances, writes and reads
/// together take the least time (for up to 1024 steps; some per cent more for longer passes). The
/// numbers of slots on disk follow those in memory. After a crash VELOC_Schedule_resume goes on
/// with what is on disk. Before the first action; not together with a resilience distance, or with
/// a rule other than VELOC_RULE_OPTIMAL.
///
/// @param schedule    a schedule
/// @param disk_slots  states that disk can have at a time; 1 to 2^48
/// @param write       how long a write to disk takes, in forward steps; 0 to 1,000,000
/// @param read        how long a read takes
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
///
/// Source: an addition of this library, after H-Revolve (Herrmann, Pallez, ACM TOMS 46 (2020)).
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_set_disk(
    schedule: *mut VELOC_Schedule,
    disk_slots: i64,
    write: f64,
    read: f64,
) -> c_int {
    status("VELOC_Schedule_set_disk", || {
        // SAFETY: the caller's promise.
        unsafe { course(schedule) }?.set_disk(disk_slots, write, read).map_err(schedule_error)
    })
}

/// Sets the resilience distance: how many steps stored states may be apart in the first forward
/// pass, so that no crash in it costs more. Before the first action.
///
/// @param schedule  a schedule
/// @param distance  1 or more; times the slots it must not be less than the steps
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
///
/// Source: set_resilience_distance of resrevolve (Walther, Narayanan, section 3).
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_set_resilience_distance(
    schedule: *mut VELOC_Schedule,
    distance: i64,
) -> c_int {
    status("VELOC_Schedule_set_resilience_distance", || {
        // SAFETY: the caller's promise.
        unsafe { course(schedule) }?.set_resilience(distance).map_err(schedule_error)
    })
}

/// Sets the adjoint distance: after how many of its steps the adjoint is to be stored. It is then
/// also to be stored after VELOC_ACTION_FIRSTURN. Before the first action.
///
/// @param schedule  a schedule
/// @param distance  1 or more
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
///
/// Source: set_adjoint_distance of resrevolve (Walther, Narayanan, section 3).
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_set_adjoint_distance(
    schedule: *mut VELOC_Schedule,
    distance: i64,
) -> c_int {
    status("VELOC_Schedule_set_adjoint_distance", || {
        // SAFETY: the caller's promise.
        unsafe { course(schedule) }?.set_adjoint(distance).map_err(schedule_error)
    })
}

/// Has the adjoint stored where a failure would cost more work than the write, instead of at a
/// fixed distance, because the work between two steps of the adjoint differs much. The adjoint is
/// then not stored after VELOC_ACTION_FIRSTURN. Times are in forward steps. Before the first
/// action; the last of this and VELOC_Schedule_set_adjoint_distance counts.
///
/// @param schedule    a schedule
/// @param mtbf        the mean time between failures; a finite number above 0, as the others are
/// @param write_cost  how long it takes to store the adjoint. If that takes next to nothing, give a
///                    small number whose product with `mtbf` is a finite double above 0
/// @param turn_cost   how long it takes to record and reverse a step
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
///
/// Source: an addition of this library, after Young, Commun. ACM 17 (1974).
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_set_failures(
    schedule: *mut VELOC_Schedule,
    mtbf: f64,
    write_cost: f64,
    turn_cost: f64,
) -> c_int {
    status("VELOC_Schedule_set_failures", || {
        // SAFETY: the caller's promise.
        unsafe { course(schedule) }?
            .set_failures(mtbf, write_cost, turn_cost)
            .map_err(schedule_error)
    })
}

/// Chooses where states are stored. Before the first action. With slots on disk, or an end that is
/// not known, only VELOC_RULE_OPTIMAL is possible. If VELOC_RULE_MIXED excludes a setting, the
/// error names it.
///
/// @param schedule  a schedule
/// @param rule      one of VELOC_RULE_*
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is wrong (then nothing was changed)
///
/// Source: an addition of this library; the rules are those of Walther, Narayanan, section 4, and
/// the mixed one of Maddison, J. Comput. Sci. 82 (2024).
///
/// # Safety
/// `schedule` is NULL or a schedule.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_set_rule(
    schedule: *mut VELOC_Schedule,
    rule: c_int,
) -> c_int {
    status("VELOC_Schedule_set_rule", || {
        let known = usize::try_from(rule).ok().and_then(|rule| Rule::ALL.get(rule));
        // SAFETY: the caller's promise.
        let course = unsafe { course(schedule) };
        match known {
            _ if rule == VELOC_RULE_MIXED => course?.set_mixed().map_err(schedule_error),
            Some((known, _)) => course?.set_rule(*known).map_err(schedule_error),
            None => {
                let text =
                    format!("rule {rule}: it must be one of VELOC_RULE_*, 0 to {VELOC_RULE_MIXED}");
                Err(Error::invalid(text))
            }
        }
    })
}

/// Gives the least resilience distance that costs nothing: with a smaller one, more steps are
/// computed.
///
/// @param schedule  a schedule
/// @param distance  gets the distance
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL, or the number of steps is not known
///
/// Source: an addition of this library.
///
/// # Safety
/// `schedule` is NULL or a schedule, `distance` is NULL or has room for a number.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Schedule_least_distance(
    schedule: *const VELOC_Schedule,
    distance: *mut i64,
) -> c_int {
    status("VELOC_Schedule_least_distance", || {
        if distance.is_null() {
            return Err(Error::invalid("distance is NULL"));
        }
        // SAFETY: the caller's promise.
        let least = unsafe { schedule.as_ref() }
            .ok_or_else(no_schedule)?
            .course
            .least_distance()
            .map_err(schedule_error)?;
        // SAFETY: not NULL, and the caller's promise. The value is at most MAX_STEPS.
        unsafe { distance.write(least as i64) };
        Ok(())
    })
}
