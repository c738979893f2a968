//! File locks (`flock`) between unrelated processes. The lock belongs to an open file, so it ends with
//! its holder in any case. The file is never written to.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::fork::CloseOnFork;
use errors::{Error, Result};

/// A lock file; each open instance can hold the lock.
#[derive(Debug)]
pub struct Lock(CloseOnFork<File>);

impl Lock {
    /// Opens the file at `path`, or creates it with the permissions `mode`. Read permission is enough.
    ///
    /// # Errors
    /// It cannot be opened or created, is a link, or is no regular file.
    pub fn open(path: &Path, mode: u32) -> Result<Lock> {
        // A forked child must not hold the lock in its parent's place.
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

    /// Tries to take the lock. False: another holds it.
    ///
    /// # Errors
    /// The file system has no such locks.
    pub fn try_take(&self) -> Result<bool> {
        self.attempt(libc::LOCK_EX)
    }

    /// Tries to take the lock beside others who share it. False: another has it alone.
    ///
    /// # Errors
    /// The file system has no such locks.
    pub fn try_share(&self) -> Result<bool> {
        self.attempt(libc::LOCK_SH)
    }

    fn attempt(&self, kind: libc::c_int) -> Result<bool> {
        let file = self.0.get().map_err(|error| Error::system("flock", &error))?;
        // SAFETY: an open file.
        if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            ErrorKind::WouldBlock => Ok(false),
            _ => Err(Error::system("flock", &error)),
        }
    }

    /// Releases the lock, even if forked children have the file open.
    pub fn give_back(&self) {
        // If the application has closed the file, the lock is released already.
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
        // Another test's child may have the file open for a moment.
        self.give_back();
    }
}

/// In a sticky, world-writable directory the kernel may refuse to open another user's file with
/// `O_CREAT`, so that is tried second.
fn open_or_create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Does not follow another user's link, and does not wait for a pipe's other end.
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    loop {
        match options.open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        // The standard library creates only files that it can write to.
        let mut making = OpenOptions::new();
        making.write(true).create_new(true).mode(mode).custom_flags(libc::O_NOFOLLOW);
        match making.open(path) {
            // Another process was first: open its file.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            // The umask may have removed permissions of others. If they cannot be restored, others
            // cannot use this lock.
            Ok(file) => drop(file.set_permissions(Permissions::from_mode(mode))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;
    use std::os::unix::fs::symlink;

    /// Catches a lock that two processes hold, and one on a file that another user has put there.
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
