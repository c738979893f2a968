//! The log: one sequence of events of this process, with the number of parts that need each.
//!
//! A part is a range of the sequence. Parts that are recorded at the same time share events; nothing is
//! copied. An event counts its owners, the parts that need it. Without owners it drops its payload, and
//! is removed as soon as it is the first or the last of the sequence.

mod arena;
#[cfg(test)]
mod arena_tests;
mod event;
mod limit;
mod mapping;
mod payload;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use arena::Arena;
pub use event::{Call, CallOutcome, CallShape, Item, Items, Links, LogEvent};
pub use limit::{available, Limit};
pub use payload::{ChunkBytes, Payload, PayloadChunk};

use crate::memory::NoMemory;
use crate::resend::closed::ClosedMessages;
use crate::resend::streams::MessageLink;
use crate::status::StatusBytes;
use crate::target::CallTarget;

/// A position between two results of the sequence: before the `nth` repetition of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the event.
    pub event: u64,
    /// The number of its repetitions before the position.
    pub nth: u32,
}

/// The size of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Current bytes of payloads.
    pub bytes: u64,
    /// The maximum of these bytes.
    pub peak: u64,
}

/// The sequence.
#[derive(Debug, Default)]
pub struct Log {
    /// By number. A part's range has no gaps; events between parts may be removed.
    pub(crate) events: VecDeque<LogEvent>,
    /// The number of the next event; none is used twice.
    pub(crate) next: u64,
    pub(crate) figures: Figures,
}

impl Log {
    /// How much is logged.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The position after the last event.
    pub fn end(&self) -> Position {
        Position { event: self.next, nth: 0 }
    }

    /// The index of the event with this number.
    fn index(&self, number: u64) -> Option<usize> {
        let offset = usize::try_from(number.checked_sub(self.events.front()?.number)?).ok()?;
        // If no events before it were removed.
        if self.events.get(offset).is_some_and(|event| event.number == number) {
            return Some(offset);
        }
        self.events.binary_search_by_key(&number, |event| event.number).ok()
    }

    /// The event after a position.
    pub fn get(&self, at: Position) -> Option<&LogEvent> {
        self.index(at.event).map(|index| &self.events[index])
    }

    /// The events between two positions.
    pub fn range(&self, begin: Position, end: Position) -> impl Iterator<Item = &LogEvent> {
        let first = self.events.partition_point(|event| event.number < begin.event);
        self.events.range(first..).take_while(move |event| event.number <= end.event)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut LogEvent> {
        self.index(number).map(|index| &mut self.events[index])
    }

    /// Adds an event that `owners` parts need.
    ///
    /// # Errors
    /// Out of memory. The event's number is used, and the event is missing.
    #[inline(always)]
    pub fn push(
        &mut self,
        shape: CallShape,
        outcome: CallOutcome,
        owners: u32,
    ) -> Result<(), NoMemory> {
        let number = self.next;
        self.next += 1;
        self.events.try_reserve(1)?;
        self.figures.bytes += outcome.bytes();
        self.figures.peak = self.figures.peak.max(self.figures.bytes);
        self.events.push_back(LogEvent { number, shape, outcome, owners, repeats: 1 });
        Ok(())
    }

    /// Whether one more event fits without allocating.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.events.len() < self.events.capacity()
    }

    /// Adds an event that `owners` parts need, and for which there [is room](Self::has_room). Returns
    /// whether it could.
    #[inline(always)]
    pub fn push_in_room(&mut self, shape: CallShape, outcome: CallOutcome, owners: u32) -> bool {
        if !self.has_room() {
            // Dropping it needs a copy on the stack, so that it could not be built in place.
            std::mem::forget(outcome);
            return false;
        }
        let number = self.next;
        self.next += 1;
        self.figures.bytes += outcome.bytes();
        self.figures.peak = self.figures.peak.max(self.figures.bytes);
        self.events.push_back(LogEvent { number, shape, outcome, owners, repeats: 1 });
        true
    }

    /// Reserves room for this many events.
    ///
    /// # Errors
    /// Out of memory.
    pub fn reserve(&mut self, events: usize) -> Result<(), NoMemory> {
        Ok(self.events.try_reserve(events)?)
    }

    /// Counts one more repetition of the last event instead of adding an equal one. Returns whether it
    /// could: only outcomes without requests and payloads can be equal. The caller ensures that no part
    /// has begun or ended since.
    #[inline(always)]
    pub fn repeat(&mut self, shape: &CallShape, outcome: &CallOutcome) -> bool {
        match self.events.back_mut() {
            // Compared in the order in which most differ.
            Some(last)
                if last.outcome.is_same_nothing(outcome)
                    && last.shape == *shape
                    && last.repeats < u32::MAX =>
            {
                last.repeats += 1;
                true
            }
            _ => false,
        }
    }

    /// [`repeat`](Self::repeat), for a successful call without a result.
    #[inline(always)]
    pub fn repeat_nothing(&mut self, shape: CallShape) -> bool {
        match self.events.back_mut() {
            Some(last)
                if last.outcome.is_nothing()
                    && (last.outcome.code, last.outcome.number, last.outcome.index)
                        == (0, 0, 0)
                    && last.shape == shape
                    && last.repeats < u32::MAX =>
            {
                last.repeats += 1;
                true
            }
            _ => false,
        }
    }

