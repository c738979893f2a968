//! Requests that are not plain, accessed in place.

use super::slots::{HandleSlot, NO_SLOT};
use super::Requests;
use crate::requests::{EntryPosition, MpiRequest};

impl Requests {
    /// Whether one more fits without allocating.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.slots.free != NO_SLOT && self.spare.is_some()
    }

    /// Whether a request with this handle is in the table.
    #[inline(always)]
    pub fn has(&self, handle: usize) -> bool {
        if self.slots.entries.is_empty() {
            return false;
        }
        let place = self.slots.find(handle);
        self.slots.entries.get(place).is_some_and(|entry| entry.handle != 0)
    }

    /// Adds a request for which there [is room](Self::has_room), with a new handle ([`has`](Self::has)):
    /// one that counts and receives nothing.
    #[inline(always)]
    pub fn insert_in_room(&mut self, handle: usize) -> Option<&mut MpiRequest> {
        let (place, slot) = (self.slots.find(handle), self.slots.free);
        let entry = self.slots.entries.get_mut(place)?;
        let at = self.slots.all.get_mut(slot as usize)?;
        let known = at.known.insert(self.spare.take()?);
        known.handle = handle;
        *entry = HandleSlot { handle, slot };
        self.slots.free = at.next;
        self.known += 1;
        Some(&mut known.request)
    }

    /// The only request with this handle, and its position. `None` if it is plain, or several have the
    /// handle.
    #[inline(always)]
    pub fn alone(&self, handle: usize) -> Option<(EntryPosition, &MpiRequest)> {
        if self.known == 0 {
            return None;
        }
        let place = self.slots.find(handle);
        let entry = self.slots.entries.get(place).filter(|entry| entry.handle != 0)?;
        let known = self.slots.all.get(entry.slot as usize)?.known.as_deref()?;
        let place = EntryPosition { entry: place, slot: entry.slot };
        known.more.is_empty().then_some((place, &known.request))
    }

    /// The request at a position, unless it is plain.
    #[inline(always)]
    pub fn at_mut(&mut self, place: EntryPosition) -> Option<&mut MpiRequest> {
        let slot = self.slots.all.get_mut(place.slot as usize)?;
        slot.known.as_deref_mut().map(|known| &mut known.request)
    }

    /// Removes the request at a position, which is not plain and the only one there.
    #[inline(always)]
    pub fn retire_at(&mut self, place: EntryPosition) {
        let Some(slot) = self.slots.all.get_mut(place.slot as usize) else { return };
        if let Some(mut known) = slot.known.take() {
            self.known -= 1;
            if self.spare.is_none() {
                known.request.reset();
                self.spare = Some(known);
            }
        }
        self.slots.close(place.entry, place.slot);
    }
}
