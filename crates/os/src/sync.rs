//! The locks that the library's shared state stands behind: std's, or shuttle's in a model check.
//!
//! A poisoned lock is entered all the same: state is changed only by code that cannot panic half
//! way, and a library must not turn one failed worker into a process that cannot finish.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[cfg(feature = "model-check")]
use shuttle::sync as imp;
#[cfg(not(feature = "model-check"))]
use std::sync as imp;

pub use imp::MutexGuard;

/// A mutual-exclusion lock that survives a panic of its holder.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Mutex(imp::Mutex::new(value))
    }

    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// What was behind it.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A condition to wait for under a [`Mutex`].
///
/// What is waited for must have been changed under that mutex before it is notified: then a notifier
/// knows of everybody who waits, and makes no system call if nobody does.
#[derive(Debug, Default)]
pub struct Condvar {
    condition: imp::Condvar,
    waiting: AtomicUsize,
}

impl Condvar {
    /// A condition nobody waits for yet.
    pub fn new() -> Self {
        Condvar::default()
    }

    /// Waits until notified. Like every condition wait it may also return for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let _waits = Waits::new(&self.waiting);
        self.condition.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The same, for `time` at the most.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
        let _waits = Waits::new(&self.waiting);
        let (guard, _) = self
            .condition
            .wait_timeout(guard, time)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        guard
    }

    /// How many wait.
    #[cfg(any(test, feature = "tests"))]
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.condition.notify_one();
        }
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.condition.notify_all();
        }
    }
}

/// One who waits. Counted with the mutex held, before and after the wait: whoever takes the mutex
/// later sees it.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waits(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
