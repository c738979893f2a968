//! Sending and receiving.

use std::ffi::c_int;

use super::{with, SUCCESS};
use crate::log::{Call, Shape};
use crate::pmpi::{Handle, Ptr};
use crate::state::State;
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
pub fn send(call: Call, message: &Message, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let shape = message.shape(call, state);
        state.plain(shape, real)
    })
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
        let target = message.target(state);
        // SAFETY: by the caller's promise.
        unsafe { state.receiving(shape, &target, Some(status), real) }
    })
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
        let code = state.plain(shape, || SUCCESS);
        if code != SUCCESS {
            return code;
        }
        let shape = received.shape(call, state);
        let target = received.target(state);
        // SAFETY: by the caller's promise.
        unsafe { state.receiving(shape, &target, Some(status), real) }
    })
}
