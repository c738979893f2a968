//! Sending and receiving.

use std::ffi::c_int;

use super::again::is_buffered;
use super::{outside, with, SUCCESS};
use crate::log::{Call, Outcome, Shape};
use crate::parts::Source;
use crate::pmpi::{Handle, Ptr};
use crate::state::State;
use crate::status::Status;
use crate::target::Target;

/// The arguments that all of these calls have.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Where it lies.
    pub buf: Ptr,
    /// How many elements.
    pub count: i64,
    /// Their type.
    pub datatype: Handle,
    /// Where to, or where from.
    pub peer: c_int,
    /// The tag.
    pub tag: c_int,
    /// The communicator.
    pub comm: Handle,
}

impl Message {
    /// A message of a persistent request, as far as it is counted.
    pub fn of(shape: &Shape) -> Message {
        Message {
            buf: std::ptr::null_mut(),
            count: shape.count,
            datatype: 0,
            peer: shape.peer.unwrap_or_default(),
            tag: shape.tag.unwrap_or_default(),
            comm: shape.comm,
        }
    }

    /// As it is compared.
    pub fn shape(&self, call: Call, state: &mut State) -> Shape {
        let datatype = state.mpi.abi.truncate(self.datatype);
        Shape {
            call,
            comm: state.mpi.abi.truncate(self.comm),
            peer: Some(self.peer),
            tag: Some(self.tag),
            count: self.count,
            size: state.types.get(datatype).size,
        }
    }

    /// Where it is received.
    pub fn target(&self, state: &State) -> Target {
        Target::Plain {
            buf: self.buf as usize,
            count: self.count,
            datatype: state.mpi.abi.truncate(self.datatype),
        }
    }
}

/// A send that is done when it returns.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn send(call: Call, message: &Message, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let shape = message.shape(call, state);
        if let Some(route) = state.sends_again(&shape) {
            let code = state.plain(shape, || SUCCESS);
            if code != SUCCESS {
                return code;
            }
            // SAFETY: by the caller's promise.
            return unsafe { state.send_again(message, route) };
        }
        if state.source() == Source::Log {
            return state.plain(shape, || SUCCESS);
        }
        let link = state.sends(message, true);
        let code = real();
        state.has_sent(link, is_buffered(call.0), code);
        let link = state.linked(link);
        state.parts.record(shape, Outcome { link, ..Outcome::of(code) });
        code
    })
}

/// The same outside parts: it is counted.
///
/// # Safety
/// As for [`outside`].
#[inline(always)]
pub unsafe fn send_outside(call: Call, message: &Message, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe {
        outside(|state| {
            let link = state.sends(message, true);
            let code = real();
            state.has_sent(link, is_buffered(call.0), code);
            code
        })
    }
}

/// A receive that is done when it returns. `real` gets the place for the status.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn recv(
    call: Call,
    message: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    with(|state| {
        let shape = message.shape(call, state);
        // SAFETY: by the caller's promise.
        unsafe { received(state, shape, message, status, real) }
    })
}

/// # Safety
/// As for [`recv`].
unsafe fn received(
    state: &mut State,
    shape: Shape,
    message: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    let target = message.target(state);
    let Some(route) = state.receives_again(&shape) else {
        // SAFETY: by the caller's promise.
        return unsafe { state.receiving(shape, &target, Some(message), Some(status), real) };
    };
    // It is the next one: that is how its route was found.
    let Ok(at) = state.parts.next(&shape) else { return SUCCESS };
    // SAFETY: by the caller's promise; MPI has received the message when it is kept.
    unsafe {
        let code = state.recv_again(message, route);
        if code != SUCCESS {
            return code;
        }
        let target = target.resolved(&mut state.types);
        state.keep_again(at, 0, &target);
        let event = state.parts.event(at);
        if let Some(item) = event.and_then(|event| event.outcome.items.as_slice().first()) {
            item.status.write(&state.mpi, status);
        }
    }
    SUCCESS
}

/// A receive outside parts, which is done when it returns: it is counted. `real` gets the place for
/// the status.
///
/// # Safety
/// As MPI says of the call, and as for [`outside`].
#[inline(always)]
pub unsafe fn recv_outside(
    message: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { outside(|state| received_outside(state, message, status, real)) }
}

/// # Safety
/// As for [`recv_outside`].
#[inline(always)]
unsafe fn received_outside(
    state: &mut State,
    message: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    if state.resend.is_none() {
        return real(status);
    }
    let mut own = Status::default();
    let is_any = state.is_any(message);
    let place = match is_any && status as usize == state.mpi.numbers.status_ignore {
        true => own.as_mut_ptr(),
        false => status,
    };
    let code = real(place);
    if code != SUCCESS {
        state.miscounts();
    } else if is_any {
        // SAFETY: MPI has written it.
        let read = unsafe { Status::read(&state.mpi, place) };
        state.arrives_at_once(message, Some(&read));
    } else {
        state.arrives_at_once(message, None);
    }
    code
}

/// A send and a receive in one, which are two events: one for the shape of each. `real` gets the
/// place for the status.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn sendrecv(
    call: Call,
    sent: &Message,
    received: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    with(|state| {
        let shape = sent.shape(call, state);
        let route = state.sends_again(&shape);
        let mut link = None;
        if state.source() == Source::Mpi {
            // What is overwritten by what is received cannot be sent beside it.
            link = state.sends(sent, sent.buf != received.buf);
            let linked = state.linked(link);
            state.parts.record(shape, Outcome { link: linked, ..Outcome::of(SUCCESS) });
        } else {
            let code = state.plain(shape, || SUCCESS);
            if code != SUCCESS {
                return code;
            }
        }
        // SAFETY: by the caller's promise.
        let again = route.map(|route| unsafe { state.begin_again(sent, route, true) });
        let shape = received.shape(call, state);
        // SAFETY: as above.
        let code = unsafe { self::received(state, shape, received, status, real) };
        state.has_sent(link, false, code);
        match again.map(|request| state.wait_again(request)) {
            Some(failed) if failed != SUCCESS => failed,
            _ => code,
        }
    })
}

/// The same outside parts: both are counted.
///
/// # Safety
/// As MPI says of the call, and as for [`outside`].
pub unsafe fn sendrecv_outside(
    sent: &Message,
    received: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe {
        outside(|state| {
            let link = state.sends(sent, false);
            let code = received_outside(state, received, status, real);
            state.has_sent(link, false, code);
            code
        })
    }
}
