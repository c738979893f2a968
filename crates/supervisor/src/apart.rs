//! Work in a process apart: it is done also where the supervisor is killed in the middle, and what it loads goes with it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::panic::{catch_unwind, AssertUnwindSafe};

use errors::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::supervise::wait;

/// Does `work` in a child, and returns what that returns. To be called while this process has no other thread.
///
/// # Errors
/// Those of the work; or its process was killed, and all that it had started has ended.
pub(crate) fn apart<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T>
where
    T: Serialize + DeserializeOwned,
{
    let failed = |error: io::Error| Error::system(what, &error);
    let (mut result, mut tell) = io::pipe().map_err(failed)?;
    // SAFETY: there is no other thread whose locks the child could find taken.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if child == 0 {
        // What the child starts has this end as well, so whoever reads waits for that, too.
        // SAFETY: an open descriptor.
        unsafe { libc::fcntl(tell.as_raw_fd(), libc::F_SETFD, 0) };
        let done = catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, format!("{what} panicked"))));
        let told = serde_json::to_vec(&done.map_err(|error| error.to_string()));
        // Who cannot be told takes it for killed.
        let _ = told.map(|text| tell.write_all(&text));
        // SAFETY: it ends this process, without what is the parent's to do at its end.
        unsafe { libc::_exit(0) };
    }
    drop(tell);
    let mut text = Vec::new();
    let read = result.read_to_end(&mut text);
    wait(child.unsigned_abs())?;
    read.map_err(failed)?;
    let told: std::result::Result<T, String> = serde_json::from_slice(&text)
        .map_err(|_| Error::new(ErrorKind::System, format!("{what}: its process was killed")))?;
    told.map_err(|why| Error::new(ErrorKind::System, why))
}
