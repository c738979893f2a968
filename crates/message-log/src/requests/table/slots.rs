//! Where a handle stands in the table, by open addressing, and which slots are free.

use super::{Entry, Requests, Slot, NO_SLOT};
use crate::memory::{self, NoMemory};

impl Requests {
    /// Sees to a free slot, and so to a free place.
    #[inline]
    pub(super) fn room_for_one(&mut self) -> Result<(), NoMemory> {
        match self.free == NO_SLOT {
            true => self.grow(),
            false => Ok(()),
        }
    }

    /// The place of a handle, or the free one where it belongs, with room for it.
    #[inline]
    pub(super) fn place_for(&mut self, handle: usize) -> Result<usize, NoMemory> {
        self.room_for_one().inspect_err(|_| self.has_overlooked = true)?;
        Ok(self.find(handle))
    }

    /// Where a handle would be best: they are addresses or small numbers, and one multiplication
    /// spreads them.
    #[inline(always)]
    fn home(&self, handle: usize) -> usize {
        let spread = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> 32) as usize & self.mask
    }

    /// The place of a handle, or the free one where it belongs. The table has free places.
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

    /// The free slot becomes that of a handle, whose place is free.
    pub(super) fn take_slot(&mut self, place: usize, handle: usize) {
        self.entries[place] = Entry { handle, slot: self.free };
        self.free = self.slots[self.free as usize].next;
    }

    /// Frees a place and its slot, and moves those behind it that would not be found any more.
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

    /// Moves those behind a free place that would not be found any more because of it.
    #[inline(never)]
    fn close_up(&mut self, mut hole: usize) {
        let mut place = hole;
        loop {
            place = (place + 1) & self.mask;
            let handle = self.entries[place].handle;
            if handle == 0 {
                return;
            }
            // Found from its best place on, if the hole is not between.
            let home = self.home(handle);
            if (place.wrapping_sub(home) & self.mask) >= (place.wrapping_sub(hole) & self.mask) {
                self.entries.swap(hole, place);
                hole = place;
            }
        }
    }

    /// Makes room for as many again, at most half of the places.
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
