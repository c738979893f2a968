//! Bringing files of the application's own back to scratch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::naming::Naming;
use super::places::Places;
use super::proofs::Proofs;
use super::publish::Scratch;
use super::routed::RoutedFiles;
use super::runs::Runs;
use super::warnings::Warnings;
use errors::Result;
use os::files::{self, Durability};

/// The way of an application's own file back to scratch.
#[derive(Debug)]
pub struct Fetch {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    proofs: Arc<Proofs>,
    runs: Arc<Runs>,
    routed: Arc<RoutedFiles>,
    scratch: Arc<Scratch>,
}

impl Fetch {
    pub(super) fn new(
        (places, warnings, proofs): (Arc<Places>, Arc<Warnings>, Arc<Proofs>),
        runs: Arc<Runs>,
        routed: Arc<RoutedFiles>,
        scratch: Arc<Scratch>,
    ) -> Fetch {
        Fetch { places, warnings, proofs, runs, routed, scratch }
    }

    /// Brings the file of a file-based checkpoint back to scratch with its note, if only persistent
    /// has it. Returns its path there and the bytes that were copied; or where it is, if scratch
    /// cannot take it. `lock` takes the lock of names.
    pub fn fetch_routed<'a>(
        &self,
        name: &str,
        version: i32,
        lock: impl FnOnce() -> Naming<'a>,
    ) -> Result<(PathBuf, u64)> {
        let path = self.places.scratch_path(name, version)?;
        let source = self.routed.routed_copy(name, version)?;
        if source == path {
            return Ok((path, 0));
        }
        match self.bring_routed(&source, &path, name, version, lock) {
            Ok(bytes) => Ok((path, bytes)),
            Err(error) => {
                self.warnings
                    .once(format!("{error}; it is read where it is: {}", source.display()));
                Ok((source, 0))
            }
        }
    }

    /// Copies the file of a file-based checkpoint to its path in scratch. Returns the bytes copied.
    fn bring_routed<'a>(
        &self,
        source: &Path,
        path: &Path,
        name: &str,
        version: i32,
        lock: impl FnOnce() -> Naming<'a>,
    ) -> Result<u64> {
        let temporary = self.places.temporary(path);
        let bytes = files::copy_file(source, &temporary, Durability::Unsynced, |from, to| {
            self.proofs.copy_proof((from, source), (to, path));
        })?;
        let noted = self.routed.routed(name, version).ok().flatten();
        let original = noted.or_else(|| linked_from(source));
        let identity =
            files::open(&temporary).map(|file| self.runs.identity_of(&file, &temporary))?;
        let naming = lock();
        let by = (identity, original.as_deref());
        let named = self.scratch.publish_rebuilt(&naming, &temporary, name, version, by);
        if named.is_err() {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
        }
        named.map(|()| bytes)
    }
}

/// The absolute path that a link leads to.
fn linked_from(link: &Path) -> Option<String> {
    let target = link.parent()?.join(std::fs::read_link(link).ok()?);
    std::path::absolute(target).ok()?.into_os_string().into_string().ok()
}
