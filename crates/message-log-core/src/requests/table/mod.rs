//! All requests by handle: a hash table with open addressing (`slots`), in which a request outside parts
//! costs a few nanoseconds. The requests are in slots, which do not move.

mod known;
mod plain;
mod same_handle;
mod slots;

use super::{Plain, Request};
use crate::log::{Call, Shape};
use crate::memory::{self, NoMemory};
use crate::target::Target;

pub use plain::EntryPosition;

/// No slot.
const NO_SLOT: u32 = u32::MAX;

#[derive(Debug)]
struct Known {
    handle: usize,
    request: Request,
    /// Other requests with the same handle, in order.
    more: Vec<Request>,
}

impl Known {
    fn new(handle: usize, request: Request) -> Known {
        Known { handle, request, more: Vec::new() }
    }
}

/// A handle (0: free) and its slot.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    handle: usize,
    slot: u32,
}

/// The contents of a slot.
#[derive(Debug, Default)]
struct Slot {
    /// A request that is not plain.
    known: Option<Box<Known>>,
    /// A plain request.
    plain: Plain,
    /// The next free slot, if this one is free.
    next: u32,
}

fn no_request() -> Request {
    Request::new(Shape::new(Call("")), Target::Nothing, false)
}

/// The requests by handle.
#[derive(Debug)]
pub struct Requests {
    /// Entries; 0 is no library's request. Their number is a power of two, at most half of them used, or
    /// 0.
    entries: Vec<Entry>,
    /// The number of entries minus one, or 0.
    mask: usize,
    /// Half the number of entries.
    slots: Vec<Slot>,
    /// The first free slot.
    free: u32,
    /// The number of plain requests.
    plain: usize,
    /// The number of handles with other requests.
    known: usize,
    /// Whether a request could not be added for lack of memory.
    has_overlooked: bool,
    /// Memory reserved for the next request.
    spare: Option<Box<Known>>,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests {
            entries: Vec::new(),
            mask: 0,
            slots: Vec::new(),
            free: NO_SLOT,
            plain: 0,
            known: 0,
            has_overlooked: false,
            spare: None,
        }
    }
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
        self.room_for_one()?;
        if self.spare.is_none() {
            self.spare = Some(memory::boxed(Known::new(0, no_request()))?);
        }
        Ok(())
    }

    /// Removes a request, and reuses its memory for the next one.
    #[inline]
    fn retired(&mut self, mut known: Box<Known>) -> Request {
        let request = std::mem::replace(&mut known.request, no_request());
        self.spare.get_or_insert(known);
        request
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The errors of [`insert_plain`](Self::insert_plain).
    pub fn insert(&mut self, handle: usize, request: Request) -> Result<(), NoMemory> {
        let place = self.place_for(handle)?;
        if self.entries[place].handle == 0 {
            return self.insert_new(place, handle, request);
        }
        self.expand(place).map_err(|none| self.overlook_at(place, none))?;
        if let Some(known) = &mut self.slot_mut(place).known {
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
        request: Request,
    ) -> Result<(), NoMemory> {
        let known = match self.spare.take() {
            Some(mut spare) => {
                (spare.handle, spare.request) = (handle, request);
                spare.more.clear();
                spare
            }
            None => memory::boxed(Known::new(handle, request))
                .inspect_err(|_| self.has_overlooked = true)?,
        };
        self.take_slot(place, handle);
        self.slot_mut(place).known = Some(known);
        self.known += 1;
        Ok(())
    }

    /// Out of memory for a request of this entry: all that share the handle are dropped, as they could not be
    /// told apart.
    #[cold]
    fn overlook_at(&mut self, place: usize, none: NoMemory) -> NoMemory {
        self.has_overlooked = true;
        match self.slot(place).known {
            Some(_) => self.known -= 1,
            None => self.plain -= 1,
        }
        self.close(place, self.entries[place].slot);
        none
    }

    fn slot(&self, place: usize) -> &Slot {
        &self.slots[self.entries[place].slot as usize]
    }

    fn slot_mut(&mut self, place: usize) -> &mut Slot {
        &mut self.slots[self.entries[place].slot as usize]
    }

    /// The position of a known handle.
    #[inline]
    fn place(&self, handle: usize) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let place = self.find(handle);
        (self.entries[place].handle != 0).then_some(place)
    }

    /// Whether counting a request's completion needs its status.
    pub fn needs_status(&self, handle: usize) -> bool {
        let Some(place) = self.place(handle) else { return false };
        match &self.slot(place).known {
            Some(known) => known.request.cancelled || known.request.counted.needs_status(),
            None => self.slot(place).plain.counted.needs_status(),
        }
    }

    /// The request with this handle, unless it is plain.
    pub fn get(&self, handle: usize) -> Option<&Request> {
        let place = self.place(handle)?;
        self.slot(place).known.as_ref().map(|known| &known.request)
    }

    /// The request with this handle. A plain one is expanded; without memory for that it is dropped.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut Request> {
        let place = self.place(handle)?;
        if self.plain > 0 {
            self.expand(place).map_err(|none| self.overlook_at(place, none)).ok()?;
        }
        self.slot_mut(place).known.as_mut().map(|known| &mut known.request)
    }

    fn known_mut(&mut self, handle: usize) -> Option<&mut Known> {
        let place = self.place(handle)?;
        self.slot_mut(place).known.as_deref_mut()
    }

    /// Removes the request whose handle the application has at this address.
    pub fn remove(&mut self, handle: usize, at: usize) -> Option<Request> {
        let place = self.place(handle)?;
        let slot = self.slot_mut(place);
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
                self.close(place, self.entries[place].slot);
                Some(plain.known())
            }
            known => {
                let known = known.take()?;
                self.known -= 1;
                self.close(place, self.entries[place].slot);
                Some(self.retired(known))
            }
        }
    }

    /// A part begins: expands all plain requests.
    ///
    /// # Errors
    /// Out of memory: some are still plain.
    pub fn expand_all(&mut self) -> Result<(), NoMemory> {
        let mut places = 0..self.entries.len();
        while self.plain > 0 {
            let Some(place) = places.next() else { break };
            if self.entries[place].handle != 0 {
                self.expand(place)?;
            }
        }
        Ok(())
    }

    /// All requests that are not plain.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Request)> {
        let all = self.slots.iter_mut().filter_map(|slot| slot.known.as_deref_mut());
        all.flat_map(|Known { handle, request, more }| {
            std::iter::once(request).chain(more).map(|request| (*handle, request))
        })
    }

    /// Expands the request at a position, if it is plain.
    fn expand(&mut self, place: usize) -> Result<(), NoMemory> {
        let handle = self.entries[place].handle;
        let slot = self.slot_mut(place);
        if slot.known.is_none() {
            slot.known = Some(memory::boxed(Known::new(handle, slot.plain.known()))?);
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
