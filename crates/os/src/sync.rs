//! The locks of the library's shared state: std's, or shuttle's in a model check.
//!
//! A poisoned lock is used anyway: code that changes state under a lock does not panic half way, and one
//! failed worker must not keep the process from finishing.

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
    /// A mutex around `value`.
    pub fn new(value: T) -> Self {
        Mutex(imp::Mutex::new(value))
    }

    /// Locks if no other thread holds the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Locks.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A condition variable for a [`Mutex`].
///
/// The condition must be changed under that mutex before the notification. Then the notifier knows all
/// waiting threads, and makes no system call if there are none.
#[derive(Debug, Default)]
pub struct Condvar {
    condition: imp::Condvar,
    waiting: AtomicUsize,
}

impl Condvar {
    /// A condition variable without waiting threads.
    pub fn new() -> Self {
        Condvar::default()
    }

    /// Waits until notified; may return spuriously.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let _waits = Waits::new(&self.waiting);
        self.condition.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits at most `time`.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
        let _waits = Waits::new(&self.waiting);
        let (guard, _) = self
            .condition
            .wait_timeout(guard, time)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        guard
    }

    /// How many threads wait.
    #[cfg(any(test, debug_assertions))]
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.condition.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.condition.notify_all();
        }
    }
}

/// A waiting thread, counted before and after the wait with the mutex held, so that a later owner of the
/// mutex sees it.
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
