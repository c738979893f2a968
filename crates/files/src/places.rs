//! Where the files of a job are, and how they are called.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::directories::{Inodes, Known};
use catalog::FileLevel;
use config::SyncFiles;
use errors::{Error, ErrorKind, Result};
use format::{aggregate, names};
use os::files::{self, Durability};

/// The number in the names of an ephemeral job's files; [`TEMPORARIES`] begins behind it.
const SPILL: u64 = 0;

/// The next number of a temporary file: unique in the process, whatever job the file is of.
static TEMPORARIES: AtomicU64 = AtomicU64::new(SPILL + 1);

/// The directories of a job and a process's place in them.
#[derive(Clone, Debug)]
pub struct Places {
    scratch: Option<PathBuf>,
    persistent: Option<PathBuf>,
    meta: Option<PathBuf>,
    known: Arc<Vec<Known>>,
    rank: u32,
    ephemeral: bool,
    sync: SyncFiles,
    /// Read where a checkpoint's file gets its name or goes; written where one gets other bytes of the same version
    /// ([`rebased`](super::rebased)), which must not take the place of a newer one.
    names: Arc<RwLock<()>>,
}

impl Places {
    /// The places of a rank in these directories of a job, scratch, persistent and meta, and what is `known` of them.
    pub(super) fn new(
        [scratch, persistent, meta]: [Option<PathBuf>; 3],
        known: Vec<Known>,
        rank: u32,
        (ephemeral, sync): (bool, SyncFiles),
    ) -> Places {
        let (known, names) = (Arc::new(known), Arc::default());
        Places { scratch, persistent, meta, known, rank, ephemeral, sync, names }
    }

    /// The places of another rank.
    pub(super) fn of_rank(&self, rank: u32) -> Places {
        Places { rank, ..self.clone() }
    }

    /// The same without scratch.
    pub(super) fn without_scratch(self) -> Places {
        Places { scratch: None, ..self }
    }

    /// The scratch directory.
    pub fn scratch(&self) -> Option<&Path> {
        self.scratch.as_deref()
    }

    /// The persistent directory.
    pub(super) fn persistent(&self) -> Option<&Path> {
        self.persistent.as_deref()
    }

    /// The directory of checksums and tables.
    pub(super) fn meta(&self) -> Option<&Path> {
        self.meta.as_deref()
    }

    /// Whether files in scratch are of no use after the job.
    pub(super) fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// The aggregated file of a checkpoint and its table, if there is a place for both.
    pub(super) fn aggregated_paths(&self, name: &str, version: i32) -> Option<(PathBuf, PathBuf)> {
        let file = aggregate::file_name(name, version);
        Some((self.persistent.as_ref()?.join(&file), self.meta.as_ref()?.join(file)))
    }

    /// The aggregated file of a checkpoint, for its age.
    pub(super) fn aggregated_data(&self, name: &str, version: i32) -> Option<PathBuf> {
        self.aggregated_paths(name, version).map(|(data, _)| data)
    }

    /// Opens the scratch file of a version.
    ///
    /// # Errors
    /// As [`files::open_own`].
    pub fn open_scratch(&self, name: &str, version: i32) -> Result<File> {
        files::open_own(&self.scratch_path(name, version)?)
    }

