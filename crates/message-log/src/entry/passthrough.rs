//! Calls that are passed through and recorded afterwards by [`pass_through`]. The common case is handled
//! inline; anything else in a separate function, which may panic. Most calls outside parts and in recorded
//! parts are of this kind.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::{
    begin_busy, completely, fail, finish_call, give_up, At, KeptState, INSIDE, OUTSIDE, PHASE,
    STATE,
};
use crate::freeing;
use crate::guard;
use crate::state::LogState;

/// Ends a call; returns its result.
///
/// # Safety
/// The phase was `before`, [`OUTSIDE`] or [`INSIDE`], when the call began.
#[inline(never)]
unsafe fn finish(before: u8, body: impl FnOnce(&mut LogState) -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    let kept = unsafe { kept() };
    match guard::caught(|| completely(&mut kept.state, body)) {
        Ok(code) => {
            // No part begins or ends inside a call.
            PHASE.store(before, Ordering::Relaxed);
            code
        }
        Err(panic) => {
            let text = panic.text();
            give_up(kept, &text);
            fail(&text)
        }
    }
}

/// The state.
///
/// # Safety
/// The phase is, or was when the call began, [`OUTSIDE`] or [`INSIDE`]; nothing else uses the state.
#[inline(always)]
unsafe fn kept<'a>() -> &'a mut KeptState {
    // SAFETY: as in `with`, which has put the state there before the phase became one of these.
    unsafe { (*STATE.0.get()).as_mut().unwrap_unchecked() }
}

/// Uses the state before a call is made. `body` must not panic.
///
/// # Safety
/// The phase is [`OUTSIDE`] or [`INSIDE`].
#[inline(always)]
pub(crate) unsafe fn with_state<T>(body: impl FnOnce(&mut LogState) -> T) -> T {
    // SAFETY: by the caller's promise; nothing is called in between.
    body(unsafe { &mut kept().state })
}

/// Passes an MPI call through. Then `quick`, which must not panic, records its result; if it cannot, it
/// returns `false` without effect, and `slow` records it and returns the call's result.
///
/// # Safety
/// The phase is [`OUTSIDE`] or [`INSIDE`], as `at` says.
#[inline(always)]
pub(crate) unsafe fn pass_through(
    at: At,
    real: impl FnOnce() -> c_int,
    quick: impl FnOnce(&mut LogState, c_int) -> bool,
    slow: impl FnOnce(&mut LogState, c_int) -> c_int,
) -> c_int {
    let before = if at == At::Inside { INSIDE } else { OUTSIDE };
    begin_busy();
    let code = real();
    // SAFETY: by the caller's promise; calls from inside this one were passed through.
    let is_noted = quick(unsafe { &mut kept().state }, code);
    // SAFETY: as above.
    let is_due = at == At::Inside && unsafe { kept() }.state.recording.arena.has_notice();
    if !is_noted || is_due || freeing::is_pending() {
        let body = move |state: &mut LogState| {
            let code = if is_noted { code } else { slow(state, code) };
            if at == At::Inside {
                finish_call(state, code)
            } else {
                code
            }
        };
        // SAFETY: by the caller's promise.
        return unsafe { finish(before, body) };
    }
    PHASE.store(before, Ordering::Relaxed);
    code
}
