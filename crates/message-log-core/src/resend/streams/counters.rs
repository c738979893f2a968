//! The counters of each stream and of each communicator's collective calls, by key.

use super::stream::PostingOrder;
use super::waiting::Waiting;
use crate::memory::{self, NoMemory};
use crate::resend::table::{Index, IndexKey};

/// The counters of a stream or of collective calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamCounts {
    /// Messages sent or received, or calls completed.
    pub(super) messages: u64,
    /// Messages received or waited for by a receive that names the stream, or calls begun.
    pub(super) other: u64,
}

#[derive(Debug)]
pub(super) struct KeyedCounter<K> {
    pub(super) key: K,
    pub(super) counts: StreamCounts,
    /// Sent but not completed, or probed for but not received.
    pub(super) open: u64,
    /// For received messages: how many must have been sent, if all that may precede them were. For sends
    /// completed without buffering: how many receives must have been posted.
    pub(super) reach: u64,
    /// The ticket of the receive of the last message that arrived.
    pub(super) last: PostingOrder,
    /// Receives that name the stream and wait for a message, in order.
    pub(super) waiting: Waiting,
    /// The counters have changed since the last report.
    pub(super) changed: bool,
    /// The number of the last report that included them.
    pub(super) seen: u64,
}

impl<K> KeyedCounter<K> {
    fn new(key: K) -> KeyedCounter<K> {
        KeyedCounter {
            key,
            counts: StreamCounts::default(),
            open: 0,
            reach: 0,
            last: 0,
            waiting: Waiting::default(),
            changed: false,
            seen: 0,
        }
    }
}

/// The index for all keys for which there is no memory. Their counts are mixed, so they are not used.
pub(super) const NOWHERE: u32 = u32::MAX - 1;

#[derive(Debug)]
pub(super) struct CounterTable<K> {
    index: Index,
    pub(super) counters: Vec<KeyedCounter<K>>,
    nowhere: KeyedCounter<K>,
    /// A key could not be added for lack of memory.
    pub(super) lacks_some: bool,
}

impl<K: Default> Default for CounterTable<K> {
    fn default() -> CounterTable<K> {
        let nowhere = KeyedCounter::new(K::default());
        CounterTable { index: Index::default(), counters: Vec::new(), nowhere, lacks_some: false }
    }
}

impl<K: IndexKey> CounterTable<K> {
    /// The index of a key, or [`NOWHERE`] without memory for it.
    #[inline]
    pub(super) fn place(&mut self, key: K) -> u32 {
        let found = self.index.find(&key, |place| &self.counters[place as usize].key);
        found.unwrap_or_else(|| self.place_new(key))
    }

    #[cold]
    fn place_new(&mut self, key: K) -> u32 {
        self.add(key).unwrap_or_else(|NoMemory| {
            self.lacks_some = true;
            NOWHERE
        })
    }

    fn add(&mut self, key: K) -> Result<u32, NoMemory> {
        let place = self.counters.len() as u32;
        memory::push(&mut self.counters, KeyedCounter::new(key))?;
        let added = self.index.add(place, |place| &self.counters[place as usize].key);
        if added.is_err() {
            self.counters.pop();
        }
        added.map(|()| place)
    }

    /// The counter at an index.
    #[inline]
    pub(super) fn at(&self, place: u32) -> &KeyedCounter<K> {
        self.counters.get(place as usize).unwrap_or(&self.nowhere)
    }

    /// The counter at an index, for counting.
    #[inline]
    pub(super) fn at_mut(&mut self, place: u32) -> &mut KeyedCounter<K> {
        self.counters.get_mut(place as usize).unwrap_or(&mut self.nowhere)
    }
}

/// A communicator's collective calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collective {
    pub(super) comm: u64,
    pub(super) size: u32,
}

impl IndexKey for Collective {
    #[inline]
    fn word(&self) -> u64 {
        self.comm ^ u64::from(self.size)
    }
}
