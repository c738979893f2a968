//! Which checkpoints all processes of a job are known to have, of one kind of files.

use super::Id;

/// Checkpoints of which all processes have the files of a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// From one to another, both among them; ascending.
    pub(super) ranges: Vec<(Id, Id)>,
    /// Up to this one nothing more will be among them.
    settled: Id,
}

impl Common {
    /// All: of a process that has no others.
    pub fn all() -> Common {
        Common { ranges: vec![(0, Id::MAX)], settled: Id::MAX }
    }

    /// Whether these are the checkpoints of a process that has no others.
    pub fn is_alone(&self) -> bool {
        self.settled == Id::MAX
    }

    /// Whether a checkpoint is among them.
    pub fn has(&self, id: Id) -> bool {
        let behind = self.ranges.partition_point(|&(first, _)| first <= id);
        behind.checked_sub(1).is_some_and(|at| id <= self.ranges[at].1)
    }

    /// The last of them; 0: there is none.
    pub fn youngest(&self) -> Id {
        self.ranges.last().map_or(0, |&(_, last)| last)
    }

    /// Whether it is known of a checkpoint that it is among them, or that no process will ever have
    /// it among them.
    pub(super) fn is_settled(&self, id: Id) -> bool {
        id <= self.settled
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
        let Some(more) = learned.more else { return };
        match self.ranges.last_mut() {
            // There is nothing between.
            Some((_, last)) if more.goes_on => *last = more.last,
            _ => self.ranges.push((more.first, more.last)),
        }
    }
}

/// What a result says of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The checkpoints that all processes are now known to have.
    pub more: Option<Range>,
    /// Up to this checkpoint, no others will be.
    pub settled: Id,
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
