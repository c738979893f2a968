//! What every driver call passes: closed, it lets none in, and it closes once none is inside.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::page::{futex_wait, futex_wake};

/// Set while it is closed, or about to be; the other bits count the calls inside.
const CLOSED: u32 = 1 << 31;

static GATE: AtomicU32 = AtomicU32::new(0);

/// A call that is inside, until dropped.
pub(crate) struct Inside(());

/// Waits while the gate is closed.
pub(crate) fn pass() -> Inside {
    let mut now = GATE.load(Ordering::Relaxed);
    loop {
        if now & CLOSED != 0 {
            futex_wait(&GATE, now, None);
            now = GATE.load(Ordering::Relaxed);
            continue;
        }
        match GATE.compare_exchange_weak(now, now + 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Inside(()),
            Err(other) => now = other,
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if GATE.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            futex_wake(&GATE);
        }
    }
}

/// Closes it, and waits until no call is inside: `false` if one still was after `timeout`, and it is open again.
pub(super) fn close(timeout: Option<Duration>) -> bool {
    let since = Instant::now();
    let mut now = GATE.fetch_or(CLOSED, Ordering::AcqRel) | CLOSED;
    while now != CLOSED {
        let left = timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            open();
            return false;
        }
        futex_wait(&GATE, now, left);
        now = GATE.load(Ordering::Acquire);
    }
    true
}

/// Opens it.
pub(super) fn open() {
    GATE.fetch_and(!CLOSED, Ordering::Release);
    futex_wake(&GATE);
}
