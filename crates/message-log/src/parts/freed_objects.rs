//! What replays still use of that which the application has freed.

use super::{Instance, Parts};
use crate::log::Position;
use crate::stand_ins::CommOrigin;

/// Who needs a communicator that the application has freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededBy {
    /// No run that is logged has it.
    Nobody,
    /// Replays that make it: which one that is makes no difference.
    Replays,
    /// Replays that begin when it is there: the application's snapshots have its handle.
    Snapshots,
}

impl Parts {
    /// A number that counts instances: what is freed now is used by replays of those before it.
    pub fn now(&self) -> u64 {
        self.numbers
    }

    /// The oldest first run that some instance has events of. `None` if none is live.
    pub fn oldest(&self) -> Option<u64> {
        self.instances.iter().map(|instance| instance.since).min()
    }

    /// The same of the first instance that is live, which others may share older events with.
    pub fn first(&self) -> Option<u64> {
        self.instances.first().map(|instance| instance.since)
    }

    /// Whether an instance is live that has begun when so many had: what was there then is in the
    /// application's snapshot.
    pub fn has_since(&self, numbers: u64) -> bool {
        self.instances.last().is_some_and(|last| last.number >= numbers)
    }

    /// Who needs a communicator that is freed now, by what is known of its origin.
    pub fn needed_by(&self, origin: &CommOrigin) -> NeededBy {
        let is_in = |place: &Position, of: &Instance| of.end.is_none_or(|end| end > *place);
        let made = origin.made.map(|(_, event)| Position { event, nth: 0 });
        let mut need = NeededBy::Nobody;
        for instance in self.instances.iter().rev() {
            if instance.begin.event >= origin.first {
                return NeededBy::Snapshots;
            }
            if made.is_some_and(|made| is_in(&made, instance)) {
                need = NeededBy::Replays;
            }
            // First runs began in their order, and those around each other ended behind them. What
            // replays have recorded before it lies before it.
            let is_first = instance.since == instance.number;
            if is_first && (need == NeededBy::Replays || instance.around.is_empty()) {
                break;
            }
        }
        need
    }

    /// The communicator that the event with this number has made is called otherwise.
    pub fn rename(&mut self, made: u64, from: usize, to: usize) {
        self.log.rename(made, from, to);
    }
}
