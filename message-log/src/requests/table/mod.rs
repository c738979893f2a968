//! Requests by their handles: a table with open addressing (`slots`).

mod slots;

use super::{Life, Plain, Request};
use crate::inside::counted::Counted;
use crate::log::{Call, Shape};
use crate::memory::{self, NoMemory};
use crate::target::Target;

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Free,
    Plain(Plain),
    Known(Box<Known>),
}

#[derive(Debug)]
struct Known {
    request: Request,
    /// Others with the same handle, later ones behind.
    more: Vec<Request>,
}

/// A handle, 0 where there is none, and what it is of.
#[derive(Debug, Default)]
struct Entry {
    handle: usize,
    slot: Slot,
}

fn no_request() -> Request {
    Request::new(Shape::new(Call("")), Target::Nothing, false)
}

/// Where a plain request stands, until another one is added or removed.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

/// By handle: a table with open addressing, in which a request outside parts costs a few
/// nanoseconds.
#[derive(Debug, Default)]
pub struct Requests {
    /// No library has 0 for a request. As many places as a power of two, at most half of them taken
    /// while there is memory, and one free at least; or none at all.
    entries: Vec<Entry>,
    taken: usize,
    /// How many of them are plain.
    plain: usize,
    /// There was no memory for one.
    has_overlooked: bool,
    /// For one that is about to begin.
    spare: Option<Box<Known>>,
}

impl Requests {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
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
            self.spare = Some(memory::boxed(Known { request: no_request(), more: Vec::new() })?);
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

    /// A request has begun outside parts. What had its handle before is gone, unseen: what that
    /// counts, if it was plain.
    ///
    /// # Errors
    /// There is no memory: the request is not known, as [`has_overlooked`](Self::has_overlooked) says
    /// from then on.
    #[inline(always)]
    pub fn insert_plain(
        &mut self,
        handle: usize,
        plain: Plain,
    ) -> Result<Option<Counted>, NoMemory> {
        let place = self.place_for(handle)?;
        let slot = &mut self.entries[place].slot;
        let before = match slot {
            Slot::Free => None,
            Slot::Plain(before) => Some(before.counted),
            Slot::Known(_) => return self.insert_beside(place, plain),
        };
        *slot = Slot::Plain(plain);
        self.plain += usize::from(before.is_none());
        Ok(before)
    }

    /// One whose handle another one has, or has had.
    #[cold]
    fn insert_beside(&mut self, place: usize, plain: Plain) -> Result<Option<Counted>, NoMemory> {
        let slot = &mut self.entries[place].slot;
        if let Slot::Known(known) = slot {
            if !plain.receives && !known.request.is_unique() {
                let more = memory::push(&mut known.more, plain.known());
                return more.map(|()| None).map_err(|none| self.overlook_at(place, none));
            }
        }
        *slot = Slot::Plain(plain);
        self.plain += 1;
        Ok(None)
    }

    /// A request has begun or was made.
    ///
    /// # Errors
    /// As of [`insert_plain`](Self::insert_plain).
    pub fn insert(&mut self, handle: usize, request: Request) -> Result<(), NoMemory> {
        let place = self.place_for(handle)?;
        self.know(place).map_err(|none| self.overlook_at(place, none))?;
        match &mut self.entries[place].slot {
            Slot::Known(known) if !request.is_unique() && !known.request.is_unique() => {
                let more = memory::push(&mut known.more, request);
                more.map_err(|none| self.overlook_at(place, none))
            }
            // What had this handle before is gone, unseen.
            slot => {
                let known = Known { request, more: Vec::new() };
                let boxed = match self.spare.take() {
                    Some(mut spare) => {
                        *spare = known;
                        Ok(spare)
                    }
                    None => memory::boxed(known),
                };
                match boxed {
                    Ok(known) => {
                        *slot = Slot::Known(known);
                        Ok(())
                    }
                    Err(none) => Err(self.overlook_at(place, none)),
                }
            }
        }
    }

    /// There is no memory for a request of this place: none of those that share the handle is known,
    /// as they could not be told apart.
    #[cold]
    fn overlook_at(&mut self, place: usize, none: NoMemory) -> NoMemory {
        self.has_overlooked = true;
        self.plain -= usize::from(matches!(self.entries[place].slot, Slot::Plain(_)));
        self.close(place);
        none
    }

    /// A plain request, and what it counts.
    #[inline]
    pub fn plain(&self, handle: usize) -> Option<(Place, &Counted)> {
        if self.plain == 0 {
            return None;
        }
        let place = self.find(handle);
        match &self.entries[place].slot {
            Slot::Plain(plain) => Some((Place(place), &plain.counted)),
            Slot::Free | Slot::Known(_) => None,
        }
    }

