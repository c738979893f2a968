//! Completing calls outside parts: the requests' messages are counted, and the requests are forgotten.
//!
//! A status is read only for a wildcard receive, and for a request that may be cancelled.

use std::ffi::c_int;

use message_log_core::memory::NoMemory;
use message_log_core::requests::RequestLife;
use message_log_core::status::SUCCESS;

use super::handles::{self, RequestHandles, Statuses};
use super::Completion;
use crate::pmpi::Ptr;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};

/// Completes requests outside parts.
///
/// # Safety
/// As for [`complete`](super::complete).
pub(super) unsafe fn complete(
    state: &mut LogState,
    call: &Completion,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    if state.tracked.requests.is_empty() {
        return real(call.statuses);
    }
    // SAFETY: by the caller's promise.
    let Ok(before) = (unsafe { RequestHandles::read(state, call) }) else {
        return handles::refuse(state, call);
    };
    let mut own = Statuses::default();
    let counts = state.resend.is_some();
    let has_statuses = counts
        && before.as_slice().iter().any(|&handle| state.tracked.requests.needs_status(handle));
    let statuses = match has_statuses.then(|| own.place(state, call)) {
        None => call.statuses,
        Some(Ok(statuses)) => statuses,
        Some(Err(NoMemory)) => return handles::refuse(state, call),
    };
    let code = real(statuses);
    if counts && code == SUCCESS {
        // SAFETY: the call has returned.
        let completed = unsafe { call.completed(state.mpi.numbers.undefined) };
        for n in 0..completed.len() {
            // SAFETY: MPI has written a status for each that it has completed.
            let status = has_statuses.then(|| unsafe {
                StatusBytes::read(&state.mpi, state.mpi.nth_status(statuses, n))
            });
            // SAFETY: by the caller's promise.
            unsafe { counted_outside(state, call, &before, completed.get(n), status.as_ref()) };
        }
        return code;
    }
    // The handles show which requests completed, but without statuses their messages cannot be counted.
    state.counting.miscounts();
    for (n, &handle) in before.as_slice().iter().enumerate() {
        let at = state.mpi.nth_handle(call.requests, n);
        // SAFETY: by the caller's promise.
        let after = unsafe { state.mpi.read_handle(at) };
        if after == state.mpi.request_null && handle != after {
            match state.tracked.requests.plain(handle) {
                Some((place, _)) => state.tracked.requests.remove_at(place),
                None => drop(state.tracked.forget_request(handle, at)),
            }
        }
    }
    code
}

/// Counts the message of a completed request, and forgets the request unless it is persistent.
///
/// # Safety
/// As for [`complete`].
unsafe fn counted_outside(
    state: &mut LogState,
    call: &Completion,
    before: &RequestHandles,
    index: c_int,
    status: Option<&StatusBytes>,
) {
    let Some(n) = usize::try_from(index).ok() else { return };
    let Some(handle) = before.get(n) else { return };
    let at = state.mpi.nth_handle(call.requests, n);
    // SAFETY: by the caller's promise.
    let after = unsafe { state.mpi.read_handle(at) };
    let stays = after != state.mpi.request_null;
    let (counted, is_cancelled) = match state.tracked.requests.plain(handle) {
        Some((place, counted)) => {
            let counted = *counted;
            state.tracked.requests.remove_at(place);
            (counted, false)
        }
        None if stays => match state.tracked.requests.get_mut(handle) {
            Some(known) if known.life == RequestLife::Real => {
                known.active = false;
                (std::mem::take(&mut known.counted), known.cancelled)
            }
            _ => return,
        },
        None => match state.tracked.forget_request(handle, at) {
            Some(known) if known.life == RequestLife::Real => (known.counted, known.cancelled),
            _ => return,
        },
    };
    if is_cancelled && status.is_some_and(StatusBytes::is_cancelled) {
        state.counting.is_cancelled(&counted);
    } else {
        state.is_done(&counted, status, false);
    }
}
