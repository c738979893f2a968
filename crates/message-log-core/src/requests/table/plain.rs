//! Plain requests: begun outside parts, and usually complete before a part begins.

use super::slots::{HandleSlot, NO_SLOT};
use super::Requests;
use crate::counting::Counted;
use crate::memory::{self, NoMemory};
use crate::requests::PlainRequest;

/// The position of a request, until another one is added or removed.
#[derive(Clone, Copy, Debug)]
pub struct EntryPosition {
    pub(super) entry: usize,
    pub(super) slot: u32,
}

impl Requests {
    /// Adds a plain request, and returns its position. `None` if another request has its handle, or
    /// there is no room without allocating.
    #[inline(always)]
    pub fn insert_plain_alone(&mut self, handle: usize) -> Option<&mut PlainRequest> {
        if self.slots.free == NO_SLOT {
            return None;
        }
        let (place, slot) = (self.slots.find(handle), self.slots.free);
        let entry = self.slots.entries.get_mut(place).filter(|entry| entry.handle == 0)?;
        let at = self.slots.all.get_mut(slot as usize)?;
        *entry = HandleSlot { handle, slot };
        self.slots.free = at.next;
        self.plain += 1;
        Some(&mut at.plain)
    }

    /// Adds a request that began outside parts. An earlier one with its handle has completed unnoticed:
    /// returns what it counts, if it was plain.
    ///
    /// # Errors
    /// Out of memory: the request is not added, and [`has_overlooked`](Self::has_overlooked) returns true
    /// from then on.
    pub fn insert_plain(
        &mut self,
        handle: usize,
        plain: PlainRequest,
    ) -> Result<Option<Counted>, NoMemory> {
        let place = self.place_for(handle)?;
        if self.slots.entries[place].handle == 0 {
            self.slots.take_slot(place, handle);
            self.slots.slot_mut(place).plain = plain;
            self.plain += 1;
            return Ok(None);
        }
        let slot = self.slots.slot_mut(place);
        if slot.known.is_none() {
            return Ok(Some(std::mem::replace(&mut slot.plain, plain).counted));
        }
        self.insert_beside(place, plain)
    }

    /// Adds a request whose handle another one has, or has had.
    #[cold]
    fn insert_beside(
        &mut self,
        place: usize,
        plain: PlainRequest,
    ) -> Result<Option<Counted>, NoMemory> {
        let slot = self.slots.slot_mut(place);
        if let Some(known) = &mut slot.known {
            if !plain.receives && !known.request.is_unique() {
                let more = memory::push(&mut known.more, plain.known());
                return more.map(|()| None).map_err(|none| self.overlook_at(place, none));
            }
        }
        slot.known = None;
        slot.plain = plain;
        self.known -= 1;
        self.plain += 1;
        Ok(None)
    }

    /// A plain request, and what it counts.
    #[inline(always)]
    pub fn plain(&self, handle: usize) -> Option<(EntryPosition, &Counted)> {
        if self.plain == 0 {
            return None;
        }
        let place = self.slots.find(handle);
        let entry = self.slots.entries.get(place).filter(|entry| entry.handle != 0)?;
        let slot = self.slots.all.get(entry.slot as usize)?;
        let place = EntryPosition { entry: place, slot: entry.slot };
        slot.known.is_none().then_some((place, &slot.plain.counted))
    }

    /// The operation that the plain request at a position counts.
    #[inline(always)]
    pub fn counted_at(&self, place: EntryPosition) -> Option<&Counted> {
        self.slots.all.get(place.slot as usize).map(|slot| &slot.plain.counted)
    }

    /// Removes a plain request.
    #[inline(always)]
    pub fn remove_at(&mut self, place: EntryPosition) {
        self.plain -= 1;
        self.slots.close(place.entry, place.slot);
    }
}
