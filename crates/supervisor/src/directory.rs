//! The directory of a job: its versions, the lock that says that its program runs, and the socket by which others
//! ask its supervisor.

use std::fs::{self, DirBuilder};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use errors::{Error, Result};
use os::lock::Lock;
use os::socket::{self, Listener, Socket};

/// Held while the program runs.
pub(crate) const LOCK: &str = "running";
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
        if lock.try_take()? {
            return Ok(lock);
        }
        Err(Error::invalid(format!(
            "the program of {} still runs{}",
            self.path.display(),
            match self.connect()? {
                Some(_) => "",
                None => ", though its supervisor has ended: wait for its end, or end it",
            }
        )))
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
