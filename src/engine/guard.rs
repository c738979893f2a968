//! Keeps the host buffer from using up the machine's memory: the system would end processes.
//!
//! The host buffer is reserved without being promised memory. Whoever is about to use pages that do
//! not exist yet asks here. When little is left, the buffer keeps the pages it has and gives up the
//! rest of its room: checkpoints then wait for room or go to files, as in a smaller buffer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::shared::Shared;
use crate::platform::memory;

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

impl Shared {
    /// Counts `bytes` of pages that are about to be made. True: memory is short, and the host
    /// buffer has been limited to the pages it has.
    pub(super) fn memory_is_short(&self, bytes: u64) -> bool {
        if self.guard.short.load(Ordering::Relaxed) {
            return true;
        }
        if self.guard.since_look.fetch_add(bytes, Ordering::Relaxed) < LOOK_EVERY {
            return false;
        }
        self.guard.since_look.store(0, Ordering::Relaxed);
        let Ok(physical) = memory::physical() else { return false };
        if physical.available >= physical.total / KEEP_FREE_SHARE {
            return false;
        }
        if !self.guard.short.swap(true, Ordering::Relaxed) {
            let pages = self.host.as_ref().map_or(0, |host| host.front());
            self.catalog.step(|state| state.limit_host(pages));
            let left = self.catalog.look(|state| state.host_room().0);
            log::warn!(
                "the host buffer is limited to {left} bytes (host_cache_size): only {} of {} bytes \
                 of memory are available",
                physical.available,
                physical.total
            );
        }
        true
    }
}
