//! The memory of a ledger: words in slots, which are chained to each other.
//!
//! A record has one slot or more. Each begins with a state, by which the record counts, and a link to the slot
//! where its content goes on.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{AggregatePart, Record};
use errors::{Error, ErrorKind, Result};
use format::identity::Identity;

/// Words of a slot: its state, its link, a place, and content.
pub(super) const SLOT: usize = 32;
/// The first word of the place, in the first slot of a record.
pub(super) const PLACE: usize = 2;
/// The first word of content in a slot.
pub(super) const FIRST: usize = 6;
/// Words of content in a slot.
pub(super) const CONTENT: usize = SLOT - FIRST;
/// Words before the first slot: the magic, and how many slots were ever used.
pub(super) const HEAD: usize = SLOT;

/// The second word of a slot: where the content goes on, and how many bytes of it are here.
pub(super) struct SlotLink {
    /// The next slot, if the content goes on.
    pub next: Option<u32>,
    /// The bytes of content in this slot.
    pub len: u32,
}

impl SlotLink {
    /// The link as a word.
    pub(super) fn word(&self) -> u64 {
        u64::from(self.next.map_or(0, |next| next + 1)) << 32 | u64::from(self.len)
    }

    /// The link that a word is.
    pub(super) fn of(word: u64) -> SlotLink {
        SlotLink { next: ((word >> 32) as u32).checked_sub(1), len: word as u32 }
    }
}

/// The memory of a ledger, which another process may have as well, as words.
pub type LedgerMemory = Box<dyn AsRef<[AtomicU64]> + Send + Sync>;

/// Memory as words, each of which is written and read as a whole.
pub(super) struct Words {
    memory: LedgerMemory,
    /// After so many stores none reaches the memory, as if the process were killed.
    #[cfg(any(test, debug_assertions))]
    pub left: AtomicU64,
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots", self.slots())
    }
}

impl Words {
    /// Memory that has room for one slot at least.
    pub(super) fn of(memory: LedgerMemory) -> Result<Words> {
        let len = (*memory).as_ref().len();
        if len < HEAD + SLOT {
            return Err(Error::invalid(format!("{} bytes are no ledger", len * 8)));
        }
        Ok(Words {
            memory,
            #[cfg(any(test, debug_assertions))]
            left: AtomicU64::new(u64::MAX),
        })
    }

    /// The word at an index.
    pub(super) fn get(&self, at: usize) -> &AtomicU64 {
        &(*self.memory).as_ref()[at]
    }

    /// A word of a slot.
    pub(super) fn slot(&self, index: u32, word: usize) -> &AtomicU64 {
        self.get(HEAD + index as usize * SLOT + word)
    }

    /// Every store goes this way.
    pub(super) fn store(&self, to: &AtomicU64, word: u64, ordering: Ordering) {
        if self.is_alive() {
            to.store(word, ordering);
        }
    }

    /// Stores a word, of which another process may set the bits of `others` at any moment.
    pub(super) fn merge(&self, to: &AtomicU64, word: u64, others: u64) {
        if self.is_alive() {
            let merged = |old: u64| Some(old & others | word);
            let _ = to.fetch_update(Ordering::AcqRel, Ordering::Acquire, merged);
        }
    }

    /// Counts a store, which does not reach the memory if the process is as good as killed.
    fn is_alive(&self) -> bool {
        #[cfg(any(test, debug_assertions))]
        {
            let count = |left: u64| left.checked_sub(1);
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
        }
        #[cfg(not(any(test, debug_assertions)))]
        true
    }

    /// Stores a word that counts once a state says so.
    pub(super) fn put(&self, index: u32, at: usize, word: u64) {
        self.store(self.slot(index, at), word, Ordering::Relaxed);
    }

    /// Stores where a record goes in an aggregated file, in its first slot.
    pub(super) fn put_place(&self, index: u32, place: &AggregatePart) {
        let AggregatePart { offset, ranks, identity, attempt } = *place;
        self.put(index, PLACE, offset);
        self.put(index, PLACE + 1, u64::from(ranks) << 32 | u64::from(identity.generation));
        self.put(index, PLACE + 2, attempt);
        self.put(index, PLACE + 3, identity.run);
    }

    /// Where a record goes in an aggregated file, once its state says that this is known.
    pub(super) fn place(&self, index: u32) -> AggregatePart {
        let word = |at: usize| self.slot(index, PLACE + at).load(Ordering::Relaxed);
        let numbers = word(1);
        AggregatePart {
            offset: word(0),
            ranks: (numbers >> 32) as u32,
            identity: Identity { run: word(3), generation: numbers as u32 },
            attempt: word(2),
        }
    }

    /// How many slots there is room for.
    pub(super) fn slots(&self) -> u32 {
        (((*self.memory).as_ref().len() - HEAD) / SLOT).min(u32::MAX as usize - 1) as u32
    }

    /// The record that begins in slot `head`, of `used` that were ever used. No link is trusted.
    pub(super) fn record(&self, head: u32, used: u32) -> Result<Record<'static>> {
        let corrupt = |text: &str| Error::new(ErrorKind::Corrupt, format!("slot {head}: {text}"));
        let mut bytes = Vec::new();
        let mut next = Some(head);
        // Links between slots without content may form a circle.
        let mut steps = 0;
        while let Some(index) = next {
            steps += 1;
            let link = SlotLink::of(self.slot(index, 1).load(Ordering::Relaxed));
            let len = link.len as usize;
            if index >= used || len > CONTENT * 8 || steps > used {
                return Err(corrupt("its links lead nowhere"));
            }
            for at in 0..len.div_ceil(8) {
                let word = self.slot(index, FIRST + at).load(Ordering::Relaxed).to_le_bytes();
                bytes.extend_from_slice(&word[..(len - at * 8).min(8)]);
            }
            next = link.next.filter(|&next| next < used);
        }
        postcard::from_bytes::<Record<'static>>(&bytes).map_err(|e| corrupt(&e.to_string()))
    }
}
