//! Files of the log of messages that their job has left to the process: replays may come after
//! `VELOC_Finalize`, and need them. They go when nobody needs them any more, or with the process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::Opened;
use crate::error::{Error, Kind, Result};
use crate::platform::files;
use crate::sync::Mutex;

/// By the number of the chunk, of which a process has none twice.
static LEFT: OnceLock<Mutex<BTreeMap<i32, PathBuf>>> = OnceLock::new();

fn left() -> &'static Mutex<BTreeMap<i32, PathBuf>> {
    LEFT.get_or_init(Mutex::default)
}

fn path_of(number: i32) -> Option<PathBuf> {
    left().lock().get(&number).cloned()
}

/// A complete file, which is no job's from here on. Its path is absolute: the process may change its
/// directory.
pub fn keep(number: i32, path: PathBuf) {
    left().lock().insert(number, path);
}

/// Whether the file of a chunk is one of those.
pub fn has(number: i32) -> bool {
    left().lock().contains_key(&number)
}

/// Whether a file of this name is one of those.
pub fn is_kept(file_name: &str) -> bool {
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name == file_name);
    left().lock().values().any(is_it)
}

/// Reads the one region of a file. `None`: it is not here.
///
/// # Errors
/// The file is gone, or another.
pub fn read(number: i32, region: i32, into: &mut [u8]) -> Option<Result<()>> {
    path_of(number).map(|path| read_file(&path, region, into))
}

fn read_file(path: &Path, region: i32, into: &mut [u8]) -> Result<()> {
    let opened = Opened::read(path)?;
    let found = opened.header.region(region).filter(|found| found.size == into.len() as u64);
    let offset = found.map(|found| found.offset).ok_or_else(|| {
        let what = format!("{}: it has no {} bytes of the log", path.display(), into.len());
        Error::new(Kind::Corrupt, what)
    })?;
    opened.read_exact_at(into, offset)
}

/// Removes a file. `None`: it is not here.
///
/// # Errors
/// It cannot be removed; then nobody knows it any more, and the next start of the rank removes it.
pub fn remove(number: i32) -> Option<Result<()>> {
    let path = left().lock().remove(&number);
    path.map(|path| files::remove(&path))
}

/// The process ends: removes all.
pub fn remove_all() {
    // Whoever reads one is stopped by the end of the process as well.
    for path in std::mem::take(&mut *left().lock()).into_values() {
        if let Err(error) = files::remove(&path) {
            log::warn!("{error}");
        }
    }
}
