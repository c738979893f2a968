//! Finding the copies of a checkpoint.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::expected::Evidence;
use super::{Files, Found, Opened};
use catalog::FileLevel;
use errors::{Error, Kind, Result};
use format::checksum::Checksum;
use format::delta::{self, Base, Stored, Table};
use format::header::Decoded;
use format::names;
use os::files::{self, OtherUser};

/// A copy of a checkpoint, or why it cannot be opened; and its owner, if that is another user.
pub(super) type Copy = (Result<Opened>, Option<OtherUser>);

impl Files {
    /// Whether persistent has a checkpoint, in a file of its own or in an aggregated one. Another
    /// user's file counts only as long as scratch has none of this user's.
    pub fn is_persistent(&self, name: &str, version: i32) -> bool {
        let paths = [self.persistent_path(name, version), self.aggregated_data(name, version)];
        let mut there = paths.into_iter().flatten().filter(|path| path.exists()).peekable();
        let in_scratch = || self.scratch_path(name, version).is_ok_and(|path| files::is_own(&path));
        there.peek().is_some() && (there.any(|path| files::is_own(&path)) || !in_scratch())
    }

    /// Whether a level has a file of a version, which stays if it could not be written again.
    pub fn has_older(&self, level: FileLevel, name: &str, version: i32) -> bool {
        let path = match level {
            FileLevel::Scratch => self.own_path(name, version).ok(),
            FileLevel::Persistent => self.persistent_path(name, version),
        };
        path.is_some_and(|path| path.exists())
    }

    /// Whether a checkpoint's own file in scratch is certainly not there.
    pub fn lacks_scratch(&self, name: &str, version: i32) -> bool {
        self.own_path(name, version).is_ok_and(|path| matches!(path.try_exists(), Ok(false)))
    }

    /// Whether scratch has parities that this process keeps of a version.
    pub fn has_parities(&self, name: &str, version: i32) -> bool {
        self.parity_path(name, version).is_ok_and(|path| files::is_own(&path))
    }

    /// The versions of which a complete file exists in scratch or persistent, ascending; files of other
    /// users count only if there is none of this one's. A place that cannot be listed is passed over,
    /// with a warning, if another one has any.
    ///
    /// # Errors
    /// The first place's that could not be listed, if nothing was found.
    pub fn versions(&self, name: &str) -> Result<BTreeSet<i32>> {
        let (mut found, mut of_others) = (BTreeSet::new(), BTreeSet::new());
        let mut failed = Vec::new();
        for listed in
            [FileLevel::Scratch, FileLevel::Persistent].map(|level| self.all_in(level, name))
        {
            match listed {
                Ok(listed) => {
                    for (version, path) in listed {
                        match files::other_owner_at(&path) {
                            None => found.insert(version),
                            Some(_) => of_others.insert(version),
                        };
                    }
                }
                Err(error) => failed.push(error),
            }
        }
        if found.is_empty() {
            found = of_others;
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
    pub(crate) fn open_nearest(&self, name: &str, version: i32) -> Result<Opened> {
        self.nearest(name, version, |opened| self.checked(opened, name, version, || Ok(())))
    }

    /// The header that all of this user's copies of a checkpoint have, without a look at checksums.
    /// `None` if they differ, or there are none.
    pub fn undisputed_header(&self, name: &str, version: i32) -> Option<Decoded> {
        if self.is_routed(name, version) {
            return None;
        }
        let own = self.copies(name, version).filter(|(_, other)| other.is_none());
        let mut headers = own.filter_map(|(opened, _)| Some(opened.ok()?.header));
        let header = headers.next()?;
        headers.all(|other| other == header).then_some(header)
    }

    /// Calls `take` with the copies of a checkpoint, the nearest first, until it succeeds with one.
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
        let copies: Box<dyn Iterator<Item = Copy>> = match self.keeps_checksums() {
            true => Box::new(self.best_known_first(name, version).into_iter()),
            false => Box::new(self.copies(name, version)),
        };
        for (opened, other) in copies {
            if let (Ok(opened), Some(other)) = (&opened, other) {
                self.say_whose(&opened.path, other);
            }
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
                    // The last copy's error is returned; those before it are warnings.
                    pass_over(&mut last);
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| self.no_file(name, version)))
    }

