//! The file tiers: scratch on the node, persistent on the parallel file system.
//!
//! A checkpoint's file appears by being renamed: whoever sees it sees it whole. Its format is
//! upstream's (`format::header`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::catalog::entry::FileTier;
use crate::config::{Config, SyncFiles};
use crate::error::{Error, Kind, Result};
use crate::format::checksum::{self, Checksum};
use crate::format::names;
use crate::platform::files::{self, Durability};

mod aggregate;
mod checksums;
mod leftovers;
mod opened;
mod output;

pub use aggregate::Place;
use checksums::Checksums;
pub use opened::{Found, Opened};
pub use output::{Output, Written};

/// The directories of a job and its place in them.
#[derive(Clone, Debug)]
pub struct Files {
    scratch: Option<PathBuf>,
    persistent: Option<PathBuf>,
    meta: Option<PathBuf>,
    checksums: Option<Arc<Checksums>>,
    rank: u32,
    ephemeral: bool,
    sync: SyncFiles,
}

/// The number in the names of an ephemeral job's files; [`TEMPORARIES`] begins behind it.
const SPILL: u64 = 0;

/// Numbers of temporary files: no two of the process are the same, whatever job they are of.
static TEMPORARIES: AtomicU64 = AtomicU64::new(SPILL + 1);

impl Files {
    /// Makes the directories of a configuration if they are missing, and removes what a killed run
    /// of this rank has left half written. An ephemeral job has scratch alone.
    pub fn open(config: &Config, rank: u32) -> Result<Files> {
        let of_lasting =
            |directory: &Option<PathBuf>| directory.clone().filter(|_| !config.ephemeral);
        let scratch = config.scratch.clone();
        let persistent = of_lasting(&config.persistent);
        let meta = of_lasting(&config.meta);
        let used = meta.clone().filter(|_| config.chksum || config.aggregated);
        let directories = [("scratch", &scratch), ("persistent", &persistent), ("meta", &used)];
        for (key, directory) in directories {
            let Some(directory) = directory else { continue };
            fs::create_dir_all(directory).map_err(|error| {
                Error::system(format!("making the {key} directory {}", directory.display()), &error)
            })?;
        }
        for (key, directory) in directories {
            let Some(directory) = directory else { continue };
            files::check_writable(directory).map_err(|error| error.within(key))?;
        }
        if let (Some(scratch), Some(persistent)) = (&scratch, &persistent) {
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
        let absolute = |directory: &Option<PathBuf>| {
            directory.as_ref().and_then(|directory| std::path::absolute(directory).ok())
        };
        let found = Files {
            scratch: absolute(&scratch),
            persistent: absolute(&persistent),
            meta: absolute(&meta),
            checksums: absolute(&meta).map(|meta| Arc::new(Checksums::new(meta, config.chksum))),
            rank,
            ephemeral: config.ephemeral,
            sync: config.sync_files,
        };
        for (_, directory) in directories {
            let Some(directory) = directory else { continue };
            if let Err(error) = found.remove_leftovers(directory) {
                log::warn!("{error}");
            }
        }
        Ok(found)
    }

    /// The same directories as another rank of the job sees them.
    pub fn of_rank(&self, rank: u32) -> Files {
        Files { rank, ..self.clone() }
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

    /// Whether persistent has a checkpoint, in a file of its own or in an aggregated one.
    pub fn is_persistent(&self, name: &str, version: i32) -> bool {
        self.persistent_path(name, version).is_some_and(|path| path.exists())
            || self.is_aggregated(name, version)
    }

    /// The versions of which a complete file exists in scratch or persistent, ascending.
    pub fn versions(&self, name: &str) -> Result<BTreeSet<i32>> {
        let mut found = BTreeSet::new();
        for directory in [&self.scratch, &self.persistent].into_iter().flatten() {
            found.extend(files::versions(directory, name, self.rank)?);
        }
        found.extend(self.aggregated_versions(name)?);
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
                self.remove_scratch(name, version)?;
            }
        }
        Ok(())
    }

