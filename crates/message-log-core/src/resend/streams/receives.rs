//! Receives: their order decides which message each of them gets.

use super::journal::ChangedTable;
use super::stream::{MessageLink, MessageStream, Pattern, PostingOrder};
use super::Streams;

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(super) order: PostingOrder,
    /// The index of its stream, or [`ANY`].
    pub(super) place: u32,
}

impl Ticket {
    /// Whether the message's status must tell the stream.
    #[inline]
    pub fn is_any(self) -> bool {
        self.place == ANY
    }
}

/// The index for a receive that matches several streams.
const ANY: u32 = u32::MAX;

impl Streams {
    /// A receive is posted.
    pub fn posted(&mut self, pattern: Pattern) -> Ticket {
        let Some(stream) = pattern.stream() else { return self.posted_for_any(pattern) };
        let place = self.incoming.place(stream);
        self.posted_at(place)
    }

    /// A receive is posted for the stream at an index.
    #[inline(always)]
    pub fn posted_at(&mut self, place: u32) -> Ticket {
        self.tickets += 1;
        let order = self.tickets;
        let counter = self.incoming.at_mut(place);
        self.is_miscounted |= counter.waiting.push(order).is_err();
        let before = counter.counts;
        counter.counts.other += 1;
        counter.changed = true;
        self.note(ChangedTable::Incoming, place, before, PostingOrder::MAX);
        Ticket { order, place }
    }

    #[cold]
    fn posted_for_any(&mut self, pattern: Pattern) -> Ticket {
        self.tickets += 1;
        if self.waiting.try_reserve(1).is_ok() {
            self.waiting.push_back((self.tickets, pattern));
        } else {
            self.miscounted();
        }
        Ticket { order: self.tickets, place: ANY }
    }

    /// A posted receive has got a message. `again`: its kind of call can receive it again. `stream`: the
    /// message's stream, if the receive does not name it.
    #[inline(always)]
    pub fn received(
        &mut self,
        ticket: Ticket,
        stream: Option<MessageStream>,
        again: bool,
    ) -> Option<MessageLink> {
        let order = ticket.order;
        if !ticket.is_any() {
            let (before_it, was_there) = self.no_longer_waits(ticket);
            return Some(self.arrived(order, ticket.place, before_it, was_there, again));
        }
        let place = self.incoming.place(stream?);
        self.waits_no_more(order);
        Some(self.arrived(order, place, self.waits_before(place, order), false, again))
    }

    /// A blocking receive has got a message. `again`: its kind of call can receive it again.
    #[cfg(test)]
    pub fn received_at_once(&mut self, stream: MessageStream, again: bool) -> MessageLink {
        let place = self.incoming.place(stream);
        self.received_at_once_at(place, again)
    }

    /// A blocking receive has got a message of the stream at an index. `again`: its kind of call can receive it
    /// again.
    #[inline(always)]
    pub fn received_at_once_at(&mut self, place: u32, again: bool) -> MessageLink {
        self.tickets += 1;
        let order = self.tickets;
        self.arrived(order, place, self.waits_before(place, order), false, again)
    }

    /// A receive that matches several streams is complete.
    fn waits_no_more(&mut self, order: PostingOrder) {
        if let Ok(at) = self.waiting.binary_search_by_key(&order, |(order, _)| *order) {
            self.waiting.remove(at);
        }
    }

    /// A message was reserved by a matched probe; only a later receive that names it gets it.
    pub fn matched(&mut self, stream: MessageStream, again: bool) -> MessageLink {
        self.tickets += 1;
        let (order, place) = (self.tickets, self.incoming.place(stream));
        self.incoming.at_mut(place).open += 1;
        self.arrived(order, place, self.waits_before(place, order), true, again)
    }

    /// A message of a matched probe is received. `again`: its kind of call can receive it again.
    pub fn taken(&mut self, link: MessageLink, again: bool) {
        let counter = self.incoming.at_mut(link.stream);
        counter.open = counter.open.saturating_sub(1);
        let before = counter.counts;
        counter.counts.other += 1;
        counter.changed = true;
        // A replay posts its receive here: the number of receives and of earlier messages must agree.
        let is_in_order = before.other == link.number
            && !self.waiting.iter().any(|(_, pattern)| pattern.takes(&counter.key));
        let posted = if again && is_in_order { PostingOrder::MAX } else { 0 };
        self.note(ChangedTable::Incoming, link.stream, before, posted);
    }

    /// How many receives that name a stream were posted before this one and still wait.
    #[inline]
    fn waits_before(&self, place: u32, order: PostingOrder) -> u64 {
        self.incoming.at(place).waiting.before(order)
    }

    /// A receive that names its stream is complete. Returns how many were posted before it and still
    /// wait, and whether it waited.
    #[inline(always)]
    fn no_longer_waits(&mut self, ticket: Ticket) -> (u64, bool) {
        let waiting = &mut self.incoming.at_mut(ticket.place).waiting;
        // Most complete in order.
        if waiting.is_first(ticket.order) {
            waiting.pop();
            return (0, true);
        }
        (waiting.before(ticket.order), waiting.remove(ticket.order))
    }

    /// A message of the stream at `place` has arrived. `before_it`: how many receives that name the
    /// stream were posted before its own and still wait; `counted`: its own is one of them.
    #[inline(always)]
    fn arrived(
        &mut self,
        order: PostingOrder,
        place: u32,
        mut before_it: u64,
        counted: bool,
        again: bool,
    ) -> MessageLink {
        let counter = self.incoming.at_mut(place);
        if !self.waiting.is_empty() {
            let earlier = self.waiting.iter().take_while(|(other, _)| *other < order);
            before_it += earlier.filter(|(_, other)| other.takes(&counter.key)).count() as u64;
        }
        let (before, number) = (counter.counts, counter.counts.messages);
        // The number is uncertain if an earlier receive may get, or has got, an earlier message
        // later.
        let is_doubtful = before_it > 0 || order < counter.last;
        counter.last = counter.last.max(order);
        counter.counts.messages += 1;
        counter.counts.other += u64::from(!counted);
        counter.reach = counter.reach.max(number + before_it + 1);
        counter.changed = true;
        let posted = if is_doubtful || !again { 0 } else { order };
        self.note(ChangedTable::Incoming, place, before, posted);
        MessageLink { stream: place, number }
    }

    /// A posted receive has ended without a message.
    pub fn given_up(&mut self, ticket: Ticket) {
        if ticket.is_any() {
            self.waits_no_more(ticket.order);
            return;
        }
        let (_, was_there) = self.no_longer_waits(ticket);
        if was_there {
            let counter = self.incoming.at_mut(ticket.place);
            let before = counter.counts;
            counter.counts.other = counter.counts.other.saturating_sub(1);
            counter.changed = true;
            self.note(ChangedTable::Incoming, ticket.place, before, PostingOrder::MAX);
        }
    }

    /// The index of a stream from another process.
    pub fn incoming(&mut self, stream: MessageStream) -> u32 {
        self.incoming.place(stream)
    }
}
