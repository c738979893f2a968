//! Requests by their handles: a table with open addressing (`slots`), in which a request outside parts costs a
//! few nanoseconds. What is known of one stands in a slot, which stays where it is.

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
    /// Others with the same handle, later ones behind.
    more: Vec<Request>,
}

impl Known {
    fn new(handle: usize, request: Request) -> Known {
        Known { handle, request, more: Vec::new() }
    }
}

/// A handle, 0 where there is none, and where stands what it is of.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    handle: usize,
    slot: u32,
}

/// What a handle is of, or nothing.
#[derive(Debug, Default)]
struct Slot {
    /// What is known of a request that is not plain.
    known: Option<Box<Known>>,
    /// A plain request, where nothing else is known of one.
    plain: Plain,
    /// The next one that is free, if this one is.
    next: u32,
}

fn no_request() -> Request {
    Request::new(Shape::new(Call("")), Target::Nothing, false)
}

/// By handle.
#[derive(Debug)]
pub struct Requests {
    /// No library has 0 for a request. As many places as a power of two, of which half can be taken; or
    /// none at all.
    entries: Vec<Entry>,
    /// One less than there are, or 0.
    mask: usize,
    /// Half as many as there are places.
    slots: Vec<Slot>,
    /// The first slot that is free.
    free: u32,
    /// How many places have a plain request.
    plain: usize,
    /// How many have one that is not plain.
    known: usize,
    /// There was no memory for one.
    has_overlooked: bool,
    /// For one that is about to begin.
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
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.plain + self.known == 0
    }

    /// Whether some request is unknown, since there was no memory for it.
    #[inline]
    pub fn has_overlooked(&self) -> bool {
        self.has_overlooked
    }

    /// Room for one more request, which is about to begin: only another one with the same handle may
    /// still want memory.
    ///
    /// # Errors
    /// There is no memory.
    pub fn reserve(&mut self) -> Result<(), NoMemory> {
        self.room_for_one()?;
        if self.spare.is_none() {
            self.spare = Some(memory::boxed(Known::new(0, no_request()))?);
        }
        Ok(())
    }

    /// The request is gone, and its memory is for the next one.
    #[inline]
    fn retired(&mut self, mut known: Box<Known>) -> Request {
        let request = std::mem::replace(&mut known.request, no_request());
        self.spare.get_or_insert(known);
        request
    }

    /// A request has begun or was made.
    ///
    /// # Errors
    /// As of [`insert_plain`](Self::insert_plain).
    pub fn insert(&mut self, handle: usize, request: Request) -> Result<(), NoMemory> {
        let place = self.place_for(handle)?;
        if self.entries[place].handle == 0 {
            return self.insert_new(place, handle, request);
        }
        self.know(place).map_err(|none| self.overlook_at(place, none))?;
        if let Some(known) = &mut self.slot_mut(place).known {
            if !request.is_unique() && !known.request.is_unique() {
                let more = memory::push(&mut known.more, request);
                return more.map_err(|none| self.overlook_at(place, none));
            }
            // What had this handle before is gone, unseen.
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

    /// There is no memory for a request of this place: none of those that share the handle is known,
    /// as they could not be told apart.
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

    /// The place of a handle that is known.
    #[inline]
    fn place(&self, handle: usize) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let place = self.find(handle);
        (self.entries[place].handle != 0).then_some(place)
    }

    /// Whether the status is needed to count a request when it is done.
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

    /// The request with this handle. If it is plain, and there is no memory to note more of it, it is
    /// not known from then on.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut Request> {
        let place = self.place(handle)?;
        if self.plain > 0 {
            self.know(place).map_err(|none| self.overlook_at(place, none)).ok()?;
        }
        self.slot_mut(place).known.as_mut().map(|known| &mut known.request)
    }

    fn known_mut(&mut self, handle: usize) -> Option<&mut Known> {
        let place = self.place(handle)?;
        self.slot_mut(place).known.as_deref_mut()
    }

    /// The request is gone whose handle the application had at this place.
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

    /// A part begins: none is plain any more.
    ///
    /// # Errors
    /// There is no memory: some still are.
    pub fn know_all(&mut self) -> Result<(), NoMemory> {
        let mut places = 0..self.entries.len();
        while self.plain > 0 {
            let Some(place) = places.next() else { break };
            if self.entries[place].handle != 0 {
                self.know(place)?;
            }
        }
        Ok(())
    }

    /// All that are not plain.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Request)> {
        let all = self.slots.iter_mut().filter_map(|slot| slot.known.as_deref_mut());
        all.flat_map(|Known { handle, request, more }| {
            std::iter::once(request).chain(more).map(|request| (*handle, request))
        })
    }

    /// More is noted of the request at a place, if it is plain.
    fn know(&mut self, place: usize) -> Result<(), NoMemory> {
        let handle = self.entries[place].handle;
        let slot = self.slot_mut(place);
        if slot.known.is_none() {
            slot.known = Some(memory::boxed(Known::new(handle, slot.plain.known()))?);
            self.plain -= 1;
            self.known += 1;
        }
        Ok(())
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Requests::default();
    }
}
