//! Calls on requests other than those that complete them. A persistent request that the application frees is
//! kept until no replay can start it any more.

use std::ffi::c_int;

use message_log_core::log::{Call, CallOutcome, CallShape};
use message_log_core::parts::Source;
use message_log_core::requests::RequestLife;
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::with;
use crate::deferred::HandleKind;
use crate::entry::At;
use crate::pmpi::{self, Ptr};
use crate::refuse;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};

/// Cancels a request.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn cancel(
    at: At,
    call: Call,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if request.is_null() {
        // MPI refuses this, in a first run and in a replay.
        return real();
    }
    with(|state| {
        if at == At::Outside || state.recording.source() == Source::Mpi {
            // SAFETY: by the caller's promise.
            unsafe { cancelling(state, request) };
        }
        if at == At::Outside {
            return real();
        }
        if state.recording.source() == Source::Mpi {
            return super::plain(state, CallShape::new(call), real);
        }
        let code = super::plain(state, CallShape::new(call), || SUCCESS);
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(request) };
        let first = state.recording.parts.replayed_since();
        match code == SUCCESS && state.tracked.is_general_since(first, handle) {
            true => real(),
            false => code,
        }
    })
}

/// Frees a request.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free(at: At, call: Call, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    if request.is_null() {
        // As above.
        return real();
    }
    with(|state| {
        if at == At::Outside {
            // SAFETY: by the caller's promise.
            return unsafe { freeing(state, request, real) };
        }
        let shape = CallShape::new(call);
        if state.recording.source() == Source::Mpi {
            // SAFETY: by the caller's promise.
            let handle = unsafe { state.mpi.read_handle(request) };
            let code = match is_receiving(state, handle) {
                Some(of) => super::refuse_on(state, call, of),
                // SAFETY: as above.
                None => unsafe { freeing(state, request, real) },
            };
            state.recording.record(shape, CallOutcome::of(code));
            return code;
        }
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(request) };
        let first = state.recording.parts.replayed_since();
        let code = super::plain(state, shape, || SUCCESS);
        if code != SUCCESS {
            return code;
        }
        match state.tracked.requests.get(handle) {
            // Made in this replay, as in the first run. Those made before the part were freed by the first
            // run.
            Some(known) if known.persistent && known.made > first => {
                // SAFETY: as above.
                return unsafe { freeing(state, request, real) };
            }
            Some(known) if matches!(known.life, RequestLife::Replayed(_)) => {
                state.tracked.release_replayed(handle)
            }
            _ if state.tracked.is_general_since(first, handle) => {
                // SAFETY: as above.
                return unsafe { freeing(state, request, real) };
            }
            _ => {}
        }
        // SAFETY: as above.
        unsafe { state.mpi.write_handle(request, state.mpi.request_null) };
        code
    })
}

/// Marks a request that may be cancelled; its status will tell.
///
/// # Safety
/// `request` points to a handle.
unsafe fn cancelling(state: &mut LogState, request: Ptr) {
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(request) };
    if let Some(request) = state.tracked.requests.get_mut(handle) {
        request.cancelled = true;
    } else if state.tracked.requests.has_overlooked() {
        // There is no memory to mark the request, so its message cannot be counted.
        state.counting.miscounts();
    }
}

/// The call that began this request, if the request is still receiving. Freed inside a part, it would
/// write at an unknown time, which no replay could repeat. A request that was cancelled may be freed.
fn is_receiving(state: &LogState, handle: usize) -> Option<Call> {
    let request = state.tracked.requests.get(handle)?;
    if matches!(request.target, CallTarget::Nothing) || request.cancelled {
        return None;
    }
    if request.persistent {
        let (mut flag, mut status) = (0, StatusBytes::default());
        // SAFETY: a request that the application has made and not freed, and places of ours.
        unsafe { pmpi::request_get_status(handle, &mut flag, status.as_mut_ptr()) };
        let numbers = state.mpi.numbers;
        let source = status.sender(&state.mpi).rank;
        // The status of an inactive request is empty.
        if flag != 0 && (source == numbers.any_source || source == numbers.proc_null) {
            return None;
        }
    }
    Some(request.shape.call)
}

/// The application frees a request.
///
/// # Safety
/// `request` points to a handle.
unsafe fn freeing(state: &mut LogState, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(request) };
    let persistent = state.tracked.requests.get(handle).filter(|known| known.persistent);
    // Parts that began since then have it in their snapshot; earlier ones make it in their replay.
    if persistent.is_some_and(|known| state.recording.parts.instances().has_since(known.since)) {
        if state
            .objects
            .deferred
            .add(HandleKind::Request, handle, state.recording.parts.instances().now())
            .is_err()
        {
            return refuse::no_memory(&state.mpi, 0, "MPI_Request_free");
        }
        if let Some(known) = state.tracked.requests.get_mut(handle) {
            let (counted, cancelled) = (std::mem::take(&mut known.counted), known.cancelled);
            state.counting.given_up(&counted, cancelled);
        }
        // SAFETY: as above.
        unsafe { state.mpi.write_handle(request, state.mpi.request_null) };
        return SUCCESS;
    }
    if state.tracked.frees_general(handle) {
        return real();
    }
    if let Some(known) = state.tracked.forget_request(handle, request) {
        state.counting.given_up(&known.counted, known.cancelled);
    }
    real()
}
