//! What goes before the work of the node lock's holder ([`super::node_lock`]): any number of processes of a node
//! claim precedence at a time, and whoever holds the node lock waits until none does.
//!
//! As the node lock it improves performance and is not needed for correctness: another user can at worst
//! claim it, and waits for it are bounded.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::lock::Lock;
use super::node_lock;
use errors::{Error, ErrorKind, Result};

/// The pause between two looks.
const RETRY_INTERVAL: Duration = Duration::from_micros(500);

/// How often a claim is tried: whoever looks for claims is in its way for a moment.
const TRIES: usize = 20;

/// The lock file, which all users may read and nobody writes.
const LOCK_FILE: &str = "/dev/shm/veloc-precedence-1";

/// The claims of all processes of a node, as one process sees them.
#[derive(Debug)]
pub struct Precedence {
    lock: Lock,
    path: PathBuf,
}

/// A claim, until it is dropped.
#[derive(Debug)]
pub struct Claim<'a>(&'a Precedence);

impl Precedence {
    /// The claims of all processes of the node or, if that is impossible, of this user's processes.
    ///
    /// # Errors
    /// Both are impossible; the message names the file.
    pub fn open() -> Result<Precedence> {
        node_lock::open_for_all(LOCK_FILE, "precedence", Precedence::open_at)
    }

    /// The claims at this path.
    ///
    /// # Errors
    /// The file cannot be used as a lock; the message names it.
    pub(crate) fn open_at(path: &Path) -> Result<Precedence> {
        Ok(Precedence { lock: Lock::open(path, 0o444)?, path: path.to_owned() })
    }

    /// Claims precedence. An instance has one claim at a time.
    ///
    /// # Errors
    /// The file system has no such locks, or somebody is in the way who does not go.
    pub fn claim(&self) -> Result<Claim<'_>> {
        for _ in 0..TRIES {
            if self.lock.try_share().map_err(|e| e.within(self.path.display().to_string()))? {
                return Ok(Claim(self));
            }
            thread::sleep(RETRY_INTERVAL / 10);
        }
        let what = format!("another process keeps {} to itself", self.path.display());
        Err(Error::new(ErrorKind::System, what))
    }

    /// Whether anybody else claims precedence; for an instance that has no claim.
    ///
    /// # Errors
    /// The file system has no such locks.
    pub fn is_claimed(&self) -> Result<bool> {
        let free = self.lock.try_take().map_err(|e| e.within(self.path.display().to_string()))?;
        if free {
            self.lock.give_back();
        }
        Ok(!free)
    }

    /// Waits until nobody claims precedence, or `cancel`, which is polled, says so.
    ///
    /// # Errors
    /// It was claimed for all of `at_most`; or as [`Precedence::is_claimed`].
    pub fn await_none(&self, at_most: Duration, cancel: &dyn Fn() -> bool) -> Result<()> {
        let since = Instant::now();
        while !cancel() && self.is_claimed()? {
            if since.elapsed() >= at_most {
                let what = format!(
                    "other processes have claimed precedence for {} s ({})",
                    at_most.as_secs_f64(),
                    self.path.display()
                );
                return Err(Error::new(ErrorKind::System, what));
            }
            thread::sleep(RETRY_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.lock.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;

    /// Catches claims that exclude each other, one that is not seen, and one that stays.
    #[test]
    fn several_claim_and_others_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precedence");
        // A child of another test would have the file open for a moment.
        let _sole = forks::none();
        let [one, other, looks] = [(); 3].map(|()| Precedence::open_at(&path).unwrap());
        assert!(!looks.is_claimed().unwrap());
        let first = one.claim().unwrap();
        let second = other.claim().unwrap();
        drop(first);
        assert!(looks.is_claimed().unwrap());
        let error = looks.await_none(Duration::ZERO, &|| false).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");
        looks.await_none(Duration::MAX, &|| true).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| looks.await_none(Duration::MAX, &|| false).unwrap());
            drop(second);
            waits.join().unwrap();
        });
        assert!(!looks.is_claimed().unwrap());
    }

    /// Catches a process that waits for ever, or says nothing, where another user keeps the file to itself.
    #[test]
    fn a_claim_that_cannot_be_had_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precedence");
        let _sole = forks::none();
        let [one, other] = [(); 2].map(|()| Precedence::open_at(&path).unwrap());
        assert!(other.lock.try_take().unwrap());
        let error = one.claim().unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");
        other.lock.give_back();
        one.claim().unwrap();
    }
}
