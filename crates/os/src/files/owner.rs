//! The owners of files. In a directory that others can write to, anybody can create a file of any name.
//! Files that control a restart count only if they are this user's; data of another user is recognised.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;

use super::open_with;
use crate::sync::Mutex;
use errors::{Error, ErrorKind, Result};

/// A user other than the effective one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherUser(u32);

impl fmt::Display for OtherUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = rustix::process::geteuid().as_raw();
        write!(f, "user {}, not to user {own} of this process", self.0)
    }
}

/// The owner of the file `found` at `path`; `None`: this user.
pub fn other_owner(found: &Metadata, path: &Path) -> Option<OtherUser> {
    let own = rustix::process::geteuid().as_raw();
    let is_own = found.uid() == own || own_files_have(found.dev(), path) == Some(found.uid());
    (!is_own).then_some(OtherUser(found.uid()))
}

/// The owner of `path`, without following links; `None`: this user, or nothing is there.
pub fn other_owner_at(path: &Path) -> Option<OtherUser> {
    other_owner(&fs::symlink_metadata(path).ok()?, path)
}

/// Whether this user owns what is at `path`, without following links.
pub fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| other_owner(&found, path).is_none())
}

/// The other user who owns `file`, which was opened at `path`, or the symbolic link there.
pub fn other_owner_of(file: &File, path: &Path) -> Option<OtherUser> {
    let found = file.metadata().ok()?;
    other_owner(&found, path).or_else(|| other_owner_at(path))
}

/// Opens the file at `path` for reading if it is this user's. Does not follow links.
///
/// # Errors
/// The errors of [`open`](super::open); [`ErrorKind::Corrupt`], with the owner, if that is another user.
pub fn open_own(path: &Path) -> Result<File> {
    open_of(path, || None)
}

/// Opens a file that describes the one at `about`: it counts, too, if both have one owner.
///
/// # Errors
/// The errors of [`open_own`].
pub fn open_beside(path: &Path, about: &Path) -> Result<File> {
    open_of(path, || user_of(about))
}

/// Checks that `path` is this user's. A missing file is not an error.
///
/// # Errors
/// [`ErrorKind::Corrupt`], naming the owner.
pub fn check_own_at(path: &Path) -> Result<()> {
    other_owner_at(path).map_or(Ok(()), |other| Err(belongs_to(path, other)))
}

/// Checks `path` as [`open_beside`] does. A missing file is not an error.
///
/// # Errors
/// [`ErrorKind::Corrupt`], naming the owner.
pub fn check_beside(path: &Path, about: &Path) -> Result<()> {
    let other = other_owner_at(path).filter(|of| user_of(about) != Some(of.0));
    other.map_or(Ok(()), |other| Err(belongs_to(path, other)))
}

fn user_of(path: &Path) -> Option<u32> {
    fs::symlink_metadata(path).ok().map(|found| found.uid())
}

fn open_of(path: &Path, or: impl FnOnce() -> Option<u32>) -> Result<File> {
    let (file, found) = open_with(path, libc::O_NOFOLLOW)?;
    match other_owner(&found, path) {
        Some(other) if or() != Some(other.0) => Err(belongs_to(path, other)),
        _ => Ok(file),
    }
}

/// Checks that the open file `file` (`path` in messages) is this user's.
///
/// # Errors
/// [`ErrorKind::Corrupt`], naming the owner; the system's.
pub(crate) fn check_own(file: &File, path: &Path) -> Result<()> {
    let found = file.metadata();
    let found = found.map_err(|e| Error::system(format!("stat {}", path.display()), &e))?;
    other_owner(&found, path).map_or(Ok(()), |other| Err(belongs_to(path, other)))
}

/// Checks that `file`, which was opened at `path`, is this user's, and so is the link if there is one.
///
/// # Errors
/// [`ErrorKind::Corrupt`], naming the owner.
pub fn check_whose(file: &File, path: &Path) -> Result<()> {
    other_owner_of(file, path).map_or(Ok(()), |other| Err(belongs_to(path, other)))
}

fn belongs_to(path: &Path, other: OtherUser) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{} belongs to {other}", path.display()))
}

/// The owner of files that this process creates beside `path` on the file system `device`: a file server
/// may map users (`root_squash`, `all_squash`). Found out by creating a file, only if a file seems to be
/// another user's; `None`: none can be created.
fn own_files_have(device: u64, path: &Path) -> Option<u32> {
    static KNOWN: OnceLock<Mutex<BTreeMap<u64, u32>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    if let Some(user) = known.lock().get(&device) {
        return Some(*user);
    }
    let made = tempfile::tempfile_in(path.parent()?).ok()?.metadata().ok();
    let made = made.filter(|made| made.dev() == device)?;
    known.lock().insert(device, made.uid());
    Some(made.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink};

    const NOBODY: u32 = 65534;

    /// Catches another user's file that is accepted, also through a link, and an own file that is not.
    #[test]
    fn files_of_others_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["own", "other"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("own", at("link")).unwrap();
        assert_eq!(other_owner_at(&at("own")), None);
        assert!(is_own(&at("own")) && is_own(&at("link")) && !is_own(&at("gone")));
        open_own(&at("own")).unwrap();
        open_own(&at("link")).unwrap_err();
        assert_eq!(open_own(&at("gone")).unwrap_err().kind(), ErrorKind::NotFound);
        if !rustix::process::geteuid().is_root() {
            println!("skipped: files_of_others_are_told needs root");
            return;
        }
        chown(at("other"), Some(NOBODY), None).unwrap();
        lchown(at("link"), Some(NOBODY), None).unwrap();
        assert!(!is_own(&at("other")) && !is_own(&at("link")));
        let error = open_own(&at("other")).unwrap_err();
        assert!(error.to_string().contains("user 65534"), "{error}");
        open_beside(&at("other"), &at("link")).unwrap();
        open_beside(&at("other"), &at("own")).unwrap_err();
        let by_link = File::open(at("link")).unwrap();
        assert!(other_owner_of(&by_link, &at("link")).is_some());
        // A file that is written to is not made behind such a link, and not emptied.
        let error = crate::files::create_exclusive(&at("link")).unwrap_err();
        assert!(error.to_string().contains("user 65534"), "{error}");
        let error = crate::files::create_exclusive(&at("other")).unwrap_err();
        assert!(error.to_string().contains("user 65534"), "{error}");
        assert_eq!(fs::read(at("own")).unwrap(), b"own");
        assert_eq!(fs::read(at("other")).unwrap(), b"other");
        assert_eq!(other_owner_of(&by_link, &at("own")), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "the probe stays");
    }
}
