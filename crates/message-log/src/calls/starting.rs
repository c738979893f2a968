//! Requests from their beginning to their completion.

use std::ffi::c_int;

use message_log_core::counting::Counted;
use message_log_core::log::{Call, CallOutcome, CallShape};
use message_log_core::memory::NoMemory;
use message_log_core::parts::Source;
use message_log_core::requests::{MpiRequest, PlainRequest, RequestLife};
use message_log_core::resend::closed::Route;
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::message::MessageArguments;
use super::resending;
use crate::divergence;
use crate::pmpi::Ptr;
use crate::state::LogState;
use crate::target;

/// A call outside parts that begins a send or a receive has returned with this code.
///
/// # Safety
/// `request` points to the call's request handle.
pub(super) unsafe fn started_outside(
    state: &mut LogState,
    code: c_int,
    call: Call,
    message: &MessageArguments,
    counted: Counted,
    receives: bool,
    request: Ptr,
) {
    if code != SUCCESS {
        return state.counting.miscounts();
    }
    // SAFETY: by the caller's promise, MPI has written a handle there.
    let handle = unsafe { state.mpi.read_handle(request) };
    let mut plain = PlainRequest { counted, ..PlainRequest::default() };
    message.note(&state.mpi, &mut plain, call, receives, request);
    match state.tracked.requests.insert_plain(handle, plain) {
        // The earlier send completed when it began: MPI shares handles only among such requests.
        Ok(Some(before @ Counted::Send { .. })) => {
            state.is_done(&before, None, false);
        }
        Ok(_) => {}
        // The message of the request cannot be counted, and a part that completes it cannot be
        // replayed.
        Err(NoMemory) => state.counting.miscounts(),
    }
}

/// A non-blocking receive. One from `MPI_PROC_NULL` receives nothing.
///
/// # Safety
/// `request` points to the call's request handle.
pub(super) unsafe fn receiving_later(
    state: &mut LogState,
    shape: CallShape,
    message: &MessageArguments,
    is_message: bool,
    counted: Counted,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let target = match message.peer == state.mpi.numbers.proc_null {
        true => CallTarget::Nothing,
        false => message.target(state),
    };
    // SAFETY: by the caller's promise.
    unsafe { starting(state, shape, target, is_message, counted, request, real) }
}

/// Tracks a request that a real call has begun. Out of memory, it is unknown, and a part that completes
/// it cannot be replayed.
///
/// # Safety
/// `request` points to a handle.
pub(crate) unsafe fn begun(state: &mut LogState, begun: MpiRequest, request: Ptr) {
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(request) };
    let begun = MpiRequest { place: request as usize, ..begun };
    if state.tracked.requests.insert(handle, begun).is_err() {
        state.counting.miscounts();
    }
}

/// A call that begins a request. A replay returns a completed one.
///
/// # Safety
/// `request` points to the call's request handle.
pub(crate) unsafe fn starting(
    state: &mut LogState,
    shape: CallShape,
    target: CallTarget,
    is_message: bool,
    counted: Counted,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    match state.recording.source() {
        Source::Mpi => {
            let code = real();
            let mut outcome = CallOutcome::of(code);
            if let Counted::Send { link, .. } | Counted::Matched(link) = counted {
                outcome.links = state.counting.linked(Some(link)).into();
            }
            if code == SUCCESS {
                outcome.began = state.recording.parts.begin_number();
                let begun = MpiRequest::new(shape, target, is_message);
                let begun = MpiRequest { began: outcome.began, counted, ..begun };
                // SAFETY: by the caller's promise, MPI has written a handle there.
                unsafe { self::begun(state, begun, request) };
            } else if !matches!(counted, Counted::Nothing) {
                state.counting.miscounts();
            }
            state.recording.record(shape, outcome);
            code
        }
        Source::Log => {
            let (code, began) = match state.recording.parts.next(&shape) {
                Ok(at) => match state.recording.parts.log().get(at) {
                    Some(event) => (event.outcome.code, event.outcome.began),
                    None => return SUCCESS,
                },
                Err(divergence) => return divergence::stop(state, &shape, &divergence),
            };
            if code == SUCCESS {
                let target = target::resolved(&target, &mut state.objects.types);
                let life = RequestLife::Replayed(
                    state.recording.parts.open().replayed().unwrap_or_default(),
                );
                let begun = MpiRequest::new(shape, target, is_message);
                let begun = MpiRequest { began, life, ..begun };
                let Ok(handle) = state.tracked.begin_replayed(&state.mpi, begun) else {
                    let text = format!("{}: there is no memory for its request", shape.call.0);
                    return divergence::broken(state, &shape, &text);
                };
                // SAFETY: by the caller's promise.
                unsafe { state.mpi.write_handle(request, handle) };
            }
            code
        }
    }
}

/// A replayed call has begun a request. Its message is sent or received again, if it has a route.
///
/// # Safety
/// `message` describes the application's memory, and `request` points to the call's handle.
pub(super) unsafe fn begin_resent(
    state: &mut LogState,
    code: c_int,
    message: &MessageArguments,
    route: Option<Route>,
    sends: bool,
    request: Ptr,
) {
    let Some(route) = route.filter(|_| code == SUCCESS) else { return };
    // SAFETY: by the caller's promise.
    let (again, handle) = unsafe {
        (resending::begin_again(state, message, route, sends), state.mpi.read_handle(request))
    };
    if let Some(request) = state.tracked.requests.get_mut(handle) {
        request.again = Some(again);
    }
}
