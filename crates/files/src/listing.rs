//! Which versions there are, as the names of their files say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

mod others;

use super::places::Places;
use super::warnings::Warnings;
use catalog::FileLevel;
use errors::Result;
use format::aggregate::{self, Offsets};
use format::names;
use os::files;

/// The files of a process's checkpoints, by their names.
#[derive(Debug)]
pub struct Listing {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
}

impl Listing {
    pub(super) fn new(places: Arc<Places>, warnings: Arc<Warnings>) -> Listing {
        Listing { places, warnings }
    }

    /// How many parts an aggregated file has.
    pub(super) fn ranks_of_aggregated(&self, name: &str, version: i32) -> Option<u32> {
        let (data, table) = self.places.aggregated_paths(name, version)?;
        let len = std::fs::metadata(data).ok()?.len();
        u32::try_from(Offsets::read(&table, len).ok()?.ranks()).ok()
    }

    /// The versions of a name that have an aggregated file.
    pub(super) fn aggregated_versions(&self, name: &str) -> Result<Vec<i32>> {
        let persistent = self.places.persistent().filter(|_| self.places.meta().is_some());
        persistent.map_or(Ok(Vec::new()), |persistent| {
            files::list(persistent, |file| {
                aggregate::parse_name(file).filter(|(of, _)| *of == name).map(|(_, v)| v)
            })
        })
    }

    /// Whether there is an aggregated file of a checkpoint.
    pub(super) fn is_aggregated(&self, name: &str, version: i32) -> bool {
        self.places.aggregated_data(name, version).is_some_and(|data| files::is_own(&data))
    }

    /// Whether persistent has a checkpoint, in a file of its own or in an aggregated one. Another
    /// user's file counts only as long as scratch has none of this user's.
    pub fn is_persistent(&self, name: &str, version: i32) -> bool {
        let paths = [
            self.places.persistent_path(name, version),
            self.places.aggregated_data(name, version),
        ];
        let mut there = paths.into_iter().flatten().filter(|path| path.exists()).peekable();
        let in_scratch =
            || self.places.scratch_path(name, version).is_ok_and(|path| files::is_own(&path));
        there.peek().is_some() && (there.any(|path| files::is_own(&path)) || !in_scratch())
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
            self.warnings.once(format!("going on without the checkpoints there: {error}"));
        }
        Ok(found)
    }

    /// The files of a name in a level, with their versions. A link in scratch is none: it is not this library's.
    pub(super) fn all_in(&self, level: FileLevel, name: &str) -> Result<Vec<(i32, PathBuf)>> {
        let Some(directory) = self.places.directory(level) else {
            return Ok(Vec::new());
        };
        let own = versions(directory, name, self.places.rank())?.into_iter().map(|version| {
            (version, directory.join(names::checkpoint_file(name, self.places.rank(), version)))
        });
        let own = own.filter(|(_, path)| level == FileLevel::Persistent || !path.is_symlink());
        let shared = match level {
            FileLevel::Scratch => Vec::new(),
            FileLevel::Persistent => self.aggregated_versions(name)?,
        };
        let shared = shared
            .into_iter()
            .filter_map(|version| Some((version, self.places.aggregated_data(name, version)?)));
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

    /// How large the next file of the application's own under a name will be, if it is as the one
    /// before: in scratch, or at `original`, which it will replace. No other path is looked at: to
    /// list the files of all ranks may take its time. 0: there is none.
    pub fn expected_len(&self, name: &str, original: &Path) -> u64 {
        let newest = self.oldest_first(FileLevel::Scratch, name).unwrap_or_default().pop();
        let in_scratch = newest.map_or(0, |version| self.places.scratch_len(name, version));
        in_scratch.max(std::fs::metadata(original).map_or(0, |found| found.len()))
    }
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
