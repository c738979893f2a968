//! What a killed run has left half written.

use std::path::{Path, PathBuf};

use super::{left, read_note, Files};
use crate::error::Result;
use crate::format::{checksum, names};
use crate::platform::{self, files};

impl Files {
    /// Removes what a killed run of this rank has left half written in a directory.
    pub(super) fn remove_leftovers(&self, directory: &Path) -> Result<()> {
        let leftovers = files::list(directory, |name| {
            if let Some((of_log, rank)) = names::parse_log(name) {
                // A job has none yet when it looks, whatever had the number of its process before; an
                // earlier one of this process may have left it some.
                let own = of_log.pid == std::process::id() && !left::is_kept(name);
                let dead = rank == self.rank && (own || is_dead(of_log.pid));
                return dead.then(|| name.to_owned());
            }
            let temporary = names::parse_temporary(name)?;
            let file = temporary.complete;
            let complete = names::parse(checksum::is_of(file).unwrap_or(file))?;
            // Another process may be writing: only a dead one's are leftovers.
            (complete.rank == self.rank && is_dead(temporary.pid)).then(|| name.to_owned())
        })?;
        remove_unused(directory, leftovers)?;
        self.remove_routed_leftovers(directory)
    }

    /// Copies of file-based checkpoints are written beside the files they were routed from.
    fn remove_routed_leftovers(&self, directory: &Path) -> Result<()> {
        let notes = files::list(directory, |name| {
            (names::parse_routed_note(name)?.rank == self.rank).then(|| name.to_owned())
        })?;
        for note in notes {
            // What is no note names no file.
            let Ok(Some(original)) = read_note(&directory.join(note)) else {
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
