//! Objects that the application has freed and replays still need.

use super::{Instance, Parts};
use crate::log::{Call, Position};

/// How a communicator was made, while runs are logged.
#[derive(Clone, Copy, Debug)]
pub struct CommOrigin {
    /// The first event that may use it.
    pub first: u64,
    /// The call that made it, and the number of its event, if logged.
    pub made: Option<(Call, u64)>,
}

/// Which replays need a communicator that the application has freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededBy {
    /// No replay.
    Nobody,
    /// Replays that make it themselves: any communicator with the same processes will do.
    Replays,
    /// Replays that begin while it exists: the application's snapshots contain its handle.
    Snapshots,
}

impl Parts {
    /// The number of instances so far: an object that is freed now is needed by replays of earlier instances.
    pub fn now(&self) -> u64 {
        self.numbers
    }

    /// The number of the oldest first run whose events an instance still has. `None`: there are no instances.
    pub fn oldest(&self) -> Option<u64> {
        self.instances.iter().map(|instance| instance.since).min()
    }

    /// The number of the first run whose events the first instance has, which may share older
    /// events with others.
    pub fn first(&self) -> Option<u64> {
        self.instances.first().map(|instance| instance.since)
    }

    /// Whether an instance exists that began when `numbers` had begun, so that its snapshot may contain
    /// what existed then.
    pub fn has_since(&self, numbers: u64) -> bool {
        self.instances.last().is_some_and(|last| last.number >= numbers)
    }

    /// Which replays need a communicator that is freed now, by its origin.
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
            // First runs are in the order of their beginning, and enclosing ones end later. Events that
            // replays have recorded are older.
            let is_first = instance.since == instance.number;
            if is_first && (need == NeededBy::Replays || instance.around.is_empty()) {
                break;
            }
        }
        need
    }

    /// Replaces the handle of the communicator that the event with this number made.
    pub fn rename(&mut self, made: u64, from: usize, to: usize) {
        self.log.rename(made, from, to);
    }
}
