//! The directory of a job: its versions, the lock that says that its program runs, and the socket by which others
//! ask its supervisor.

use std::fs::{self, DirBuilder};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use errors::{Error, Result};
use os::lock::Lock;
use os::socket::{self, Listener, Socket};

/// Held while the program runs.
pub(crate) const LOCK: &str = "running";
/// Longer than anybody has the lock who only looks whether the program runs ([`Directory::is_running`]).
const LOOK: Duration = Duration::from_secs(1);
/// Where the supervisor listens.
const CONTROL: &str = "control";
/// Where images are, in memory, until they are written.
const MEMORY: &str = "memory";

/// A job's directory.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    opened: fs::File,
}

impl Directory {
    /// Opens it, and makes it if it is to be new.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(crate) fn open(path: &Path, new: bool) -> Result<Directory> {
        let failed =
            |error| Error::system(format!("opening the directory {}", path.display()), &error);
        if new {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path.join(MEMORY))
                .map_err(failed)?;
        }
        let path = fs::canonicalize(path).map_err(failed)?;
        let opened = fs::File::open(&path).map_err(failed)?;
        Ok(Directory { path, opened })
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that is memory in the program's name space.
    pub(crate) fn memory(&self) -> PathBuf {
        self.path.join(MEMORY)
    }

    /// The lock of its program, taken.
    ///
    /// # Errors
    /// A program runs; the message says whether somebody supervises it.
    pub(crate) fn take(&self) -> Result<Lock> {
        let lock = Lock::open(&self.path.join(LOCK), 0o600)?;
        let since = Instant::now();
        loop {
            if lock.try_take()? {
                return Ok(lock);
            }
            let why = match self.connect()? {
                Some(_) => "",
                None if since.elapsed() > LOOK => {
                    ", though its supervisor has ended: wait for its end, or end it"
                }
                None => {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
            };
            let what = format!("the program of {} still runs{why}", self.path.display());
            return Err(Error::invalid(what));
        }
    }

    /// Whether its program runs.
    ///
    /// # Errors
    /// The lock cannot be looked at.
    pub(crate) fn is_running(&self) -> Result<bool> {
        let path = self.path.join(LOCK);
        if !path.exists() {
            return Ok(false);
        }
        Ok(!Lock::open(&path, 0o600)?.try_take()?)
    }

    /// Listens for those who ask.
    ///
    /// # Errors
    /// Another supervisor does.
    pub(crate) fn listen(&self) -> Result<Listener> {
        socket::listen_at(&self.control())?.ok_or_else(|| {
            Error::invalid(format!("another supervisor has the directory {}", self.path.display()))
        })
    }

    /// Connects to its supervisor. `None`: there is none.
    ///
    /// # Errors
    /// It is another user's.
    pub(crate) fn connect(&self) -> Result<Option<Socket>> {
        socket::connect_to(&self.control())
    }

    /// The socket's path: short, as the system wants it, however long the directory's is.
    fn control(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{CONTROL}", self.opened.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    // A test stops at the first fault.
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Catches a program that is refused because somebody looks whether it runs, and one that runs twice.
    #[test]
    fn who_looks_keeps_no_program_from_starting() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), true).unwrap();
        let lock = Lock::open(&folder.path().join(LOCK), 0o600).unwrap();
        assert!(lock.try_take().unwrap());
        let since = Instant::now();
        let (taken, held) = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                drop(lock);
                since.elapsed()
            });
            (directory.take(), looks.join().unwrap())
        });
        // A busy machine may have it looked for longer.
        assert!(taken.is_ok() || held > LOOK);
        let taken = taken.or_else(|_| directory.take()).unwrap();
        assert!(directory.is_running().unwrap());
        let said = directory.take().unwrap_err().to_string();
        assert!(said.contains("still runs, though its supervisor has ended"), "{said}");
        drop(taken);
        assert!(!directory.is_running().unwrap());
    }
}
