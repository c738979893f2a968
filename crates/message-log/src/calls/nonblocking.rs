//! Non-blocking calls, which return a request.

use std::ffi::c_int;

use message_log_core::counting::Counted;
use message_log_core::log::{Call, CallShape};
use message_log_core::parts::Source;
use message_log_core::requests::{MpiRequest, RequestLife};
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::message::MessageArguments;
use super::starting;
use super::with;
use crate::entry::At;
use crate::pmpi::Ptr;
use crate::state::LogState;

/// A non-blocking send, which is counted when it completes.
///
/// # Safety
/// `request` points to the call's request handle; the message describes the application's memory.
pub(crate) unsafe fn send(
    at: At,
    call: Call,
    message: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    with(|state| unsafe { sending(state, at, call, message, request, real) })
}

/// [`send`], with the state.
///
/// # Safety
/// As for [`send`].
pub(super) unsafe fn sending(
    state: &mut LogState,
    at: At,
    call: Call,
    message: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if at == At::Outside {
        let counted = state.counting.counts_send(call, &message.envelope());
        let code = real();
        // SAFETY: by the caller's promise.
        unsafe { starting::started_outside(state, code, call, message, counted, false, request) };
        return code;
    }
    // SAFETY: by the caller's promise.
    let shape = unsafe { message.sent_shape(call, state) };
    if let Err(code) = state.reserve(call, shape.comm, 1) {
        return code;
    }
    let route = state.recording.sends_again(&shape);
    let counted = match state.recording.source() {
        Source::Mpi => state.counting.counts_send(call, &message.envelope()),
        Source::Log => Counted::Nothing,
    };
    // SAFETY: by the caller's promise.
    unsafe {
        let code =
            starting::starting(state, shape, CallTarget::Nothing, false, counted, request, real);
        starting::begin_resent(state, code, message, route, true, request);
        code
    }
}

/// A non-blocking receive. One begun outside parts is tracked, as it may complete inside one.
///
/// # Safety
/// `request` points to the call's request handle.
pub(crate) unsafe fn recv(
    at: At,
    call: Call,
    message: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    with(|state| unsafe { receiving(state, at, call, message, request, real) })
}

/// [`recv`], with the state.
///
/// # Safety
/// As for [`recv`].
pub(super) unsafe fn receiving(
    state: &mut LogState,
    at: At,
    call: Call,
    message: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let is_message = message.peer != state.mpi.numbers.proc_null;
    if at == At::Outside {
        let counted = state.counting.counts_receive(&message.envelope(), &state.recording.parts);
        let code = real();
        // SAFETY: by the caller's promise.
        unsafe {
            starting::started_outside(state, code, call, message, counted, is_message, request)
        };
        return code;
    }
    let shape = message.shape(call, state);
    if let Err(code) = state.reserve(call, shape.comm, 1) {
        return code;
    }
    let route = state.recording.posts_again(&shape);
    let counted = match state.recording.source() {
        Source::Mpi => state.counting.counts_receive(&message.envelope(), &state.recording.parts),
        Source::Log => Counted::Nothing,
    };
    // SAFETY: by the caller's promise.
    unsafe {
        let code =
            starting::receiving_later(state, shape, message, is_message, counted, request, real);
        starting::begin_resent(state, code, message, route, false, request);
        code
    }
}

/// A combined send and receive: two events, one for the shape of each. MPICH does not tell how much was
/// received, so the whole buffer is logged. One begun outside parts is tracked, as it may complete inside
/// one.
///
/// # Safety
/// `request` points to the call's request handle; the messages describe the application's memory.
pub(crate) unsafe fn sendrecv(
    at: At,
    call: Call,
    sent: &MessageArguments,
    received: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            let code = real();
            if code == SUCCESS && received.peer != state.mpi.numbers.proc_null {
                let begun = MpiRequest::new(CallShape::new(call), received.target(state), false);
                // SAFETY: by the caller's promise, MPI has written a handle there.
                unsafe { starting::begun(state, begun, request) };
                state.counting.miscounts();
            }
            return code;
        }
        // SAFETY: by the caller's promise.
        let shape = unsafe { sent.sent_shape(call, state) };
        if let Err(code) = state.reserve(call, shape.comm, 2) {
            return code;
        }
        let code = super::plain(state, shape, || SUCCESS);
        if code != SUCCESS {
            return code;
        }
        // MPICH 4.0 does not tell what was received.
        state.counting.miscounts();
        let shape = received.shape(call, state);
        let counted = Counted::Nothing;
        // SAFETY: by the caller's promise.
        unsafe { starting::receiving_later(state, shape, received, false, counted, request, real) }
    })
}

/// A call outside parts whose request cannot be completed inside one.
///
/// # Safety
/// `request` points to the call's request handle.
pub(crate) unsafe fn foreign(call: Call, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let code = real();
        if code == SUCCESS {
            let begun = MpiRequest::new(CallShape::new(call), CallTarget::Nothing, false);
            let foreign = MpiRequest { life: RequestLife::Foreign, ..begun };
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { starting::begun(state, foreign, request) };
        }
        code
    })
}
