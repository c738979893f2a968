//! What a killed run has left half written.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::{left, read_note, Files};
use crate::error::Result;
use crate::format::{checksum, names};
use crate::platform::{self, files};

/// What scratch has beside whole files of checkpoints.
enum Beside {
    Leftover(String),
    Note(String),
    Parity,
}

impl Files {
    /// Removes what a killed run of this rank has left half written in scratch and beside the files that
    /// were routed from elsewhere, and looks which companions there are. Lists the directory once: it may be
    /// long, and the application waits.
    pub(super) fn look_through_scratch(&self, scratch: &Path) -> Result<()> {
        let found = files::list(scratch, |name| {
            if self.is_leftover(name) {
                return Some(Beside::Leftover(name.to_owned()));
            }
            if names::parse_routed_note(name).is_some_and(|of| of.rank == self.rank) {
                return Some(Beside::Note(name.to_owned()));
            }
            let parity = names::parse_parity(name).is_some_and(|of| of.rank == self.rank);
            parity.then_some(Beside::Parity)
        });
        let found = found.inspect_err(|_| {
            // What cannot be listed may have any.
            self.companions.notes.store(true, Ordering::Relaxed);
            self.companions.parities.store(true, Ordering::Relaxed);
        })?;
        let (mut leftovers, mut notes) = (Vec::new(), Vec::new());
        for beside in found {
            match beside {
                Beside::Leftover(name) => leftovers.push(name),
                Beside::Note(name) => notes.push(name),
                Beside::Parity => self.companions.parities.store(true, Ordering::Relaxed),
            }
        }
        self.companions.notes.store(!notes.is_empty(), Ordering::Relaxed);
        remove_unused(scratch, leftovers)?;
        self.remove_routed_leftovers(scratch, notes)
    }

    /// Removes what a killed run of this rank has left half written in a directory other than scratch.
    pub(super) fn remove_leftovers(&self, directory: &Path) -> Result<()> {
        let leftovers =
            files::list(directory, |name| self.is_leftover(name).then(|| name.to_owned()))?;
        remove_unused(directory, leftovers)
    }

    /// Whether a file of this name is one that a killed run of this rank has left half written.
    fn is_leftover(&self, name: &str) -> bool {
        if let Some((of_log, rank)) = names::parse_log(name) {
            // A job has none yet when it looks, whatever had the number of its process before; an
            // earlier one of this process may have left it some.
            let own = of_log.pid == std::process::id() && !left::is_kept(name);
            return rank == self.rank && (own || is_dead(of_log.pid));
        }
        let Some(temporary) = names::parse_temporary(name) else { return false };
        let file = temporary.complete;
        let complete = names::parse(checksum::is_of(file).unwrap_or(file));
        // Another process may be writing: only a dead one's are leftovers.
        complete.is_some_and(|complete| complete.rank == self.rank && is_dead(temporary.pid))
    }

    /// Copies of file-based checkpoints are written beside the files they were routed from, which the
    /// notes in scratch name.
    fn remove_routed_leftovers(&self, scratch: &Path, notes: Vec<String>) -> Result<()> {
        for note in notes {
            // What is no note names no file.
            let Ok(Some(original)) = read_note(&scratch.join(note)) else {
                continue;
            };
            let original = PathBuf::from(original);
            let (Some(folder), Some(file)) = (original.parent(), original.file_name()) else {
                continue;
            };
            let leftovers = files::list(folder, |name| {
                let temporary = names::parse_temporary(name)?;
                (file.to_str() == Some(temporary.complete) && is_dead(temporary.pid))
                    .then(|| name.to_owned())
            })?;
            remove_unused(folder, leftovers)?;
        }
        Ok(())
    }
}

/// Whether a process writes nothing any more: one that was killed may be there for a while.
fn is_dead(process: u32) -> bool {
    !platform::is_alive(process) || platform::is_ending(process)
}

/// A process of another node or container is not alive here, but its files are in use.
fn remove_unused(directory: &Path, names: Vec<String>) -> Result<()> {
    for path in names.into_iter().map(|name| directory.join(name)) {
        if !files::is_in_use(&path) {
            files::remove(&path)?;
        }
    }
    Ok(())
}
