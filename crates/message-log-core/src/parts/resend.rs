//! The log of messages that are sent again.

use std::rc::Rc;

use super::unsettled::Unsettled;
use super::{Instance, OpenPart, Parts, RESEND};
use crate::resend::closed::ClosedMessages;
use crate::resend::streams::PartStart;

impl Parts {
    /// Sets the mark of the innermost open part, which has just begun, among the process's messages.
    pub fn mark(&mut self, mark: PartStart) {
        if let Some(OpenPart::Record(number)) = self.open.innermost().copied() {
            if let Some(instance) = self.instances.get_mut(number) {
                instance.mark = Some(mark);
            }
        }
    }

    /// The mark of the innermost open part, with the number of its instance.
    pub fn marked(&self) -> Option<(u64, PartStart)> {
        let Some(OpenPart::Record(number)) = self.open.innermost() else { return None };
        Some((*number, self.instances.get(*number)?.mark?))
    }

    /// A replay of this instance will send and receive these messages again. They are logged until that
    /// is [settled](Self::drop_settled).
    pub fn close(&mut self, number: u64, closed: &Rc<ClosedMessages>) {
        self.unsettled.add(number, Some(closed));
        if let Some(instance) = self.instances.get_mut(number) {
            instance.closed = Some(Rc::clone(closed));
        }
    }

    /// All processes know the messages that are sent again, for this many exchanges: they are no longer
    /// logged. Returns how many bytes are freed.
    pub fn drop_settled(&mut self, settled: u64) -> u64 {
        let mut freed = 0;
        for number in self.unsettled.settle(settled) {
            let Some(instance) = self.instances.get(number) else { continue };
            let (begin, end) = (instance.begin, instance.end);
            let Some(closed) = instance.closed.clone() else { continue };
            let end = end.unwrap_or_else(|| self.open.reached(number, self.log.end()));
            freed += self.log.give_up(begin, end, &closed);
        }
        freed
    }

    /// Continues with another process's parts, for which this many exchanges were settled, after this
    /// many boundaries.
    pub fn resume(&mut self, settled: u64, boundaries: u64) {
        self.boundaries.0 = boundaries;
        self.unsettled = Unsettled::of(settled, &self.instances.all);
    }

    /// After a restart nobody sends messages again whose verdict is not settled: they are read from the log.
    pub fn log_unsettled(&mut self) {
        for number in self.unsettled.take() {
            if let Some(instance) = self.instances.get_mut(number) {
                instance.closed = None;
            }
        }
        let settled = self.unsettled.settled();
        for (_, _, closed) in &mut self.replaced {
            closed.take_if(|closed| closed.number >= settled);
        }
    }

    /// Whether an open replay sends messages again.
    pub fn replays_closed(&self) -> bool {
        let is_closed = |number| self.instances.get(number).is_some_and(Instance::is_closed);
        self.open.replays().any(|replay| is_closed(replay.instance))
    }

    /// The number of beginnings and ends of parts whose messages may be sent again, and of their
    /// replays.
    pub fn boundaries(&self) -> u64 {
        self.boundaries.0
    }

    /// The messages that are sent and received again now: of the outermost replay that includes the
    /// current call and whose messages all processes know. A message may begin in a part inside it and
    /// end after that.
    pub fn closed(&self) -> Option<&ClosedMessages> {
        let mut common = None;
        for replay in self.open.replays().rev() {
            let instance = self.instances.get(replay.instance)?;
            if instance.flags & RESEND != 0 || instance.closed.is_some() {
                common = Some(instance);
            }
            if !replay.is_step {
                break;
            }
        }
        common?.closed.as_deref()
    }
}