    /// The nearest complete file of a checkpoint: scratch, then persistent.
    pub fn open_nearest(&self, name: &str, version: i32) -> Result<Opened> {
        let mut last = None;
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
        let part = std::iter::once_with(|| self.open_part(name, version));
        for opened in files.chain(part) {
            match opened.and_then(|opened| self.checked(opened, name, version)) {
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

    /// An opened file, if it has its checksum.
    fn checked(&self, opened: Opened, name: &str, version: i32) -> Result<Opened> {
        if let Some(checksums) = &self.checksums {
            let file = names::checkpoint_file(name, self.rank, version);
            checksums.check(&file, &opened.file, opened.part.clone(), &opened.path)?;
        }
        Ok(opened)
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

    /// Whether the digest of what is written is wanted.
    pub fn wants_digest(&self) -> bool {
        self.checksums.as_ref().is_some_and(|checksums| checksums.are_kept())
    }

    /// Has the bytes of a complete scratch file reach the storage, if the configuration says so.
    /// To be called before [`Files::publish`].
    pub fn seal(&self, output: &Output) -> Result<()> {
        self.seal_file(&output.file, &output.temporary)
    }

    fn seal_file(&self, file: &File, path: &Path) -> Result<()> {
        match self.scratch_durability() {
            Durability::Synced => files::sync(file, path),
            Durability::Unsynced => Ok(()),
        }
    }

    /// Gives a complete file its name, and the file of that name its checksum. The caller holds the
    /// lock of names.
    pub fn publish(&self, written: &Written, name: &str, version: i32) -> Result<()> {
        // A file-based checkpoint may have had the name before.
        files::remove(&self.routed_note(name, version)?)?;
        self.remove_checksum(name, version)?;
        let durability = self.scratch_durability();
        files::atomic_replace(&written.temporary, &self.own_path(name, version)?, durability)?;
        match &written.digest {
            Some(digest) => self.put_checksum(name, version, digest, durability),
            None => Ok(()),
        }
    }

    /// Gives the complete file of a file-based checkpoint its name. The caller holds the lock of
    /// names.
    pub fn publish_routed(
        &self,
        temporary: &Path,
        name: &str,
        version: i32,
        original: &str,
    ) -> Result<()> {
        self.remove_checksum(name, version)?;
        self.note_routed(name, version, original)?;
        let path = self.scratch_path(name, version)?;
        self.seal_file(&files::open(temporary)?, temporary)?;
        files::atomic_replace(temporary, &path, self.scratch_durability())
    }

    fn remove_checksum(&self, name: &str, version: i32) -> Result<()> {
        self.checksums.as_ref().map_or(Ok(()), |checksums| {
            checksums.remove(&names::checkpoint_file(name, self.rank, version))
        })
    }

    fn put_checksum(
        &self,
        name: &str,
        version: i32,
        digest: &Checksum,
        durability: Durability,
    ) -> Result<()> {
        self.checksums.as_ref().filter(|sums| sums.are_kept()).map_or(Ok(()), |checksums| {
            let file = names::checkpoint_file(name, self.rank, version);
            let temporary = self.temporary(&checksums.path(&file));
            checksums.put(&file, digest, &temporary, durability)
        })
    }

    fn scratch_durability(&self) -> Durability {
        if self.sync >= SyncFiles::Full && !self.ephemeral {
            Durability::Synced
        } else {
            Durability::Unsynced
        }
    }

    fn persistent_durability(&self) -> Durability {
        if self.sync >= SyncFiles::Data {
            Durability::Synced
        } else {
            Durability::Unsynced
        }
    }

    /// Notes that a checkpoint is a file of the application's own, which no header tells.
    fn note_routed(&self, name: &str, version: i32, original: &str) -> Result<()> {
        let note = self.routed_note(name, version)?;
        let temporary = self.temporary(&note);
        let file = files::create(&temporary)?;
        files::write_all_at(&file, original.as_bytes(), 0, &temporary)?;
        self.seal_file(&file, &temporary)?;
        files::atomic_replace(&temporary, &note, self.scratch_durability())
    }

    /// Whether persistent has a link instead of a file: to the file of a file-based checkpoint.
    fn is_linked(&self, name: &str, version: i32) -> bool {
        self.persistent_path(name, version).is_some_and(|path| path.is_symlink() && path.is_file())
    }

    fn routed_note(&self, name: &str, version: i32) -> Result<PathBuf> {
        let path = self.scratch_path(name, version)?;
        let file = names::checkpoint_file(name, self.rank, version);
        Ok(path.with_file_name(names::routed_note(&file)))
    }

    /// Removes a checkpoint's file that this job has written to scratch, and its checksum unless
    /// persistent has the file too.
    pub fn remove_scratch(&self, name: &str, version: i32) -> Result<()> {
        files::remove(&self.own_path(name, version)?)?;
        files::remove(&self.routed_note(name, version)?)?;
        if self.is_persistent(name, version) {
            return Ok(());
        }
        self.remove_checksum(name, version)
    }

    /// Removes a checkpoint's file from a tier, and its checksum unless the other one has it.
    pub fn remove_from(&self, tier: FileTier, name: &str, version: i32) -> Result<()> {
        match tier {
            FileTier::Scratch => self.remove_scratch(name, version),
            FileTier::Persistent => {
                if let Some(path) = self.persistent_path(name, version) {
                    files::remove(&path)?;
                }
                self.remove_aggregated(name, version)?;
                if self.scratch_path(name, version).is_ok_and(|path| path.exists()) {
                    return Ok(());
                }
                self.remove_checksum(name, version)
            }
        }
    }

    /// The versions of a name in a tier by the time of their last change, oldest first.
    pub fn oldest_first(&self, tier: FileTier, name: &str) -> Result<Vec<i32>> {
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
        Ok(found.into_iter().map(|(_, version)| version).collect())
    }

    /// Copies a checkpoint's scratch file to persistent. A file-based checkpoint goes to the path
    /// it was routed from, with a link in persistent; one with a place in an aggregated file goes
    /// there.
    pub fn persist(
        &self,
        name: &str,
        version: i32,
        routed: Option<&str>,
        place: Option<&Place>,
    ) -> Result<u64> {
        if let Some(place) = place {
            let bytes = self.persist_part(name, version, place)?;
            self.persist_checksum(name, version, None, self.persistent_durability())?;
            return Ok(bytes);
        }
        let source = self.scratch_path(name, version)?;
        let persistent = self.persistent_path(name, version);
        let (target, link) = match routed {
            Some(original) => (PathBuf::from(original), persistent),
            None => match persistent {
                Some(path) => (path, None),
                None => return Ok(0),
            },
        };
        let durability = self.persistent_durability();
        let temporary = self.temporary(&target);
        let bytes = files::copy_file(&source, &temporary, durability)?;
        files::atomic_replace(&temporary, &target, durability)?;
        if let Some(link) = link {
            let temporary = self.temporary(&link);
            std::os::unix::fs::symlink(&target, &temporary).map_err(|error| {
                Error::system(format!("linking {}", temporary.display()), &error)
            })?;
            files::atomic_replace(&temporary, &link, durability)?;
        }
        self.persist_checksum(name, version, routed.map(|_| &*source), durability)?;
        Ok(bytes)
    }

    /// Has the checksum be as durable as the file. That of a file of the application's own is made
    /// here, of `whole`: nothing of it was seen before.
    fn persist_checksum(
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
                let digest =
                    checksum::of_range(&file, 0..files::len(&file, whole)?, whole, |_| {})?;
                self.put_checksum(name, version, &digest, durability)
            }
            (None, Durability::Synced) => {
                checksums.sync(&names::checkpoint_file(name, self.rank, version))
            }
            (None, Durability::Unsynced) => Ok(()),
        }
    }

    /// Brings the file of a file-based checkpoint back to scratch, if only persistent has it.
    /// Its path there, and the bytes that were copied.
    pub fn fetch_routed(&self, name: &str, version: i32) -> Result<(PathBuf, u64)> {
        let path = self.scratch_path(name, version)?;
        let file = names::checkpoint_file(name, self.rank, version);
        let check = |path: &Path| {
            let opened = files::open(path)?;
            let len = files::len(&opened, path)?;
            self.checksums.as_ref().map_or(Ok(()), |sums| sums.check(&file, &opened, 0..len, path))
        };
        let in_scratch = check(&path);
        let missing = match in_scratch {
            Ok(()) => return Ok((path, 0)),
            Err(error) if error.kind() == Kind::NotFound => Error::new(
                Kind::NotFound,
                format!("no file of checkpoint \"{name}\" version {version}, rank {}", self.rank),
            ),
            Err(error) => {
                log::warn!("{error}; looking for another copy");
                error
            }
        };
        let Some(source) = self.persistent_path(name, version).filter(|path| path.exists()) else {
            return Err(missing);
        };
        check(&source)?;
        let temporary = self.temporary(&path);
        let bytes = files::copy_file(&source, &temporary, Durability::Unsynced)?;
        files::atomic_replace(&temporary, &path, Durability::Unsynced)?;
        Ok((path, bytes))
    }
}

fn no_scratch() -> Error {
    Error::invalid("this needs a scratch directory, and the configuration gives none (key scratch)")
}
