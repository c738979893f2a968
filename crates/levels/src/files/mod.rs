//! The file levels: scratch on the node, persistent on the parallel file system.
//!
//! A checkpoint's file appears by a rename: it is seen whole or not at all. Its format is
//! upstream's (`format::header`).

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use catalog::FileLevel;
use config::{Compress, Config, Proof, SyncFiles};
use errors::{Error, Result};
use format::identity::Identity;
use format::names::{self};
use os::files::{self};
use os::sync::Mutex;

mod age;
mod aggregate;
mod aligned;
mod attempts;
mod backlog;
mod beside;
mod checksums;
mod directories;
mod expected;
mod find;
mod hashing;
mod leftovers;
mod live;
mod naming;
mod opened;
#[cfg(test)]
mod other_users;
mod others;
mod output;
mod persist;
mod proven;
mod publish;
mod read;
mod rebased;
mod remove;
mod rescue;
mod routed;
mod runs;
mod straight;
mod successor;

use age::Ages;
use checksums::Checksums;
pub use directories::Inodes;
use directories::Known;
pub use expected::refuse_holes;
use live::Live;
pub use naming::{Names, Naming};
pub use opened::{Found, Opened};
pub use output::{Gathering, Output, Written};
use proven::Proven;
pub use read::{Target, Wanted};
pub use routed::read_note;

/// The directories of a job and its place in them.
#[derive(Clone, Debug)]
pub struct Files {
    scratch: Option<PathBuf>,
    persistent: Option<PathBuf>,
    meta: Option<PathBuf>,
    known: Arc<Vec<Known>>,
    checksums: Option<Arc<Checksums>>,
    proven: Arc<Proven>,
    companions: Arc<Companions>,
    ages: Arc<Ages>,
    told: Arc<Mutex<HashSet<String>>>,
    /// Checkpoint names of which checksums of versions that are gone were looked for.
    tidied: Arc<Mutex<HashSet<String>>>,
    live: Arc<Live>,
    rank: u32,
    /// How many processes the job has; 0: not known.
    ranks: u32,
    /// Only copies that this run may have made are read.
    wanted: Identity,
    ephemeral: bool,
    sync: SyncFiles,
    proof: Proof,
    compress: Compress,
    /// Files may have changes alone.
    incremental: bool,
    /// This process is the successor of another one.
    is_successor: bool,
    /// Read where a checkpoint's file gets its name or goes; written where one gets other bytes of the same version
    /// ([`rebased`]), which must not take the place of a newer one.
    names: Arc<RwLock<()>>,
    /// The files in scratch that have got other bytes, and have no parities since: names, versions, and whether they had
    /// some.
    made_whole: Arc<Mutex<Vec<(String, i32, bool)>>>,
}

/// Which companions a checkpoint's file may have in scratch. Those that cannot be there are not
/// looked for: small checkpoints cost what their system calls do.
#[derive(Debug)]
struct Companions {
    notes: AtomicBool,
    parities: AtomicBool,
}

impl Companions {
    /// Every companion may be there.
    fn any() -> Companions {
        Companions { notes: AtomicBool::new(true), parities: AtomicBool::new(true) }
    }

    /// No companion is there, as long as none is seen.
    fn none() -> Companions {
        Companions { notes: AtomicBool::new(false), parities: AtomicBool::new(false) }
    }
}

/// The most threads that compress one file.
const MOST_COMPRESSING: usize = 4;

/// How many warnings are remembered; then all are forgotten.
const MOST_TOLD: usize = 1024;

/// The number in the names of an ephemeral job's files; [`TEMPORARIES`] begins behind it.
const SPILL: u64 = 0;

/// The next number of a temporary file: unique in the process, whatever job the file is of.
static TEMPORARIES: AtomicU64 = AtomicU64::new(SPILL + 1);

impl Files {
    /// Makes the directories of a configuration if they are missing, and removes what a killed run
    /// of this rank has left half written. An ephemeral job has scratch alone. Persistent and meta
    /// need only be readable: then the first process warns that nothing new is written there, and
    /// each try is an error.
    ///
    /// # Errors
    /// A directory cannot be made, or read; scratch cannot be written to; scratch and persistent are the same.
    pub fn open(config: &Config, rank: u32) -> Result<Files> {
        Files::open_or(config, rank, |_, error| Err(error))
    }

    /// Opens the directories as [`Files::open`] does. If scratch can only be read, `may` says
    /// whether the job can do without writing to it; then the error of scratch is returned, too.
    ///
    /// # Errors
    /// As [`Files::open`]; those of `may`.
    pub fn open_past_scratch(
        config: &Config,
        rank: u32,
        may: impl Fn(Error) -> Result<()>,
    ) -> Result<(Files, Option<Error>)> {
        let refused = RefCell::new(None);
        let can_be_read =
            || config.scratch.as_ref().is_some_and(|scratch| fs::read_dir(scratch).is_ok());
        let files = Files::open_or(config, rank, |key, error| {
            if key == "scratch" && can_be_read() {
                may(error.clone())?;
                refused.replace(Some(error));
                return Ok(());
            }
            // This error is of interest only because scratch can take nothing either.
            Err(match refused.take() {
                Some(refused) => refused.followed_by(error),
                None => error,
            })
        })?;
        Ok((files, refused.into_inner()))
    }

