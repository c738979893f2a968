//! What this process has of versions that a caller manages one by one, without the order of the application's calls.
//! Nothing of it is collective.

use std::collections::BTreeSet;

use catalog::FileLevel;
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use policy::rounds::FileState;

/// The versions of this process's checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Versions<'a> {
    pub(super) engine: &'a Engine,
}

impl Versions<'_> {
    /// Whether the checkpoints of this job are still there for a next one.
    pub fn keeps_files(&self) -> bool {
        !self.engine.config().ephemeral
    }

    /// Whether there is this level of files, and they outlive the job.
    pub fn has_level(&self, level: FileLevel) -> bool {
        let files = self.engine.files();
        self.keeps_files()
            && match level {
                FileLevel::Scratch => files.places().has_scratch(),
                FileLevel::Persistent => files.places().has_persistent(),
            }
    }

    /// The versions of a name that this process has, in memory or in files, good or not.
    pub fn of(&self, name: &str) -> Result<BTreeSet<i32>> {
        self.engine.file_side().await_earlier_jobs();
        let mut versions = self.engine.checkpoints().versions(name);
        if self.keeps_files() {
            versions.extend(self.engine.files().listing().versions(name)?);
        }
        Ok(versions)
    }

    /// Fails if something has failed in the background that was not reported yet.
    pub fn check_background(&self) -> Result<()> {
        match self.engine.checkpoints().take_failure() {
            Some(failure) => Err(failure.within("failed in the background")),
            None => Ok(()),
        }
    }

    /// Tries again to bring to files what could not be brought there.
    pub fn try_again(&self) {
        self.engine.checkpoints().retry();
    }

    /// How many bytes of checkpoints memory can hold, if there are no files to hold any.
    pub fn room_without_files(&self) -> Option<u64> {
        let without = self.engine.config().ephemeral && !self.engine.files().places().has_scratch();
        without.then(|| self.engine.checkpoints().memory())
    }

    /// Drops a version that is of no use any more from memory, where nothing but memory has it.
    pub fn let_go_of(&self, name: &str, version: i32) {
        self.engine.checkpoints().drop_version(name, version);
    }

    /// Whether a version has a file in its place in a level.
    pub fn has_file(&self, name: &str, version: i32, level: FileLevel) -> bool {
        self.engine.checkpoints().has_file(name, version, level)
    }

    /// Whether this process has its parities of a version.
    pub fn has_parities(&self, name: &str, version: i32) -> bool {
        let Some(node) = self.engine.file_side().erasure() else { return false };
        match self.engine.checkpoints().has_taken(name, version) {
            true => node.parity_state(&(name.into(), version)) == FileState::Present,
            // Parities of an earlier job are known by their file alone.
            false => self.engine.files().places().has_parities(name, version),
        }
    }

    /// Whether this process has its parities of a version, or will have them as far as it knows.
    pub fn may_have_parities(&self, name: &str, version: i32) -> bool {
        let node = self.engine.file_side().erasure();
        self.has_parities(name, version)
            || node.is_some_and(|node| node.may_protect(&(name.into(), version)))
    }

    /// Whether versions of a name may be chosen for parities that are made at intervals.
    pub fn choose_parities_from(&self, name: &str, may: bool) {
        if let Some(node) = self.engine.file_side().erasure() {
            node.set_selectable(name, may);
        }
    }

    /// Removes a version's file from a level, unless it is in use. Whether it is gone.
    pub fn retire(&self, name: &str, version: i32, level: FileLevel) -> Result<bool> {
        self.engine.file_side().retire(level, name, version)
    }

    /// Removes a version from memory and files.
    pub fn remove(&self, name: &str, version: i32) -> Result<()> {
        self.engine.file_side().remove_everywhere(name, &BTreeSet::from([version]))
    }

    /// Removes all versions of a name from memory and files. What is being written is waited for.
    pub fn remove_all(&self, name: &str) -> Result<()> {
        let mut versions = self.of(name)?;
        if self.engine.file_side().erasure().is_some() {
            // Parities can be there without the checkpoint that they belong to.
            versions.extend(self.engine.files().listing().versions_of_anybody(name)?);
        }
        self.engine.file_side().remove_everywhere(name, &versions)
    }
}

/// Whether a checkpoint is missing or cannot be read, which is as good as missing.
pub fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::System)
}
