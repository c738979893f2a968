//! All requests by handle: a hash table with open addressing (`slots`), in which a request outside parts
//! costs a few nanoseconds. The requests are in slots, which do not move.

mod known;
mod plain;
mod same_handle;
mod slots;

use super::request::MpiRequest;
use crate::log::{Call, CallShape};
use crate::memory::{self, NoMemory};
use crate::target::CallTarget;
use slots::{KnownRequests, RequestSlots};

pub use plain::EntryPosition;

fn no_request() -> MpiRequest {
    MpiRequest::new(CallShape::new(Call("")), CallTarget::Nothing, false)
}

/// The requests by handle.
#[derive(Debug, Default)]
pub struct Requests {
    slots: RequestSlots,
    /// The number of plain requests.
    plain: usize,
    /// The number of handles with other requests.
    known: usize,
    /// Whether a request could not be added for lack of memory.
    has_overlooked: bool,
    /// Memory reserved for the next request.
    spare: Option<Box<KnownRequests>>,
}

impl Requests {
    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.plain + self.known == 0
    }

    /// Whether a request is missing for lack of memory.
    #[inline]
    pub fn has_overlooked(&self) -> bool {
        self.has_overlooked
    }

    /// Reserves room for one more request. It may still need memory if another one has the same handle.
    ///
    /// # Errors
    /// Out of memory.
    pub fn reserve(&mut self) -> Result<(), NoMemory> {
        self.slots.room_for_one()?;
        if self.spare.is_none() {
            self.spare = Some(memory::boxed(KnownRequests::new(0, no_request()))?);
        }
        Ok(())
    }

    /// The entry of a handle, or the free one for it, with room.
    #[inline]
    fn place_for(&mut self, handle: usize) -> Result<usize, NoMemory> {
        self.slots.room_for_one().inspect_err(|_| self.has_overlooked = true)?;
        Ok(self.slots.find(handle))
    }

    /// Removes a request, and reuses its memory for the next one.
    #[inline]
    fn retired(&mut self, mut known: Box<KnownRequests>) -> MpiRequest {
        let request = std::mem::replace(&mut known.request, no_request());
        self.spare.get_or_insert(known);
        request
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The errors of [`insert_plain`](Self::insert_plain).
    pub fn insert(&mut self, handle: usize, request: MpiRequest) -> Result<(), NoMemory> {
        let place = self.place_for(handle)?;
        if self.slots.entries[place].handle == 0 {
            return self.insert_new(place, handle, request);
        }
        self.expand(place).map_err(|none| self.overlook_at(place, none))?;
        if let Some(known) = &mut self.slots.slot_mut(place).known {
            if !request.is_unique() && !known.request.is_unique() {
                let more = memory::push(&mut known.more, request);
                return more.map_err(|none| self.overlook_at(place, none));
            }
            // The earlier request with this handle has completed unnoticed.
            known.request = request;
            known.more.clear();
        }
        Ok(())
    }

    fn insert_new(
        &mut self,
        place: usize,
        handle: usize,
        request: MpiRequest,
    ) -> Result<(), NoMemory> {
        let known = match self.spare.take() {
            Some(mut spare) => {
                (spare.handle, spare.request) = (handle, request);
                spare.more.clear();
                spare
            }
            None => memory::boxed(KnownRequests::new(handle, request))
                .inspect_err(|_| self.has_overlooked = true)?,
        };
        self.slots.take_slot(place, handle);
        self.slots.slot_mut(place).known = Some(known);
        self.known += 1;
        Ok(())
    }

    /// Out of memory for a request of this entry: all that share the handle are dropped, as they could not be
    /// told apart.
    #[cold]
    fn overlook_at(&mut self, place: usize, none: NoMemory) -> NoMemory {
        self.has_overlooked = true;
        match self.slots.slot(place).known {
            Some(_) => self.known -= 1,
            None => self.plain -= 1,
        }
        self.slots.close(place, self.slots.entries[place].slot);
        none
    }

    /// Whether counting a request's completion needs its status.
    pub fn needs_status(&self, handle: usize) -> bool {
        let Some(place) = self.slots.place(handle) else { return false };
        match &self.slots.slot(place).known {
            Some(known) => known.request.cancelled || known.request.counted.needs_status(),
            None => self.slots.slot(place).plain.counted.needs_status(),
        }
    }

    /// The request with this handle, unless it is plain.
    pub fn get(&self, handle: usize) -> Option<&MpiRequest> {
        let place = self.slots.place(handle)?;
        self.slots.slot(place).known.as_ref().map(|known| &known.request)
    }

    /// The request with this handle. A plain one is expanded; without memory for that it is dropped.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut MpiRequest> {
        let place = self.slots.place(handle)?;
        if self.plain > 0 {
            self.expand(place).map_err(|none| self.overlook_at(place, none)).ok()?;
        }
        self.slots.slot_mut(place).known.as_mut().map(|known| &mut known.request)
    }

    fn known_mut(&mut self, handle: usize) -> Option<&mut KnownRequests> {
        let place = self.slots.place(handle)?;
        self.slots.slot_mut(place).known.as_deref_mut()
    }

    /// Removes the request whose handle the application has at this address.
    pub fn remove(&mut self, handle: usize, at: usize) -> Option<MpiRequest> {
        let place = self.slots.place(handle)?;
        let slot = self.slots.slot_mut(place);
        let plain = slot.plain;
        match &mut slot.known {
            Some(known) if !known.more.is_empty() => {
                let mut others = known.more.iter();
                let other = match known.request.place == at {
                    true => None,
                    false => others.position(|request| request.place == at),
                };
                if let Some(other) = other {
                    return Some(known.more.remove(other));
                }
                let next = known.more.remove(0);
                Some(std::mem::replace(&mut known.request, next))
            }
            None => {
                self.plain -= 1;
                self.slots.close(place, self.slots.entries[place].slot);
                Some(plain.known())
            }
            known => {
                let known = known.take()?;
                self.known -= 1;
                self.slots.close(place, self.slots.entries[place].slot);
                Some(self.retired(known))
            }
        }
    }

    /// A part begins: expands all plain requests.
    ///
    /// # Errors
    /// Out of memory: some are still plain.
    pub fn expand_all(&mut self) -> Result<(), NoMemory> {
        let mut places = 0..self.slots.entries.len();
        while self.plain > 0 {
            let Some(place) = places.next() else { break };
            if self.slots.entries[place].handle != 0 {
                self.expand(place)?;
            }
        }
        Ok(())
    }

    /// All requests that are not plain.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut MpiRequest)> {
        let all = self.slots.all.iter_mut().filter_map(|slot| slot.known.as_deref_mut());
        all.flat_map(|KnownRequests { handle, request, more }| {
            std::iter::once(request).chain(more).map(|request| (*handle, request))
        })
    }

    /// Expands the request at a position, if it is plain.
    fn expand(&mut self, place: usize) -> Result<(), NoMemory> {
        let handle = self.slots.entries[place].handle;
        let slot = self.slots.slot_mut(place);
        if slot.known.is_none() {
            slot.known = Some(memory::boxed(KnownRequests::new(handle, slot.plain.known()))?);
            self.plain -= 1;
            self.known += 1;
        }
        Ok(())
    }

    /// Removes all requests.
    pub fn clear(&mut self) {
        *self = Requests::default();
    }
}
