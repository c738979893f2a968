//! Generalized requests, which the application completes itself, with callbacks that MPI calls.
//!
//! They are local: a replay begins, completes and frees its own, so the application's callbacks run as in the
//! first run. The results of calls that complete them come from the log.

use std::ffi::c_int;

use message_log_core::log::{Call, CallOutcome, CallShape, Item, Items, Payload};
use message_log_core::parts::Source;
use message_log_core::requests::{General, MpiRequest};
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::starting;
use super::with;
use crate::divergence;
use crate::pmpi::{HandleWord, Ptr};
use crate::status::StatusBytes;

/// A call inside parts that begins a generalized request.
///
/// # Safety
/// `request` points to the call's request handle.
pub(crate) unsafe fn start(call: Call, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let shape = CallShape::new(call);
        if let Err(code) = state.reserve(call, 0, 1) {
            return code;
        }
        let began = match state.recording.source() {
            Source::Mpi => state.recording.parts.begin_number(),
            Source::Log => match state.recording.parts.next(&shape) {
                Ok(at) => match state.recording.parts.log().get(at).map(|event| &event.outcome) {
                    Some(outcome) if outcome.code == SUCCESS => outcome.began,
                    outcome => return outcome.map_or(SUCCESS, |outcome| outcome.code),
                },
                Err(divergence) => return divergence::stop(state, &shape, &divergence),
            },
        };
        let code = real();
        if code == SUCCESS {
            let begun = MpiRequest::new(shape, CallTarget::Nothing, false);
            let begun = MpiRequest { began, general: Some(General::Begun), ..begun };
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { starting::begun(state, begun, request) };
        }
        if state.recording.source() == Source::Mpi {
            state.recording.record(shape, CallOutcome { began, ..CallOutcome::of(code) });
        }
        code
    })
}

/// `MPI_Grequest_complete` inside parts. A replay ignores it for requests that were begun before the part.
pub(crate) fn complete(call: Call, request: HandleWord, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let shape = CallShape::new(call);
        let handle = state.mpi.abi.truncate(request);
        let known = state.tracked.requests.get(handle).filter(|known| known.general.is_some());
        let own = known.map_or(0, |known| known.began);
        if state.recording.source() == Source::Mpi {
            let code = real();
            let mut outcome = CallOutcome::of(code);
            if own != 0 {
                let mut item =
                    Item::new(StatusBytes::default(), CallTarget::Nothing, Payload::default());
                item.began = own;
                outcome.items = Items::One(item);
            }
            state.tracked.completes_general(handle, code == SUCCESS);
            state.recording.record(shape, outcome);
            return code;
        }
        let first = state.recording.parts.replayed_since();
        let items = state
            .recording
            .parts
            .replaying()
            .and_then(|replaying| replaying.peek(&shape))
            .map(|event| &event.outcome.items);
        let then = items.and_then(|items| items.as_slice().first()).map_or(0, |item| item.began);
        if then > first && own != then {
            let text = divergence::other(state, &shape, "the request", own, then);
            return divergence::broken(state, &shape, &text);
        }
        let at = match state.recording.parts.next(&shape) {
            Ok(at) => at,
            Err(divergence) => return divergence::stop(state, &shape, &divergence),
        };
        if then <= first {
            return state.recording.parts.log().get(at).map_or(SUCCESS, |event| event.outcome.code);
        }
        let code = real();
        state.tracked.completes_general(handle, code == SUCCESS);
        code
    })
}