    /// Has the names in persistent reach the storage, if the configuration says so.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn sync_names_in_persistent(&self) -> Result<()> {
        match (self.persistent_durability(), &self.persistent) {
            (Durability::Synced, Some(persistent)) => files::sync_directory(persistent),
            _ => Ok(()),
        }
    }

    /// The inodes of this job's directories.
    pub fn inodes(&self) -> Inodes {
        self.known.iter().map(Known::inode).collect()
    }

    /// These places, which must still be those of the job that is gone on for.
    pub(super) fn in_directories(&self, inodes: &Inodes) -> Places {
        let known = inodes.iter().cloned().map(Known::was).collect();
        Places { known: Arc::new(known), ..self.clone() }
    }

    /// Fails if `directory`, one of the job's, is gone or on another file system than when the job began. To be asked
    /// before a file gets its name or is removed; costs a look at the path.
    ///
    /// # Errors
    /// The error names the directory.
    pub fn may_change_in(&self, directory: Option<&Path>) -> Result<()> {
        let known = self.known.iter().find(|known| Some(known.path()) == directory);
        known.map_or(Ok(()), Known::check)
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

    pub(super) fn no_file(&self, name: &str, version: i32) -> Error {
        Error::new(
            ErrorKind::NotFound,
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

    /// This process's rank, as in file names.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Whether there is a scratch directory.
    pub fn has_scratch(&self) -> bool {
        self.scratch.is_some()
    }

    /// Whether there is a persistent directory.
    pub fn has_persistent(&self) -> bool {
        self.persistent.is_some()
    }

    /// The directory of a level.
    pub fn directory(&self, level: FileLevel) -> Option<&Path> {
        match level {
            FileLevel::Scratch => self.scratch.as_deref(),
            FileLevel::Persistent => self.persistent.as_deref(),
        }
    }

    /// A checkpoint's file in scratch.
    pub fn scratch_path(&self, name: &str, version: i32) -> Result<PathBuf> {
        let directory = self.scratch.as_ref().ok_or_else(no_scratch)?;
        Ok(directory.join(names::checkpoint_file(name, self.rank, version)))
    }

    /// Bytes of a checkpoint's file in scratch; 0 if that cannot be told.
    pub(super) fn scratch_len(&self, name: &str, version: i32) -> u64 {
        let found = self.scratch_path(name, version).map(fs::metadata);
        found.map_or(0, |found| found.map_or(0, |found| found.len()))
    }

    /// Where a checkpoint that memory has no room for goes: to scratch; in an ephemeral job under the
    /// name of a temporary file, which no other job takes for a checkpoint and the next one removes.
    pub(super) fn own_path(&self, name: &str, version: i32) -> Result<PathBuf> {
        let path = self.scratch_path(name, version)?;
        if !self.ephemeral {
            return Ok(path);
        }
        let file = names::checkpoint_file(name, self.rank, version);
        Ok(path.with_file_name(names::temporary_file(&file, std::process::id(), SPILL)))
    }

    /// A checkpoint's file in persistent.
    pub fn persistent_path(&self, name: &str, version: i32) -> Option<PathBuf> {
        Some(self.persistent.as_ref()?.join(names::checkpoint_file(name, self.rank, version)))
    }

    /// Held while a checkpoint's file gets other bytes.
    pub(super) fn naming_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while a checkpoint's file gets its name or goes.
    pub(super) fn naming_one(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fresh temporary name beside `complete`.
    pub fn temporary(&self, complete: &Path) -> PathBuf {
        let number = TEMPORARIES.fetch_add(1, Ordering::Relaxed);
        let file = complete.file_name().map(|n| n.to_string_lossy().into_owned());
        let name =
            names::temporary_file(file.as_deref().unwrap_or("file"), std::process::id(), number);
        complete.with_file_name(name)
    }

    /// A checkpoint's parity file in scratch.
    pub fn parity_path(&self, name: &str, version: i32) -> Result<PathBuf> {
        Ok(self
            .scratch_path(name, version)?
            .with_file_name(names::parity_file(name, self.rank, version)))
    }

    pub(super) fn routed_note(&self, name: &str, version: i32) -> Result<PathBuf> {
        let path = self.scratch_path(name, version)?;
        let file = names::checkpoint_file(name, self.rank, version);
        Ok(path.with_file_name(names::routed_note(&file)))
    }

    /// Completes a scratch file that has its temporary name.
    pub(super) fn seal_file(&self, file: &File, path: &Path) -> Result<()> {
        files::finish_write(file, path, self.scratch_durability())
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

    /// Whether scratch has room for about so many bytes, as far as the system tells: a quota shows
    /// when something is written.
    ///
    /// # Errors
    /// [`ErrorKind::NoRoom`] if it has not, with the free bytes.
    pub fn expect_room(&self, bytes: u64) -> Result<()> {
        let free = self.scratch.as_ref().map(|scratch| (scratch, files::free_space(scratch)));
        match free {
            Some((scratch, Ok(free))) if free < bytes => Err(Error::new(
                ErrorKind::NoRoom,
                format!(
                    "{} has room for {free} bytes, and the file before this one has {bytes}",
                    scratch.display()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Whether persistent has a link to the file of a file-based checkpoint in place of a file.
    pub(super) fn is_linked(&self, name: &str, version: i32) -> bool {
        self.persistent_path(name, version).is_some_and(|path| path.is_symlink() && path.is_file())
    }

    /// A checkpoint's file in persistent.
    ///
    /// # Errors
    /// There is no persistent level.
    pub fn own_persistent_path(&self, name: &str, version: i32) -> Result<PathBuf> {
        self.persistent_path(name, version).ok_or_else(|| {
            Error::invalid(
                "this needs a persistent directory, and the configuration gives none (key \
                 persistent)",
            )
        })
    }

    /// The aggregated file of a checkpoint, and its table.
    pub(super) fn places_of(&self, name: &str, version: i32) -> Result<(PathBuf, PathBuf)> {
        self.aggregated_paths(name, version)
            .ok_or_else(|| Error::invalid("aggregated files need the keys persistent and meta"))
    }
}

fn no_scratch() -> Error {
    Error::invalid("this needs a scratch directory, and the configuration gives none (key scratch)")
}
