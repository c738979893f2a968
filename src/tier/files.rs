//! The file tiers: scratch on the node, persistent on the parallel file system.
//!
//! A checkpoint's file appears by being renamed: whoever sees it sees it whole. Its format is
//! upstream's (`format::header`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Kind, Result};
use crate::format::header::{Decoded, Header};
use crate::format::names::{self, Piece};
use crate::platform::{
    self,
    files::{self, Durability},
};

/// The end of the name of the note that a checkpoint is a file of the application's own.
const ROUTED: &str = ".routed";

/// The directories of a job and its place in them.
#[derive(Debug)]
pub struct Files {
    scratch: Option<PathBuf>,
    persistent: Option<PathBuf>,
    rank: u32,
    ephemeral: bool,
}

/// The number in the names of an ephemeral job's files; [`TEMPORARIES`] begins behind it.
const SPILL: u64 = 0;

/// Numbers of temporary files: no two of the process are the same, whatever job they are of.
static TEMPORARIES: AtomicU64 = AtomicU64::new(SPILL + 1);

impl Files {
    /// Makes the directories if they are missing, and removes what a killed run of this rank has
    /// left half written.
    pub fn open(
        scratch: Option<&Path>,
        persistent: Option<&Path>,
        rank: u32,
        ephemeral: bool,
    ) -> Result<Files> {
        for (key, directory) in [("scratch", scratch), ("persistent", persistent)] {
            let Some(directory) = directory else { continue };
            fs::create_dir_all(directory).map_err(|error| {
                Error::system(format!("making the {key} directory {}", directory.display()), &error)
            })?;
        }
        for (key, directory) in [("scratch", scratch), ("persistent", persistent)] {
            let Some(directory) = directory else { continue };
            files::check_writable(directory).map_err(|error| error.within(key))?;
        }
        if let (Some(scratch), Some(persistent)) = (scratch, persistent) {
            let same = fs::canonicalize(scratch).ok().zip(fs::canonicalize(persistent).ok());
            if same.is_some_and(|(scratch, persistent)| scratch == persistent) {
                return Err(Error::invalid(format!(
                    "scratch and persistent are the same directory, {}: to clean up the one would \
                     empty the other",
                    scratch.display()
                )));
            }
        }
        // The application may change its directory.
        let absolute = |directory: Option<&Path>| {
            directory.and_then(|directory| std::path::absolute(directory).ok())
        };
        let found =
            Files { scratch: absolute(scratch), persistent: absolute(persistent), rank, ephemeral };
        for directory in [scratch, persistent].into_iter().flatten() {
            if let Err(error) = found.remove_leftovers(directory) {
                log::warn!("{error}");
            }
        }
        Ok(found)
    }

    /// This process's number in file names.
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

    /// A checkpoint's file in scratch.
    pub fn scratch_path(&self, name: &str, version: i32) -> Result<PathBuf> {
        let directory = self.scratch.as_ref().ok_or_else(no_scratch)?;
        Ok(directory.join(names::checkpoint_file(name, self.rank, version)))
    }

