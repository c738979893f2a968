//! Giving complete files their names in scratch.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{Files, Output, Written};
use crate::catalog::entry::FileTier;
use crate::config::SyncFiles;
use crate::error::Result;
use crate::format::checksum::Checksum;
use crate::format::names;
use crate::platform::files::{self, Durability};

impl Files {
    /// Whether the digest of what is written for a checkpoint is wanted. The log of messages has its
    /// own.
    pub fn wants_digest_of(&self, name: &str) -> bool {
        name != names::LOG && self.wants_digest()
    }

    /// Whether digests are kept.
    pub fn wants_digest(&self) -> bool {
        self.checksums.as_ref().is_some_and(|checksums| checksums.are_kept())
    }

    /// Has the bytes of a complete scratch file reach the storage, if the configuration says so, and the
    /// file system say what it could not write.
    /// To be called before [`Files::publish`].
    pub fn seal(&self, output: &Output) -> Result<()> {
        self.seal_file(&output.file, &output.temporary)
    }

    pub(super) fn seal_file(&self, file: &File, path: &Path) -> Result<()> {
        files::settle(file, path, self.scratch_durability())
    }

    /// Gives a complete file its name, and the file of that name its checksum. The caller holds the
    /// lock of names.
    pub fn publish(&self, written: &Written, name: &str, version: i32) -> Result<()> {
        self.may_change()?;
        if name == names::LOG {
            let own = self.own_path(name, version)?;
            return files::atomic_replace(&written.temporary, &own, Durability::Unsynced);
        }
        // A file-based checkpoint may have had the name before, and parities are of the file before.
        self.remove_note(name, version)?;
        self.remove_parity(name, version)?;
        self.remove_checksum(name, version)?;
        let durability = self.scratch_durability();
        self.stamp(FileTier::Scratch, &written.temporary);
        files::atomic_replace(&written.temporary, &self.own_path(name, version)?, durability)?;
        match &written.digest {
            Some(digest) => self.put_checksum(name, version, digest, durability),
            None => Ok(()),
        }
    }

    /// Gives the complete file of a file-based checkpoint its name. The caller holds the lock of
    /// names.
    pub fn publish_routed(
        &self,
        temporary: &Path,
        name: &str,
        version: i32,
        original: &str,
    ) -> Result<()> {
        self.remove_parity(name, version)?;
        self.remove_checksum(name, version)?;
        self.stamp(FileTier::Scratch, temporary);
        self.publish_rebuilt(temporary, name, version, Some(original))
    }

    /// Gives a file that was rebuilt its name. What its parities and its checksum say holds for it.
    pub fn publish_rebuilt(
        &self,
        temporary: &Path,
        name: &str,
        version: i32,
        routed: Option<&str>,
    ) -> Result<()> {
        match routed {
            Some(original) => self.note_routed(name, version, original)?,
            None => {
                self.remove_note(name, version)?;
                self.stamp_brought(temporary, name, version);
            }
        }
        let path = self.scratch_path(name, version)?;
        self.seal_file(&files::open(temporary)?, temporary)?;
        files::atomic_replace(temporary, &path, self.scratch_durability())
    }

    pub(super) fn put_checksum(
        &self,
        name: &str,
        version: i32,
        digest: &Checksum,
        durability: Durability,
    ) -> Result<()> {
        self.checksums.as_ref().filter(|sums| sums.are_kept()).map_or(Ok(()), |checksums| {
            let file = names::checkpoint_file(name, self.rank, version);
            let temporary = self.temporary(&checksums.path(&file));
            checksums.put(&file, digest, &temporary, durability)
        })
    }

    pub(super) fn scratch_durability(&self) -> Durability {
        if self.sync >= SyncFiles::Full && !self.ephemeral {
            Durability::Synced
        } else {
            Durability::Unsynced
        }
    }

    pub(super) fn persistent_durability(&self) -> Durability {
        if self.sync >= SyncFiles::Data {
            Durability::Synced
        } else {
            Durability::Unsynced
        }
    }

    /// Notes that a checkpoint is a file of the application's own, which no header tells.
    pub(super) fn note_routed(&self, name: &str, version: i32, original: &str) -> Result<()> {
        self.companions.notes.store(true, Ordering::Relaxed);
        let note = self.routed_note(name, version)?;
        let temporary = self.temporary(&note);
        let file = files::create(&temporary)?;
        files::write_all_at(&file, original.as_bytes(), 0, &temporary)?;
        self.seal_file(&file, &temporary)?;
        files::atomic_replace(&temporary, &note, self.scratch_durability())
    }
}
