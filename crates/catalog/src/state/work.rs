//! What is due: the lists of work that concern files, and what is under way.

use crate::entry::Readable;
use crate::Id;
use std::collections::{BTreeSet, VecDeque};

/// What is due, and what is under way. The lists of flushes and fetches are with their levels and names.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) write: BTreeSet<(Readable, Id)>,
    pub(super) spill: BTreeSet<(Readable, Id)>,
    pub(super) persist: BTreeSet<Id>,
    /// Checkpoints whose persistent copy the waiting application makes itself.
    pub(super) claims: BTreeSet<Id>,
    /// Incomplete deferred captures, in the order in which they were taken.
    pub(super) arrivals: VecDeque<Id>,
    /// Checkpoints whose deferred captures are not complete.
    pub(super) incomplete: BTreeSet<Id>,
    /// Active transfers that can end a wait for room.
    pub(super) in_flight: u32,
    /// How many of these are flushes, writes, persists and deferred captures.
    pub(super) draining: u32,
    /// Grows with every change that could end a wait.
    pub(super) changes: u64,
}

impl Work {
    /// Whether a checkpoint was taken before all whose deferred captures are not complete. Others get no file before
    /// these: after a kill, what is in files counts as older than what is not.
    pub(super) fn is_in_turn(&self, id: Id) -> bool {
        self.incomplete.first().is_none_or(|first| id < *first)
    }
}
