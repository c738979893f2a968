//! What this process has sent and received, counted for each stream of messages.
//!
//! Messages from one process to another with one tag on one communicator do not overtake each
//! other: the `n`th sent is the `n`th for which a receive was posted. So both ends know a message by
//! its number, and never have to ask.
//!
//! While a part is open whose messages may be sent again, a journal has the counts before each
//! change, so that its end knows those at its beginning. Counts are of the whole job: what is under
//! way when a part begins makes the difference. What there is no memory to count makes the counts
//! wrong from there on: nothing is sent again any more.
//!
//! | file | owns |
//! | --- | --- |
//! | `stream` | a stream, one message of it, and which messages a receive takes |
//! | `counters` | the counts, found by stream |
//! | `receives` | receives and their order |
//! | `waiting` | those that have received nothing yet |
//! | `journal` | changes since a part began, and what its end tells the others |

mod counters;
mod journal;
mod receives;
mod stream;
mod waiting;

use std::collections::VecDeque;

use counters::{Collective, Side};
use journal::{Change, Table};

pub use journal::Mark;
pub use receives::Ticket;
pub use stream::{Link, Pattern, Stream};

/// The order in which receives were posted.
type Order = u64;

/// All streams of this process.
#[derive(Debug, Default)]
pub struct Streams {
    outgoing: Side<Stream>,
    incoming: Side<Stream>,
    collective: Side<Collective>,
    tickets: Order,
    /// Receives that were posted for one of several streams and have received nothing yet, in order.
    waiting: VecDeque<(Order, Pattern)>,
    journal: Vec<Change>,
    open: u32,
    begun: u64,
    reports: u64,
    /// Messages of which it is not known which stream they are of.
    unknown: u64,
    is_miscounted: bool,
}

impl Streams {
    /// A message is sent. `resending`: it can be sent again, as far as the kind of call goes.
    pub fn sent(&mut self, stream: Stream, again: bool) -> Link {
        let place = self.outgoing.place(stream);
        self.sent_at(place, again)
    }

    /// As [`sent`](Self::sent), of the stream at a place.
    #[inline(always)]
    pub fn sent_at(&mut self, place: u32, again: bool) -> Link {
        let counter = self.outgoing.at_mut(place);
        let before = counter.counts;
        counter.counts.messages += 1;
        counter.open += 1;
        counter.changed = true;
        let posted = if again { Order::MAX } else { 0 };
        self.note(Table::Outgoing, place, before, posted);
        Link { stream: place, number: before.messages }
    }

    /// The send of a message is completed. `buffered`: that says nothing of its receiver.
    #[inline(always)]
    pub fn send_done(&mut self, link: Link, buffered: bool) {
        let place = link.stream;
        let counter = self.outgoing.at_mut(place);
        counter.open = counter.open.saturating_sub(1);
        if !buffered {
            counter.reach = counter.reach.max(link.number + 1);
            counter.changed = true;
        }
        let before = counter.counts;
        self.note(Table::Outgoing, place, before, Order::MAX);
    }

    /// The request of a message that is sent is given up: nobody hears when it is completed, and so
    /// nobody waits for it. The message is not sent again.
    pub fn send_given_up(&mut self, link: Link) {
        let counter = self.outgoing.at_mut(link.stream);
        counter.open = counter.open.saturating_sub(1);
        let before = counter.counts;
        self.note(Table::Outgoing, link.stream, before, 0);
    }

    /// A collective call on a communicator of so many processes begins.
    pub fn collective_begun(&mut self, comm: u64, size: u32) {
        let place = self.collective.place(Collective { comm, size });
        let counter = self.collective.at_mut(place);
        let before = counter.counts;
        counter.counts.other += 1;
        counter.changed = true;
        self.note(Table::Collective, place, before, Order::MAX);
    }

    /// A collective call is completed.
    pub fn collective_done(&mut self, comm: u64, size: u32) {
        let place = self.collective.place(Collective { comm, size });
        let counter = self.collective.at_mut(place);
        let before = counter.counts;
        counter.counts.messages += 1;
        counter.changed = true;
        self.note(Table::Collective, place, before, Order::MAX);
    }

    /// Something was sent or received that belongs to no stream that both ends know.
    pub fn unknown(&mut self) {
        self.unknown += 1;
    }

    /// A count is wrong from here on: nothing is sent again any more.
    pub fn miscounted(&mut self) {
        self.is_miscounted = true;
    }

    /// The place of a stream to another process.
    pub fn outgoing(&mut self, stream: Stream) -> u32 {
        self.outgoing.place(stream)
    }

    /// The process that the stream at a place goes to.
    #[inline]
    pub fn receiver(&self, place: u32) -> u32 {
        self.outgoing.at(place).key.peer
    }

    /// The process that the stream at a place comes from.
    #[inline]
    pub fn sender(&self, place: u32) -> u32 {
        self.incoming.at(place).key.peer
    }
}
