//! The log of messages that are sent again.

use std::rc::Rc;

use super::{Instance, Open, Parts, RESEND};
use crate::log::{Payload, Position};
use crate::resend::closed::Closed;
use crate::resend::streams::{Link, Mark};

impl Parts {
    /// Sets the mark of the innermost open part, which has just begun, among the process's messages.
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

    /// A replay of this instance will send and receive these messages again. They are logged until that
    /// is [settled](Self::drop_settled).
    pub fn close(&mut self, number: u64, closed: &Rc<Closed>) {
        self.keep_unsettled(number, Some(closed));
        if let Some(instance) = self.instance_mut(number) {
            instance.closed = Some(Rc::clone(closed));
        }
    }

    /// This instance logs the messages that it receives again, if necessary.
    pub(super) fn keep_unsettled(&mut self, number: u64, closed: Option<&Closed>) {
        let kept = closed.filter(|closed| closed.number >= self.settled);
        self.unsettled.extend(kept.map(|closed| (closed.number, number)));
    }

    /// All processes know the messages that are sent again, for this many exchanges: they are no longer
    /// logged. Returns how many bytes are freed.
    pub fn drop_settled(&mut self, settled: u64) -> u64 {
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

    /// How far an open instance is recorded.
    fn reached(&self, number: u64) -> Position {
        let around = self.open.iter().take_while(|open| open.number() != number);
        let cursor = |open: &Open| match open {
            Open::Replay(replay) => Some(replay.cursor),
            Open::Record(_) => None,
        };
        around.filter_map(cursor).last().unwrap_or(self.log.end())
    }

    /// Continues with another process's parts, for which this many exchanges were settled, after this
    /// many boundaries.
    pub fn resume(&mut self, settled: u64, boundaries: u64) {
        (self.settled, self.boundaries) = (settled, boundaries);
        let closed = |one: &Instance| Some((one.closed.as_deref()?.number, one.number));
        let kept = self.instances.iter().filter_map(closed);
        self.unsettled = kept.filter(|(exchange, _)| *exchange >= settled).collect();
    }

    /// After a restart nobody sends messages again whose verdict is not settled: they are read from the log.
    pub fn log_unsettled(&mut self) {
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

    /// Makes runs whose messages are sent again fail in replays.
    pub fn invalidate_closed(&mut self, text: &str) {
        for instance in self.instances.iter_mut().filter(|instance| instance.closed.is_some()) {
            instance.broken.get_or_insert_with(|| text.to_owned());
        }
    }

    /// Whether a replay of this part would send messages again.
    pub fn is_closed(&self, id: i32) -> bool {
        self.chosen(id).0.is_some_and(|instance| instance.closed.is_some())
    }

    /// The flags of the run that a replay of this part would use; 0: none.
    pub fn flags_of_replay(&self, id: i32) -> i32 {
        self.chosen(id).0.map_or(0, |instance| instance.flags)
    }

    /// Whether an open replay sends messages again.
    pub fn replays_closed(&self) -> bool {
        let is_closed = |number| self.instance(number).is_some_and(|one| one.closed.is_some());
        self.open.iter().any(|open| matches!(open, Open::Replay(one) if is_closed(one.instance)))
    }

    /// The number of beginnings and ends of parts whose messages may be sent again, and of their
    /// replays.
    pub fn boundaries(&self) -> u64 {
        self.boundaries
    }

    /// Counts the beginning or end of a part with these flags, or of its replay.
    pub(super) fn pass(&mut self, flags: i32) {
        self.boundaries += u64::from(flags & RESEND != 0);
    }

    /// The messages that are sent and received again now: of the outermost replay that includes the
    /// current call and whose messages all processes know. A message may begin in a part inside it and
    /// end after that.
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

    /// Whether a part needs bytes that are missing: see [`Log::lacks`](crate::log::Log::lacks).
    pub fn lacks(&self, at: Position, nth: usize) -> bool {
        self.log.lacks(at, nth)
    }

    /// Adds the missing bytes.
    pub fn keep(&mut self, at: Position, nth: usize, payload: Payload) {
        self.log.keep(at, nth, payload);
    }

    /// The event with this number began this message, as the `nth` of its requests.
    pub fn link(&mut self, event: u64, nth: usize, link: Link) {
        self.log.link(event, nth, link);
    }
}