    /// Where a checkpoint that memory has no room for goes: to scratch, in an ephemeral job under
    /// the name of a temporary file, which no other job takes for a checkpoint and the next one
    /// removes.
    pub fn own_path(&self, name: &str, version: i32) -> Result<PathBuf> {
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

    /// A fresh temporary name beside `complete`.
    pub fn temporary(&self, complete: &Path) -> PathBuf {
        let number = TEMPORARIES.fetch_add(1, Ordering::Relaxed);
        let file = complete.file_name().map(|n| n.to_string_lossy().into_owned());
        let name =
            names::temporary_file(file.as_deref().unwrap_or("file"), std::process::id(), number);
        complete.with_file_name(name)
    }

    /// The versions of which a complete file exists in scratch or persistent, ascending.
    pub fn versions(&self, name: &str) -> Result<BTreeSet<i32>> {
        let mut found = BTreeSet::new();
        for directory in [&self.scratch, &self.persistent].into_iter().flatten() {
            found.extend(files::versions(directory, name, self.rank)?);
        }
        Ok(found)
    }

    /// Removes every file of a name from scratch, except those of the versions in `keep`.
    pub fn clean_scratch(&self, name: &str, keep: impl Fn(i32) -> bool) -> Result<()> {
        let Some(directory) = &self.scratch else {
            return Ok(());
        };
        for version in files::versions(directory, name, self.rank)? {
            if !keep(version) {
                files::remove(&self.scratch_path(name, version)?)?;
                files::remove(&self.routed_note(name, version)?)?;
            }
        }
        // Parities can be there without the checkpoint that they belong to.
        let parities = files::list(directory, |file_name| {
            let file = names::parse_parity(file_name)?;
            (file.name == name && file.rank == self.rank).then_some(file.version)
        })?;
        for version in parities.into_iter().filter(|version| !keep(*version)) {
            files::remove(&self.parity_path(name, version)?)?;
        }
        Ok(())
    }

    /// A checkpoint's parity file in scratch.
    pub fn parity_path(&self, name: &str, version: i32) -> Result<PathBuf> {
        Ok(self
            .scratch_path(name, version)?
            .with_file_name(names::parity_file(name, self.rank, version)))
    }

    /// The nearest complete file of a checkpoint: scratch, then persistent.
    pub fn open_nearest(&self, name: &str, version: i32) -> Result<Opened> {
        let mut last = None;
        let scratch = self
            .scratch
            .as_ref()
            .map(|_| [self.own_path(name, version), self.scratch_path(name, version)]);
        let scratch = scratch.into_iter().flatten().filter_map(Result::ok);
        for path in scratch.chain(self.persistent_path(name, version)) {
            match Opened::read(&path) {
                Ok(opened) => return Ok(opened),
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => {
                    log::warn!("{error}; looking for another copy");
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!("no file of checkpoint \"{name}\" version {version}, rank {}", self.rank),
            )
        }))
    }

