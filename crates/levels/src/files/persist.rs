//! Copies from scratch to persistent.

use std::path::{Path, PathBuf};

use super::{hashing, Files};
use catalog::FileLevel;
use errors::{Error, Result};
use format::aggregate::AggregatePart;
use format::names;
use format::proof::Sort;
use os::files::{self, Durability};
use os::times;

impl Files {
    /// Copies a checkpoint's scratch file to persistent. A file-based checkpoint goes to the path
    /// it was routed from, with a link in persistent; a checkpoint with a place in an aggregated
    /// file goes there.
    pub fn persist(
        &self,
        name: &str,
        version: i32,
        routed: Option<&str>,
        place: Option<&AggregatePart>,
    ) -> Result<u64> {
        self.may_change_in(self.persistent.as_deref())?;
        if let Some(place) = place {
            let bytes = self.persist_part(name, version, place)?;
            self.persist_checksum(name, version, None, self.persistent_durability())?;
            return Ok(bytes);
        }
        let source = self.scratch_path(name, version)?;
        files::check_own_at(&source)?;
        let persistent = self.persistent_path(name, version);
        let (target, link) = match routed {
            Some(original) => (PathBuf::from(original), persistent),
            None => match persistent {
                Some(path) => (path, None),
                None => return Ok(0),
            },
        };
        self.check_persistent(name, version)?;
        let durability = self.persistent_durability();
        let temporary = self.temporary(&target);
        // Looked up before the copy: a file that comes meanwhile is not taken for copied.
        let taken = times::modified(&source);
        let bytes = files::copy_file(&source, &temporary, durability, |from, to| {
            self.copy_proof((from, &source), (to, &target));
        })?;
        if let Err(error) = self.may_change_in(self.persistent.as_deref()) {
            files::remove(&temporary)?;
            return Err(error);
        }
        match (&link, taken) {
            (None, Ok(taken)) => self.stamp_copy(FileLevel::Persistent, &temporary, taken),
            (None, Err(_)) => self.stamp(FileLevel::Persistent, &temporary),
            (Some(_), _) => {}
        }
        let _naming = self.naming_one();
        files::atomic_replace(&temporary, &target, durability)?;
        if let Some(link) = link {
            self.link(&target, &link)?;
        }
        self.persist_checksum(name, version, routed.map(|_| &*source), durability)?;
        Ok(bytes)
    }

    /// Makes the link in persistent that stands for a file of the application's own.
    pub(super) fn link(&self, target: &Path, link: &Path) -> Result<()> {
        let temporary = self.temporary(link);
        std::os::unix::fs::symlink(target, &temporary)
            .map_err(|error| Error::system(format!("linking {}", temporary.display()), &error))?;
        self.stamp(FileLevel::Persistent, &temporary);
        files::atomic_replace(&temporary, link, self.persistent_durability())
    }

    /// Makes the checksum as durable as the file. For a file of the application's own it is made
    /// here, of `whole`: nothing of that file was seen before.
    pub(super) fn persist_checksum(
        &self,
        name: &str,
        version: i32,
        whole: Option<&Path>,
        durability: Durability,
    ) -> Result<()> {
        let Some(checksums) = self.checksums.as_ref().filter(|sums| sums.are_kept()) else {
            return Ok(());
        };
        match (whole, durability) {
            (Some(whole), _) => {
                let file = files::open(whole)?;
                let all = 0..files::len(&file, whole)?;
                let digest = hashing::of_range(Sort::Sha256, &file, all, whole, || Ok(()))?;
                self.put_checksum(name, version, Some(digest), durability)
            }
            (None, Durability::Synced) => {
                checksums.sync(&names::checkpoint_file(name, self.rank, version))
            }
            (None, Durability::Unsynced) => Ok(()),
        }
    }
}
