//! Keeps background copies short while a capture is about to wait for the whole context.
//!
//! Without a stream of the application's, a capture must come after everything that is queued in
//! the context, and the driver's only call for that waits for the library's own copies, too. So
//! they are issued in slices, and no new slice is issued while the gate is closed: the capture
//! waits for one or two slices at the most, not for a flush.

use std::sync::atomic::{AtomicBool, Ordering};

use os::sync::{Condvar, Mutex};

/// The gate. Open at first.
#[derive(Debug, Default)]
pub struct Gate {
    closed: Mutex<u32>,
    opened: Condvar,
    resting: AtomicBool,
}

/// Keeps the gate closed until it is dropped.
#[derive(Debug)]
pub struct Closed<'a>(&'a Gate);

impl Gate {
    /// Closes the gate. Slices under way go on.
    pub fn close(&self) -> Closed<'_> {
        *self.closed.lock() += 1;
        Closed(self)
    }

    /// Closes it until [`Gate::resume`]: the driver is about to end, and no call should meet that.
    pub fn rest(&self) {
        if !self.resting.swap(true, Ordering::AcqRel) {
            std::mem::forget(self.close());
        }
    }

    /// Ends a rest: the driver has ended, which is what a call gets for an answer.
    pub fn resume(&self) {
        if self.resting.swap(false, Ordering::AcqRel) {
            drop(Closed(self));
        }
    }

    /// Waits until the gate is open. Its owner opens it after a copy of its own, on every path.
    pub fn pass(&self) {
        let mut closed = self.closed.lock();
        while *closed > 0 {
            closed = self.opened.wait(closed);
        }
    }

    /// Whether the gate is closed now.
    pub fn is_closed(&self) -> bool {
        *self.closed.lock() > 0
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let mut closed = self.0.closed.lock();
        *closed -= 1;
        if *closed == 0 {
            self.0.opened.notify_all();
        }
    }
}
