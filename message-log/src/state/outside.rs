//! Calls outside parts.
//!
//! Most are passed on, and noted when they have returned by [`passing`]: what that takes is done on the
//! spot, or, if it is more than usual, by a function of its own, which may panic.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::{begin_busy, completely, fail, give_up, State, OUTSIDE, PHASE, STATE};
use crate::guard;
use crate::inside::later;

/// Runs a call of MPI's outside parts on the state: as [`call`], without a look at what the caller has
/// looked at.
///
/// # Safety
/// The phase is [`OUTSIDE`].
#[inline]
pub unsafe fn outside(body: impl FnOnce(&mut State) -> c_int) -> c_int {
    begin_busy();
    // SAFETY: by the caller's promise.
    unsafe { finish(body) }
}

/// The end of a call that is being worked on: what it returns.
///
/// # Safety
/// The phase was [`OUTSIDE`] when the call began.
#[inline(never)]
unsafe fn finish(body: impl FnOnce(&mut State) -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    let state = unsafe { state() };
    match guard::caught(|| completely(state, body)) {
        Ok(code) => {
            // No part begins inside a call.
            PHASE.store(OUTSIDE, Ordering::Relaxed);
            code
        }
        Err(panic) => {
            let text = panic.text();
            give_up(state, &text);
            fail(&text)
        }
    }
}

/// The state, outside parts.
///
/// # Safety
/// The phase is, or was when the call began, [`OUTSIDE`]; nobody else has the state.
#[inline(always)]
unsafe fn state<'a>() -> &'a mut State {
    // SAFETY: as in `with`, which has put the state there before the phase became OUTSIDE.
    unsafe { (*STATE.0.get()).as_mut().unwrap_unchecked() }
}

/// What is seen or prepared in the state before a call is made outside parts. `body` must not panic.
///
/// # Safety
/// The phase is [`OUTSIDE`].
#[inline(always)]
pub unsafe fn look_at<T>(body: impl FnOnce(&mut State) -> T) -> T {
    // SAFETY: by the caller's promise; nothing is called meanwhile.
    body(unsafe { state() })
}

/// Passes a call of MPI's outside parts on. When it has returned with a code, `quick` notes that, if it can,
/// and must not panic; otherwise it does nothing, says `false`, and `slow` notes it.
///
/// # Safety
/// The phase is [`OUTSIDE`].
#[inline(always)]
pub unsafe fn passing(
    real: impl FnOnce() -> c_int,
    quick: impl FnOnce(&mut State, c_int) -> bool,
    slow: impl FnOnce(&mut State, c_int),
) -> c_int {
    begin_busy();
    let code = real();
    // SAFETY: by the caller's promise; calls from within this one were passed on.
    let is_noted = quick(unsafe { state() }, code);
    if !is_noted || later::is_any() {
        let body = move |state: &mut State| {
            if !is_noted {
                slow(state, code);
            }
            code
        };
        // SAFETY: by the caller's promise.
        return unsafe { finish(body) };
    }
    PHASE.store(OUTSIDE, Ordering::Relaxed);
    code
}
