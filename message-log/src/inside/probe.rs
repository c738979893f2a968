//! Probing, and receiving what was probed for.

use std::ffi::c_int;

use super::counted::{Arrival, Counted};
use super::p2p::{self, Message};
use super::{with, At, SUCCESS};
use crate::divergence;
use crate::log::{Call, Items, Outcome, Shape};
use crate::parts::Source;
use crate::pmpi::{Handle, Ptr};
use crate::requests::Request;
use crate::state::State;
use crate::status::Status;
use crate::target::Target;

/// Where the messages that a replay gives lie, for libraries whose handles are pointers: nobody
/// looks there, since what is received of such a message comes from the log.
static MESSAGE: [u64; 64] = [0; 64];

/// The arguments of such a call; null where it has none.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Where from.
    pub source: c_int,
    /// The tag.
    pub tag: c_int,
    /// The communicator.
    pub comm: Handle,
    /// Whether there is a message.
    pub flag: *mut c_int,
    /// The message.
    pub message: Ptr,
    /// The status, which may be ignored.
    pub status: Ptr,
}

/// Probes. `real` gets the place for the status. Outside parts only what gives a message is noted, of
/// which no more than its handle is known.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn probe(at: At, call: Call, probe: &Probe, real: impl FnOnce(Ptr) -> c_int) -> c_int {
    with(|state| {
        if at == At::Outside {
            // SAFETY: by the caller's promise.
            return unsafe { probed_outside(state, probe, real) };
        }
        let shape = Shape {
            comm: state.mpi.abi.truncate(probe.comm),
            peer: Some(probe.source),
            tag: Some(probe.tag),
            ..Shape::new(call)
        };
        match state.source() {
            // SAFETY: by the caller's promise.
            Source::Mpi => unsafe { record(state, shape, probe, real) },
            // SAFETY: as above.
            Source::Log => unsafe { replay(state, shape, probe) },
        }
    })
}

/// # Safety
/// As for [`probe`].
unsafe fn probed_outside(
    state: &mut State,
    probe: &Probe,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    let mut own = Status::default();
    let code = real(own.as_mut_ptr());
    // SAFETY: the application's, by the caller's promise; MPI has written them.
    unsafe {
        if code == SUCCESS && (probe.flag.is_null() || probe.flag.read() != 0) {
            own.write(&state.mpi, probe.status);
            state.matches(probe.comm, &own, state.mpi.read_handle(probe.message));
        }
    }
    code
}

/// # Safety
/// As for [`probe`].
unsafe fn record(
    state: &mut State,
    shape: Shape,
    probe: &Probe,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    // A message that it gives is nobody else's any more.
    if let Err(code) = state.reserve(shape.call, shape.comm, 1) {
        return code;
    }
    let mut own = Status::default();
    let code = real(own.as_mut_ptr());
    let mut outcome = Outcome::of(code);
    // SAFETY: the application's, by the caller's promise.
    let flag = if probe.flag.is_null() { 1 } else { unsafe { probe.flag.read() } };
    outcome.number = flag;
    if code == SUCCESS && flag != 0 {
        // SAFETY: nothing is received yet.
        outcome.items = Items::One(unsafe { state.received(&Target::Nothing, Some(&own)) });
        if !probe.message.is_null() {
            // SAFETY: as above.
            let message = unsafe { state.mpi.read_handle(probe.message) };
            state.matches(probe.comm, &own, message);
            // The only one that a replay has to know again.
            outcome.handle = if message == state.mpi.message_no_proc { message } else { 0 };
        }
        // SAFETY: as above.
        unsafe { own.write(&state.mpi, probe.status) };
    }
    state.record(shape, outcome);
    code
}

/// # Safety
/// As for [`probe`].
unsafe fn replay(state: &mut State, shape: Shape, probe: &Probe) -> c_int {
    let at = match state.parts.next(&shape) {
        Ok(at) => at,
        Err(divergence) => return divergence::stop(state, &shape, &divergence),
    };
    let Some(event) = state.parts.event(at) else { return SUCCESS };
    let outcome = &event.outcome;
    // SAFETY: the application's, by the caller's promise.
    unsafe {
        if !probe.flag.is_null() {
            probe.flag.write(outcome.number);
        }
        for item in outcome.items.as_slice() {
            item.status.write(&state.mpi, probe.status);
            if !probe.message.is_null() {
                let message = match outcome.handle {
                    0 => MESSAGE.as_ptr() as usize,
                    no_proc => no_proc,
                };
                state.mpi.write_handle(probe.message, message);
            }
        }
    }
    outcome.code
}

/// Receives a message that was probed for. `real` gets the place for the status.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn recv(
    at: At,
    call: Call,
    received: &Message,
    message: Ptr,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    with(|state| {
        let again = received.count <= i64::from(c_int::MAX);
        if at == At::Outside {
            // SAFETY: by the caller's promise.
            let link = state.matched(unsafe { state.mpi.read_handle(message) });
            let code = real(status);
            match code {
                SUCCESS => drop(state.takes(link, again)),
                _ => state.miscounts(),
            }
            return code;
        }
        let shape = matched(call, received, state);
        let link = match state.source() {
            // SAFETY: by the caller's promise.
            Source::Mpi => state.matched(unsafe { state.mpi.read_handle(message) }),
            Source::Log => None,
        };
        let arrival = Arrival::Matched { link, again };
        // SAFETY: by the caller's promise.
        let code = unsafe { p2p::received(state, shape, received, arrival, status, real) };
        // SAFETY: as above.
        unsafe { taken(state, code, message) };
        code
    })
}

/// Begins to receive a message that was probed for. Outside parts: it may be waited for inside one.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn irecv(
    at: At,
    call: Call,
    received: &Message,
    message: Ptr,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if let Err(code) = state.reserve(call, 0, 1) {
            return code;
        }
        let target = received.target(state);
        let is_real = at == At::Outside || state.source() == Source::Mpi;
        // SAFETY: by the caller's promise.
        let link = is_real.then(|| state.matched(unsafe { state.mpi.read_handle(message) }));
        let counted = link.flatten().map_or(Counted::Nothing, Counted::Matched);
        if link.flatten().is_some() && received.count > i64::from(c_int::MAX) {
            // More than can be received again.
            state.miscounts();
        }
        if at == At::Outside {
            let code = real();
            if code == SUCCESS {
                let begun = Request::new(Shape::new(call), target, true);
                // SAFETY: by the caller's promise, MPI has written a handle there.
                unsafe { state.begun(Request { counted, ..begun }, request) };
            } else {
                state.miscounts();
            }
            return code;
        }
        let shape = matched(call, received, state);
        let route = state.posts_again(&shape);
        // SAFETY: by the caller's promise.
        unsafe {
            let code = state.starting(shape, target, true, counted, request, real);
            state.goes_again(code, received, route, false, request);
            taken(state, code, message);
            code
        }
    })
}

/// As it is compared: the message says where it is from.
fn matched(call: Call, received: &Message, state: &mut State) -> Shape {
    Shape { comm: 0, peer: None, tag: None, ..received.shape(call, state) }
}

/// The message is taken: after a real call MPI has written that itself.
///
/// # Safety
/// `message` is the call's.
unsafe fn taken(state: &State, code: c_int, message: Ptr) {
    if code == SUCCESS {
        // SAFETY: by the caller's promise.
        unsafe { state.mpi.write_handle(message, state.mpi.message_null) };
    }
}