    /// What a checkpoint's file on disk is, if it can be restored.
    pub fn look(&self, name: &str, version: i32) -> Result<Found> {
        if self.routed_note(name, version).is_ok_and(|note| note.exists()) {
            return Ok(Found::Routed);
        }
        match self.open_nearest(name, version) {
            Ok(opened) => Ok(Found::Regions(opened)),
            // Upstream leaves no note, but a link.
            Err(error) if error.kind() == Kind::Corrupt && self.is_linked(name, version) => {
                Ok(Found::Routed)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a complete file its name. The caller holds the lock of names.
    pub fn publish(&self, temporary: &Path, name: &str, version: i32) -> Result<()> {
        // A file-based checkpoint may have had the name before, and parities are of the file before.
        files::remove(&self.routed_note(name, version)?)?;
        files::remove(&self.parity_path(name, version)?)?;
        files::atomic_replace(temporary, &self.own_path(name, version)?, Durability::Unsynced)
    }

    /// The versions of which scratch has a file or parities of any process, ascending.
    pub fn versions_of_anybody(&self, name: &str) -> Result<BTreeSet<i32>> {
        let Some(directory) = &self.scratch else {
            return Ok(BTreeSet::new());
        };
        let versions = files::list(directory, |file_name| {
            let file = names::parse(file_name).or_else(|| names::parse_parity(file_name))?;
            (file.name == name).then_some(file.version)
        })?;
        Ok(versions.into_iter().collect())
    }

    /// A file of another process in this one's scratch directory, if it is there; for a file-based
    /// checkpoint with the path that was routed.
    pub fn foreign(
        &self,
        name: &str,
        version: i32,
        rank: u32,
        piece: Piece,
    ) -> Option<(PathBuf, Option<String>)> {
        let of_other = self.of(rank);
        let path = match piece {
            Piece::Data => of_other.scratch_path(name, version),
            Piece::Parity => of_other.parity_path(name, version),
        };
        let path = path.ok().filter(|path| path.exists())?;
        Some((path, of_other.routed(name, version).ok()?))
    }

    /// Removes such a file.
    pub fn remove_foreign(&self, name: &str, version: i32, rank: u32, piece: Piece) -> Result<()> {
        let of_other = self.of(rank);
        match piece {
            Piece::Data => {
                files::remove(&of_other.scratch_path(name, version)?)?;
                files::remove(&of_other.routed_note(name, version)?)
            }
            Piece::Parity => files::remove(&of_other.parity_path(name, version)?),
        }
    }

    /// The same directories as another process would see them.
    fn of(&self, rank: u32) -> Files {
        let (scratch, persistent) = (self.scratch.clone(), self.persistent.clone());
        Files { scratch, persistent, rank, ephemeral: self.ephemeral }
    }

    /// Gives the file of a file-based checkpoint its name. The caller holds the lock of names.
    pub fn publish_routed(
        &self,
        temporary: &Path,
        name: &str,
        version: i32,
        original: &str,
    ) -> Result<()> {
        files::remove(&self.parity_path(name, version)?)?;
        self.publish_rebuilt(temporary, name, version, Some(original))
    }

    /// Gives a file that was rebuilt its name. What its parities say holds for it.
    pub fn publish_rebuilt(
        &self,
        temporary: &Path,
        name: &str,
        version: i32,
        routed: Option<&str>,
    ) -> Result<()> {
        match routed {
            Some(original) => self.note_routed(name, version, original)?,
            None => files::remove(&self.routed_note(name, version)?)?,
        }
        files::atomic_replace(temporary, &self.scratch_path(name, version)?, Durability::Unsynced)
    }

    /// For a file-based checkpoint, the path that the application asked to have routed.
    pub fn routed(&self, name: &str, version: i32) -> Result<Option<String>> {
        let note = self.routed_note(name, version)?;
        match fs::read_to_string(&note) {
            Ok(original) => Ok(Some(original)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::system(format!("reading {}", note.display()), &error)),
        }
    }

    /// Notes that a checkpoint is a file of the application's own, which no header tells.
    pub fn note_routed(&self, name: &str, version: i32, original: &str) -> Result<()> {
        let note = self.routed_note(name, version)?;
        let temporary = self.temporary(&note);
        let file = files::create(&temporary)?;
        files::write_all_at(&file, original.as_bytes(), 0, &temporary)?;
        files::atomic_replace(&temporary, &note, Durability::Unsynced)
    }

    /// Whether persistent has a link instead of a file: to the file of a file-based checkpoint.
    fn is_linked(&self, name: &str, version: i32) -> bool {
        self.persistent_path(name, version)
            .and_then(|path| fs::symlink_metadata(path).ok())
            .is_some_and(|metadata| metadata.is_symlink())
    }

    fn routed_note(&self, name: &str, version: i32) -> Result<PathBuf> {
        let path = self.scratch_path(name, version)?;
        let file = names::checkpoint_file(name, self.rank, version);
        Ok(path.with_file_name(format!(".{file}{ROUTED}")))
    }

    /// Removes a checkpoint's file that this job has written to scratch.
    pub fn remove_scratch(&self, name: &str, version: i32) -> Result<()> {
        files::remove(&self.own_path(name, version)?)?;
        files::remove(&self.parity_path(name, version)?)?;
        files::remove(&self.routed_note(name, version)?)
    }

    /// Copies a checkpoint's scratch file to persistent. A file-based checkpoint goes to the path
    /// it was routed from, with a link in persistent.
    pub fn persist(&self, name: &str, version: i32, routed: Option<&str>) -> Result<u64> {
        let source = self.scratch_path(name, version)?;
        let persistent = self.persistent_path(name, version);
        let (target, link) = match routed {
            Some(original) => (PathBuf::from(original), persistent),
            None => match persistent {
                Some(path) => (path, None),
                None => return Ok(0),
            },
        };
        let temporary = self.temporary(&target);
        let bytes = files::copy_file(&source, &temporary, Durability::Synced)?;
        files::atomic_replace(&temporary, &target, Durability::Synced)?;
        if let Some(link) = link {
            let temporary = self.temporary(&link);
            std::os::unix::fs::symlink(&target, &temporary).map_err(|error| {
                Error::system(format!("linking {}", temporary.display()), &error)
            })?;
            files::atomic_replace(&temporary, &link, Durability::Synced)?;
        }
        Ok(bytes)
    }

    /// Brings the file of a file-based checkpoint back to scratch, if only persistent has it.
    /// Its path there, and the bytes that were copied.
    pub fn fetch_routed(&self, name: &str, version: i32) -> Result<(PathBuf, u64)> {
        let path = self.scratch_path(name, version)?;
        if path.exists() {
            return Ok((path, 0));
        }
        let Some(source) = self.persistent_path(name, version).filter(|path| path.exists()) else {
            return Err(Error::new(
                Kind::NotFound,
                format!("no file of checkpoint \"{name}\" version {version}, rank {}", self.rank),
            ));
        };
        let temporary = self.temporary(&path);
        let bytes = files::copy_file(&source, &temporary, Durability::Unsynced)?;
        files::atomic_replace(&temporary, &path, Durability::Unsynced)?;
        Ok((path, bytes))
    }

    fn remove_leftovers(&self, directory: &Path) -> Result<()> {
        let leftovers = files::list(directory, |name| {
            let temporary = names::parse_temporary(name)?;
            let complete = names::parse(temporary.complete)?;
            // Another process may be writing: only a dead one's are leftovers.
            (complete.rank == self.rank && !platform::is_alive(temporary.pid))
                .then(|| name.to_owned())
        })?;
        remove_unused(directory, leftovers)?;
        self.remove_routed_leftovers(directory)
    }

    /// Copies of file-based checkpoints are written beside the files they were routed from.
    fn remove_routed_leftovers(&self, directory: &Path) -> Result<()> {
        let notes = files::list(directory, |name| {
            let checkpoint = name.strip_prefix('.')?.strip_suffix(ROUTED)?;
            (names::parse(checkpoint)?.rank == self.rank).then(|| name.to_owned())
        })?;
        for note in notes {
            let original =
                PathBuf::from(fs::read_to_string(directory.join(note)).unwrap_or_default());
            let (Some(folder), Some(file)) = (original.parent(), original.file_name()) else {
                continue;
            };
            let leftovers = files::list(folder, |name| {
                let temporary = names::parse_temporary(name)?;
                (file.to_str() == Some(temporary.complete) && !platform::is_alive(temporary.pid))
                    .then(|| name.to_owned())
            })?;
            remove_unused(folder, leftovers)?;
        }
        Ok(())
    }
}

/// A process of another node or container is not alive here, but its files are in use.
fn remove_unused(directory: &Path, names: Vec<String>) -> Result<()> {
    for path in names.into_iter().map(|name| directory.join(name)) {
        if !files::is_in_use(&path) {
            files::remove(&path)?;
        }
    }
    Ok(())
}

fn no_scratch() -> Error {
    Error::invalid("this needs a scratch directory, and the configuration gives none (key scratch)")
}

/// Bytes of a header that are read at a time.
const HEADER_BLOCK: usize = 1 << 20;

/// A checkpoint's file on disk.
#[derive(Debug)]
pub enum Found {
    /// Regions of memory.
    Regions(Opened),
    /// A file of the application's own (`VELOC_Route_file`).
    Routed,
}

/// A complete checkpoint file, open for reading, with its header read.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Its path, for messages.
    pub path: PathBuf,
    /// Its regions.
    pub header: Decoded,
}

impl Opened {
    /// Opens a file and checks its header against its length.
    pub fn read(path: &Path) -> Result<Opened> {
        let file = files::open(path)?;
        let len = files::len(&file, path)?;
        let within = |error: Error| error.within(path.display());
        let mut prefix = vec![0; (len.min(8)) as usize];
        files::read_exact_at(&file, &mut prefix, 0, path)?;
        let declared = Header::declared_len(&prefix, len).map_err(within)?;
        // In blocks, each of which is checked: what is no header must not cost its size in memory.
        while prefix.len() < declared {
            let from = prefix.len();
            prefix.resize(declared.min(from + HEADER_BLOCK), 0);
            files::read_exact_at(&file, &mut prefix[from..], from as u64, path)?;
            Header::check_prefix(&prefix, len).map_err(within)?;
        }
        let header = Header::decode(&prefix, len).map_err(within)?;
        Ok(Opened { file, path: path.to_owned(), header })
    }
}
