//! Receives of messages that were probed for.
//!
//! Such a call names nothing but the message's handle. So a replay compares the message's source, its tag,
//! and the call that probed for it, if that was in the part.

use std::ffi::c_int;

use message_log_core::counting::{Counted, ImmediateReceive};
use message_log_core::log::{Call, CallShape};
use message_log_core::parts::Source;
use message_log_core::requests::MpiRequest;
use message_log_core::status::SUCCESS;

use super::message::MessageArguments;
use super::p2p;
use super::starting;
use super::with;
use crate::divergence;
use crate::entry::At;
use crate::pmpi::Ptr;
use crate::refuse;
use crate::state::LogState;

/// Receives a message that was probed for. `real` is called with a pointer for the status.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn recv(
    at: At,
    call: Call,
    received: &MessageArguments,
    message: Ptr,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    with(|state| {
        let again = received.count <= i64::from(c_int::MAX);
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(message) };
        let is_real = at == At::Outside || state.recording.source() == Source::Mpi;
        if is_real && state.tracked.messages.is_own(handle) {
            return refuse_given(state, call);
        }
        if at == At::Outside {
            state.tracked.messages.take(handle);
            let link = state.counting.matched(handle);
            let code = real(status);
            match code {
                SUCCESS => drop(state.counting.takes(link, again)),
                _ => state.counting.miscounts(),
            }
            return code;
        }
        let shape = matched(call, received, state);
        let (shape, began, link) = match is_real {
            true => {
                let (shape, began) = state.tracked.takes_probed(&state.mpi, shape, handle);
                (shape, began, state.counting.matched(handle))
            }
            false => match takes_again(state, shape, handle) {
                Ok(shape) => (shape, 0, None),
                Err(code) => return code,
            },
        };
        let arrival = ImmediateReceive::Matched { link, again };
        let event = state.recording.parts.next_event();
        // SAFETY: by the caller's promise.
        let code = unsafe { p2p::received(state, shape, received, arrival, status, real) };
        state.recording.has_taken(event, began);
        // SAFETY: as above.
        unsafe { taken(state, code, message) };
        code
    })
}

/// Begins to receive a message that was probed for. One begun outside parts is tracked, as it may complete
/// inside one.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn irecv(
    at: At,
    call: Call,
    received: &MessageArguments,
    message: Ptr,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if let Err(code) = state.reserve(call, 0, 1) {
            return code;
        }
        let target = received.target(state);
        let is_real = at == At::Outside || state.recording.source() == Source::Mpi;
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(message) };
        if is_real && state.tracked.messages.is_own(handle) {
            return refuse_given(state, call);
        }
        let link = is_real.then(|| state.counting.matched(handle)).flatten();
        let counted = link.map_or(Counted::Nothing, Counted::Matched);
        if link.is_some() && received.count > i64::from(c_int::MAX) {
            // The count is larger than any that can be received again.
            state.counting.miscounts();
        }
        if at == At::Outside {
            state.tracked.messages.take(handle);
            let code = real();
            if code == SUCCESS {
                let begun = MpiRequest::new(CallShape::new(call), target, true);
                // SAFETY: by the caller's promise, MPI has written a handle there.
                unsafe { starting::begun(state, MpiRequest { counted, ..begun }, request) };
            } else {
                state.counting.miscounts();
            }
            return code;
        }
        let shape = matched(call, received, state);
        let (shape, began) = match is_real {
            true => state.tracked.takes_probed(&state.mpi, shape, handle),
            false => match takes_again(state, shape, handle) {
                Ok(shape) => (shape, 0),
                Err(code) => return code,
            },
        };
        let route = state.recording.posts_again(&shape);
        let event = state.recording.parts.next_event();
        // SAFETY: by the caller's promise.
        unsafe {
            let code = starting::starting(state, shape, target, true, counted, request, real);
            state.recording.has_taken(event, began);
            starting::begin_resent(state, code, received, route, false, request);
            taken(state, code, message);
            code
        }
    })
}

/// Fails a call on a message that an earlier replay returned: MPI does not have that message.
#[cold]
fn refuse_given(state: &LogState, call: Call) -> c_int {
    let text =
        format!("{}: a replay that has ended gave its message, which MPI does not have", call.0);
    refuse::fail(&state.mpi, 0, &text)
}

/// The shape to compare for a replayed receive of a probed message.
///
/// # Errors
/// The message is not that of the first run; the call's result.
fn takes_again(state: &mut LogState, shape: CallShape, handle: usize) -> Result<CallShape, c_int> {
    let first = state.recording.parts.replayed_since();
    let own = state.tracked.messages.get(handle).filter(|own| own.began > first);
    let logged = state
        .recording
        .parts
        .replaying()
        .and_then(|replaying| replaying.next())
        .filter(|event| event.shape.call == shape.call);
    let logged = logged.map(|event| {
        let item = event.outcome.items.as_slice().first();
        (event.shape, item.map_or(0, |item| item.began))
    });
    let (shape, _) = match (own, logged) {
        // The message was probed for before the part, so its handle says nothing.
        (None, Some((then, began))) if began <= first && !is_no_proc(state, &then, handle) => {
            (CallShape { peer: then.peer, tag: then.tag, ..shape }, 0)
        }
        _ => state.tracked.takes_probed(&state.mpi, shape, handle),
    };
    match (own, logged) {
        (Some(own), Some((then, began))) if then == shape && own.began != began => {
            let text = divergence::other(state, &shape, "the message", own.began, began);
            Err(divergence::broken(state, &shape, &text))
        }
        _ => Ok(shape),
    }
}

/// Whether exactly one of the logged call and this one is on `MPI_MESSAGE_NO_PROC`.
fn is_no_proc(state: &LogState, then: &CallShape, handle: usize) -> bool {
    let was = then.peer == Some(state.mpi.numbers.proc_null);
    was != (handle == state.mpi.message_no_proc)
}

/// The shape to compare; the message tells its source and tag.
fn matched(call: Call, received: &MessageArguments, state: &mut LogState) -> CallShape {
    CallShape { comm: 0, peer: None, tag: None, ..received.shape(call, state) }
}

/// Clears the application's message handle. A real call has done so.
///
/// # Safety
/// `message` points to the call's message handle.
unsafe fn taken(state: &LogState, code: c_int, message: Ptr) {
    if code == SUCCESS {
        // SAFETY: by the caller's promise.
        unsafe { state.mpi.write_handle(message, state.mpi.message_null) };
    }
}
