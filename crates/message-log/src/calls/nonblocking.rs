//! Calls that begin something and give a request.

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

/// A non-blocking send. Outside parts it is counted when it is done, wherever that is.
///
/// # Safety
/// `request` is the call's.
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

/// As [`send`], on the state.
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
    let shape = message.shape(call, state);
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
        state.goes_again(code, message, route, true, request);
        code
    }
}

/// A non-blocking receive. Outside parts: it may be waited for inside one.
///
/// # Safety
/// `request` is the call's.
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

/// As [`recv`], on the state.
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
        state.goes_again(code, message, route, false, request);
        code
    }
}

/// A send and a receive in one, which are two events: one for the shape of each. How much has come
/// MPICH does not say, so all that there is room for is logged. Outside parts: it may be waited for
/// inside one.
///
/// # Safety
/// `request` is the call's.
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
        let shape = sent.shape(call, state);
        if let Err(code) = state.reserve(call, shape.comm, 2) {
            return code;
        }
        let code = state.plain(shape, || SUCCESS);
        if code != SUCCESS {
            return code;
        }
        // MPICH 4.0 does not say what was received.
        state.miscounts();
        let shape = received.shape(call, state);
        let counted = Counted::Nothing;
        // SAFETY: by the caller's promise.
        unsafe { state.receiving_later(shape, received, false, counted, request, real) }
    })
}

/// A call outside parts whose request must not be completed inside one.
///
/// # Safety
/// `request` is the call's.
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
