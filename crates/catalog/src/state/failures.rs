//! What could not be done, to be told and tried again.

use super::State;
use crate::entry::{FileCopy, Life, Stage};
use crate::Id;
use errors::{Error, ErrorKind};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Steps of checkpoints towards their files that have failed.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Checkpoints with a failed step towards their files, which are not retried unless requested.
    pub(super) failed: BTreeSet<Id>,
    /// Failures that were not reported, oldest first; those of marked checkpoints with their id.
    pub(super) failures: VecDeque<(Option<Id>, Error)>,
    /// Steps of checkpoints towards their files that have failed so far.
    pub(super) failed_steps: u64,
    /// The last failure of a step towards files.
    pub(super) last_failure: Option<Error>,
}

impl State {
    /// How many steps of checkpoints towards their files have failed so far.
    pub fn failed_steps(&self) -> u64 {
        self.failures.failed_steps
    }

    /// Adds a background failure to be reported.
    pub fn report(&mut self, failure: Error) {
        self.failures.failures.push_back((None, failure));
    }

    /// The checkpoints that could not be written, by name and version: those in no file, and those missing in
    /// persistent.
    pub fn left_behind(&self) -> [Vec<(Arc<str>, i32)>; 2] {
        let mut left = [Vec::new(), Vec::new()];
        let failed = self.failures.failed.iter().filter_map(|id| self.checkpoints.entries.get(id));
        for entry in failed {
            left[usize::from(entry.in_file())].push((entry.name.clone(), entry.version));
        }
        left
    }

    /// A step of a checkpoint towards its files has failed.
    pub(super) fn has_failed(&mut self, id: Id, cause: Error) {
        self.failures.failed_steps += 1;
        self.failures.last_failure = Some(cause.clone());
        self.failures.failures.push_back((self.checkpoints.is_marked(id).then_some(id), cause));
    }

    /// Takes the unreported background failures as one error: the oldest, and the number of others.
    /// Failures of marked checkpoints that were dropped are left out.
    pub fn take_failure(&mut self) -> Option<Error> {
        let mut failures = std::mem::take(&mut self.failures.failures);
        failures.retain(|(id, _)| {
            let is_live =
                |id: &Id| self.checkpoints.entries.get(id).is_some_and(|e| e.life == Life::Live);
            id.as_ref().is_none_or(is_live)
        });
        let (_, oldest) = failures.pop_front()?;
        let more = failures.len();
        Some(match more {
            0 => oldest,
            more => Error::new(oldest.kind(), format!("{oldest} (and {more} more)")),
        })
    }

    /// An error that names the oldest checkpoint that could not be written to its files. It is returned until
    /// that is retried, replaced or removed.
    pub fn unwritten(&self) -> Option<Error> {
        let mut failed =
            self.failures.failed.iter().filter_map(|id| self.checkpoints.entries.get(id));
        let oldest = failed.next()?;
        let level = if oldest.scratch.is_due() { "scratch" } else { "persistent" };
        let more = match failed.count() {
            0 => String::new(),
            more => format!(" (nor could {more} more)"),
        };
        Some(Error::new(
            ErrorKind::System,
            format!(
                "checkpoint \"{}\" version {} could not be written to {level}{more}; \
                 VELOC_Checkpoint_wait tries again",
                oldest.name, oldest.version
            ),
        ))
    }

    /// Puts failed checkpoints on the lists again. Returns whether there were any. Unreported failures of
    /// marked checkpoints are dropped.
    pub fn retry(&mut self) -> bool {
        self.failures.failures.retain(|(id, _)| id.is_none());
        let failed: Vec<Id> = self.failures.failed.iter().copied().collect();
        for &id in &failed {
            if let Some(entry) = self.checkpoints.entries.get_mut(&id) {
                let copies = entry.parts.iter_mut().flat_map(|part| &mut part.copies);
                for copy in copies.filter(|copy| copy.stage == Stage::Failed) {
                    copy.stage = Stage::Absent;
                }
                for file in [&mut entry.scratch, &mut entry.persistent] {
                    if *file == FileCopy::Failed {
                        *file = FileCopy::Wanted;
                    }
                }
            }
            self.reindex(id);
        }
        !failed.is_empty()
    }
}