    /// The copies of a checkpoint where checksums are kept: this user's before others', copies that
    /// can be compared with something before those that cannot, and then the nearest first.
    fn best_known_first(&self, name: &str, version: i32) -> Vec<Copy> {
        let judged = self.copies(name, version).map(|(opened, other)| {
            let expected = opened.as_ref().ok().map(|opened| self.expected(opened, name, version));
            // A copy that cannot be read gives its error when it is its turn.
            let evidence = expected.and_then(Result::ok).map_or(Evidence::Current, |(_, e)| e);
            ((other.is_some(), evidence), (opened, other))
        });
        let mut judged: Vec<_> = judged.collect();
        judged.sort_by_key(|(rank, _)| *rank);
        judged.into_iter().map(|(_, copy)| copy).collect()
    }

    pub(super) fn no_file(&self, name: &str, version: i32) -> Error {
        Error::new(
            Kind::NotFound,
            format!(
                "no file of checkpoint \"{name}\" version {version}, rank {}{}",
                self.rank,
                self.looked_in()
            ),
        )
    }

    /// The end of a message that nothing was found: where files are looked for, if anywhere.
    pub fn looked_in(&self) -> String {
        let levels = [FileLevel::Scratch, FileLevel::Persistent];
        let there = levels.into_iter().filter_map(|level| self.directory(level));
        there.map(|directory| format!(", in {}", directory.display())).collect()
    }

    /// Warns that a copy which is about to be restored is another user's.
    pub(super) fn say_whose(&self, path: &Path, other: OtherUser) {
        self.warn_once(format!(
            "{} belongs to {other}; there is no other copy to restore",
            path.display()
        ));
    }

