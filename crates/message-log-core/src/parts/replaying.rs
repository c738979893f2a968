//! A replay at its next call.

use super::instance::{Instance, Replay};
use crate::log::{CallShape, Log, LogEvent};

/// The innermost replay, and the run that it repeats.
#[derive(Clone, Copy, Debug)]
pub struct Replaying<'a> {
    log: &'a Log,
    instance: &'a Instance,
    replay: Replay,
}

impl<'a> Replaying<'a> {
    /// A replay of this instance.
    pub(super) fn new(log: &'a Log, instance: &'a Instance, replay: Replay) -> Replaying<'a> {
        Replaying { log, instance, replay }
    }

    /// The next event.
    pub fn next(&self) -> Option<&'a LogEvent> {
        let at_end = self.instance.end.is_some_and(|end| self.replay.cursor >= end);
        let event = self.log.get(self.replay.cursor).filter(|_| !at_end)?;
        self.instance.broken.is_none().then_some(event)
    }

    /// The event that a call of this shape would take.
    pub fn peek(&self, shape: &CallShape) -> Option<&'a LogEvent> {
        self.next().filter(|event| event.shape.is(shape))
    }

    /// The id of the part, and the number of its calls before the next one, counting equal polls once.
    pub fn place(&self) -> (i32, u64) {
        (self.instance.id, self.replay.cursor.event - self.instance.begin.event)
    }

    /// The call in the part that began the operation with this number: how many calls precede it, and its
    /// shape.
    pub fn beginner(&self, began: u64) -> Option<(u64, CallShape)> {
        let begin = self.instance.begin;
        let mut events = self.log.range(begin, self.replay.cursor);
        let event = events.find(|event| event.outcome.began == began)?;
        Some((event.number - begin.event, event.shape))
    }

    /// How many calls right before the next one match `is_such`.
    pub fn run_before(&self, is_such: impl Fn(&CallShape) -> bool) -> u64 {
        let events = self.log.range(self.instance.begin, self.replay.cursor);
        // The next event may be in the range, too.
        let events = events.take_while(|event| event.number < self.replay.cursor.event);
        events.fold(0, |run, event| if is_such(&event.shape) { run + 1 } else { 0 })
    }
}
