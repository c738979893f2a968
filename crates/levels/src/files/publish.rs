//! Giving complete files their names in scratch.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{Files, Naming, Output, Written};
use catalog::FileLevel;
use config::SyncFiles;
use errors::Result;
use format::identity::Identity;
use format::names;
use format::proof::Digest;
use os::files::{self, Durability};

impl Files {
    /// Gives a complete scratch file its proof, syncs it if the configuration says so, and has the
    /// file system say what it could not write. To be called before [`Files::publish`].
    pub fn seal(
        &self,
        output: &Output,
        name: &str,
        version: i32,
        identity: Identity,
    ) -> Result<()> {
        self.prove(output, name, version, identity);
        self.seal_file(&output.file, &output.temporary)
    }

    pub(super) fn seal_file(&self, file: &File, path: &Path) -> Result<()> {
        files::finish_write(file, path, self.scratch_durability())
    }

    /// Gives a complete file its name and its checksum.
    pub fn publish(
        &self,
        _: &Naming<'_>,
        written: &Written,
        name: &str,
        version: i32,
    ) -> Result<()> {
        self.may_change_in(self.scratch.as_deref())?;
        let path = self.own_path(name, version)?;
        self.let_go(name, version, &path)?;
        // An older checkpoint of the name may be file-based, and the parities are of its file.
        self.remove_note(name, version)?;
        self.remove_parity(name, version)?;
        let durability = self.scratch_durability();
        self.stamp(FileLevel::Scratch, &written.temporary);
        self.put_checksum(name, version, written.digest, durability)?;
        let _naming = self.naming_one();
        files::atomic_replace(&written.temporary, &path, durability)
    }

    /// Gives the complete file of a file-based checkpoint its name.
    pub fn publish_routed(
        &self,
        naming: &Naming<'_>,
        temporary: &Path,
        name: &str,
        version: i32,
        (identity, original): (Identity, &str),
    ) -> Result<()> {
        self.may_change_in(self.scratch.as_deref())?;
        self.let_go(name, version, &self.scratch_path(name, version)?)?;
        self.remove_parity(name, version)?;
        self.remove_checksum(name, version)?;
        self.stamp(FileLevel::Scratch, temporary);
        self.publish_rebuilt(naming, temporary, name, version, (identity, Some(original)))
    }

    /// Gives a rebuilt file its name. Its parities and its checksum still hold.
    pub fn publish_rebuilt(
        &self,
        _: &Naming<'_>,
        temporary: &Path,
        name: &str,
        version: i32,
        (identity, routed): (Identity, Option<&str>),
    ) -> Result<()> {
        self.may_change_in(self.scratch.as_deref())?;
        match routed {
            Some(original) => self.note_routed(name, version, original)?,
            None => {
                self.remove_note(name, version)?;
                self.stamp_brought(temporary, name, version);
            }
        }
        let path = self.scratch_path(name, version)?;
        let file = files::open(temporary)?;
        match routed {
            Some(_) => self.prove_routed(&file, temporary, name, version, identity)?,
            None => self.prove_whole(&file, temporary, name, version, identity)?,
        }
        self.seal_file(&file, temporary)?;
        let _naming = self.naming_one();
        files::atomic_replace(temporary, &path, self.scratch_durability())
    }

    /// Writes upstream's checksum of a file that is about to get its name, where checksums are kept; else an older one
    /// goes. A kill in between leaves a checksum without its file, and no file without its checksum.
    pub(super) fn put_checksum(
        &self,
        name: &str,
        version: i32,
        digest: Option<Digest>,
        durability: Durability,
    ) -> Result<()> {
        let kept = self.checksums.as_ref().filter(|sums| sums.are_kept());
        let (Some(Digest::Sha256(digest)), Some(checksums)) = (digest, kept) else {
            return self.remove_checksum(name, version);
        };
        self.may_change_in(self.meta.as_deref())?;
        self.tidy_checksums(name);
        let file = names::checkpoint_file(name, self.rank, version);
        let temporary = self.temporary(&checksums.path(&file));
        checksums.put(&file, &digest, &temporary, durability)
    }

    pub(super) fn scratch_durability(&self) -> Durability {
        if self.sync >= SyncFiles::Full && !self.ephemeral {
            Durability::Synced
        } else {
            Durability::Unsynced
        }
    }

    pub(super) fn durability_in(&self, level: FileLevel) -> Durability {
        match level {
            FileLevel::Scratch => self.scratch_durability(),
            FileLevel::Persistent => self.persistent_durability(),
        }
    }

    pub(super) fn persistent_durability(&self) -> Durability {
        if self.sync >= SyncFiles::Data {
            Durability::Synced
        } else {
            Durability::Unsynced
        }
    }

    /// Writes the note that a checkpoint is a file of the application's own, which has no header.
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
