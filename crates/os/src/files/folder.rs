//! A folder for one file that somebody else makes, with a locked file beside it: until they make theirs it is not there,
//! and it is never locked.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{create, is_in_use, is_own, list, probe_room};
use crate::descriptors::GuardedFd;
use errors::{Error, Result};

/// The file that is locked as long as the folder is in use.
const LOCK: &str = ".veloc-in-use";

/// A folder that is in use until this is dropped, which does not remove it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: GuardedFd<File>,
}

impl Folder {
    /// Makes the folder at `path`, in place of one that is there, and tests whether there is room for data.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn create(path: &Path) -> Result<Folder> {
        let made = match fs::create_dir(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                remove_folder(path)?;
                fs::create_dir(path)
            }
            made => made,
        };
        made.map_err(|error| Error::system(format!("create {}", path.display()), &error))?;
        let lock = path.join(LOCK);
        let file = create(&lock).and_then(|file| probe_room(&file, &lock).map(|()| file));
        let file = file.inspect_err(|_| {
            // The first failure is the one to report.
            let _ = remove_folder(path);
        })?;
        Ok(Folder { path: path.to_owned(), _lock: GuardedFd::new(file) })
    }

    /// Removes the folder. Returns the names of what was in it beside the locked file.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn remove(self) -> Result<Vec<String>> {
        let rest = list(&self.path, |name| (name != LOCK).then(|| name.to_owned()))?;
        remove_folder(&self.path)?;
        Ok(rest)
    }
}

/// Whether there is a folder at `path` itself.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| there.is_dir())
}

/// Whether the folder at `path` may be in use, as [`is_in_use`]; `None`: there is none.
pub(super) fn is_folder_in_use(path: &Path) -> Option<bool> {
    let lock = path.join(LOCK);
    // Its maker was killed before there was a lock.
    let is_locked = || fs::symlink_metadata(&lock).is_ok() && is_in_use(&lock);
    is_folder(path).then(|| !is_own(path) || is_locked())
}

/// Removes a file, or the folder of one. What is missing is no error.
///
/// # Errors
/// The system's, with the path.
pub fn remove_with_folder(path: &Path) -> Result<()> {
    match is_folder(path) {
        true => remove_folder(path),
        false => super::remove(path),
    }
}

/// Removes a folder with what is in it. Links are not followed.
fn remove_folder(path: &Path) -> Result<()> {
    fs::remove_dir_all(path)
        .map_err(|error| Error::system(format!("remove {}", path.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;

    /// Catches a folder in use that passes for a leftover, one whose maker is dead that does not, and files of a link's
    /// target that go with it.
    #[test]
    fn a_folder_is_in_use_until_it_is_dropped() {
        let _sole = forks::none();
        let below = tempfile::tempdir().unwrap();
        let path = below.path().join("folder");
        let folder = Folder::create(&path).unwrap();
        assert!(is_in_use(&path));
        fs::write(below.path().join("other"), "stays").unwrap();
        std::os::unix::fs::symlink(below.path(), path.join("link")).unwrap();
        fs::write(path.join("own"), "").unwrap();
        drop(folder);
        assert!(!is_in_use(&path));
        let mut rest = Folder::create(&path).unwrap().remove().unwrap();
        rest.sort();
        assert_eq!(rest, [""; 0]);
        fs::create_dir(&path).unwrap();
        assert!(!is_in_use(&path));
        remove_with_folder(&path).unwrap();
        let folder = Folder::create(&path).unwrap();
        fs::write(path.join("own"), "").unwrap();
        assert_eq!(folder.remove().unwrap(), ["own"]);
        assert!(!path.exists() && below.path().join("other").exists());
        remove_with_folder(&path).unwrap();
    }
}
