//! Where a handle stands in the table: open addressing.

use super::{Entry, Requests};
use crate::memory::{self, NoMemory};

impl Requests {
    #[inline]
    pub(super) fn room_for_one(&mut self) -> Result<(), NoMemory> {
        match 2 * self.taken >= self.entries.len() {
            true => self.grow(),
            false => Ok(()),
        }
    }

    /// The place of a handle, which is taken from now on.
    #[inline(always)]
    pub(super) fn place_for(&mut self, handle: usize) -> Result<usize, NoMemory> {
        self.room_for_one().inspect_err(|_| self.has_overlooked = true)?;
        let place = self.find(handle);
        let entry = &mut self.entries[place];
        self.taken += usize::from(entry.handle == 0);
        entry.handle = handle;
        Ok(place)
    }

    /// Where a handle would be best: they are addresses or small numbers, and one multiplication
    /// spreads them.
    #[inline]
    fn home(&self, handle: usize) -> usize {
        let spread = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> 32) as usize & (self.entries.len() - 1)
    }

    /// The place of a handle, or the free one where it belongs. The table has free places.
    #[inline]
    pub(super) fn find(&self, handle: usize) -> usize {
        let mut place = self.home(handle);
        loop {
            let at = self.entries[place].handle;
            if at == handle || at == 0 {
                return place;
            }
            place = (place + 1) & (self.entries.len() - 1);
        }
    }

    /// Frees a place, and moves those behind it that would not be found any more.
    #[inline(always)]
    pub(super) fn close(&mut self, hole: usize) {
        self.taken -= 1;
        let behind = (hole + 1) & (self.entries.len() - 1);
        let hole = match self.entries[behind].handle {
            0 => hole,
            _ => self.close_up(hole),
        };
        self.entries[hole] = Entry::default();
    }

    /// Moves those behind a place that would not be found any more without it: the place that is
    /// free then.
    fn close_up(&mut self, mut hole: usize) -> usize {
        let mask = self.entries.len() - 1;
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let handle = self.entries[place].handle;
            if handle == 0 {
                return hole;
            }
            // Found from its best place on, if the hole is not between.
            let home = self.home(handle);
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(hole) & mask) {
                self.entries.swap(hole, place);
                hole = place;
            }
        }
    }

    /// Makes room for one more. A table that cannot grow is filled up to its last free place.
    #[cold]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let len = (2 * self.entries.len()).max(64);
        let mut larger = match memory::room(len) {
            Ok(larger) => larger,
            Err(_) if self.taken + 1 < self.entries.len() => return Ok(()),
            Err(none) => return Err(none),
        };
        larger.resize_with(len, Entry::default);
        let entries = std::mem::replace(&mut self.entries, larger);
        for entry in entries.into_iter().filter(|entry| entry.handle != 0) {
            let place = self.find(entry.handle);
            self.entries[place] = entry;
        }
        Ok(())
    }
}
