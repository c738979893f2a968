//! Calls outside parts, counted where nothing but the counts of their stream is concerned: there is no
//! journal then. What is otherwise is not counted here, but as it is inside parts.

use super::{Streams, Ticket};

impl Streams {
    /// Whether the stream of a message is all that it concerns: no journal is kept, and no receive waits
    /// that may take messages of several streams.
    #[inline(always)]
    fn is_quick(&self) -> bool {
        self.open == 0 && self.waiting.is_empty()
    }

    /// A message of the stream at `place` was sent, and its send completed. `buffered`: that says nothing of
    /// its receiver. Whether it is counted.
    #[inline(always)]
    pub fn sent_quickly(&mut self, place: u32, buffered: bool) -> bool {
        let Some(counter) = self.outgoing.counters.get_mut(place as usize) else { return false };
        if self.open > 0 {
            return false;
        }
        counter.counts.messages += 1;
        if !buffered {
            counter.reach = counter.reach.max(counter.counts.messages);
        }
        counter.changed = true;
        true
    }

    /// A receive is posted that names the stream at `place`. `None`: it is not counted.
    #[inline(always)]
    pub fn posted_quickly(&mut self, place: u32) -> Option<Ticket> {
        let counter = self.incoming.counters.get_mut(place as usize)?;
        let order = self.tickets + 1;
        if self.open > 0 || counter.waiting.push(order).is_err() {
            return None;
        }
        self.tickets = order;
        counter.counts.other += 1;
        counter.changed = true;
        Some(Ticket { order, place })
    }

    /// A receive that names its stream has got a message. Whether it is counted.
    #[inline(always)]
    pub fn received_quickly(&mut self, ticket: Ticket) -> bool {
        if !self.is_quick() {
            return false;
        }
        let Some(counter) = self.incoming.counters.get_mut(ticket.place as usize) else {
            return false;
        };
        if !counter.waiting.is_first(ticket.order) {
            return false;
        }
        counter.waiting.pop();
        counter.last = counter.last.max(ticket.order);
        counter.counts.messages += 1;
        counter.reach = counter.reach.max(counter.counts.messages);
        counter.changed = true;
        true
    }

    /// A receive that was posted in the same call and names the stream at `place` has got a message. Whether
    /// it is counted.
    #[inline(always)]
    pub fn received_at_once_quickly(&mut self, place: u32) -> bool {
        if !self.is_quick() {
            return false;
        }
        let Some(counter) = self.incoming.counters.get_mut(place as usize) else { return false };
        if !counter.waiting.is_empty() {
            return false;
        }
        self.tickets += 1;
        counter.last = self.tickets;
        counter.counts.messages += 1;
        counter.counts.other += 1;
        counter.reach = counter.reach.max(counter.counts.messages);
        counter.changed = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resend::streams::{Link, Pattern, Stream};

    /// What a process has under way, counted the quick way where that can be, and the long way.
    #[derive(Default)]
    struct Both {
        quick: Streams,
        long: Streams,
        sends: Vec<Link>,
        receives: Vec<(Ticket, Stream)>,
    }

    impl Both {
        fn send(&mut self, stream: Stream, buffered: bool) {
            let place = self.quick.outgoing(stream);
            if !self.quick.sent_quickly(place, buffered) {
                let link = self.quick.sent_at(place, false);
                self.quick.send_done(link, buffered);
            }
            let link = self.long.sent(stream, false);
            self.long.send_done(link, buffered);
        }

        fn post(&mut self, stream: Stream, is_any: bool) {
            let tag = (!is_any).then_some(stream.tag);
            let pattern = Pattern { comm: stream.comm, peer: Some(stream.peer), tag };
            let place = self.quick.incoming(stream);
            self.long.incoming(stream);
            let quick = if is_any { None } else { self.quick.posted_quickly(place) };
            let ticket = quick.unwrap_or_else(|| self.quick.posted(pattern));
            self.long.posted(pattern);
            self.receives.push((ticket, stream));
        }

        fn receive(&mut self, nth: usize) {
            if self.receives.is_empty() {
                return;
            }
            let (ticket, stream) = self.receives.remove(nth % self.receives.len());
            if !self.quick.received_quickly(ticket) {
                self.quick.received(ticket, Some(stream), false);
            }
            self.long.received(ticket, Some(stream), false);
        }

        fn receive_at_once(&mut self, stream: Stream) {
            let place = self.quick.incoming(stream);
            if !self.quick.received_at_once_quickly(place) {
                self.quick.received_at_once_at(place, false);
            }
            self.long.received_at_once(stream, false);
        }
    }

    proptest! {
        /// Catches counts, orders and reaches that are others than the long way has them.
        #[test]
        fn the_quick_way_counts_as_the_long_one(
            steps in prop::collection::vec((0..9, 0..3i32, 0..8usize), 0..80),
        ) {
            let mut both = Both::default();
            let mut marks = Vec::new();
            for (what, tag, nth) in steps {
                let stream = Stream { comm: 7, peer: 1, tag };
                match what {
                    0 => both.send(stream, nth == 0),
                    1 => {
                        both.sends.push(both.quick.sent(stream, false));
                        both.long.sent(stream, false);
                    }
                    2 if !both.sends.is_empty() => {
                        let link = both.sends.remove(nth % both.sends.len());
                        both.quick.send_done(link, false);
                        both.long.send_done(link, false);
                    }
                    3 | 4 => both.post(stream, nth == 0),
                    5 | 6 => both.receive(nth),
                    7 => both.receive_at_once(stream),
                    8 if nth == 0 => marks.push((both.quick.begin(), both.long.begin())),
                    8 => if let Some((quick, long)) = marks.pop() {
                        let reports = (both.quick.end(quick, 64), both.long.end(long, 64));
                        prop_assert_eq!(reports.0, reports.1);
                    }
                    _ => {}
                }
                prop_assert_eq!(format!("{:?}", both.quick), format!("{:?}", both.long));
            }
        }
    }
}
