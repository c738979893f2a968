//! Copies from scratch to persistent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

mod beside;
mod straight;

use super::age::Ages;
use super::aggregate::Aggregates;
use super::places::Places;
use super::proofs::Proofs;
use super::rebased::Bases;
use super::sums::Sums;
use catalog::FileLevel;
use errors::{Error, Result};
use format::aggregate::AggregatePart;
use os::files;
use os::times;

/// The files of persistent, as they come.
#[derive(Debug)]
pub struct Persistent {
    places: Arc<Places>,
    ages: Arc<Ages>,
    sums: Arc<Sums>,
    proofs: Arc<Proofs>,
    bases: Arc<Bases>,
    aggregates: Arc<Aggregates>,
}

impl Persistent {
    pub(super) fn new(
        (places, ages): (Arc<Places>, Arc<Ages>),
        (sums, proofs): (Arc<Sums>, Arc<Proofs>),
        bases: Arc<Bases>,
        aggregates: Arc<Aggregates>,
    ) -> Persistent {
        Persistent { places, ages, sums, proofs, bases, aggregates }
    }

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
        self.places.may_change_in(self.places.persistent())?;
        if let Some(place) = place {
            let bytes = self.aggregates.persist_part(name, version, place)?;
            self.sums.persist_checksum(name, version, None, self.places.persistent_durability())?;
            return Ok(bytes);
        }
        let source = self.places.scratch_path(name, version)?;
        files::check_own_at(&source)?;
        let persistent = self.places.persistent_path(name, version);
        let (target, link) = match routed {
            Some(original) => (PathBuf::from(original), persistent),
            None => match persistent {
                Some(path) => (path, None),
                None => return Ok(0),
            },
        };
        self.check_persistent(name, version)?;
        let durability = self.places.persistent_durability();
        let temporary = self.places.temporary(&target);
        // Looked up before the copy: a file that comes meanwhile is not taken for copied.
        let taken = times::modified(&source);
        let bytes = files::copy_file(&source, &temporary, durability, |from, to| {
            self.proofs.copy_proof((from, &source), (to, &target));
        })?;
        if let Err(error) = self.places.may_change_in(self.places.persistent()) {
            files::remove(&temporary)?;
            return Err(error);
        }
        match (&link, taken) {
            (None, Ok(taken)) => self.ages.stamp_copy(FileLevel::Persistent, &temporary, taken),
            (None, Err(_)) => self.ages.stamp(FileLevel::Persistent, &temporary),
            (Some(_), _) => {}
        }
        let _naming = self.places.naming_one();
        files::atomic_replace(&temporary, &target, durability)?;
        if let Some(link) = link {
            self.link(&target, &link)?;
        }
        self.sums.persist_checksum(name, version, routed.map(|_| &*source), durability)?;
        Ok(bytes)
    }

    /// Makes the link in persistent that stands for a file of the application's own.
    pub(super) fn link(&self, target: &Path, link: &Path) -> Result<()> {
        let temporary = self.places.temporary(link);
        std::os::unix::fs::symlink(target, &temporary)
            .map_err(|error| Error::system(format!("linking {}", temporary.display()), &error))?;
        self.ages.stamp(FileLevel::Persistent, &temporary);
        files::atomic_replace(&temporary, link, self.places.persistent_durability())
    }

    /// Checks that this job may replace what persistent has of a version in a file of its own.
    pub(super) fn check_persistent(&self, name: &str, version: i32) -> Result<()> {
        let path = self.places.persistent_path(name, version);
        path.map_or(Ok(()), |path| self.bases.let_go(name, version, &path))
    }
}
