//! The checksums of the versions of a job: each comes before its file gets its name, and goes with the last copy.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::checksums::Checksums;
use super::hashing;
use super::listing::Listing;
use super::places::Places;
use catalog::FileLevel;
use errors::Result;
use format::proof::{Digest, Sort};
use format::{checksum, names};
use os::files::{self, Durability};
use os::sync::Mutex;

/// The checksums of this process's versions.
#[derive(Debug)]
pub(super) struct Sums {
    places: Arc<Places>,
    listing: Arc<Listing>,
    checksums: Option<Arc<Checksums>>,
    /// Checkpoint names of which checksums of versions that are gone were looked for.
    tidied: Arc<Mutex<HashSet<String>>>,
}

impl Sums {
    pub(super) fn new(
        places: Arc<Places>,
        listing: Arc<Listing>,
        checksums: Option<Arc<Checksums>>,
        tidied: Arc<Mutex<HashSet<String>>>,
    ) -> Sums {
        Sums { places, listing, checksums, tidied }
    }

    /// The checksums, if they are kept.
    pub(super) fn kept(&self) -> Option<&Checksums> {
        self.checksums.as_deref().filter(|sums| sums.are_kept())
    }

    /// Whether there may be checksums, even of an earlier job.
    pub(super) fn may_be_there(&self) -> bool {
        self.checksums.is_some()
    }

    /// Whether upstream's checksums are kept (`chksum = true`).
    pub(super) fn keeps_checksums(&self) -> bool {
        self.kept().is_some()
    }

    /// Removes checksums of versions of a name that neither scratch nor persistent has any more,
    /// when this job takes its first version: their job was killed, or its scratch was lost.
    fn tidy_checksums(&self, name: &str) {
        let Some(meta) = self.places.meta() else { return };
        if self.tidied.lock().insert(name.to_owned()) {
            if let Err(error) = self.remove_checksums_of_gone(meta, name) {
                log::warn!("checksums of versions that are gone stay: {error}");
            }
        }
    }

    fn remove_checksums_of_gone(&self, meta: &Path, name: &str) -> Result<()> {
        // Checksums are listed first: each comes after its file.
        let kept = files::list(meta, |file| {
            let of = names::parse(checksum::is_of(file)?)?;
            (of.name == name && of.rank == self.places.rank()).then_some(of.version)
        })?;
        let [scratch, persistent] = [FileLevel::Scratch, FileLevel::Persistent]
            .map(|level| self.listing.all_in(level, name));
        let there: HashSet<i32> =
            scratch?.into_iter().chain(persistent?).map(|(version, _)| version).collect();
        for version in kept.into_iter().filter(|version| !there.contains(version)) {
            let file = names::checkpoint_file(name, self.places.rank(), version);
            let path = checksum::path(meta, &file);
            if files::is_own(&path) {
                files::remove(&path)?;
            }
        }
        Ok(())
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
        let Some(checksums) = self.kept() else {
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
                checksums.sync(&names::checkpoint_file(name, self.places.rank(), version))
            }
            (None, Durability::Unsynced) => Ok(()),
        }
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
        let kept = self.kept();
        let (Some(Digest::Sha256(digest)), Some(checksums)) = (digest, kept) else {
            return self.remove_checksum(name, version);
        };
        self.places.may_change_in(self.places.meta())?;
        self.tidy_checksums(name);
        let file = names::checkpoint_file(name, self.places.rank(), version);
        let temporary = self.places.temporary(&checksums.path(&file));
        checksums.put(&file, &digest, &temporary, durability)
    }

    pub(super) fn remove_checksum(&self, name: &str, version: i32) -> Result<()> {
        self.checksums.as_ref().map_or(Ok(()), |checksums| {
            self.places.may_change_in(self.places.meta())?;
            checksums.remove(&names::checkpoint_file(name, self.places.rank(), version))
        })
    }
}
