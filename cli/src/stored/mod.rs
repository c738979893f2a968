//! The copies of checkpoints that are stored: found by the names of files, and looked at.

use std::fs;
use std::path::{Path, PathBuf};

use veloc_client::format::names;

/// Where a file-based checkpoint (`VELOC_Route_file`) was routed from, if the file at `path` is
/// one: a note beside it in scratch says so, and in persistent it is a link.
pub fn routed(path: &Path) -> Option<PathBuf> {
    if let Ok(target) = fs::read_link(path) {
        return Some(target);
    }
    let file = path.file_name()?.to_str()?;
    let note = path.with_file_name(names::routed_note(file));
    // A path is no longer than this, and what is longer is no note.
    let short = fs::metadata(&note).is_ok_and(|note| note.is_file() && note.len() <= 4096);
    short.then(|| fs::read_to_string(&note).ok().map(PathBuf::from)).flatten()
}
