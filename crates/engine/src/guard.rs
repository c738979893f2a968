//! Keeps the host buffer from exhausting the machine's memory, as the system would kill processes.
//!
//! The host buffer is reserved without committed memory. Touching and flushing threads ask here before they
//! use new pages; captures only report how many they use. When memory is short, the buffer keeps its pages
//! and the rest of its room is not used: checkpoints wait for room or go to files, as with a smaller buffer.
//! Touching threads check the machine's memory again at intervals, as it may grow or be freed by others; then
//! the buffer has its room again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use os::memory::Physical;

/// The free memory is checked again after this many bytes of new pages.
pub(crate) const CHECK_EVERY: u64 = 128 << 20;

/// This share of the physical memory is left to other uses.
const KEEP_FREE_SHARE: u64 = 32;

/// A buffer that grows as far as memory allows leaves this share of its own bytes to other uses:
/// alone, it gets three quarters of the available memory.
const KEEP_OWN_SHARE: u64 = 3;

/// The bytes used since the last check, and its result.
#[derive(Debug)]
pub(crate) struct Guard {
    since_look: AtomicU64,
    short: AtomicBool,
    /// The buffer has no size: it follows the available memory.
    follows: bool,
}

impl Default for Guard {
    fn default() -> Self {
        Guard {
            since_look: AtomicU64::new(CHECK_EVERY),
            short: AtomicBool::new(false),
            follows: false,
        }
    }
}

impl Guard {
    /// The guard of a buffer without a size, if it `follows` the memory that is available.
    pub(crate) fn new(follows: bool) -> Guard {
        Guard { follows, ..Guard::default() }
    }

    /// Counts `bytes` of new pages. Returns whether a check is due.
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        let used = self.since_look.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        used >= CHECK_EVERY && {
            self.since_look.store(0, Ordering::Relaxed);
            true
        }
    }

    /// Counts `bytes` of new pages, for the next check.
    pub(crate) fn count(&self, bytes: u64) {
        self.since_look.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes the result of a check, and the bytes of the buffer's pages. Returns whether memory is
    /// short, if that has changed. It stops being short when as much is free as can be used until
    /// the next check. Only one thread at a time may call this.
    pub(crate) fn judge(&self, found: Physical, own: u64) -> Option<bool> {
        let share = if self.follows { own / KEEP_OWN_SHARE } else { 0 };
        let keep = share.max(found.total / KEEP_FREE_SHARE);
        let least = if self.is_short() { keep.saturating_add(CHECK_EVERY) } else { keep };
        let short = found.available < least;
        (self.short.swap(short, Ordering::Relaxed) != short).then_some(short)
    }

    /// Whether memory is short.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Catches memory that stays short for ever, a shortage that is not noticed, and more new pages
        /// between two checks than are left to other uses.
        #[test]
        fn what_it_says_is_what_was_found(
            follows in any::<bool>(),
            steps in prop::collection::vec((0..CHECK_EVERY, 0..64 * CHECK_EVERY, 1..64 * CHECK_EVERY), 1..200),
        ) {
            let guard = Guard::new(follows);
            let (mut unseen, mut looked, mut was_short) = (0, false, false);
            for (bytes, available, total) in steps {
                unseen += bytes;
                if !guard.is_due(bytes) {
                    prop_assert!(looked && unseen < CHECK_EVERY);
                    continue;
                }
                (unseen, looked) = (0, true);
                let found = Physical { total: total.max(available), available };
                let own = found.total - available;
                let changed = guard.judge(found, own);
                let keep = found.total / KEEP_FREE_SHARE;
                let keep = if follows { keep.max(own / 3) } else { keep };
                if follows && own > found.total / 4 * 3 + 3 {
                    prop_assert!(guard.is_short(), "more than three quarters");
                }
                if available < keep {
                    prop_assert!(guard.is_short());
                } else if available >= keep + CHECK_EVERY {
                    prop_assert!(!guard.is_short());
                } else {
                    prop_assert_eq!(guard.is_short(), was_short);
                }
                prop_assert_eq!(changed, (guard.is_short() != was_short).then_some(!was_short));
                was_short = guard.is_short();
            }
        }
    }
}
