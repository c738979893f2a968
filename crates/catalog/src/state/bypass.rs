//! Steps of a checkpoint that bypasses scratch and goes to persistent only.

use super::State;
use crate::entry::{FileCopy, Life};
use crate::Id;
use errors::{Error, Kind};

impl State {
    /// Whether it is still undecided if a checkpoint is copied to persistent.
    pub fn is_undecided(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.persistent == FileCopy::Undecided)
    }

    /// Whether a checkpoint has its file only in persistent, because scratch could not take it.
    pub fn is_past_scratch(&self, id: Id) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| {
            entry.scratch.is_bypassed() && entry.persistent == FileCopy::Present
        })
    }

    /// Whether a checkpoint goes, or has gone, to persistent only because scratch could not take it. Other
    /// processes do not have it there.
    pub fn is_extra(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.scratch == FileCopy::Substituted)
    }

    /// It was decided that a checkpoint is not copied to persistent. If scratch could not take it, it goes
    /// there all the same.
    pub fn want_no_persistent(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.persistent == FileCopy::Undecided {
            entry.persistent = FileCopy::Absent;
            if entry.scratch.is_bypassed() && entry.life == Life::Live {
                entry.persistent = FileCopy::Wanted;
                entry.scratch = FileCopy::Substituted;
            }
        }
        self.reindex(id);
    }

    /// Writing a checkpoint to scratch has failed. Returns whether it goes to persistent instead: at once, or
    /// when the place there is known.
    pub(super) fn scratch_has_refused(&mut self, id: Id, error: Error) -> bool {
        let lasting = self.shape.persistent;
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let live = entry.life == Life::Live;
        if live && lasting && is_of_the_file_system(&error) {
            entry.scratch = FileCopy::Bypassed;
            // Or has gone: the scratch file of before was removed.
            let goes_there =
                [FileCopy::Wanted, FileCopy::Undecided, FileCopy::Writing, FileCopy::Present];
            if !goes_there.contains(&entry.persistent) {
                entry.persistent = FileCopy::Wanted;
                entry.scratch = FileCopy::Substituted;
            }
            return true;
        }
        entry.scratch = FileCopy::Failed;
        if live {
            self.has_failed(id, error);
        }
        false
    }
}

/// Whether a failure depends on the file's location, so that another one may work.
pub fn is_of_the_file_system(error: &Error) -> bool {
    matches!(error.kind(), Kind::NoRoom | Kind::System)
}
