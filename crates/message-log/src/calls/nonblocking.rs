//! Non-blocking calls, which return a request.

use std::ffi::c_int;

use super::counted::Counted;
use super::p2p::Message;
use super::{with, At, SUCCESS};
use crate::log::{Call, Shape};
use crate::parts::Source;
use crate::pmpi::Ptr;
use crate::requests::{Life, Request};
use crate::state::State;
use crate::target::Target;

/// A non-blocking send, which is counted when it completes.
///
/// # Safety
/// `request` points to the call's request handle; the message describes the application's memory.
pub(crate) unsafe fn send(
    at: At,
    call: Call,
    message: &Message,
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
    state: &mut State,
    at: At,
    call: Call,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if at == At::Outside {
        let counted = state.counts_send(call, message);
        let code = real();
        // SAFETY: by the caller's promise.
        unsafe { state.started_outside(code, call, message, counted, false, request) };
        return code;
    }
    // SAFETY: by the caller's promise.
    let shape = unsafe { message.sent_shape(call, state) };
    if let Err(code) = state.reserve(call, shape.comm, 1) {
        return code;
    }
    let route = state.sends_again(&shape);
    let counted = match state.source() {
        Source::Mpi => state.counts_send(call, message),
        Source::Log => Counted::Nothing,
    };
    // SAFETY: by the caller's promise.
    unsafe {
        let code = state.starting(shape, Target::Nothing, false, counted, request, real);
        state.begin_resent(code, message, route, true, request);
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
    message: &Message,
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
    state: &mut State,
    at: At,
    call: Call,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let is_message = message.peer != state.mpi.numbers.proc_null;
    if at == At::Outside {
        let counted = state.counts_receive(message);
        let code = real();
        // SAFETY: by the caller's promise.
        unsafe { state.started_outside(code, call, message, counted, is_message, request) };
        return code;
    }
    let shape = message.shape(call, state);
    if let Err(code) = state.reserve(call, shape.comm, 1) {
        return code;
    }
    let route = state.posts_again(&shape);
    let counted = match state.source() {
        Source::Mpi => state.counts_receive(message),
        Source::Log => Counted::Nothing,
    };
    // SAFETY: by the caller's promise.
    unsafe {
        let code = state.receiving_later(shape, message, is_message, counted, request, real);
        state.begin_resent(code, message, route, false, request);
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
    sent: &Message,
    received: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            let code = real();
            if code == SUCCESS && received.peer != state.mpi.numbers.proc_null {
                let begun = Request::new(Shape::new(call), received.target(state), false);
                // SAFETY: by the caller's promise, MPI has written a handle there.
                unsafe { state.begun(begun, request) };
                state.miscounts();
            }
            return code;
        }
        // SAFETY: by the caller's promise.
        let shape = unsafe { sent.sent_shape(call, state) };
        if let Err(code) = state.reserve(call, shape.comm, 2) {
            return code;
        }
        let code = state.plain(shape, || SUCCESS);
        if code != SUCCESS {
            return code;
        }
        // MPICH 4.0 does not tell what was received.
        state.miscounts();
        let shape = received.shape(call, state);
        let counted = Counted::Nothing;
        // SAFETY: by the caller's promise.
        unsafe { state.receiving_later(shape, received, false, counted, request, real) }
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
            let begun = Request::new(Shape::new(call), Target::Nothing, false);
            let foreign = Request { life: Life::Foreign, ..begun };
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { state.begun(foreign, request) };
        }
        code
    })
}
