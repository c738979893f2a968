//! Locks of the system's (`flock`) between processes that know nothing of each other. A lock is held by an
//! open file, so that it ends with its holder, however that ends. What is in the file is of no interest:
//! it is never written to.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::fork::CloseOnFork;
use crate::error::{Error, Result};

/// A file by which processes exclude each other. Each of those that are open is one of them.
#[derive(Debug)]
pub struct Lock(CloseOnFork<File>);

impl Lock {
    /// Opens the file at `path`, or makes it with the rights `mode`. To read it is all that it takes.
    ///
    /// # Errors
    /// It cannot be opened or made, is a link, or is no regular file.
    pub fn open(path: &Path, mode: u32) -> Result<Lock> {
        // No forked child holds it in this one's place.
        let file = CloseOnFork::new(|| open_or_create(path, mode))
            .map_err(|e| Error::system(format!("open the lock {}", path.display()), &e))?;
        let found = file.get().and_then(File::metadata);
        let found =
            found.map_err(|e| Error::system(format!("open the lock {}", path.display()), &e))?;
        if !found.is_file() {
            let what = format!("the lock {} is no regular file", path.display());
            return Err(Error::invalid(what));
        }
        Ok(Lock(file))
    }

    /// Takes the lock. False: somebody else has it.
    ///
    /// # Errors
    /// The file system has no such locks.
    pub fn try_take(&self) -> Result<bool> {
        let file = self.0.get().map_err(|error| Error::system("flock", &error))?;
        // SAFETY: an open file.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            ErrorKind::WouldBlock => Ok(false),
            _ => Err(Error::system("flock", &error)),
        }
    }

    /// Gives the lock back, for those as well who have the file open with this process.
    pub fn give_back(&self) {
        // What the application has closed is given back.
        if let Ok(file) = self.0.get() {
            // SAFETY: an open file. What is not held cannot be given back, which is as good.
            let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that is about to become another program may have the file open for a moment more.
        self.give_back();
    }
}

/// In a directory that is sticky and writable for all, the kernel may refuse to open another user's file
/// with `O_CREAT`, so that comes second.
fn open_or_create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Not through a link that another user put there, and without waiting for a pipe's other end.
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    loop {
        match options.open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        // Made by the same flags; the standard library makes no file that it does not write to.
        let mut making = OpenOptions::new();
        making.write(true).create_new(true).mode(mode).custom_flags(libc::O_NOFOLLOW);
        match making.open(path) {
            // Somebody else was first: theirs is opened.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            // The mask of the process may have taken the others' rights away. If they cannot be given,
            // the others have no part in this lock.
            Ok(file) => drop(file.set_permissions(Permissions::from_mode(mode))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;
    use std::os::unix::fs::symlink;

    /// Catches a lock that two hold, and one that a file stands for which another user has put there.
    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        // A child of another test would hold it for a moment.
        let _sole = forks::none();
        let [one, other] = [(); 2].map(|()| Lock::open(&path, 0o444).unwrap());
        assert!(one.try_take().unwrap() && one.try_take().unwrap());
        assert!(!other.try_take().unwrap());
        one.give_back();
        assert!(other.try_take().unwrap() && !one.try_take().unwrap());
        drop(other);
        assert!(one.try_take().unwrap());
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!((mode & 0o777, path.metadata().unwrap().len()), (0o444, 0));
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        for wrong in [&link, folder.path()] {
            let error = Lock::open(wrong, 0o444).unwrap_err().to_string();
            assert!(error.contains(&*wrong.to_string_lossy()), "{error}");
        }
    }
}
