//! Keeps the host buffer from using up the machine's memory: the system would end processes.
//!
//! The host buffer is reserved without being promised memory. Those who touch and flush ask here
//! before they use pages that do not exist yet; captures only say how many they use. When little is
//! left, the buffer keeps the pages it has and gives up the rest of its room: checkpoints then wait
//! for room or go to files, as in a smaller buffer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::platform::memory::{self, Physical};

/// The free memory is looked at again after so many bytes of new pages.
const LOOK_EVERY: u64 = 128 << 20;

/// This share of the physical memory is left to others.
const KEEP_FREE_SHARE: u64 = 32;

/// What was used since the last look, and what it showed.
#[derive(Debug)]
pub struct Guard {
    since_look: AtomicU64,
    short: AtomicBool,
}

impl Default for Guard {
    fn default() -> Self {
        Guard { since_look: AtomicU64::new(LOOK_EVERY), short: AtomicBool::new(false) }
    }
}

impl Guard {
    /// Counts `bytes` of pages that are about to be made. The figures, the first time that they
    /// show that memory is short.
    pub fn look(&self, bytes: u64) -> Option<Physical> {
        let before = self.since_look.fetch_add(bytes, Ordering::Relaxed);
        if self.is_short() || before < LOOK_EVERY {
            return None;
        }
        self.since_look.store(0, Ordering::Relaxed);
        let physical = memory::physical().ok()?;
        let short = physical.available < physical.total / KEEP_FREE_SHARE;
        (short && !self.short.swap(true, Ordering::Relaxed)).then_some(physical)
    }

    /// Counts `bytes` of pages that are about to be made, for the next one who looks.
    pub fn count(&self, bytes: u64) {
        self.since_look.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether memory has become short.
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }
}
