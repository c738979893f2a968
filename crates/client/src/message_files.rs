//! Files in the job's scratch directory, for what the message log has no memory for. The log grows
//! inside calls of MPI, at any time and beside any call of the application's here, so this module
//! knows nothing of the client but the directory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use errors::{Error, ErrorKind, Result};
use os::files::SizeLimitOutlived;
use os::sync::Mutex;

/// The scratch directory of the job. A process has one job at a time.
static SCRATCH: OnceLock<Mutex<Option<PathBuf>>> = OnceLock::new();

fn scratch() -> &'static Mutex<Option<PathBuf>> {
    SCRATCH.get_or_init(Mutex::default)
}

/// As long as this is alive, the message log's files go to a directory.
#[derive(Debug)]
pub(crate) struct Offered(());

impl Offered {
    /// From here on, the message log's files go to this directory.
    ///
    /// # Errors
    /// The system does not tell the working directory, which may change later.
    pub(crate) fn begin(directory: &Path) -> Result<Offered> {
        let path = std::path::absolute(directory)
            .map_err(|error| Error::system(directory.display().to_string(), &error))?;
        *scratch().lock() = Some(path);
        Ok(Offered(()))
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        *scratch().lock() = None;
    }
}

/// Makes a file of so many bytes without a name, which goes with its last descriptor and mapping.
/// Its room is taken at once: memory that is mapped to a full file system ends the process.
///
/// # Errors
/// [`ErrorKind::NotFound`] without a job that has a scratch directory; else the system's, with the directory.
pub fn make(len: usize) -> Result<File> {
    let none = "there is no job (VELOC_Init) with a scratch directory";
    let directory =
        scratch().lock().clone().ok_or_else(|| Error::new(ErrorKind::NotFound, none))?;
    let about = || format!("a file of {len} bytes in {}", directory.display());
    let _alive = SizeLimitOutlived::begin();
    let file = tempfile::tempfile_in(&directory).map_err(|e| Error::system(about(), &e))?;
    let size = libc::off_t::try_from(len).map_err(|_| Error::invalid(about()))?;
    // SAFETY: an open descriptor and numbers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) } {
        0 => Ok(file),
        code => Err(Error::system(about(), &io::Error::from_raw_os_error(code))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a file that has a name, one without its room, a directory that is still used after the job,
    /// and a failure that does not say where.
    #[test]
    fn files_have_room_and_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let offered = Offered::begin(folder.path()).unwrap();
        let file = make(1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let error = make(1 << 62).unwrap_err().to_string();
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
        drop(offered);
        assert_eq!(make(1).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