    /// A plain request is gone.
    #[inline(always)]
    pub fn remove_at(&mut self, place: Place) {
        if let Slot::Plain(_) = self.entries[place.0].slot {
            self.plain -= 1;
            self.close(place.0);
        }
    }

    /// Whether the status is needed to count a request when it is done.
    pub fn needs_status(&self, handle: usize) -> bool {
        if self.taken == 0 {
            return false;
        }
        match &self.entries[self.find(handle)].slot {
            Slot::Free => false,
            Slot::Plain(plain) => plain.counted.needs_status(),
            Slot::Known(known) => known.request.cancelled || known.request.counted.needs_status(),
        }
    }

    /// The request with this handle, unless it is plain.
    pub fn get(&self, handle: usize) -> Option<&Request> {
        if self.taken == 0 {
            return None;
        }
        match &self.entries[self.find(handle)].slot {
            Slot::Known(known) => Some(&known.request),
            Slot::Free | Slot::Plain(_) => None,
        }
    }

    /// The request with this handle. If it is plain, and there is no memory to note more of it, it is
    /// not known from then on.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut Request> {
        if self.taken == 0 {
            return None;
        }
        let place = self.find(handle);
        if self.plain > 0 {
            self.know(place).map_err(|none| self.overlook_at(place, none)).ok()?;
        }
        match &mut self.entries[place].slot {
            Slot::Known(known) => Some(&mut known.request),
            Slot::Free | Slot::Plain(_) => None,
        }
    }

    /// The request is gone whose handle the application had at this place.
    pub fn remove(&mut self, handle: usize, at: usize) -> Option<Request> {
        if self.taken == 0 {
            return None;
        }
        let place = self.find(handle);
        match &mut self.entries[place].slot {
            Slot::Known(known) if !known.more.is_empty() => {
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
            slot => match std::mem::take(slot) {
                Slot::Known(known) => {
                    self.close(place);
                    Some(self.retired(known))
                }
                Slot::Plain(plain) => {
                    self.plain -= 1;
                    self.close(place);
                    Some(plain.known())
                }
                Slot::Free => None,
            },
        }
    }

    /// Where a request receives that has this handle too and is done as well, which the caller sees to
    /// from now on; and what began it.
    pub fn take_alike(&mut self, handle: usize) -> Option<(u64, Target)> {
        if self.taken == 0 {
            return None;
        }
        let place = self.find(handle);
        let Slot::Known(known) = &mut self.entries[place].slot else { return None };
        if known.request.is_unique() {
            return None;
        }
        let mut all = std::iter::once(&mut known.request).chain(&mut known.more);
        let request = all.find(|request| !matches!(request.target, Target::Nothing))?;
        Some((request.began, std::mem::take(&mut request.target)))
    }

    /// The target of what a replay has begun with this number, if it is not a message: then its
    /// handle may be another's.
    pub fn target_alike(&self, began: u64) -> Option<&Target> {
        self.entries.iter().find_map(|entry| match &entry.slot {
            Slot::Known(known)
                if known.request.began == began
                    && !known.request.is_message
                    && matches!(known.request.life, Life::Replayed(_)) =>
            {
                Some(&known.request.target)
            }
            _ => None,
        })
    }

    /// A part begins: none is plain any more.
    ///
    /// # Errors
    /// There is no memory: some still are.
    pub fn know_all(&mut self) -> Result<(), NoMemory> {
        let mut places = 0..self.entries.len();
        while self.plain > 0 {
            let Some(place) = places.next() else { break };
            self.know(place)?;
        }
        Ok(())
    }

    /// All that are not plain.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Request)> {
        self.entries.iter_mut().flat_map(|entry| {
            let known = match &mut entry.slot {
                Slot::Known(known) => Some(known),
                Slot::Free | Slot::Plain(_) => None,
            };
            let handle = entry.handle;
            known
                .into_iter()
                .flat_map(|known| std::iter::once(&mut known.request).chain(&mut known.more))
                .map(move |request| (handle, request))
        })
    }

    /// More is noted of a request, if it is plain.
    fn know(&mut self, place: usize) -> Result<(), NoMemory> {
        let slot = &mut self.entries[place].slot;
        if let Slot::Plain(plain) = slot {
            let known = memory::boxed(Known { request: plain.known(), more: Vec::new() })?;
            *slot = Slot::Known(known);
            self.plain -= 1;
        }
        Ok(())
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Requests::default();
    }
}
