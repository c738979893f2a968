//! A stream of messages, one of its messages, and the messages that a receive matches.

use crate::resend::table::IndexKey;

/// Messages with one tag between this process and another, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStream {
    /// The communicator's number, common to all its processes.
    pub comm: u64,
    /// The other process's rank in `MPI_COMM_WORLD`.
    pub peer: u32,
    /// The tag.
    pub tag: i32,
}

impl IndexKey for MessageStream {
    #[inline]
    fn word(&self) -> u64 {
        self.comm ^ (u64::from(self.peer) << 32 | u64::from(self.tag as u32))
    }
}

/// The order in which receives were posted.
pub(super) type PostingOrder = u64;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLink {
    /// The index of its stream among those of its direction.
    pub stream: u32,
    /// Its number in the stream.
    pub number: u64,
}

/// The messages that a receive matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The communicator.
    pub comm: u64,
    /// The sender; `None`: any.
    pub peer: Option<u32>,
    /// The tag; `None`: any.
    pub tag: Option<i32>,
}

impl Pattern {
    #[inline]
    pub(super) fn takes(&self, stream: &MessageStream) -> bool {
        self.comm == stream.comm
            && self.peer.is_none_or(|peer| peer == stream.peer)
            && self.tag.is_none_or(|tag| tag == stream.tag)
    }

    #[inline]
    pub(super) fn stream(&self) -> Option<MessageStream> {
        Some(MessageStream { comm: self.comm, peer: self.peer?, tag: self.tag? })
    }
}
