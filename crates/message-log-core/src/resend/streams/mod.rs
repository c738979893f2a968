//! Counts what this process has sent and received, per stream.
//!
//! Messages from one process to another with one tag on one communicator do not overtake each other: the
//! `n`th message sent is the one for which the `n`th receive was posted. So both ends identify a message
//! by its number, without communication.
//!
//! While a part is open whose messages may be sent again, a journal keeps the counters before each
//! change, so that those at the part's beginning are known at its end. Counters are of the whole job,
//! because messages in flight at the beginning matter. If a counter cannot be allocated, the counts are
//! wrong from then on, and nothing is sent again any more.
//!
//! | file | owns |
//! | --- | --- |
//! | `stream` | a stream, one of its messages, and which messages a receive matches |
//! | `counters` | the counters, by stream |
//! | `receives` | receives and their order |
//! | `waiting` | receives without a message |
//! | `journal` | changes since a part began, and the report at its end |

mod counters;
mod journal;
mod receives;
mod stream;
mod waiting;

use std::collections::VecDeque;

use counters::{Collective, CounterTable};
use journal::{Change, ChangedTable};
use stream::PostingOrder;

pub use journal::PartStart;
pub use receives::Ticket;
pub use stream::{MessageLink, MessageStream, Pattern};

/// All streams of this process.
#[derive(Debug, Default)]
pub struct Streams {
    outgoing: CounterTable<MessageStream>,
    incoming: CounterTable<MessageStream>,
    collective: CounterTable<Collective>,
    tickets: PostingOrder,
    /// Receives for several streams that wait for a message, in order.
    waiting: VecDeque<(PostingOrder, Pattern)>,
    journal: Vec<Change>,
    open: u32,
    begun: u64,
    reports: u64,
    /// Messages whose stream is unknown.
    unknown: u64,
    is_miscounted: bool,
}

impl Streams {
    /// A message is sent. `again`: its kind of call can send it again.
    #[cfg(test)]
    pub fn sent(&mut self, stream: MessageStream, again: bool) -> MessageLink {
        let place = self.outgoing.place(stream);
        self.sent_at(place, again)
    }

    /// A message is sent on the stream at an index. `again`: its kind of call can send it again.
    #[inline(always)]
    pub fn sent_at(&mut self, place: u32, again: bool) -> MessageLink {
        let counter = self.outgoing.at_mut(place);
        let before = counter.counts;
        counter.counts.messages += 1;
        counter.open += 1;
        counter.changed = true;
        let posted = if again { PostingOrder::MAX } else { 0 };
        self.note(ChangedTable::Outgoing, place, before, posted);
        MessageLink { stream: place, number: before.messages }
    }

    /// The send of a message has completed. `buffered`: its completion tells nothing about the receiver.
    #[inline(always)]
    pub fn send_done(&mut self, link: MessageLink, buffered: bool) {
        let place = link.stream;
        let counter = self.outgoing.at_mut(place);
        counter.open = counter.open.saturating_sub(1);
        if !buffered {
            counter.reach = counter.reach.max(link.number + 1);
            counter.changed = true;
        }
        let before = counter.counts;
        self.note(ChangedTable::Outgoing, place, before, PostingOrder::MAX);
    }

    /// The request of a send is freed: nobody waits for its completion, so the message is not sent
    /// again.
    pub fn send_given_up(&mut self, link: MessageLink) {
        let counter = self.outgoing.at_mut(link.stream);
        counter.open = counter.open.saturating_sub(1);
        let before = counter.counts;
        self.note(ChangedTable::Outgoing, link.stream, before, 0);
    }

    /// A collective call begins on a communicator of this many processes.
    pub fn collective_begun(&mut self, comm: u64, size: u32) {
        let place = self.collective.place(Collective { comm, size });
        let counter = self.collective.at_mut(place);
        let before = counter.counts;
        counter.counts.other += 1;
        counter.changed = true;
        self.note(ChangedTable::Collective, place, before, PostingOrder::MAX);
    }

    /// A collective call is complete.
    pub fn collective_done(&mut self, comm: u64, size: u32) {
        let place = self.collective.place(Collective { comm, size });
        let counter = self.collective.at_mut(place);
        let before = counter.counts;
        counter.counts.messages += 1;
        counter.changed = true;
        self.note(ChangedTable::Collective, place, before, PostingOrder::MAX);
    }

    /// A message whose stream the two ends do not both know.
    pub fn unknown(&mut self) {
        self.unknown += 1;
    }

    /// A counter is wrong from now on: nothing is sent again any more.
    pub fn miscounted(&mut self) {
        self.is_miscounted = true;
    }

    /// The index of a stream to another process.
    pub fn outgoing(&mut self, stream: MessageStream) -> u32 {
        self.outgoing.place(stream)
    }

    /// The receiver of the stream at an index.
    #[inline]
    pub fn receiver(&self, place: u32) -> u32 {
        self.outgoing.at(place).key.peer
    }

    /// The sender of the stream at an index.
    #[inline]
    pub fn sender(&self, place: u32) -> u32 {
        self.incoming.at(place).key.peer
    }
}
