//! The message of a call: the arguments that sends and receives have.

use std::ffi::c_int;

use message_log_core::counting::Envelope;
use message_log_core::log::{Call, Shape};
use message_log_core::requests::Plain;
use message_log_core::target::Target;

use crate::mpi::Mpi;
use crate::pmpi::{Handle, Ptr};
use crate::state::State;

/// The arguments.
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

    /// What is counted of it.
    #[inline(always)]
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope { count: self.count, peer: self.peer, tag: self.tag, comm: self.comm }
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
            size: state.objects.types.get(datatype).size,
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

    /// Fills in a request that a call outside parts has begun. `receives`: it receives a message.
    #[inline(always)]
    pub(crate) fn note(
        &self,
        mpi: &Mpi,
        plain: &mut Plain,
        call: Call,
        receives: bool,
        request: Ptr,
    ) {
        plain.call = call;
        plain.comm = mpi.abi.truncate(self.comm);
        plain.place = request as usize;
        plain.receives = receives;
        plain.buf = self.buf as usize;
        plain.count = self.count;
        plain.datatype = mpi.abi.truncate(self.datatype);
    }
}
