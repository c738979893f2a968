//! The positions of handles in the table, by open addressing, and the free slots.

use super::{Entry, Requests, Slot, NO_SLOT};
use crate::memory::{self, NoMemory};

impl Requests {
    /// Ensures a free slot, and so a free entry.
    #[inline]
    pub(super) fn room_for_one(&mut self) -> Result<(), NoMemory> {
        match self.free == NO_SLOT {
            true => self.grow(),
            false => Ok(()),
        }
    }

    /// The entry of a handle, or the free one for it, with room.
    #[inline]
    pub(super) fn place_for(&mut self, handle: usize) -> Result<usize, NoMemory> {
        self.room_for_one().inspect_err(|_| self.has_overlooked = true)?;
        Ok(self.find(handle))
    }

    /// The preferred entry of a handle: handles are addresses or small numbers, and one multiplication
    /// spreads them.
    #[inline(always)]
    fn home(&self, handle: usize) -> usize {
        let spread = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> 32) as usize & self.mask
    }

    /// The entry of a handle, or the free one for it. The table has free entries.
    #[inline(always)]
    pub(super) fn find(&self, handle: usize) -> usize {
        let mut place = self.home(handle);
        loop {
            let at = self.entries[place].handle;
            if at == handle || at == 0 {
                return place;
            }
            place = (place + 1) & self.mask;
        }
    }

    /// Uses the free slot for a handle with a free entry.
    pub(super) fn take_slot(&mut self, place: usize, handle: usize) {
        self.entries[place] = Entry { handle, slot: self.free };
        self.free = self.slots[self.free as usize].next;
    }

    /// Frees an entry and its slot, and moves following entries that would not be found any more.
    #[inline(always)]
    pub(super) fn close(&mut self, hole: usize, at: u32) {
        let Some(entry) = self.entries.get_mut(hole) else { return };
        entry.handle = 0;
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        slot.next = self.free;
        self.free = at;
        if slot.known.is_some() {
            slot.known = None;
        }
        let behind = (hole + 1) & self.mask;
        if self.entries.get(behind).is_some_and(|entry| entry.handle != 0) {
            self.close_up(hole);
        }
    }

    /// Moves entries that would not be found any more because of a free one before them.
    #[inline(never)]
    fn close_up(&mut self, mut hole: usize) {
        let mut place = hole;
        loop {
            place = (place + 1) & self.mask;
            let handle = self.entries[place].handle;
            if handle == 0 {
                return;
            }
            // The entry is still found from its preferred place, if the free one is not in between.
            let home = self.home(handle);
            if (place.wrapping_sub(home) & self.mask) >= (place.wrapping_sub(hole) & self.mask) {
                self.entries.swap(hole, place);
                hole = place;
            }
        }
    }

    /// Doubles the table, of which at most half is used.
    #[cold]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let before = self.slots.len();
        let len = (2 * self.entries.len()).max(64);
        let mut larger = memory::room(len)?;
        self.slots.try_reserve_exact(len / 2 - before)?;
        larger.resize_with(len, Entry::default);
        self.slots.resize_with(len / 2, Slot::default);
        for (place, slot) in self.slots.iter_mut().enumerate().skip(before) {
            slot.next = self.free;
            self.free = place as u32;
        }
        self.mask = len - 1;
        for entry in std::mem::replace(&mut self.entries, larger) {
            if entry.handle != 0 {
                let place = self.find(entry.handle);
                self.entries[place] = entry;
            }
        }
        Ok(())
    }
}
