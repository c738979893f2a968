//! Calls inside parts: recording an event, or taking the next one of a replay.

use super::{Divergence, Open, Parts, Replay};
use crate::log::{Event, Outcome, Position, Shape};
use crate::memory::NoMemory;

impl Parts {
    /// Whether all open parts are recorded and can be replayed, and one more event fits without
    /// allocating.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        let is_recorded = |open: &Open| matches!(open, Open::Record(_));
        !self.has_lost && self.log.has_room() && self.open.iter().all(is_recorded)
    }

    /// Logs the result of a real call.
    ///
    /// # Errors
    /// Out of memory: the parts that need it must not be replayed.
    #[inline(always)]
    pub fn record(&mut self, shape: Shape, outcome: Outcome) -> Result<(), NoMemory> {
        if self.can_repeat && self.log.repeat(&shape, &outcome) {
            return Ok(());
        }
        self.begun = self.begun.max(outcome.began);
        let owners = self.open.len() as u32;
        self.can_repeat = false;
        self.log.push(shape, outcome, owners)?;
        self.can_repeat = true;
        Ok(())
    }

    /// Logs a call without a result, if the last event has the same shape and no result either.
    #[inline(always)]
    pub fn record_same(&mut self, shape: Shape) -> bool {
        self.can_repeat && self.log.repeat_nothing(shape)
    }

    /// Logs the result of a real call, which differs from the last one, and for which there [is
    /// room](Self::has_room). Returns whether it could.
    #[inline(always)]
    pub fn record_in_room(&mut self, shape: Shape, outcome: Outcome) -> bool {
        let owners = self.open.len() as u32;
        self.begun = self.begun.max(outcome.began);
        self.can_repeat = true;
        self.log.push_in_room(shape, outcome, owners)
    }

    /// Reserves room for this many events.
    ///
    /// # Errors
    /// Out of memory.
    pub fn reserve(&mut self, events: usize) -> Result<(), NoMemory> {
        self.log.reserve(events)
    }

    /// Takes the next event of the innermost replay, if it has the same shape.
    ///
    /// # Errors
    /// It has another shape, or is beyond the part's end, or the replay has failed before.
    pub fn next(&mut self, shape: &Shape) -> Result<Position, Divergence> {
        let Some(Replay { instance: number, cursor, .. }) = self.replay() else {
            return Err(Divergence { part: -1, place: 0, logged: None, earlier: None });
        };
        let Some(instance) = self.instance(number) else {
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
        for open in self.open.iter_mut().rev() {
            match open {
                Open::Replay(replay) => {
                    replay.cursor = after;
                    replay.begun = replay.begun.max(began);
                    if !replay.is_step {
                        break;
                    }
                }
                Open::Record(number) => {
                    let instance =
                        self.instances.iter().rev().find(|instance| instance.number == *number);
                    // Repetitions of an event count once.
                    if cursor.nth == 0 || instance.map(|instance| instance.begin) == Some(cursor) {
                        let settled = self.settled;
                        self.log.own(cursor, instance.and_then(|one| one.given_up(settled)));
                    }
                }
            }
        }
        Ok(cursor)
    }

    /// The event that a call of this shape would take from the innermost replay.
    pub fn peek(&self, shape: &Shape) -> Option<&Event> {
        self.peek_any().filter(|event| event.shape.is(shape))
    }

    /// The next event of the innermost replay.
    pub fn peek_any(&self) -> Option<&Event> {
        let replay = self.replay()?;
        let instance = self.instance(replay.instance)?;
        let at_end = instance.end.is_some_and(|end| replay.cursor >= end);
        let event = self.log.get(replay.cursor).filter(|_| !at_end)?;
        instance.broken.is_none().then_some(event)
    }

    /// The id of the part of the innermost replay, and the number of its calls before the next one,
    /// counting equal polls once.
    pub fn replay_at(&self) -> Option<(i32, u64)> {
        let replay = self.replay()?;
        let instance = self.instance(replay.instance)?;
        Some((instance.id, replay.cursor.event - instance.begin.event))
    }

    /// The call in the part of the innermost replay that began the operation with this number: how many
    /// calls precede it, and its shape.
    pub fn beginner(&self, began: u64) -> Option<(u64, Shape)> {
        let replay = self.replay()?;
        let begin = self.instance(replay.instance)?.begin;
        let mut events = self.log.range(begin, replay.cursor);
        let event = events.find(|event| event.outcome.began == began)?;
        Some((event.number - begin.event, event.shape))
    }

    /// How many calls right before the next one of the innermost replay match `is_such`.
    pub fn run_before(&self, is_such: impl Fn(&Shape) -> bool) -> u64 {
        let Some(replay) = self.replay() else { return 0 };
        let Some(instance) = self.instance(replay.instance) else { return 0 };
        let events = self.log.range(instance.begin, replay.cursor);
        // The next event may be in the range, too.
        let events = events.take_while(|event| event.number < replay.cursor.event);
        events.fold(0, |run, event| if is_such(&event.shape) { run + 1 } else { 0 })
    }

    /// Records that the event with this number received a message, which the call with number `began` probed
    /// for.
    pub fn takes(&mut self, event: u64, began: u64) {
        self.log.takes(event, began);
    }

    /// The event at a position that [`next`](Self::next) returned.
    pub fn event(&self, at: Position) -> Option<&Event> {
        self.log.get(at)
    }

    /// The innermost replay fails: later calls in it fail too.
    pub fn break_off(&mut self, text: &str) {
        if let Some(replay) = self.replay() {
            self.invalidate(replay.instance, text);
        }
    }

    /// Data of the recorded parts could not be logged: none of them can be replayed.
    pub fn fail_recorded(&mut self, text: &str) {
        self.has_lost = true;
        for place in 0..self.open.len() {
            // One by one, as there may be no memory for a list.
            let number = self.recorded().nth(place);
            if let Some(number) = number {
                self.invalidate(number, text);
            }
        }
    }

    /// The instance with this number cannot be replayed.
    pub fn invalidate(&mut self, number: u64, text: &str) {
        if let Some(instance) = self.instance_mut(number) {
            instance.broken.get_or_insert_with(|| text.to_owned());
        }
    }

    /// Whether a part that is being recorded can still be replayed.
    pub fn can_log(&self) -> bool {
        let is_whole = |number| self.instance(number).is_some_and(|one| one.broken.is_none());
        !self.has_lost || self.recorded().any(is_whole)
    }

    /// The instances that include the current call.
    fn recorded(&self) -> impl Iterator<Item = u64> + '_ {
        let goes_on = |open: &&Open| !matches!(open, Open::Replay(replay) if !replay.is_step);
        self.open.iter().rev().take_while(goes_on).filter_map(|open| match open {
            Open::Record(number) => Some(*number),
            Open::Replay(_) => None,
        })
    }
}
