//! An index of keys in a list, with one multiplication and usually one probe per lookup.

use crate::memory::{self, NoMemory};

/// A key.
pub(super) trait IndexKey: Copy + Eq {
    /// A number that differs between keys as far as possible.
    fn word(&self) -> u64;
}

/// The positions of keys in a list that only grows: a hash table with open addressing. The keys are
/// stored in the list only.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// A key's position + 1; 0: free. The size is a power of two, and at most half of it is used.
    places: Vec<u32>,
    taken: usize,
}

impl Index {
    /// The position of a key. `key_at` returns the key at a position.
    #[inline]
    pub(super) fn find<'a, K: IndexKey + 'a>(
        &self,
        key: &K,
        key_at: impl Fn(u32) -> &'a K,
    ) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mut slot = self.home(key);
        loop {
            let place = self.places[slot].checked_sub(1)?;
            if key_at(place) == key {
                return Some(place);
            }
            slot = (slot + 1) & (self.places.len() - 1);
        }
    }

    /// Adds the new key at this position. `key_at` returns the key at a position.
    ///
    /// # Errors
    /// Out of memory; nothing is added.
    pub(super) fn add<'a, K: IndexKey + 'a>(
        &mut self,
        place: u32,
        key_at: impl Fn(u32) -> &'a K,
    ) -> Result<(), NoMemory> {
        if 2 * (self.taken + 1) > self.places.len() {
            let len = (2 * self.places.len()).max(64);
            let mut larger = memory::room(len)?;
            larger.resize(len, 0);
            for place in std::mem::replace(&mut self.places, larger) {
                if let Some(place) = place.checked_sub(1) {
                    self.put(place, key_at(place));
                }
            }
        }
        self.put(place, key_at(place));
        self.taken += 1;
        Ok(())
    }

    fn put<K: IndexKey>(&mut self, place: u32, key: &K) {
        let mut slot = self.home(key);
        while self.places[slot] != 0 {
            slot = (slot + 1) & (self.places.len() - 1);
        }
        self.places[slot] = place + 1;
    }

    /// The preferred slot of a key.
    #[inline]
    fn home<K: IndexKey>(&self, key: &K) -> usize {
        let spread = key.word().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The upper half depends on all bits of the key.
        (spread >> 32) as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Pair(u32, u32);

    impl IndexKey for Pair {
        fn word(&self) -> u64 {
            // A bad hash, with many collisions.
            u64::from(self.0)
        }
    }

    /// Catches keys that are lost when the table grows, or confused with others of the same hash.
    #[test]
    fn every_key_is_found_where_it_is() {
        let (mut index, mut keys) = (Index::default(), Vec::new());
        for n in 0..1000 {
            let key = Pair(n / 3, n);
            assert_eq!(index.find(&key, |place| &keys[place as usize]), None);
            keys.push(key);
            index.add(n, |place| &keys[place as usize]).unwrap();
        }
        for (n, key) in (0..).zip(&keys) {
            assert_eq!(index.find(key, |place| &keys[place as usize]), Some(n));
        }
    }
}
