//! The message of a call: the arguments that sends and receives have.

use std::ffi::c_int;

use message_log_core::counting::Envelope;
use message_log_core::log::{Call, CallShape};
use message_log_core::requests::PlainRequest;
use message_log_core::target::CallTarget;

use crate::mpi::MpiProperties;
use crate::pmpi::{HandleWord, Ptr};
use crate::state::LogState;

/// The arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageArguments {
    /// The address of the buffer.
    pub buf: Ptr,
    /// The number of elements.
    pub count: i64,
    /// The elements' type.
    pub datatype: HandleWord,
    /// The destination or source.
    pub peer: c_int,
    /// The tag.
    pub tag: c_int,
    /// The communicator.
    pub comm: HandleWord,
}

impl MessageArguments {
    /// With a count of either width.
    pub(crate) fn new(
        buf: Ptr,
        count: impl Into<i64>,
        datatype: HandleWord,
        peer: c_int,
        tag: c_int,
        comm: HandleWord,
    ) -> MessageArguments {
        MessageArguments { buf, count: count.into(), datatype, peer, tag, comm }
    }

    /// What is counted of it.
    #[inline(always)]
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope { count: self.count, peer: self.peer, tag: self.tag, comm: self.comm }
    }

    /// The shape that a replay compares.
    pub(crate) fn shape(&self, call: Call, state: &mut LogState) -> CallShape {
        let datatype = state.mpi.abi.truncate(self.datatype);
        CallShape {
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
    pub(crate) unsafe fn sent_shape(&self, call: Call, state: &mut LogState) -> CallShape {
        let shape = self.shape(call, state);
        let sent = self.target(state);
        // SAFETY: by the caller's promise.
        CallShape { sum: unsafe { state.sum_of_sent(shape.peer, &sent) }, ..shape }
    }

    /// Where it is received.
    pub(crate) fn target(&self, state: &LogState) -> CallTarget {
        CallTarget::Plain {
            buf: self.buf as usize,
            count: self.count,
            datatype: state.mpi.abi.truncate(self.datatype),
        }
    }

    /// Fills in a request that a call outside parts has begun. `receives`: it receives a message.
    #[inline(always)]
    pub(crate) fn note(
        &self,
        mpi: &MpiProperties,
        plain: &mut PlainRequest,
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
