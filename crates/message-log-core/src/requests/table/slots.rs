//! The positions of handles in the table, by open addressing, and the free slots.

use crate::memory::{self, NoMemory};
use crate::requests::request::{MpiRequest, PlainRequest};

/// No slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct KnownRequests {
    pub(super) handle: usize,
    pub(super) request: MpiRequest,
    /// Other requests with the same handle, in order.
    pub(super) more: Vec<MpiRequest>,
}

impl KnownRequests {
    pub(super) fn new(handle: usize, request: MpiRequest) -> KnownRequests {
        KnownRequests { handle, request, more: Vec::new() }
    }
}

/// A handle (0: free) and its slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandleSlot {
    pub(super) handle: usize,
    pub(super) slot: u32,
}

/// The contents of a slot.
#[derive(Debug, Default)]
pub(super) struct RequestSlot {
    /// A request that is not plain.
    pub(super) known: Option<Box<KnownRequests>>,
    /// A plain request.
    pub(super) plain: PlainRequest,
    /// The next free slot, if this one is free.
    pub(super) next: u32,
}

/// The positions of handles, and the slots.
#[derive(Debug)]
pub(super) struct RequestSlots {
    /// Entries; 0 is no library's request. Their number is a power of two, at most half of them used, or
    /// 0.
    pub(super) entries: Vec<HandleSlot>,
    /// The number of entries minus one, or 0.
    mask: usize,
    /// Half the number of entries.
    pub(super) all: Vec<RequestSlot>,
    /// The first free slot.
    pub(super) free: u32,
}

impl Default for RequestSlots {
    fn default() -> RequestSlots {
        RequestSlots { entries: Vec::new(), mask: 0, all: Vec::new(), free: NO_SLOT }
    }
}

impl RequestSlots {
    /// Ensures a free slot, and so a free entry.
    #[inline]
    pub(super) fn room_for_one(&mut self) -> Result<(), NoMemory> {
        match self.free == NO_SLOT {
            true => self.grow(),
            false => Ok(()),
        }
    }

    /// The slot of the entry at a position.
    #[inline]
    pub(super) fn slot(&self, place: usize) -> &RequestSlot {
        &self.all[self.entries[place].slot as usize]
    }

    /// The same, for changes.
    #[inline]
    pub(super) fn slot_mut(&mut self, place: usize) -> &mut RequestSlot {
        &mut self.all[self.entries[place].slot as usize]
    }

    /// The position of a known handle.
    #[inline]
    pub(super) fn place(&self, handle: usize) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let place = self.find(handle);
        (self.entries[place].handle != 0).then_some(place)
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
        self.entries[place] = HandleSlot { handle, slot: self.free };
        self.free = self.all[self.free as usize].next;
    }

    /// Frees an entry and its slot, and moves following entries that would not be found any more.
    #[inline(always)]
    pub(super) fn close(&mut self, hole: usize, at: u32) {
        let Some(entry) = self.entries.get_mut(hole) else { return };
        entry.handle = 0;
        let Some(slot) = self.all.get_mut(at as usize) else { return };
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
        let before = self.all.len();
        let len = (2 * self.entries.len()).max(64);
        let mut larger = memory::room(len)?;
        self.all.try_reserve_exact(len / 2 - before)?;
        larger.resize_with(len, HandleSlot::default);
        self.all.resize_with(len / 2, RequestSlot::default);
        for (place, slot) in self.all.iter_mut().enumerate().skip(before) {
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
