//! A lock between all processes of a node, of any user: at any time one process holds it.
//!
//! The lock improves performance and is not needed for correctness, so the worst that another user can
//! do is to hold it. Waiting is bounded; after that a process continues without the lock.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::lock::Lock;
use super::private;
use errors::{Error, ErrorKind, Result};

/// The pause between two attempts: short compared to registering a chunk.
const RETRY_INTERVAL: Duration = Duration::from_micros(500);

/// The lock file, which all users may read and nobody writes.
const LOCK_FILE: &str = "/dev/shm/veloc-turns-3";

/// The node lock, as one process uses it.
#[derive(Debug)]
pub struct NodeLock {
    lock: Lock,
    path: PathBuf,
    held: bool,
}

impl NodeLock {
    /// The lock of all processes of the node or, if that is impossible, of this user's processes.
    ///
    /// # Errors
    /// Both are impossible; the message names the file.
    pub fn open() -> Result<NodeLock> {
        open_for_all(LOCK_FILE, "turns", NodeLock::open_at)
    }

    /// The lock at this path, which is created if necessary.
    ///
    /// # Errors
    /// The file cannot be used as a lock; the message names it.
    pub(crate) fn open_at(path: &Path) -> Result<NodeLock> {
        let lock = Lock::open(path, 0o444)?;
        Ok(NodeLock { lock, path: path.to_owned(), held: false })
    }

    /// Whether this process holds the lock.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Waits for the lock. `cancel` is polled meanwhile; false: it has ended the wait.
    ///
    /// # Errors
    /// Another process has held the lock for all of `at_most`, or the file system has no locks.
    pub fn acquire(&mut self, at_most: Duration, cancel: &dyn Fn() -> bool) -> Result<bool> {
        let since = Instant::now();
        while !cancel() {
            if self.lock.try_take().map_err(|e| e.within(self.path.display().to_string()))? {
                self.held = true;
                return Ok(true);
            }
            if since.elapsed() >= at_most {
                let what = format!(
                    "other processes have held the node lock for {} s ({})",
                    at_most.as_secs_f64(),
                    self.path.display()
                );
                return Err(Error::new(ErrorKind::System, what));
            }
            thread::sleep(RETRY_INTERVAL);
        }
        Ok(false)
    }

    /// Releases the lock, if held.
    pub fn release(&mut self) {
        if std::mem::take(&mut self.held) {
            self.lock.give_back();
        }
    }
}

/// Opens what all processes of the node have at `path` or, if that is impossible, this user's processes at `own`.
///
/// # Errors
/// Both are impossible; the message names the file.
pub(crate) fn open_for_all<T>(
    path: &str,
    own: &str,
    open: impl Fn(&Path) -> Result<T>,
) -> Result<T> {
    open(Path::new(path)).or_else(|error| {
        let own = private::directory(None).map(|directory| directory.join(own));
        own.and_then(|own| open(&own)).map_err(|second| error.followed_by(second))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    fn open(path: &Path) -> NodeLock {
        NodeLock::open_at(path).unwrap()
    }

    #[test]
    fn one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("turns");
        let _sole = forks::none();
        let (mut one, mut other) = (open(&path), open(&path));
        assert!(one.acquire(Duration::ZERO, &|| false).unwrap() && one.is_held());
        let error = other.acquire(Duration::ZERO, &|| false).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()) && !other.is_held(), "{error}");
        assert!(!other.acquire(Duration::MAX, &|| true).unwrap());
        thread::scope(|scope| {
            let waits = scope.spawn(|| other.acquire(Duration::MAX, &|| false).unwrap());
            one.release();
            assert!(waits.join().unwrap());
        });
    }

    /// Another user can only hold the lock, and not change the file. Catches a lock in mapped memory,
    /// which other users could truncate: every process that uses it would die by SIGBUS.
    #[test]
    fn another_user_can_only_hold_the_lock() {
        // SAFETY: cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: another_user_can_only_hold_the_lock needs root");
            return;
        }
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        // The permissions of /dev/shm.
        let rights = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        std::fs::set_permissions(folder.path(), rights).unwrap();
        let path = folder.path().join("turns");
        let mut own = open(&path);
        let other_user = |script: &str| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(script).arg("sh").arg(&path).uid(65534).gid(65534);
            forks::spawn(&mut command).unwrap()
        };
        for harm in [": > \"$1\"", "echo >> \"$1\"", "truncate -s 0 \"$1\"", "rm \"$1\""] {
            assert!(!other_user(harm).wait().unwrap().success(), "{harm}");
        }
        let mut holds = other_user("exec 9< \"$1\"; flock 9; exec sleep 1000");
        while own.acquire(Duration::ZERO, &|| false).is_ok() {
            own.release();
            thread::yield_now();
        }
        holds.kill().unwrap();
        holds.wait().unwrap();
        assert!(own.acquire(Duration::MAX, &|| false).unwrap(), "its lock has gone with it");
    }
}
