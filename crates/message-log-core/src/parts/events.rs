//! Calls inside parts: recording an event, or taking the next one of a replay.

use super::{Divergence, OpenPart, Parts, Replay};
use crate::log::{CallOutcome, CallShape, Position};
use crate::memory::NoMemory;

impl Parts {
    /// Whether all open parts are recorded and can be replayed, and one more event fits without
    /// allocating.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        let is_recorded = |open: &OpenPart| matches!(open, OpenPart::Record(_));
        !self.has_lost && self.log.has_room() && self.open.0.iter().all(is_recorded)
    }

    /// Logs the result of a real call.
    ///
    /// # Errors
    /// Out of memory: the parts that need it must not be replayed.
    #[inline(always)]
    pub fn record(&mut self, shape: CallShape, outcome: CallOutcome) -> Result<(), NoMemory> {
        if self.can_repeat && self.log.repeat(&shape, &outcome) {
            return Ok(());
        }
        self.begun = self.begun.max(outcome.began);
        let owners = self.open.0.len() as u32;
        self.can_repeat = false;
        self.log.push(shape, outcome, owners)?;
        self.can_repeat = true;
        Ok(())
    }

    /// Logs a call without a result, if the last event has the same shape and no result either.
    #[inline(always)]
    pub fn record_same(&mut self, shape: CallShape) -> bool {
        self.can_repeat && self.log.repeat_nothing(shape)
    }

    /// Logs the result of a real call, which differs from the last one, and for which there [is
    /// room](Self::has_room). Returns whether it could.
    #[inline(always)]
    pub fn record_in_room(&mut self, shape: CallShape, outcome: CallOutcome) -> bool {
        let owners = self.open.0.len() as u32;
        self.begun = self.begun.max(outcome.began);
        self.can_repeat = true;
        self.log.push_in_room(shape, outcome, owners)
    }

    /// Takes the next event of the innermost replay, if it has the same shape.
    ///
    /// # Errors
    /// It has another shape, or is beyond the part's end, or the replay has failed before.
    pub fn next(&mut self, shape: &CallShape) -> Result<Position, Divergence> {
        let Some(Replay { instance: number, cursor, .. }) = self.open.replay() else {
            return Err(Divergence { part: -1, place: 0, logged: None, earlier: None });
        };
        let Some(instance) = self.instances.get(number) else {
            return Err(Divergence { part: -1, place: 0, logged: None, earlier: None });
        };
        let divergence = |logged| Divergence {
            part: instance.id,
            place: cursor.event - instance.begin.event,
            logged,
            earlier: instance.broken.clone(),
        };
        let at_end = instance.end.is_some_and(|end| cursor >= end);
        let event = self.log.get(cursor).filter(|_| !at_end);
        if instance.broken.is_some() || event.is_none_or(|event| !event.shape.is(shape)) {
            return Err(divergence(event.map(|event| event.shape)));
        }
        let began = event.map_or(0, |event| event.outcome.began);
        let after = self.log.after(cursor);
        for open in self.open.0.iter_mut().rev() {
            match open {
                OpenPart::Replay(replay) => {
                    replay.cursor = after;
                    replay.begun = replay.begun.max(began);
                    if !replay.is_step {
                        break;
                    }
                }
                OpenPart::Record(number) => {
                    let instance =
                        self.instances.all.iter().rev().find(|instance| instance.number == *number);
                    // Repetitions of an event count once.
                    if cursor.nth == 0 || instance.map(|instance| instance.begin) == Some(cursor) {
                        let settled = self.unsettled.settled();
                        self.log.own(cursor, instance.and_then(|one| one.given_up(settled)));
                    }
                }
            }
        }
        Ok(cursor)
    }

    /// The innermost replay fails: later calls in it fail too.
    pub fn break_off(&mut self, text: &str) {
        if let Some(replay) = self.open.replay() {
            self.instances.invalidate(replay.instance, text);
        }
    }

    /// Data of the recorded parts could not be logged: none of them can be replayed.
    pub fn fail_recorded(&mut self, text: &str) {
        self.has_lost = true;
        for place in 0..self.open.0.len() {
            // One by one, as there may be no memory for a list.
            let number = self.open.recorded().nth(place);
            if let Some(number) = number {
                self.instances.invalidate(number, text);
            }
        }
    }

    /// Whether a part that is being recorded can still be replayed.
    pub fn can_log(&self) -> bool {
        let is_whole = |number| self.instances.get(number).is_some_and(|one| one.broken.is_none());
        !self.has_lost || self.open.recorded().any(is_whole)
    }
}
