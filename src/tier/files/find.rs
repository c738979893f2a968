//! Finding the copies of a checkpoint.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use super::{Files, Found, Opened};
use crate::catalog::entry::FileTier;
use crate::error::{Error, Kind, Result};
use crate::format::checksum::Checksum;
use crate::format::header::Decoded;
use crate::format::names;
use crate::platform::files;

impl Files {
    /// Whether persistent has a checkpoint, in a file of its own or in an aggregated one.
    pub fn is_persistent(&self, name: &str, version: i32) -> bool {
        self.persistent_path(name, version).is_some_and(|path| path.exists())
            || self.is_aggregated(name, version)
    }

    /// Whether a checkpoint's own file in scratch is certainly not there.
    pub fn lacks_scratch(&self, name: &str, version: i32) -> bool {
        self.own_path(name, version).is_ok_and(|path| matches!(path.try_exists(), Ok(false)))
    }

    /// Whether scratch has parities that this process keeps of a version.
    pub fn has_parities(&self, name: &str, version: i32) -> bool {
        self.parity_path(name, version).is_ok_and(|path| path.exists())
    }

    /// The versions of which a complete file exists in scratch or persistent, ascending. A place
    /// that cannot be listed is passed over, with a warning, if another one has any.
    ///
    /// # Errors
    /// The first place's that could not be listed, if nothing was found.
    pub fn versions(&self, name: &str) -> Result<BTreeSet<i32>> {
        let of = |directory: &Option<PathBuf>| {
            directory.as_ref().map(|directory| files::versions(directory, name, self.rank))
        };
        let own = [of(&self.scratch), of(&self.persistent)].into_iter().flatten();
        let mut found = BTreeSet::new();
        let mut failed = Vec::new();
        for listed in own.chain(std::iter::once_with(|| self.aggregated_versions(name))) {
            match listed {
                Ok(versions) => found.extend(versions),
                Err(error) => failed.push(error),
            }
        }
        if found.is_empty() {
            return failed.into_iter().next().map_or(Ok(found), Err);
        }
        for error in failed {
            self.warn_once(format!("going on without the checkpoints there: {error}"));
        }
        Ok(found)
    }

    /// The nearest good file of a checkpoint: scratch, then persistent.
    pub fn open_nearest(&self, name: &str, version: i32) -> Result<Opened> {
        self.nearest(name, version, |opened| self.checked(opened, name, version, || Ok(())))
    }

    /// The header of a checkpoint without a look at its checksum: all files that can be one have this
    /// one. `None` if they differ, or there are none.
    pub fn undisputed_header(&self, name: &str, version: i32) -> Option<Decoded> {
        if self.is_routed(name, version) {
            return None;
        }
        let mut headers =
            self.copies(name, version).filter_map(Result::ok).map(|opened| opened.header);
        let header = headers.next()?;
        headers.all(|other| other == header).then_some(header)
    }

