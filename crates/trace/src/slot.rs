//! A slot of a ring. The ring's counters and their memory orderings keep the two threads apart.

/// Words of a slot.
pub(crate) const WORDS: usize = 5;

pub(crate) use imp::Slot;

#[cfg(not(feature = "model-check"))]
mod imp {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::WORDS;

    /// A slot's words.
    #[derive(Debug, Default)]
    pub(crate) struct Slot([AtomicU64; WORDS]);

    impl Slot {
        /// Writes the slot.
        pub(crate) fn put(&self, words: &[u64; WORDS]) {
            for (to, word) in self.0.iter().zip(words) {
                to.store(*word, Ordering::Relaxed);
            }
        }

        /// Reads the slot.
        pub(crate) fn get(&self) -> [u64; WORDS] {
            self.0.each_ref().map(|word| word.load(Ordering::Relaxed))
        }
    }
}

#[cfg(feature = "model-check")]
mod imp {
    use loom::cell::UnsafeCell;

    use super::WORDS;

    /// A slot's words, watched by loom: a concurrent access fails the test.
    #[derive(Debug, Default)]
    pub struct Slot(UnsafeCell<[u64; WORDS]>);

    // SAFETY: loom makes sure that accesses do not overlap.
    unsafe impl Sync for Slot {}

    impl Slot {
        /// Writes the slot.
        pub fn put(&self, words: &[u64; WORDS]) {
            // SAFETY: loom has checked that no other thread uses the slot.
            self.0.with_mut(|to| unsafe { to.write(*words) });
        }

        /// Reads the slot.
        pub fn get(&self) -> [u64; WORDS] {
            // SAFETY: as above.
            self.0.with(|from| unsafe { from.read() })
        }
    }
}
