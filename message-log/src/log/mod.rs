//! The log: one sequence of events of this process, and how many parts need each.
//!
//! A part is a range of the sequence. Parts that were recorded at once share their events, and
//! nothing is copied. An event counts its owners, the parts that need it; without one it gives up
//! its payload, and is dropped as soon as it is the first or the last of the sequence.

mod arena;
mod event;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use arena::{Arena, Payload};
pub use event::{Call, Event, Item, Items, Outcome, Shape};

/// A place between two results of the sequence: before the `nth` repetition of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the event.
    pub event: u64,
    /// Of its repetitions, those that lie before.
    pub nth: u32,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes of payload now.
    pub bytes: u64,
    /// The most bytes there have been at once.
    pub peak: u64,
}

/// The sequence.
#[derive(Debug, Default)]
pub struct Log {
    /// By number. The range of a part that is left has no gap; events between parts may be gone.
    events: VecDeque<Event>,
    /// The number of the next event: none is used twice.
    next: u64,
    figures: Figures,
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The place behind the last event.
    pub fn end(&self) -> Position {
        Position { event: self.next, nth: 0 }
    }

    /// Where the event with a number is.
    fn index(&self, number: u64) -> Option<usize> {
        let offset = usize::try_from(number.checked_sub(self.events.front()?.number)?).ok()?;
        // Without a gap before it.
        if self.events.get(offset).is_some_and(|event| event.number == number) {
            return Some(offset);
        }
        self.events.binary_search_by_key(&number, |event| event.number).ok()
    }

    /// The event behind a place.
    pub fn get(&self, at: Position) -> Option<&Event> {
        self.index(at.event).map(|index| &self.events[index])
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Event> {
        self.index(number).map(|index| &mut self.events[index])
    }

    /// Adds an event that `owners` parts need.
    pub fn push(&mut self, shape: Shape, outcome: Outcome, owners: u32) {
        self.figures.bytes += outcome.bytes();
        self.figures.peak = self.figures.peak.max(self.figures.bytes);
        self.events.push_back(Event { number: self.next, shape, outcome, owners, repeats: 1 });
        self.next += 1;
    }

    /// Counts one more of the last event instead of adding an equal one. Whether it could: only
    /// results without a request and without a payload are equal. The caller sees to it that no
    /// part has begun or ended since.
    pub fn repeat(&mut self, shape: &Shape, outcome: &Outcome) -> bool {
        match self.events.back_mut() {
            Some(last)
                if last.shape == *shape
                    && last.outcome.is_same_nothing(outcome)
                    && last.repeats < u32::MAX =>
            {
                last.repeats += 1;
                true
            }
            _ => false,
        }
    }

    /// The place after the one result behind `at`.
    pub fn after(&self, at: Position) -> Position {
        match self.get(at) {
            Some(event) if at.nth + 1 < event.repeats => {
                Position { event: at.event, nth: at.nth + 1 }
            }
            _ => Position { event: at.event + 1, nth: 0 },
        }
    }

    /// One more part needs the event behind a place.
    pub fn own(&mut self, at: Position) {
        if let Some(event) = self.get_mut(at.event) {
            event.owners += 1;
        }
    }

    /// A part with this range does not need its events any more.
    pub fn disown(&mut self, begin: Position, end: Position) {
        // Without a result of the first or the last event it has not come to own that.
        let last = if end.nth > 0 && begin < end { end.event + 1 } else { end.event };
        for number in begin.event..last {
            let Some(event) = self.get_mut(number) else { continue };
            event.owners = event.owners.saturating_sub(1);
            if event.owners == 0 {
                let freed = event.outcome.bytes();
                event.outcome.items = Items::None;
                self.figures.bytes -= freed;
            }
        }
    }

    /// Drops events that nobody needs at both ends of the sequence.
    pub fn trim(&mut self) {
        let dead = |event: Option<&Event>| event.is_some_and(|event| event.owners == 0);
        while dead(self.events.back()) {
            self.events.pop_back();
        }
        while dead(self.events.front()) {
            self.events.pop_front();
        }
    }
}
