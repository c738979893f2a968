//! The files of a process that has ended, in the hands of the one that goes on for it.
//!
//! A later job of the same rank waits for that one, unless it does not answer. Then the later job
//! goes on, and leaves a file in scratch that says so: the heir looks for it before each change, and
//! changes nothing from then on. So what was taken over from an earlier job never replaces what a
//! later one has written. The file has the name of a temporary file of the heir's, so it goes as
//! those do when the heir has ended.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use super::Files;
use crate::config::Config;
use crate::error::{Error, Kind, Result};
use crate::format::names;
use crate::platform::files;

/// The checkpoint that the file seems to belong to.
const GIVEN_UP: &str = "veloc.given.up";

/// Tells the process `heir` that it may change nothing of this rank's any more.
///
/// # Errors
/// The file cannot be made in `scratch`.
pub fn give_up(scratch: &Path, rank: u32, heir: u32) -> Result<()> {
    files::create(&path(scratch, rank, heir)).map(drop)
}

fn path(scratch: &Path, rank: u32, heir: u32) -> PathBuf {
    let file = names::checkpoint_file(GIVEN_UP, rank, 0);
    scratch.join(names::temporary_file(&file, heir, 0))
}

impl Files {
    /// The directories of a process that this one goes on for. Where one cannot be had, what belongs
    /// there is not written, and what belongs to the others is.
    ///
    /// # Errors
    /// As [`Files::open`], of all directories that checkpoints are in.
    pub fn open_for_heir(config: &Config, rank: u32) -> Result<Files> {
        let lacks_scratch = Cell::new(config.scratch.is_none());
        let opened = Files::open_or(config, rank, |key, error| {
            if key == "scratch" {
                lacks_scratch.set(true);
            }
            let other = match key {
                "scratch" => config.persistent.is_some(),
                "persistent" => !lacks_scratch.get(),
                _ => true,
            };
            if !other {
                return Err(error);
            }
            log::error!("what belongs to {key} is not written: {error}");
            Ok(())
        })?;
        let own = std::process::id();
        let given_up = opened.scratch.as_deref().map(|scratch| path(scratch, rank, own));
        Ok(Files { given_up, ..opened })
    }

    /// Whether these are the files of a process that has ended.
    pub(super) fn is_heir(&self) -> bool {
        self.given_up.is_some()
    }

    /// An error if nothing may be changed any more, because a later job has gone on.
    pub(super) fn may_change(&self) -> Result<()> {
        match &self.given_up {
            Some(given_up) if given_up.exists() => Err(Error::new(
                Kind::System,
                format!(
                    "a later job of number {} has gone on without waiting ({})",
                    self.rank,
                    given_up.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an heir that writes although a later job has gone on, and one that is kept from it by
    /// what was said to another.
    #[test]
    fn who_is_given_up_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("s");
        let text = format!("mode = async\nscratch = {}\n", scratch.display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let heir = Files::open_for_heir(&config, 3).unwrap();
        let own = std::process::id();
        for (rank, process) in [(4, own), (3, own + 1)] {
            give_up(&scratch, rank, process).unwrap();
        }
        heir.remove_scratch("x", 1, None).unwrap();
        give_up(&scratch, 3, own).unwrap();
        assert!(heir.remove_scratch("x", 1, None).is_err());
        assert!(heir.persist("x", 1, None, None).unwrap_err().to_string().contains("number 3"));
        Files::open(&config, 3).unwrap().remove_scratch("x", 1, None).unwrap();
    }

    /// A directory that cannot be had keeps nothing from the other one.
    #[test]
    fn one_directory_is_enough_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let [scratch, persistent] = ["s", "p"].map(|name| folder.path().join(name));
        let (s, p) = (scratch.display(), persistent.display());
        let text = format!("mode = async\nscratch = {s}\npersistent = {p}\n");
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        for (lacking, other) in [(&persistent, &scratch), (&scratch, &persistent)] {
            std::fs::write(lacking, "no directory").unwrap();
            assert!(Files::open(&config, 0).is_err());
            Files::open_for_heir(&config, 0).unwrap();
            assert!(other.is_dir());
            std::fs::remove_dir(other).unwrap();
            std::fs::write(other, "no directory").unwrap();
            assert!(Files::open_for_heir(&config, 0).is_err());
            std::fs::remove_file(other).unwrap();
            std::fs::remove_file(lacking).unwrap();
        }
    }
}
