//! Blocking sends and receives.

use std::ffi::c_int;

use super::counted::{is_buffered, Arrival};
use super::{with, At, SUCCESS};
use crate::log::{Call, Outcome, Shape};
use crate::parts::Source;
use crate::pmpi::{Handle, Ptr};
use crate::resend::streams::Link;
use crate::state::State;
use crate::status::Status;
use crate::target::Target;

/// The arguments that all these calls have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The address of the buffer.
    pub buf: Ptr,
    /// The number of elements.
    pub count: i64,
    /// The elements' type.
    pub datatype: Handle,
    /// The destination or source.
    pub peer: c_int,
    /// The tag.
    pub tag: c_int,
    /// The communicator.
    pub comm: Handle,
}

impl Message {
    /// With a count of either width.
    pub(crate) fn new(
        buf: Ptr,
        count: impl Into<i64>,
        datatype: Handle,
        peer: c_int,
        tag: c_int,
        comm: Handle,
    ) -> Message {
        Message { buf, count: count.into(), datatype, peer, tag, comm }
    }

    /// The message of a persistent request, as far as it is counted.
    pub(crate) fn of(shape: &Shape) -> Message {
        Message {
            buf: std::ptr::null_mut(),
            count: shape.count,
            datatype: 0,
            peer: shape.peer.unwrap_or_default(),
            tag: shape.tag.unwrap_or_default(),
            comm: shape.comm,
        }
    }

    /// The shape that a replay compares.
    pub(crate) fn shape(&self, call: Call, state: &mut State) -> Shape {
        let datatype = state.mpi.abi.truncate(self.datatype);
        Shape {
            call,
            comm: state.mpi.abi.truncate(self.comm),
            peer: Some(self.peer),
            tag: Some(self.tag),
            count: self.count,
            size: state.types.get(datatype).size,
            sum: 0,
        }
    }

    /// The shape of a send, with a hash of what it sends if that is compared.
    ///
    /// # Safety
    /// The message describes the application's memory.
    pub(crate) unsafe fn sent_shape(&self, call: Call, state: &mut State) -> Shape {
        let shape = self.shape(call, state);
        let sent = self.target(state);
        // SAFETY: by the caller's promise.
        Shape { sum: unsafe { state.sum_of_sent(shape.peer, &sent) }, ..shape }
    }

    /// Where it is received.
    pub(crate) fn target(&self, state: &State) -> Target {
        Target::Plain {
            buf: self.buf as usize,
            count: self.count,
            datatype: state.mpi.abi.truncate(self.datatype),
        }
    }
}

/// A blocking send.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn send(
    at: At,
    call: Call,
    message: &Message,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Inside && state.source() == Source::Log {
            // SAFETY: by the caller's promise.
            return unsafe {
                let shape = message.sent_shape(call, state);
                send_replayed(state, shape, message)
            };
        }
        // SAFETY: by the caller's promise.
        unsafe { sending(state, at, call, message, real) }
    })
}

/// A send outside parts, or inside parts that are recorded.
///
/// # Safety
/// As for [`send`].
pub(super) unsafe fn sending(
    state: &mut State,
    at: At,
    call: Call,
    message: &Message,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if at == At::Outside {
        return sent(state, call, message, real).0;
    }
    // SAFETY: by the caller's promise.
    let shape = unsafe { message.sent_shape(call, state) };
    let (code, link) = sent(state, call, message, real);
    let link = state.linked(link);
    state.record(shape, Outcome { links: link.into(), ..Outcome::of(code) });
    code
}

/// A send that is passed to MPI and counted.
fn sent(
    state: &mut State,
    call: Call,
    message: &Message,
    real: impl FnOnce() -> c_int,
) -> (c_int, Option<Link>) {
    let is_buffered = is_buffered(call.0);
    let link = state.sends(message, !is_buffered);
    let code = real();
    state.has_sent(link, is_buffered, code);
    (code, link)
}

/// # Safety
/// As for [`send`].
unsafe fn send_replayed(state: &mut State, shape: Shape, message: &Message) -> c_int {
    let route = state.sends_again(&shape);
    let code = state.plain(shape, || SUCCESS);
    match route.filter(|_| code == SUCCESS) {
        // SAFETY: by the caller's promise.
        Some(route) => unsafe { state.send_again(message, route) },
        None => code,
    }
}

/// A blocking receive. `real` is called with a pointer for the status.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn recv(
    at: At,
    call: Call,
    message: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    with(|state| unsafe { receiving(state, at, call, message, status, real) })
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
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    if at == At::Outside {
        // SAFETY: by the caller's promise.
        return unsafe { received_outside(state, message, status, real) };
    }
    let shape = message.shape(call, state);
    // SAFETY: by the caller's promise.
    unsafe { received(state, shape, message, Arrival::Message(message), status, real) }
}

/// A blocking receive inside parts.
///
/// # Safety
/// As for [`recv`].
pub(super) unsafe fn received(
    state: &mut State,
    shape: Shape,
    message: &Message,
    arrival: Arrival<'_>,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    let target = message.target(state);
    let Some(route) = state.receives_again(&shape) else {
        // SAFETY: by the caller's promise.
        return unsafe { state.receiving(shape, &target, arrival, Some(status), real) };
    };
    // The call is the next event, as its route was found there.
    let Ok(at) = state.parts.next(&shape) else { return SUCCESS };
    // SAFETY: by the caller's promise; MPI has received the message before `keep_again`.
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

/// Counts a receive outside parts.
///
/// # Safety
/// As for [`recv`].
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

/// A combined send and receive: two events, one for the shape of each. `real` is called with a pointer for
/// the status.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn sendrecv(
    at: At,
    call: Call,
    sent: &Message,
    received: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            let link = state.sends(sent, false);
            // SAFETY: by the caller's promise.
            let code = unsafe { received_outside(state, received, status, real) };
            state.has_sent(link, false, code);
            return code;
        }
        // SAFETY: by the caller's promise.
        let shape = unsafe { sent.sent_shape(call, state) };
        let route = state.sends_again(&shape);
        let mut link = None;
        if state.source() == Source::Mpi {
            // A message whose buffer the receive overwrites cannot be sent again.
            link = state.sends(sent, sent.buf != received.buf);
            let links = state.linked(link).into();
            state.record(shape, Outcome { links, ..Outcome::of(SUCCESS) });
        } else {
            let code = state.plain(shape, || SUCCESS);
            if code != SUCCESS {
                return code;
            }
        }
        // SAFETY: by the caller's promise.
        let again = route.map(|route| unsafe { state.begin_again(sent, route, true) });
        let shape = received.shape(call, state);
        let arrival = Arrival::Message(received);
        // SAFETY: as above.
        let code = unsafe { self::received(state, shape, received, arrival, status, real) };
        state.has_sent(link, false, code);
        match again.map(|request| state.wait_again(request, true)) {
            Some(failed) if failed != SUCCESS => failed,
            _ => code,
        }
    })
}
