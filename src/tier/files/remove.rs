//! Removing what is kept of a checkpoint in a tier: its file, and the files beside it.

use std::sync::atomic::Ordering;

use super::Files;
use crate::catalog::entry::FileTier;
use crate::error::Result;
use crate::format::names;
use crate::platform::files;

impl Files {
    /// Removes every file of a name from scratch, except those of the versions in `keep`. One that
    /// cannot be removed does not keep the others; the first such failure is the error.
    pub fn clean_scratch(&self, name: &str, keep: impl Fn(i32) -> bool) -> Result<()> {
        let Some(directory) = &self.scratch else {
            return Ok(());
        };
        let mut result = Ok(());
        for version in files::versions(directory, name, self.rank)? {
            if !keep(version) {
                let path = self.scratch_path(name, version)?;
                let removed =
                    files::remove(&path).and_then(|()| self.remove_scratch(name, version));
                result = result.and(removed);
            }
        }
        // Parities can be there without the checkpoint that they belong to.
        let parities = files::list(directory, |file_name| {
            let file = names::parse_parity(file_name)?;
            (file.name == name && file.rank == self.rank).then_some(file.version)
        })?;
        for version in parities.into_iter().filter(|version| !keep(*version)) {
            result = result.and(files::remove(&self.parity_path(name, version)?));
        }
        result
    }

    pub(super) fn remove_note(&self, name: &str, version: i32) -> Result<()> {
        if self.companions.notes.load(Ordering::Relaxed) {
            files::remove(&self.routed_note(name, version)?)?;
        }
        Ok(())
    }

    pub(super) fn remove_parity(&self, name: &str, version: i32) -> Result<()> {
        if self.companions.parities.load(Ordering::Relaxed) {
            files::remove(&self.parity_path(name, version)?)?;
        }
        Ok(())
    }

    pub(super) fn remove_checksum(&self, name: &str, version: i32) -> Result<()> {
        self.checksums.as_ref().map_or(Ok(()), |checksums| {
            checksums.remove(&names::checkpoint_file(name, self.rank, version))
        })
    }

    /// Removes a checkpoint's file that this job has written to scratch, and its checksum unless
    /// persistent has the file too.
    pub fn remove_scratch(&self, name: &str, version: i32) -> Result<()> {
        self.may_change()?;
        files::remove(&self.own_path(name, version)?)?;
        self.remove_parity(name, version)?;
        self.remove_note(name, version)?;
        if self.is_persistent(name, version) {
            return Ok(());
        }
        self.remove_checksum(name, version)
    }

    /// Removes a checkpoint's file from a tier, and its checksum unless the other one has it.
    pub fn remove_from(&self, tier: FileTier, name: &str, version: i32) -> Result<()> {
        match tier {
            FileTier::Scratch => self.remove_scratch(name, version),
            FileTier::Persistent => {
                self.may_change()?;
                if let Some(path) = self.persistent_path(name, version) {
                    files::remove(&path)?;
                }
                self.remove_aggregated(name, version)?;
                if self.scratch_path(name, version).is_ok_and(|path| path.exists()) {
                    return Ok(());
                }
                self.remove_checksum(name, version)
            }
        }
    }
}
