//! What parts keep for messages that are sent again.

use std::rc::Rc;

use super::{Open, Parts};
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

    /// A replay of the instance with this number will send and receive these messages again. How
    /// many bytes nobody needs now.
    pub fn close(&mut self, number: u64, closed: &Rc<Closed>) -> u64 {
        let Some(instance) = self.instance_mut(number) else { return 0 };
        instance.closed = Some(Rc::clone(closed));
        let (begin, end) = (instance.begin, instance.end);
        end.map_or(0, |end| self.log.give_up(begin, end, closed))
    }

    /// The messages that the innermost replay sends and receives again.
    pub fn closed(&self) -> Option<&Closed> {
        self.instance(self.replay()?.instance)?.closed.as_deref()
    }

    /// Whether some part needs bytes that are not there: see [`Log::lacks`](crate::log::Log::lacks).
    pub fn lacks(&self, at: Position, nth: usize) -> bool {
        self.log.lacks(at, nth)
    }

    /// The bytes that are lacking are these.
    pub fn keep(&mut self, at: Position, nth: usize, payload: Payload) {
        self.log.keep(at, nth, payload);
    }

    /// The event with this number began what was found to be this message.
    pub fn link(&mut self, event: u64, link: Link) {
        self.log.link(event, link);
    }
}