    /// Opens the directories; `lacks` says whether the job can do without the directory of a key.
    fn open_or(
        config: &Config,
        rank: u32,
        lacks: impl Fn(&str, Error) -> Result<()>,
    ) -> Result<Files> {
        // The application may change its working directory.
        let absolute = |directory: &Option<PathBuf>| {
            let directory = directory.as_ref()?;
            Some(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
        };
        let of_lasting =
            |directory: &Option<PathBuf>| absolute(directory).filter(|_| !config.ephemeral);
        let scratch = absolute(&config.scratch);
        let persistent = of_lasting(&config.persistent);
        let meta = of_lasting(&config.meta);
        let used = meta.clone().filter(|_| config.chksum || config.aggregated);
        let directories = [("scratch", &scratch), ("persistent", &persistent), ("meta", &used)];
        let mut past_scratch = false;
        for (key, directory) in directories {
            let Some(directory) = directory else { continue };
            let made = fs::create_dir_all(directory).map_err(|error| {
                let path = directory.display();
                match error.kind() {
                    ErrorKind::AlreadyExists => {
                        Error::invalid(format!("{key}: {path} is a file, and no directory"))
                    }
                    _ => Error::system(format!("making the {key} directory {path}"), &error),
                }
            });
            let ready = made
                .and_then(|()| files::check_writable(directory).map_err(|error| error.within(key)));
            // Beside a scratch that can be written to, a directory need only be readable.
            let serves_restarts =
                || key != "scratch" && !past_scratch && fs::read_dir(directory).is_ok();
            match ready {
                Err(error) if serves_restarts() => {
                    if os::logging::speaks_for_all() {
                        log::warn!(
                            "{error}: what is there can be restored, and nothing new is written there"
                        );
                    }
                }
                Err(error) => {
                    lacks(key, error)?;
                    past_scratch = true;
                }
                Ok(()) => {}
            }
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
        let known =
            directories.iter().filter_map(|(_, directory)| Known::now(directory.as_deref()?));
        let found = Files {
            known: Arc::new(known.collect()),
            companions: Arc::new(Companions::none()),
            ages: Arc::default(),
            told: Arc::default(),
            tidied: Arc::default(),
            live: Arc::default(),
            checksums: meta.clone().map(|meta| Arc::new(Checksums::new(meta, config.chksum))),
            scratch,
            persistent,
            meta,
            proven: Arc::default(),
            rank,
            ranks: 0,
            wanted: Identity::UNKNOWN,
            ephemeral: config.ephemeral,
            sync: config.sync_files,
            proof: config.proof,
            compress: config.compress,
            incremental: config.incremental,
            is_successor: false,
            names: Arc::default(),
            made_whole: Arc::default(),
        };
        let looked = found.scratch.as_deref().map(|scratch| found.look_through_scratch(scratch));
        let others = [&found.persistent, &used].into_iter().flatten();
        let removed = others.map(|directory| found.remove_leftovers(directory));
        for error in looked.into_iter().chain(removed).filter_map(Result::err) {
            log::warn!("{error}");
        }
        Ok(found)
    }

    /// These files, for a job of `ranks` processes.
    pub fn of_job(self, ranks: u32) -> Files {
        Files { ranks, ..self }
    }

    /// Warns once about a file, with a text that is the same each time that the file is looked at.
    pub fn warn_once(&self, text: String) {
        let mut told = self.told.lock();
        if told.contains(&text) {
            return;
        }
        log::warn!("{text}");
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert(text);
    }

    /// Whether [`Files::warn_once`] has said this.
    #[cfg(test)]
    fn was_told(&self, text: &str) -> bool {
        self.told.lock().contains(text)
    }

    /// From here on there may be parity files.
    pub fn expect_parities(&self) {
        self.companions.parities.store(true, Ordering::Relaxed);
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
    pub(crate) fn scratch_len(&self, name: &str, version: i32) -> u64 {
        let found = self.scratch_path(name, version).map(fs::metadata);
        found.map_or(0, |found| found.map_or(0, |found| found.len()))
    }

    /// Where a checkpoint that memory has no room for goes: to scratch; in an ephemeral job under the
    /// name of a temporary file, which no other job takes for a checkpoint and the next one removes.
    pub(crate) fn own_path(&self, name: &str, version: i32) -> Result<PathBuf> {
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

    /// Held while a checkpoint's file gets its name or goes.
    fn naming_one(&self) -> RwLockReadGuard<'_, ()> {
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

    fn routed_note(&self, name: &str, version: i32) -> Result<PathBuf> {
        let path = self.scratch_path(name, version)?;
        let file = names::checkpoint_file(name, self.rank, version);
        Ok(path.with_file_name(names::routed_note(&file)))
    }
}

fn no_scratch() -> Error {
    Error::invalid("this needs a scratch directory, and the configuration gives none (key scratch)")
}