    /// The position after the result at `at`.
    pub fn after(&self, at: Position) -> Position {
        match self.get(at) {
            Some(event) if at.nth + 1 < event.repeats => {
                Position { event: at.event, nth: at.nth + 1 }
            }
            _ => Position { event: at.event + 1, nth: 0 },
        }
    }

    /// Sets the message of the `nth` request that the event with this number began.
    pub fn link(&mut self, event: u64, nth: usize, link: MessageLink) {
        if let Some(event) = self.get_mut(event) {
            event.outcome.links.set(nth, link);
        }
    }

    /// Records that the event with this number received a message, which the call with number `began` probed
    /// for.
    pub fn takes(&mut self, event: u64, began: u64) {
        let Some(event) = self.get_mut(event) else { return };
        match &mut event.outcome.items {
            Items::One(item) => item.began = began,
            items => {
                let item =
                    Item::new(StatusBytes::default(), CallTarget::Nothing, Payload::default());
                *items = Items::One(Item { began, ..item });
            }
        }
    }

    /// Replaces the handle of the communicator that the event with this number made, there and in all later
    /// events.
    pub fn rename(&mut self, made: u64, from: usize, to: usize) {
        let Some(first) = self.index(made) else { return };
        self.events[first].outcome.handle = to;
        for event in self.events.range_mut(first..) {
            if event.shape.comm == from {
                event.shape.comm = to;
            }
        }
    }

    /// Adds an owner to the event after a position; it does not need the messages that it receives again.
    pub fn own(&mut self, at: Position, closed: Option<&ClosedMessages>) {
        let Some(event) = self.get_mut(at.event) else { return };
        event.owners += 1;
        for item in event.outcome.items.as_mut_slice() {
            let is_closed = closed.is_some_and(|closed| closed.received(item.link).is_some());
            item.given_up += u32::from(is_closed);
        }
    }

    /// The part with this range no longer needs the messages that it receives again. Returns the freed
    /// bytes.
    pub fn give_up(&mut self, begin: Position, end: Position, closed: &ClosedMessages) -> u64 {
        self.each(begin, end, |event| {
            for item in event.outcome.items.as_mut_slice() {
                item.given_up += u32::from(closed.received(item.link).is_some());
            }
        })
    }

    /// The part with this range, which received some messages again, no longer needs its events.
    pub fn disown(&mut self, begin: Position, end: Position, closed: Option<&ClosedMessages>) {
        self.each(begin, end, |event| {
            event.owners = event.owners.saturating_sub(1);
            for item in event.outcome.items.as_mut_slice() {
                let is_closed = closed.is_some_and(|closed| closed.received(item.link).is_some());
                item.given_up = item.given_up.saturating_sub(u32::from(is_closed));
            }
        });
    }

    /// Changes events, and frees what is no longer needed. Returns the freed bytes.
    fn each(&mut self, begin: Position, end: Position, change: impl Fn(&mut LogEvent)) -> u64 {
        // Without any result of the first or the last event, the part does not own it.
        let last = if end.nth > 0 && begin < end { end.event + 1 } else { end.event };
        let mut freed = 0;
        let first = self.events.partition_point(|event| event.number < begin.event);
        for event in self.events.range_mut(first..) {
            if event.number >= last {
                break;
            }
            change(event);
            if event.owners == 0 {
                if !matches!(event.outcome.items, Items::None) {
                    freed += event.outcome.bytes();
                    event.outcome.items = Items::None;
                }
                continue;
            }
            let owners = event.owners;
            for item in event.outcome.items.as_mut_slice() {
                if item.is_kept && item.given_up == owners {
                    freed += item.payload.len() as u64;
                    item.payload = Payload::default();
                    item.is_kept = false;
                }
            }
        }
        self.figures.bytes -= freed;
        freed
    }

    /// Whether a part needs missing bytes of the event after a position, in its `nth` item.
    pub fn lacks(&self, at: Position, nth: usize) -> bool {
        self.get(at).is_some_and(|event| {
            let item = event.outcome.items.as_slice().get(nth);
            item.is_some_and(|item| !item.is_kept && item.given_up < event.owners)
        })
    }

    /// Adds the missing bytes.
    pub fn keep(&mut self, at: Position, nth: usize, payload: Payload) {
        let len = payload.len() as u64;
        let event = self.get_mut(at.event);
        let item = event.and_then(|event| event.outcome.items.as_mut_slice().get_mut(nth));
        if let Some(item) = item.filter(|item| !item.is_kept) {
            item.payload = payload;
            item.is_kept = true;
            self.figures.bytes += len;
            self.figures.peak = self.figures.peak.max(self.figures.bytes);
        }
    }

    /// Removes events without owners at both ends of the sequence.
    pub fn trim(&mut self) {
        let is_dead = |event: &&LogEvent| event.owners == 0;
        let last = self.events.iter().rev().take_while(is_dead).count();
        // Dropped in place: moving each event out first would copy it.
        self.events.truncate(self.events.len() - last);
        let first = self.events.iter().take_while(is_dead).count();
        self.events.drain(..first);
    }
}
