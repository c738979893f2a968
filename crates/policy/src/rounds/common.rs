//! Which checkpoints all processes of a job are known to have, for one kind of file.

use super::CheckpointNumber;

/// Checkpoints whose files of a kind exist on all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// Inclusive ranges, ascending.
    pub(super) ranges: Vec<(CheckpointNumber, CheckpointNumber)>,
    /// Nothing at or below this checkpoint will be added.
    settled: CheckpointNumber,
}

impl Common {
    /// All checkpoints: for a process without others.
    pub fn all() -> Common {
        Common { ranges: vec![(0, CheckpointNumber::MAX)], settled: CheckpointNumber::MAX }
    }

    /// Whether this is a process without others.
    pub fn is_single(&self) -> bool {
        self.settled == CheckpointNumber::MAX
    }

    /// Whether checkpoint `id` is known to exist everywhere.
    pub fn has(&self, id: CheckpointNumber) -> bool {
        let behind = self.ranges.partition_point(|&(first, _)| first <= id);
        behind.checked_sub(1).is_some_and(|at| id <= self.ranges[at].1)
    }

    /// The youngest checkpoint; 0: none.
    pub fn youngest(&self) -> CheckpointNumber {
        self.ranges.last().map_or(0, |&(_, last)| last)
    }

    /// Whether it is decided for checkpoint `id` that it exists everywhere or never will.
    pub(super) fn is_settled(&self, id: CheckpointNumber) -> bool {
        id <= self.settled
    }

    /// Whether a checkpoint is kept for its parities: the youngest that is protected everywhere (`last`,
    /// of that name) is kept, and so is any that `may_be` the next one: this process has parities of it, or
    /// expects to. Until there is one, versions of an earlier job (0) with parities are kept, too.
    pub fn keeps(
        &self,
        last: Option<CheckpointNumber>,
        id: CheckpointNumber,
        may_be: impl FnOnce() -> bool,
    ) -> bool {
        match last {
            Some(last) if id <= last => id == last,
            None if id == 0 => may_be(),
            _ => !self.is_settled(id) && may_be(),
        }
    }

    /// Adds what a round has shown.
    pub fn learn(&mut self, learned: Learned) {
        self.settled = self.settled.max(learned.settled);
        let Some(more) = learned.more else { return };
        match self.ranges.last_mut() {
            // No round lies between the two ranges.
            Some((_, last)) if more.goes_on => *last = more.last,
            _ => self.ranges.push((more.first, more.last)),
        }
    }
}

/// The result of a round for one kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Checkpoints that are now known to exist everywhere.
    pub more: Option<Range>,
    /// Up to this checkpoint nothing else will be added.
    pub settled: CheckpointNumber,
}

/// Consecutive checkpoints in the order in which they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The oldest.
    pub first: CheckpointNumber,
    /// The youngest.
    pub last: CheckpointNumber,
    /// The range continues the previous one.
    pub goes_on: bool,
}
