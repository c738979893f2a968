//! Failures in the background: who hears of them. Those of checkpoints that somebody manages one by one
//! are his to judge, as long as he says so; all others are the application's.

use std::collections::BTreeSet;

use super::{PersistJob, State};
use crate::catalog::entry::{Entry, FileCopy, FileTier, Id, Life, MemoryCopy, Stage};
use crate::error::Error;

/// What a manager hears of: that a checkpoint did not come where it was to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    /// Where that is. `None`: in the host buffer.
    pub tier: Option<FileTier>,
    /// Why not.
    pub cause: Error,
}

impl State {
    /// Something has failed on the way of a checkpoint to its files.
    pub(super) fn has_failed(&mut self, id: Id, tier: Option<FileTier>, cause: Error) {
        self.last_failure = Some(cause.clone());
        let is_managed = self.is_managed(id);
        if self.manages && is_managed {
            self.setback.get_or_insert(Setback { tier, cause });
        } else {
            self.failures.push_back((is_managed.then_some(id), cause));
        }
    }

    /// Whether somebody hears from here on, by [`State::take_setback`], of the failures of what is
    /// managed, so that nobody else does. What was not heard of by the end is of no interest any more:
    /// what could not be written is tried again when it is waited for.
    pub fn manage(&mut self, manages: bool) {
        self.manages = manages;
        self.setback = None;
        if manages {
            // Of what an earlier one had under way when it ended.
            self.failures.retain(|(id, _)| id.is_none());
        }
    }

    /// The oldest failure of something managed that was not heard of. Later ones are not kept beside it.
    pub fn take_setback(&mut self) -> Option<Setback> {
        self.setback.take()
    }

    /// Gives up what could not be written of a name, of the versions that are of no use to this process:
    /// memory is all that has it, and others need the room. These versions, of which an older file may
    /// still be there.
    pub fn withdraw_unwritten(
        &mut self,
        name: &str,
        of_no_use: impl Fn(i32) -> bool,
    ) -> BTreeSet<i32> {
        let mut versions = self.versions(name);
        versions.retain(|version| {
            let entry = self.find(name, *version).and_then(|id| self.entries.get(&id));
            let unwritten = entry.is_some_and(|entry| entry.has_failed() && !entry.in_file());
            unwritten && of_no_use(*version)
        });
        versions.iter().for_each(|version| self.withdraw(name, *version));
        versions
    }

    /// The versions of a name of which this job counts on a file in scratch, and on no other.
    pub fn in_scratch_alone(&self, name: &str) -> Vec<i32> {
        let counts_on = |version: &i32| {
            let entry = self.find(name, *version).and_then(|id| self.entries.get(&id));
            entry.is_some_and(|entry| {
                entry.scratch == FileCopy::Present && entry.persistent != FileCopy::Present
            })
        };
        self.versions(name).into_iter().filter(counts_on).collect()
    }

    /// A version's file in scratch is not there any more. If memory has it, it is to be written again; if
    /// nothing has, it is gone.
    pub fn has_lost_file(&mut self, name: &str, version: i32) {
        let Some(id) = self.find(name, version) else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.scratch != FileCopy::Present {
            return;
        }
        if entry.persistent == FileCopy::Present {
            entry.scratch = FileCopy::Absent;
            return self.reindex(id);
        }
        if !is_in_memory(entry) {
            return self.discard(id, false);
        }
        entry.scratch = if self.shape.ephemeral { FileCopy::Absent } else { FileCopy::Wanted };
        self.reindex(id);
    }

    /// A checkpoint was to be copied to persistent, and its file in scratch is not there any more. If memory
    /// has it, it is written again, and then copied: true, which ends that copying. Not unasked a second
    /// time, nor where only files have it: their directory may come back. Then false.
    pub fn is_written_again(&mut self, job: &PersistJob) -> bool {
        let entry = self.entries.get_mut(&job.id).filter(|entry| {
            let owns_file = entry.scratch == FileCopy::Present && entry.routed.is_none();
            entry.life == Life::Live && owns_file && is_in_memory(entry)
        });
        let Some(entry) = entry else { return false };
        // Until it is there, nobody may take memory for a copy of it.
        entry.scratch = FileCopy::Wanted;
        if std::mem::replace(&mut entry.written_again, true) {
            return false;
        }
        entry.persistent = FileCopy::Wanted;
        self.ended(job.id, true);
        true
    }

    /// Whether memory has a version.
    pub fn is_in_memory(&self, name: &str, version: i32) -> bool {
        let entry = self.find(name, version).and_then(|id| self.entries.get(&id));
        entry.is_some_and(|entry| {
            let held = |stage: Stage| stage != Stage::Absent;
            entry.parts.iter().any(|part| held(part.device.stage) || held(part.host.stage))
        })
    }
}

/// Whether memory has all of a checkpoint.
pub(super) fn is_in_memory(entry: &Entry) -> bool {
    let is_ready = |copy: &MemoryCopy| copy.stage == Stage::Ready;
    entry.parts.iter().all(|part| part.len == 0 || is_ready(&part.device) || is_ready(&part.host))
}