    /// What `take` makes of the nearest file of a checkpoint with which it does not fail.
    pub(super) fn nearest<T>(
        &self,
        name: &str,
        version: i32,
        mut take: impl FnMut(Opened) -> Result<T>,
    ) -> Result<T> {
        let mut last: Option<Error> = None;
        let pass_over = |last: &mut Option<Error>| {
            if let Some(error) = last.take() {
                self.warn_once(passed_over(&error));
            }
        };
        for opened in self.copies(name, version) {
            match opened.and_then(&mut take) {
                Ok(taken) => {
                    pass_over(&mut last);
                    return Ok(taken);
                }
                Err(error) if error.kind() == Kind::NotFound => {}
                // No other copy would help.
                Err(error) if matches!(error.kind(), Kind::Driver(_) | Kind::Internal) => {
                    return Err(error);
                }
                Err(error) => {
                    // That of the last one is the caller's.
                    pass_over(&mut last);
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| self.no_file(name, version)))
    }

    /// Whether it was said that another copy is looked for because of this.
    pub fn is_passed_over(&self, error: &Error) -> bool {
        self.was_told(&passed_over(error))
    }

    pub(super) fn no_file(&self, name: &str, version: i32) -> Error {
        Error::new(
            Kind::NotFound,
            format!("no file of checkpoint \"{name}\" version {version}, rank {}", self.rank),
        )
    }

    /// The files that a checkpoint may have, the nearest first, each opened when it is its turn.
    fn copies<'a>(
        &'a self,
        name: &'a str,
        version: i32,
    ) -> impl Iterator<Item = Result<Opened>> + 'a {
        let scratch = self
            .scratch
            .as_ref()
            .map(|_| [self.own_path(name, version), self.scratch_path(name, version)]);
        let mut scratch: Vec<PathBuf> =
            scratch.into_iter().flatten().filter_map(Result::ok).collect();
        scratch.dedup();
        let files = scratch.into_iter().chain(self.persistent_path(name, version));
        let files = files.map(|path| Opened::read(&path));
        // The part is looked for last of all, and only if it is needed.
        files.chain(std::iter::once_with(move || self.open_part(name, version)))
    }

    /// An opened file, if it has its checksum. `go_on` may end the comparing by an error.
    pub(super) fn checked(
        &self,
        opened: Opened,
        name: &str,
        version: i32,
        go_on: impl FnMut() -> Result<()>,
    ) -> Result<Opened> {
        if let Some(checksums) = &self.checksums {
            let file = names::checkpoint_file(name, self.rank, version);
            checksums.check(&file, &opened.file, opened.part.clone(), &opened.path, go_on)?;
        }
        Ok(opened)
    }

    /// The checksum that was kept of a checkpoint's file, if files are compared with theirs.
    pub fn kept_checksum(&self, name: &str, version: i32) -> Result<Option<Checksum>> {
        let file = names::checkpoint_file(name, self.rank, version);
        let kept = self.checksums.as_ref().filter(|sums| sums.are_kept());
        kept.map_or(Ok(None), |sums| sums.get(&file))
    }

    /// What a checkpoint's file on disk is, if it can be restored.
    pub fn look(&self, name: &str, version: i32) -> Result<Found> {
        // Upstream leaves no note, but a link; and there is no header in any copy.
        let routed = self.is_routed(name, version)
            || (self.is_linked(name, version)
                && !self.copies(name, version).any(|opened| opened.is_ok()));
        if routed {
            return self.routed_copy(name, version).map(|_| Found::Routed);
        }
        self.open_nearest(name, version).map(Found::Regions)
    }

    /// The versions of a name in a tier by the time of their last change, oldest first.
    pub fn oldest_first(&self, tier: FileTier, name: &str) -> Result<Vec<i32>> {
        Ok(self.by_age(tier, name)?.into_iter().map(|(_, version)| version).collect())
    }

    /// The same with these times.
    pub(super) fn by_age(&self, tier: FileTier, name: &str) -> Result<Vec<(SystemTime, i32)>> {
        let directory = match tier {
            FileTier::Scratch => &self.scratch,
            FileTier::Persistent => &self.persistent,
        };
        let Some(directory) = directory else {
            return Ok(Vec::new());
        };
        let own = files::versions(directory, name, self.rank)?.into_iter().map(|version| {
            (directory.join(names::checkpoint_file(name, self.rank, version)), version)
        });
        let shared = match tier {
            FileTier::Scratch => Vec::new(),
            FileTier::Persistent => self.aggregated_versions(name)?,
        };
        let shared = shared
            .into_iter()
            .filter_map(|version| Some((self.aggregated_data(name, version)?, version)));
        let mut found = Vec::new();
        for (path, version) in own.chain(shared) {
            // Not that of the file a link leads to. What has gone meanwhile is not there.
            if let Ok(changed) = fs::symlink_metadata(&path).and_then(|m| m.modified()) {
                found.push((changed, version));
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// What is said of a copy that is not good.
fn passed_over(error: &Error) -> String {
    format!("{error}; looking for another copy")
}
