//! Folders for a command's own files, which are gone when the command ends: at its end, and also
//! when it is interrupted.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// What an interruption has to remove.
static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The status of a program that was interrupted, as shells have it.
const INTERRUPTED: i32 = 128 + libc::SIGINT;

/// A folder. Dropping it removes it with everything in it.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// Makes one in memory, where there is such a place, or else among the temporary files.
    pub fn in_memory(prefix: &str) -> Result<Folder> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix);
        Self::make(|| builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()))
    }

    /// Makes one among the temporary files.
    pub fn on_disk(prefix: &str) -> Result<Folder> {
        Self::make(|| tempfile::Builder::new().prefix(prefix).tempdir())
    }

    fn make(make: impl FnOnce() -> std::io::Result<TempDir>) -> Result<Folder> {
        remove_when_interrupted();
        // An interruption waits until the folder is in the list.
        let made = open(|open| {
            let made = make();
            open.extend(made.iter().map(|folder| folder.path().to_owned()));
            made
        });
        made.map(Folder).context("making a folder for temporary files")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        open(|open| open.retain(|path| path != self.0.path()));
    }
}

fn open<R>(change: impl FnOnce(&mut Vec<PathBuf>) -> R) -> R {
    change(&mut OPEN.lock().unwrap_or_else(PoisonError::into_inner))
}

fn remove_when_interrupted() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let set = ctrlc::set_handler(|| {
            open(|open| {
                for folder in open.iter() {
                    // What cannot be removed is left: there is nobody to tell.
                    let _ = std::fs::remove_dir_all(folder);
                }
            });
            // SAFETY: ends the process at once; nothing of it has to be put in order.
            unsafe { libc::_exit(INTERRUPTED) }
        });
        if let Err(error) = set {
            eprintln!("an interruption would leave temporary files: {error}");
        }
    });
}
