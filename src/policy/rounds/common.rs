//! Which checkpoints all processes of a job are known to have, of one kind of files.

use super::Id;

/// Checkpoints of which all processes have the files of a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// From one to another, both among them; ascending.
    pub(super) ranges: Vec<(Id, Id)>,
    /// Up to this one nothing more will be among them.
    settled: Id,
    /// From one to another of those that are settled and not among them here, and may be among them
    /// for another process; ascending.
    doubtful: Vec<(Id, Id)>,
}

impl Common {
    /// All: of a process that has no others.
    pub fn all() -> Common {
        Common { ranges: vec![(0, Id::MAX)], settled: Id::MAX, doubtful: Vec::new() }
    }

    /// Whether these are the checkpoints of a process that has no others.
    pub fn is_alone(&self) -> bool {
        self.settled == Id::MAX
    }

    /// Whether a checkpoint is among them.
    pub fn has(&self, id: Id) -> bool {
        is_within(&self.ranges, id)
    }

    /// The last of them; 0: there is none.
    pub fn youngest(&self) -> Id {
        self.ranges.last().map_or(0, |&(_, last)| last)
    }

    /// Whether it is known of a checkpoint that it is among them, or that no process will ever have
    /// it among them.
    pub(super) fn is_settled(&self, id: Id) -> bool {
        id <= self.settled && !is_within(&self.doubtful, id)
    }

    /// Whether a checkpoint is kept for its parities, of which these are those that all have: the
    /// youngest of them is, and so is each that may be the next one, which this process has `made`.
    /// `last` is the youngest of them of that name. Before there is one, so are those of an earlier
    /// job (0).
    pub fn keeps(&self, last: Option<Id>, id: Id, made: impl FnOnce() -> bool) -> bool {
        match last {
            Some(last) if id <= last => id == last,
            None if id == 0 => made(),
            _ => !self.is_settled(id) && made(),
        }
    }

    /// Adds what was learned.
    pub fn learn(&mut self, learned: Learned) {
        self.settled = self.settled.max(learned.settled);
        self.doubtful.extend(learned.doubtful);
        let Some(more) = learned.more else { return };
        match self.ranges.last_mut() {
            // There is nothing between.
            Some((_, last)) if more.goes_on => *last = more.last,
            _ => self.ranges.push((more.first, more.last)),
        }
    }
}

/// Whether one of the ranges, which ascend, has a checkpoint.
fn is_within(ranges: &[(Id, Id)], id: Id) -> bool {
    let behind = ranges.partition_point(|&(first, _)| first <= id);
    behind.checked_sub(1).is_some_and(|at| id <= ranges[at].1)
}

/// What a result says of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The checkpoints that all processes are now known to have.
    pub more: Option<Range>,
    /// Up to this checkpoint, no others will be.
    pub settled: Id,
    /// From this to that checkpoint it cannot be said whether all have them, for one of them has
    /// already said that it lacks a later one, and says of no others. A process that takes results
    /// in another order may have heard that all have them.
    pub doubtful: Option<(Id, Id)>,
}

/// Checkpoints that follow each other in the order in which they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The oldest.
    pub first: Id,
    /// The youngest.
    pub last: Id,
    /// It follows the range before it.
    pub goes_on: bool,
}
