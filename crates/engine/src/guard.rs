//! Keeps the host buffer from using up the machine's memory: the system would end processes.
//!
//! The host buffer is reserved without being promised memory. Those who touch and flush ask here
//! before they use pages that do not exist yet; captures only say how many they use. When little is
//! left, the buffer keeps the pages it has and lends the rest of its room to nobody: checkpoints then
//! wait for room or go to files, as in a smaller buffer. Those who would touch more look again every
//! now and then, as a machine's memory may grow and others give theirs back: then it has its room again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use os::memory::Physical;

/// The free memory is looked at again after so many bytes of new pages.
pub(crate) const LOOK_EVERY: u64 = 128 << 20;

/// This share of the physical memory is left to others.
const KEEP_FREE_SHARE: u64 = 32;

/// What was used since the last look, and what it showed.
#[derive(Debug)]
pub(crate) struct Guard {
    since_look: AtomicU64,
    short: AtomicBool,
}

impl Default for Guard {
    fn default() -> Self {
        Guard { since_look: AtomicU64::new(LOOK_EVERY), short: AtomicBool::new(false) }
    }
}

impl Guard {
    /// Counts `bytes` of pages that are about to be made. Whether it is time for a look.
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        let used = self.since_look.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        used >= LOOK_EVERY && {
            self.since_look.store(0, Ordering::Relaxed);
            true
        }
    }

    /// Counts `bytes` of pages that are about to be made, for the next one who looks.
    pub(crate) fn count(&self, bytes: u64) {
        self.since_look.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes in what a look has shown: whether memory is short, if it was not by then, or the other
    /// way round. It is not short any more when as much can be used as is used until the next look.
    /// To be called by one at a time.
    pub(crate) fn judge(&self, found: Physical) -> Option<bool> {
        let keep = found.total / KEEP_FREE_SHARE;
        let least = if self.is_short() { keep.saturating_add(LOOK_EVERY) } else { keep };
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
        /// Catches memory that stays short for ever, that is not noticed to be short, and pages of
        /// which more are made between two looks than is left to others.
        #[test]
        fn what_it_says_is_what_was_found(
            steps in prop::collection::vec((0..LOOK_EVERY, 0..64 * LOOK_EVERY, 1..64 * LOOK_EVERY), 1..200),
        ) {
            let guard = Guard::default();
            let (mut unseen, mut looked, mut was_short) = (0, false, false);
            for (bytes, available, total) in steps {
                unseen += bytes;
                if !guard.is_due(bytes) {
                    prop_assert!(looked && unseen < LOOK_EVERY);
                    continue;
                }
                (unseen, looked) = (0, true);
                let found = Physical { total: total.max(available), available };
                let changed = guard.judge(found);
                let keep = found.total / KEEP_FREE_SHARE;
                if available < keep {
                    prop_assert!(guard.is_short());
                } else if available >= keep + LOOK_EVERY {
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
