//! Keeps background copies short while a capture is about to wait for the whole context.
//!
//! If the application gives no stream, a capture must come after all work queued in the context, and the
//! driver's only call for that waits for the library's own copies, too. So they are issued in slices, and no
//! new slice is issued while the gate is closed: the capture waits for one or two slices of each lane at
//! most, not for a flush.

use std::sync::atomic::{AtomicBool, Ordering};

use os::sync::{Condvar, Mutex};

/// The gate, initially open.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: Mutex<u32>,
    opened: Condvar,
    resting: AtomicBool,
}

/// Keeps the gate closed until it is dropped.
#[derive(Debug)]
pub(crate) struct Closed<'a>(&'a Gate);

impl Gate {
    /// Closes the gate. Active slices continue.
    pub(crate) fn close(&self) -> Closed<'_> {
        *self.closed.lock() += 1;
        Closed(self)
    }

    /// Closes the gate until [`Gate::resume`]: the driver is about to shut down, and no call should
    /// coincide with that.
    pub(crate) fn rest(&self) {
        if !self.resting.swap(true, Ordering::AcqRel) {
            std::mem::forget(self.close());
        }
    }

    /// Ends [`Gate::rest`]: the driver has shut down, and calls get its error.
    pub(crate) fn resume(&self) {
        if self.resting.swap(false, Ordering::AcqRel) {
            drop(Closed(self));
        }
    }

    /// Waits until the gate is open. A capture opens it after its own copy, on every path.
    pub(crate) fn pass(&self) {
        let mut closed = self.closed.lock();
        while *closed > 0 {
            closed = self.opened.wait(closed);
        }
    }

    /// Whether the gate is closed now.
    pub(crate) fn is_closed(&self) -> bool {
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
