//! The note beside a scratch file that is the application's own (`VELOC_Route_file`).

use std::io::Read as _;
use std::path::Path;

use super::places::Places;
use errors::{Error, ErrorKind, Result};
use os::files;

/// The most bytes of a path that the system takes (`PATH_MAX`).
pub(super) const LONGEST_PATH: u64 = 4096;

/// The path of the application's file, as the note at `path` about the file at `about` has it.
/// `None`: there is no note.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the file is no note, or belongs neither to this user nor to the owner of
/// `about`; else the system's. All name the path.
pub fn read_note(path: &Path, about: &Path) -> Result<Option<String>> {
    let file = match files::open_beside(path, about) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut original = String::new();
    let read = file.take(LONGEST_PATH + 1).read_to_string(&mut original);
    let is_path = original.len() as u64 <= LONGEST_PATH && original.starts_with('/');
    if read.is_ok() && is_path && !original.contains('\0') {
        return Ok(Some(original));
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        format!("{} is damaged: it must have the path of a routed file", path.display()),
    ))
}

/// For a file-based checkpoint, the path that the application asked to have routed.
pub(super) fn note_of(places: &Places, name: &str, version: i32) -> Result<Option<String>> {
    read_note(&places.routed_note(name, version)?, &places.scratch_path(name, version)?)
}
