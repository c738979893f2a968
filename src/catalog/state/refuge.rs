//! Steps of a checkpoint that scratch cannot take, and that may go to persistent without it.

use super::State;
use crate::catalog::entry::{Entry, FileCopy, Id, Life};
use crate::error::{Error, Kind, Result};

impl State {
    /// From here on, what scratch cannot take does not go to persistent if it is not to have a copy
    /// there. Why not, and what can be done about it.
    pub fn keep_to_scratch(&mut self, why: &'static str) {
        self.kept_to_scratch = Some(why);
    }

    /// Whether a checkpoint under way that scratch has `refused`, and that is not known to be copied to
    /// persistent, may go there all the same.
    ///
    /// # Errors
    /// It may not: why scratch has refused it, and what can be done.
    pub fn may_go_past_scratch(&self, id: Id, refused: &Error) -> Result<()> {
        match self.kept_to_scratch {
            Some(why) if !self.awaits_place(id) => Err(refused.clone().followed_by(why)),
            _ => Ok(()),
        }
    }

    /// Whether a checkpoint is to be copied to persistent once it is known where to.
    pub fn awaits_place(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.awaits_place)
    }

    /// Whether a checkpoint has its file in persistent alone, as scratch could not take it.
    pub fn is_past_scratch(&self, id: Id) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| {
            (entry.scratch, entry.persistent) == (FileCopy::Bypassed, FileCopy::Present)
        })
    }

    /// Writing a checkpoint to scratch has failed. Whether it goes to persistent instead.
    pub(super) fn scratch_has_refused(&mut self, id: Id, mut error: Error) -> bool {
        let (lasting, kept) = (self.shape.persistent, self.kept_to_scratch);
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let live = entry.life == Life::Live;
        if live && lasting && is_of_the_file_system(&error) {
            match kept {
                Some(why) if !is_wanted(entry) => error = error.followed_by(why),
                _ => {
                    entry.scratch = FileCopy::Bypassed;
                    if !is_wanted(entry) {
                        entry.persistent = FileCopy::Wanted;
                    }
                    return true;
                }
            }
        }
        entry.scratch = FileCopy::Failed;
        if live {
            self.has_failed(id, error);
        }
        false
    }
}

/// Whether it goes to persistent anyway, now or once it is known where.
fn is_wanted(entry: &Entry) -> bool {
    entry.persistent == FileCopy::Wanted || entry.awaits_place
}

/// Whether a failure says something about where a file was to be, so that another place may do.
pub fn is_of_the_file_system(error: &Error) -> bool {
    matches!(error.kind(), Kind::NoRoom | Kind::System)
}
