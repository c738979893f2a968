//! What a call or a request counts, and the messages that are counted.

use std::ffi::c_int;

use crate::log::CallShape;
use crate::resend::comms::GroupIndex;
use crate::resend::streams::{MessageLink, Ticket};

/// The message of a call, without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// The number of elements.
    pub count: i64,
    /// The destination or source.
    pub peer: c_int,
    /// The tag.
    pub tag: c_int,
    /// The communicator, as the call has it.
    pub comm: usize,
}

impl Envelope {
    /// The message of a persistent request.
    pub fn of(shape: &CallShape) -> Envelope {
        let (peer, tag) = (shape.peer.unwrap_or_default(), shape.tag.unwrap_or_default());
        Envelope { count: shape.count, peer, tag, comm: shape.comm }
    }
}

/// What the status of a received message tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Its rank in the communicator.
    pub rank: c_int,
    /// The tag.
    pub tag: c_int,
}

/// The operation that is counted when a request completes.
#[derive(Clone, Copy, Debug, Default)]
pub enum Counted {
    /// Nothing.
    #[default]
    Nothing,
    /// A sent message.
    Send {
        /// The message.
        link: MessageLink,
        /// Whether the send completes without the receiver.
        is_buffered: bool,
    },
    /// A received message.
    Receive(Posted),
    /// A received message that was probed for.
    Matched(MessageLink),
    /// A collective call.
    Collective(GroupIndex),
}

/// The message that is counted for a call that receives at once.
#[derive(Clone, Copy, Debug)]
pub enum ImmediateReceive {
    /// Nothing.
    Nothing,
    /// A message.
    Message(Envelope),
    /// A message that was probed for.
    Matched {
        /// The message, if it is known.
        link: Option<MessageLink>,
        /// Whether this kind of call allows to receive it again.
        again: bool,
    },
}

impl Counted {
    /// Whether counting needs the status.
    #[inline]
    pub fn needs_status(&self) -> bool {
        matches!(self, Counted::Receive(posted) if posted.ticket.is_any())
    }
}

/// The event of a receive that was posted outside parts.
pub(super) const NO_EVENT: u64 = u64::MAX;

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    pub(super) ticket: Ticket,
    /// The number of the event that posted it, or [`NO_EVENT`].
    pub(super) event: u64,
    /// For a wildcard receive, the group of its communicator.
    pub(super) group: GroupIndex,
    /// Its index among the requests of that event.
    pub(super) nth: u32,
    /// Whether this kind of call allows to receive it again.
    pub(super) again: bool,
}

impl Posted {
    /// A receive outside parts that names its stream; it is never received again.
    #[inline(always)]
    pub fn of(ticket: Ticket) -> Posted {
        Posted { ticket, event: NO_EVENT, group: GroupIndex::default(), nth: 0, again: false }
    }

    /// The ticket that identifies it among the posted receives.
    #[inline(always)]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// This receive, as the `nth` request that the call has started.
    #[inline]
    pub fn by(self, nth: usize) -> Posted {
        Posted { nth: nth as u32, ..self }
    }
}

/// Whether a send completes without the receiver. Its message is not sent again: that could wait for the
/// receiver, where the first run did not.
#[inline(always)]
pub fn is_buffered(call: &str) -> bool {
    call.starts_with("MPI_Bsend") || call.starts_with("MPI_Ibsend")
}
