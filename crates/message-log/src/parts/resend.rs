//! What parts keep for messages that are sent again.

use std::rc::Rc;

use super::{Instance, Open, Parts, RESEND};
use crate::log::{Payload, Position};
use crate::resend::closed::Closed;
use crate::resend::streams::{Link, Mark};

impl Parts {
    /// The innermost open part, which has begun, has this mark among the messages of the process.
    pub fn mark(&mut self, mark: Mark) {
        if let Some(Open::Record(number)) = self.open.last().copied() {
            if let Some(instance) = self.instance_mut(number) {
                instance.mark = Some(mark);
            }
        }
    }

    /// The mark of the innermost open part, with the number of its instance.
    pub fn marked(&self) -> Option<(u64, Mark)> {
        let Some(Open::Record(number)) = self.open.last() else { return None };
        Some((*number, self.instance(*number)?.mark?))
    }

    /// A replay of the instance with this number will send and receive these messages again. They are
    /// kept until that is [settled](Self::settle).
    pub fn close(&mut self, number: u64, closed: &Rc<Closed>) {
        self.keep_unsettled(number, Some(closed));
        if let Some(instance) = self.instance_mut(number) {
            instance.closed = Some(Rc::clone(closed));
        }
    }

    /// The instance with this number keeps the messages that it gets again, if need be.
    pub(super) fn keep_unsettled(&mut self, number: u64, closed: Option<&Closed>) {
        let kept = closed.filter(|closed| closed.number >= self.settled);
        self.unsettled.extend(kept.map(|closed| (closed.number, number)));
    }

    /// All processes know which messages are sent again, for so many exchanges: they are kept no
    /// more. How many bytes nobody needs now.
    pub fn settle(&mut self, settled: u64) -> u64 {
        if settled <= self.settled {
            return 0;
        }
        self.settled = settled;
        let later = self.unsettled.split_off(&(settled, 0));
        let mut freed = 0;
        for (_, number) in std::mem::replace(&mut self.unsettled, later) {
            let Some(instance) = self.instance(number) else { continue };
            let (begin, end) = (instance.begin, instance.end);
            let Some(closed) = instance.closed.clone() else { continue };
            let end = end.unwrap_or_else(|| self.reached(number));
            freed += self.log.give_up(begin, end, &closed);
        }
        freed
    }

    /// How far the recording of an instance is that is open.
    fn reached(&self, number: u64) -> Position {
        let around = self.open.iter().take_while(|open| open.number() != number);
        let cursor = |open: &Open| match open {
            Open::Replay(replay) => Some(replay.cursor),
            Open::Record(_) => None,
        };
        around.filter_map(cursor).last().unwrap_or(self.log.end())
    }

    /// These are the parts of another process, for which so many exchanges were settled, behind so many
    /// borders.
    pub fn resume(&mut self, settled: u64, boundaries: u64) {
        (self.settled, self.boundaries) = (settled, boundaries);
        let closed = |one: &Instance| Some((one.closed.as_deref()?.number, one.number));
        let kept = self.instances.iter().filter_map(closed);
        self.unsettled = kept.filter(|(exchange, _)| *exchange >= settled).collect();
    }

    /// What is not settled when all processes know what is, as they go on, is sent again by nobody: it
    /// is read from the log.
    pub fn keep_the_rest(&mut self) {
        for (_, number) in std::mem::take(&mut self.unsettled) {
            if let Some(instance) = self.instance_mut(number) {
                instance.closed = None;
            }
        }
        let settled = self.settled;
        for (_, _, closed) in &mut self.replaced {
            closed.take_if(|closed| closed.number >= settled);
        }
    }

    /// No run can be replayed whose messages are sent again.
    pub fn spoil_closed(&mut self, text: &str) {
        for instance in self.instances.iter_mut().filter(|instance| instance.closed.is_some()) {
            instance.broken.get_or_insert_with(|| text.to_owned());
        }
    }

    /// Whether a replay of this part would send messages again.
    pub fn is_closed(&self, id: i32) -> bool {
        self.chosen(id).0.is_some_and(|instance| instance.closed.is_some())
    }

    /// The flags of the run that a replay of this part would be of; 0 if there is none.
    pub fn flags_of_replay(&self, id: i32) -> i32 {
        self.chosen(id).0.map_or(0, |instance| instance.flags)
    }

    /// Whether an open replay sends messages again.
    pub fn replays_closed(&self) -> bool {
        let is_closed = |number| self.instance(number).is_some_and(|one| one.closed.is_some());
        self.open.iter().any(|open| matches!(open, Open::Replay(one) if is_closed(one.instance)))
    }

    /// How many beginnings and ends of parts whose messages may be sent again, and of their replays,
    /// there have been.
    pub fn boundaries(&self) -> u64 {
        self.boundaries
    }

    /// A part with these flags, or its replay, has begun or ended.
    pub(super) fn pass(&mut self, flags: i32) {
        self.boundaries += u64::from(flags & RESEND != 0);
    }

    /// The messages that are sent and received again now: those of the outermost replay that goes on
    /// with what is called, of those that all processes have. A message may begin in a part within it
    /// and end behind that.
    pub fn closed(&self) -> Option<&Closed> {
        let mut common = None;
        for open in self.open.iter().rev() {
            let Open::Replay(replay) = open else { continue };
            let instance = self.instance(replay.instance)?;
            if instance.flags & RESEND != 0 || instance.closed.is_some() {
                common = Some(instance);
            }
            if !replay.is_step {
                break;
            }
        }
        common?.closed.as_deref()
    }

    /// Whether some part needs bytes that are not there: see [`Log::lacks`](crate::log::Log::lacks).
    pub fn lacks(&self, at: Position, nth: usize) -> bool {
        self.log.lacks(at, nth)
    }

    /// The bytes that are lacking are these.
    pub fn keep(&mut self, at: Position, nth: usize, payload: Payload) {
        self.log.keep(at, nth, payload);
    }

    /// The event with this number began what was found to be this message, as the `nth` of its
    /// requests.
    pub fn link(&mut self, event: u64, nth: usize, link: Link) {
        self.log.link(event, nth, link);
    }
}
