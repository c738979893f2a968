//! Who is at work under a name, among all processes of one user that use a directory: one file, in which each
//! holds a byte by the hash of what it is at work on. The locks are those of the open file (`F_OFD_SETLK`), so
//! they end with their holder, however it ends. Beside its byte a holder leaves who it is, for messages.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::fork::CloseOnFork;
use super::network;
use errors::{Error, ErrorKind, Result};

/// Where the locked bytes begin: behind everything that is written.
const LOCKS: u64 = 1 << 40;
/// Bytes of a text that says who holds a lock.
const TEXT: usize = 128;
/// How many texts there is room for, in a page: two locks may share one.
const TEXTS: u64 = 32;

/// The locks of a directory, as one process uses them.
#[derive(Debug)]
pub struct LiveLocks {
    file: CloseOnFork<File>,
    path: PathBuf,
}

impl LiveLocks {
    /// Opens the file of this user in a directory, or creates it.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn open(directory: &Path) -> Result<LiveLocks> {
        let path = directory.join(format!(".veloc-live-{}", geteuid().as_raw()));
        let open = || {
            let mut options = OpenOptions::new();
            // Not through another user's link, and without waiting for the other end of a pipe.
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            options.read(true).write(true).create(true).mode(0o600).custom_flags(flags);
            options.open(&path)
        };
        // A forked child must not hold the locks in its parent's place.
        let file = CloseOnFork::new(open);
        let file = file.map_err(|e| Error::system(format!("open {}", path.display()), &e))?;
        Ok(LiveLocks { file, path })
    }

    /// Takes the lock of `subject` for as long as this lives. To take it again is no error.
    ///
    /// # Errors
    /// [`ErrorKind::OtherJob`], naming the process that holds it; [`ErrorKind::System`] if the file system has no such locks.
    pub fn take(&self, subject: &str) -> Result<()> {
        let failed =
            |error: &io::Error| Error::system(format!("lock {}", self.path.display()), error);
        let file = self.file.get().map_err(|error| failed(&error))?;
        let hash = hash_of(subject);
        // SAFETY: all zeros are a lock of the whole file, of which the rest is set.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = (LOCKS + (hash >> 2)) as libc::off_t;
        lock.l_len = 1;
        // SAFETY: an open file, and a lock that is read.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
            // Without it, messages say less.
            let _ = file.write_all_at(&own_text(hash), hash % TEXTS * TEXT as u64);
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Err(self.held(file, hash, subject)),
            _ => Err(failed(&error)),
        }
    }

    fn held(&self, file: &File, hash: u64, subject: &str) -> Error {
        let mut text = [0; TEXT];
        let read = file.read_exact_at(&mut text, hash % TEXTS * TEXT as u64);
        let text = String::from_utf8_lossy(&text);
        let who = text.trim_end_matches('\0').strip_prefix(&format!("{hash:016x} "));
        let who = who.filter(|who| read.is_ok() && !who.contains(char::is_control));
        Error::new(
            ErrorKind::OtherJob,
            format!(
                "{subject} is being written by {}, which is at work ({})",
                who.unwrap_or("another process"),
                self.path.display()
            ),
        )
    }
}

/// The same in all processes (FNV-1a).
fn hash_of(subject: &str) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    subject.bytes().fold(0xcbf2_9ce4_8422_2325, add)
}

fn own_text(hash: u64) -> [u8; TEXT] {
    let mut text = [0; TEXT];
    let whole = format!("{hash:016x} process {} on {}", std::process::id(), network::host_name());
    let len = whole.len().min(TEXT);
    text[..len].copy_from_slice(&whole.as_bytes()[..len]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;

    /// Catches a lock that two jobs hold, one that keeps other names out, and one that outlives its holder,
    /// in a forked child.
    #[test]
    fn one_job_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        // A child of another test would hold it for a moment.
        let _sole = forks::none();
        let [one, other] = [(); 2].map(|()| LiveLocks::open(folder.path()).unwrap());
        one.take("\"x\" of rank 0").unwrap();
        one.take("\"x\" of rank 0").unwrap();
        let error = other.take("\"x\" of rank 0").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OtherJob);
        let owner =
            format!("\"x\" of rank 0 is being written by process {} on ", std::process::id());
        assert!(error.to_string().starts_with(&owner), "{error}");
        other.take("\"x\" of rank 1").unwrap();
        other.take("\"y\" of rank 0").unwrap();
        // SAFETY: the child stops itself, without anything of its parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: as above.
                unsafe { libc::raise(libc::SIGSTOP) };
            }
        }
        // It closes what it must not hold before it returns from `fork`, and stops after that.
        // SAFETY: a child of this test.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WUNTRACED) };
        drop(one);
        let taken = other.take("\"x\" of rank 0");
        // SAFETY: a child of this test, which is ended and waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        taken.unwrap();
    }
}
