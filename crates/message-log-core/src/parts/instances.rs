//! The runs that are logged or being logged, and what they need of objects that the application has freed.

use super::instance::Instance;
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

/// The instances by number.
#[derive(Debug, Default)]
pub struct Instances {
    pub(crate) all: Vec<Instance>,
    /// The number of the next one.
    pub(crate) now: u64,
}

impl Instances {
    /// The number of instances so far: an object that is freed now is needed by replays of earlier instances.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The number of the oldest first run whose events an instance still has. `None`: there are no instances.
    pub fn oldest(&self) -> Option<u64> {
        self.all.iter().map(|instance| instance.since).min()
    }

    /// The number of the first run whose events the first instance has, which may share older
    /// events with others.
    pub fn first(&self) -> Option<u64> {
        self.all.first().map(|instance| instance.since)
    }

    /// Whether an instance exists that began when `numbers` had begun, so that its snapshot may contain
    /// what existed then.
    pub fn has_since(&self, numbers: u64) -> bool {
        self.all.last().is_some_and(|last| last.number >= numbers)
    }

    /// Which replays need a communicator that is freed now, by its origin.
    pub fn needing(&self, origin: &CommOrigin) -> NeededBy {
        let is_in = |place: &Position, of: &Instance| of.end.is_none_or(|end| end > *place);
        let made = origin.made.map(|(_, event)| Position { event, nth: 0 });
        let mut need = NeededBy::Nobody;
        for instance in self.all.iter().rev() {
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

    /// The instance with this number cannot be replayed.
    pub fn invalidate(&mut self, number: u64, text: &str) {
        if let Some(instance) = self.get_mut(number) {
            instance.broken.get_or_insert_with(|| text.to_owned());
        }
    }

    /// Makes runs whose messages are sent again fail in replays.
    pub fn invalidate_closed(&mut self, text: &str) {
        for instance in self.all.iter_mut().filter(|instance| instance.closed.is_some()) {
            instance.broken.get_or_insert_with(|| text.to_owned());
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.all.binary_search_by_key(&number, |instance| instance.number).ok()
    }

    /// The instance with this number.
    pub(super) fn get(&self, number: u64) -> Option<&Instance> {
        self.place(number).map(|place| &self.all[place])
    }

    /// The instance with this number, for changes.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Instance> {
        self.place(number).map(|place| &mut self.all[place])
    }

    /// Removes the instance with this number.
    pub(super) fn remove(&mut self, number: u64) -> Option<Instance> {
        self.place(number).map(|place| self.all.remove(place))
    }

    /// Whether the instance with this number is one of this part.
    pub(super) fn is(&self, number: u64, id: i32) -> bool {
        self.get(number).is_some_and(|instance| instance.id == id)
    }

    /// The newest instance of a part.
    pub(super) fn newest(&self, id: i32) -> Option<u64> {
        self.all.iter().rev().find(|instance| instance.id == id).map(|one| one.number)
    }
}
