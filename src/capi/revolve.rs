//! The functions of the original revolve, under names of this library.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;

use super::boundary::guarded;
use super::{
    VELOC_ACTION_ADVANCE, VELOC_ACTION_ERROR, VELOC_ACTION_FIRSTURN, VELOC_ACTION_RESTORE,
    VELOC_ACTION_TAKESHOT, VELOC_ACTION_TERMINATE, VELOC_ACTION_YOUTURN,
};
use errors::{Error, Result};
use schedule::binomial::MAX_STEPS;
use schedule::revolve::{self, Revolve, RevolveState, Step, Wrong};

thread_local! {
    /// The computations under way, by the address of their `check`.
    static UNDER_WAY: RefCell<HashMap<usize, Revolve>> = RefCell::default();
}

/// The next step of an adjoint computation, with the arguments of the original revolve. A loop that
/// was written for revolve needs only new names; VELOC_Schedule_next does more. The library tells
/// computations apart by their thread and by the address of `check`.
///
/// @param check  the slot that was written last of those in use; -1 before the first call
/// @param capo   the state that the application has; 0 before the first call
/// @param fine   the state that the adjoint has come to; the steps before the first call
/// @param snaps  slots
/// @param info   changed only with VELOC_ACTION_ERROR: 11 if `check` is beyond the slots, else 9
/// @return one of VELOC_ACTION_*: ADVANCE (to the new `capo`), TAKESHOT (into slot `check`),
///         RESTORE (from slot `check`), FIRSTURN and YOUTURN (the step behind `capo`), TERMINATE;
///         ERROR if an argument is wrong
///
/// Source: revolve (Griewank, Walther, ACM TOMS 26, section 4).
///
/// # Safety
/// The pointers are NULL or point to what they should.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Revolve(
    check: *mut i64,
    capo: *mut i64,
    fine: *mut i64,
    snaps: i64,
    info: *mut c_int,
) -> c_int {
    const OTHER: c_int = 9;
    let mut number = OTHER;
    let next = guarded("VELOC_Revolve", || {
        if check.is_null() || capo.is_null() || fine.is_null() {
            return Err(Error::invalid("check, capo or fine is NULL"));
        }
        // SAFETY: not NULL, and the caller's promise.
        let mut place = unsafe { RevolveState { check: *check, capo: *capo, fine: *fine } };
        let before = place;
        let step = UNDER_WAY.with_borrow_mut(|all| {
            let step = all.entry(check as usize).or_default().step(&mut place, snaps);
            if matches!(step, Ok(Step::Terminate)) {
                all.remove(&(check as usize));
            }
            step
        });
        let step = step.map_err(|wrong| {
            let RevolveState { check, capo, fine } = before;
            let values = format!("check = {check}, capo = {capo}, fine = {fine}, snaps = {snaps}");
            Error::invalid(match wrong {
                Wrong::Arguments => format!(
                    "{values}: -1 <= check < snaps, 0 <= capo <= fine and 1 <= snaps are needed, \
                     none above {MAX_STEPS}"
                ),
                Wrong::TooManyStored => {
                    number = 11;
                    format!("{values}: check must be less than snaps")
                }
                Wrong::Unknown => {
                    format!("{values}: these are not the values that the call before returned")
                }
            })
        })?;
        // SAFETY: not NULL, and the caller's promise.
        unsafe { (*check, *capo, *fine) = (place.check, place.capo, place.fine) };
        Ok(match step {
            Step::Advance => VELOC_ACTION_ADVANCE,
            Step::Takeshot => VELOC_ACTION_TAKESHOT,
            Step::Restore => VELOC_ACTION_RESTORE,
            Step::Firsturn => VELOC_ACTION_FIRSTURN,
            Step::Youturn => VELOC_ACTION_YOUTURN,
            Step::Terminate => VELOC_ACTION_TERMINATE,
        })
    });
    next.unwrap_or_else(|_| {
        if !info.is_null() {
            // SAFETY: not NULL, and the caller's promise.
            unsafe { *info = number };
        }
        VELOC_ACTION_ERROR
    })
}

/// The largest number of steps whose adjoint can be computed with some slots and repetitions.
///
/// @param ss  slots
/// @param tt  repetitions
/// @return the steps; -1 if an argument is negative or the steps do not fit
///
/// Source: maxrange of revolve.
#[no_mangle]
pub extern "C" fn VELOC_Maxrange(ss: i64, tt: i64) -> i64 {
    or_minus_one("VELOC_Maxrange", || {
        let (slots, repetitions) = (natural("ss", ss)?, natural("tt", tt)?);
        revolve::maxrange(slots, repetitions).ok_or_else(|| {
            Error::invalid(format!(
                "ss = {ss}, tt = {tt}: the number of steps does not fit into 64 bits"
            ))
        })
    })
}

/// The least number of forward steps that are not recorded.
///
/// @param steps  steps
/// @param snaps  slots
/// @return the number; -1 if an argument is not positive or above 2^48, or if the number does not
///         fit
///
/// Source: numforw of revolve.
#[no_mangle]
pub extern "C" fn VELOC_Numforw(steps: i64, snaps: i64) -> i64 {
    or_minus_one("VELOC_Numforw", || forward_steps(steps, snaps))
}

/// The least number of forward steps that are not recorded, divided by the number of steps.
///
/// @param steps  steps
/// @param snaps  slots
/// @return the quotient; -1 where VELOC_Numforw gives -1
///
/// Source: expense of revolve.
#[no_mangle]
pub extern "C" fn VELOC_Expense(steps: i64, snaps: i64) -> f64 {
    let all = guarded("VELOC_Expense", || forward_steps(steps, snaps));
    all.map_or(-1.0, |all| all as f64 / steps as f64)
}

/// A number of slots for which slots and repetitions are about as many.
///
/// @param steps  steps
/// @return the slots; -1 if the steps are not positive or above 2^48
///
/// Source: adjust of revolve.
#[no_mangle]
pub extern "C" fn VELOC_Adjust(steps: i64) -> i64 {
    or_minus_one("VELOC_Adjust", || {
        let steps = natural("steps", steps)?;
        if !(1..=MAX_STEPS).contains(&steps) {
            return Err(Error::invalid(format!("steps = {steps}: 1 to {MAX_STEPS} are possible")));
        }
        // Fewer than the steps.
        Ok(revolve::adjust(steps) as i64)
    })
}

fn forward_steps(steps: i64, snaps: i64) -> Result<i64> {
    let (l, c) = (natural("steps", steps)?, natural("snaps", snaps)?);
    revolve::numforw(l, c).ok_or_else(|| {
        Error::invalid(format!(
            "steps = {steps}, snaps = {snaps}: both must be 1 to {MAX_STEPS}, and the result must fit into 64 bits"
        ))
    })
}

fn natural(what: &str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::invalid(format!("{what} = {value} is negative")))
}

fn or_minus_one(call: &str, body: impl FnOnce() -> Result<i64>) -> i64 {
    guarded(call, body).unwrap_or(-1)
}