    /// The copies that a checkpoint may have, each opened when it is its turn: the nearest first,
    /// and those of other users, who are named, last.
    pub(super) fn copies<'a>(
        &'a self,
        name: &'a str,
        version: i32,
    ) -> impl Iterator<Item = Copy> + 'a {
        let find = move |base: &Base| self.base_of_delta(name, base);
        let copies = self.files_of(name, version);
        copies.map(move |(opened, other)| {
            let opened = opened.and_then(|opened| self.of_wanted_run(opened));
            (opened.and_then(|opened| opened.with_bases(&find)), other)
        })
    }

    /// The number of a version's file, and how many deltas lead from it to one that has everything. `None`: it has no
    /// table of changes, or cannot be read.
    pub fn number_in_chain(&self, name: &str, version: i32) -> Option<(u64, u64)> {
        let Ok(Found::Regions(opened)) = self.look(name, version) else { return None };
        let table = delta::table_of(&opened.file, opened.part.clone(), &opened.path).ok()??;
        Some((table.number, table.chain))
    }

    /// The file that a delta needs: the nearest good one that it was taken from.
    pub(super) fn base_of_delta(&self, name: &str, base: &Base) -> Result<Stored> {
        let mut another = None;
        for (opened, other) in self.files_of(name, base.version) {
            let found = opened.and_then(|opened| {
                let table = delta::table_of(&opened.file, opened.part.clone(), &opened.path)?;
                if table.is_some_and(|table| table.number == base.number) {
                    return self.checked(opened, name, base.version, || Ok(()));
                }
                let what = "it is another checkpoint than its deltas were taken from";
                Err(Error::new(Kind::Corrupt, what).within(opened.path.display()))
            });
            match found {
                Ok(Opened { file, part, path, .. }) => {
                    if let Some(other) = other {
                        self.say_whose(&path, other);
                    }
                    return Ok(Stored { file, part, path });
                }
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => another = Some(error),
            }
        }
        // The delta is there, and of no use: that is no absence.
        let missing = || Error::new(Kind::Corrupt, self.no_file(name, base.version).to_string());
        Err(another.unwrap_or_else(missing))
    }

    /// The first version below a delta of which there is no file, or only another checkpoint's. `None`: all are there.
    pub fn missing_base(&self, name: &str, version: i32) -> Option<i32> {
        let mut next = Base { version, number: 0 };
        loop {
            let tables = self.files_of(name, next.version).filter_map(|(opened, _)| {
                let opened = opened.ok()?;
                delta::table_of(&opened.file, opened.part.clone(), &opened.path).ok()?
            });
            let is_one = |table: &Table| next.version == version || table.number == next.number;
            match tables.into_iter().find(is_one) {
                Some(table) => next = table.needed().filter(|base| base.version < next.version)?,
                None if next.version == version => return None,
                None => return Some(next.version),
            }
        }
    }

    /// The version that this process's file of a checkpoint in a level is a delta of.
    ///
    /// # Errors
    /// [`Kind::Corrupt`], [`Kind::NotFound`], or the system's; with the path.
    pub fn base_in(&self, level: FileLevel, name: &str, version: i32) -> Result<Option<i32>> {
        let own = match level {
            FileLevel::Scratch => Some(self.scratch_path(name, version)?),
            FileLevel::Persistent => self.persistent_path(name, version),
        };
        let own = own.filter(|path| path.exists()).map(|path| Opened::read(&path));
        let opened = own.unwrap_or_else(|| self.open_part(name, version))?;
        let table = delta::table_of(&opened.file, opened.part.clone(), &opened.path)?;
        Ok(table.and_then(|table| table.needed()).map(|base| base.version))
    }

    /// The files of a checkpoint, in the same order, each with the regions that it has itself.
    fn files_of<'a>(&'a self, name: &'a str, version: i32) -> impl Iterator<Item = Copy> + 'a {
        let scratch = self
            .scratch
            .as_ref()
            .map(|_| [self.own_path(name, version), self.scratch_path(name, version)]);
        let mut scratch: Vec<PathBuf> =
            scratch.into_iter().flatten().filter_map(Result::ok).collect();
        scratch.dedup();
        // A link there is nobody's version.
        scratch.retain(|path| !path.is_symlink());
        let files = scratch.into_iter().chain(self.persistent_path(name, version));
        let files = files.map(|path| Opened::read(&path));
        // The part of an aggregated file is looked for last, and only if it is needed.
        let mut all = files.chain(std::iter::once_with(move || self.open_part(name, version)));
        let mut of_others = VecDeque::new();
        std::iter::from_fn(move || {
            for copy in all.by_ref() {
                let whose = |opened: &Opened| files::other_owner_of(&opened.file, &opened.path);
                match copy.as_ref().ok().and_then(whose) {
                    None => return Some((copy, None)),
                    other => of_others.push_back((copy, other)),
                }
            }
            of_others.pop_front()
        })
    }

    /// The checksum that was kept of a checkpoint's file, if this job compares checksums.
    pub fn kept_checksum(&self, name: &str, version: i32) -> Result<Option<Checksum>> {
        let file = names::checkpoint_file(name, self.rank, version);
        let kept = self.checksums.as_ref().filter(|sums| sums.are_kept());
        kept.map_or(Ok(None), |sums| sums.get(&file))
    }

    /// Finds a checkpoint's file that can be restored: one with regions, or a routed one.
    pub fn look(&self, name: &str, version: i32) -> Result<Found> {
        // Upstream leaves a link but no note, and no copy has a header.
        let routed = self.is_routed(name, version)
            || (self.is_linked(name, version)
                && !self.copies(name, version).any(|(opened, _)| opened.is_ok()));
        if routed {
            return self.routed_copy(name, version).map(Found::Routed);
        }
        self.open_nearest(name, version).map(Found::Regions)
    }

    /// The files of a name in a level, with their versions. A link in scratch is none: it is not this library's.
    pub(super) fn all_in(&self, level: FileLevel, name: &str) -> Result<Vec<(i32, PathBuf)>> {
        let Some(directory) = self.directory(level) else {
            return Ok(Vec::new());
        };
        let own = versions(directory, name, self.rank)?.into_iter().map(|version| {
            (version, directory.join(names::checkpoint_file(name, self.rank, version)))
        });
        let own = own.filter(|(_, path)| level == FileLevel::Persistent || !path.is_symlink());
        let shared = match level {
            FileLevel::Scratch => Vec::new(),
            FileLevel::Persistent => self.aggregated_versions(name)?,
        };
        let shared = shared
            .into_iter()
            .filter_map(|version| Some((version, self.aggregated_data(name, version)?)));
        Ok(own.chain(shared).collect())
    }

    /// The versions of a name in a level by the time of their last change, oldest first. Files of
    /// other users do not count.
    pub fn oldest_first(&self, level: FileLevel, name: &str) -> Result<Vec<i32>> {
        Ok(self.by_age(level, name)?.into_iter().map(|(_, version)| version).collect())
    }

    /// The version of a name, at most `bound`, that was taken last, as the times of the files in both levels say.
    pub fn taken_last(&self, name: &str, bound: i32) -> Option<i32> {
        let levels = [FileLevel::Scratch, FileLevel::Persistent];
        // What cannot be read is told by who looks for the versions.
        let found = levels.into_iter().filter_map(|level| self.by_age(level, name).ok()).flatten();
        found.filter(|(_, version)| *version <= bound).max().map(|(_, version)| version)
    }

    /// The versions of a name in a level with the times of their last change, oldest first.
    pub(super) fn by_age(&self, level: FileLevel, name: &str) -> Result<Vec<(SystemTime, i32)>> {
        let mut found = Vec::new();
        for (version, path) in self.all_in(level, name)? {
            // The time of a link itself, not of its target. A file may have gone meanwhile.
            let there = fs::symlink_metadata(&path).ok();
            let own = there.filter(|there| files::other_owner(there, &path).is_none());
            if let Some(changed) = own.and_then(|own| own.modified().ok()) {
                found.push((changed, version));
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// The warning about a copy that is not good.
fn passed_over(error: &Error) -> String {
    format!("{error}; looking for another copy")
}

/// The versions of which `directory` has the file `<name>-<rank>-<version>.dat`, ascending.
///
/// # Errors
/// As [`files::list`].
pub(super) fn versions(directory: &Path, name: &str, rank: u32) -> Result<Vec<i32>> {
    let mut versions = files::list(directory, |file_name| {
        let file = names::parse(file_name)?;
        (file.name == name && file.rank == rank).then_some(file.version)
    })?;
    versions.sort_unstable();
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn listing_versions() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(versions(&directory.path().join("none"), "x", 0).unwrap(), [0; 0]);
        for file in [
            "x-0-7.dat",
            "x-0-10.dat",
            "x-0-2.dat",
            "x-0-8.dat.partial",
            ".x-0-9.dat.tmp-1-2",
            "x-0-99999999999.dat",
            "x-1-3.dat",
            "y-0-4.dat",
            "xx-0-5.dat",
            "x.-0-6.dat",
        ] {
            fs::write(directory.path().join(file), "").unwrap();
        }
        assert_eq!(versions(directory.path(), "x", 0).unwrap(), [2, 7, 10]);
        assert_eq!(versions(directory.path(), "x", 1).unwrap(), [3]);
        assert_eq!(versions(directory.path(), "z", 0).unwrap(), [0; 0]);
        // A dot in a name is a dot.
        assert_eq!(versions(directory.path(), "..", 0).unwrap(), [0; 0]);
        let not_a_directory = directory.path().join("x-0-7.dat");
        assert!(versions(&not_a_directory, "x", 0).is_err());
    }
}
