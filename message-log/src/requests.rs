//! What each request of the application is: what it receives, and what began it.
//!
//! Libraries give the same handle to several requests that are done when they begin (small sends,
//! messages of `MPI_PROC_NULL`, collective calls of one process). These stand in a queue, and which of
//! them is completed shows where the application has the handle: mostly where it was when it began.

use crate::inside::again::Counted;
use crate::log::{Call, Shape};
use crate::pmpi::Handle;
use crate::target::Target;

/// Whether MPI knows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As what it is.
    Real,
    /// As a generalized one: the replay of the instance with this number has begun it.
    Replayed(u64),
    /// As a generalized one that no replayed call has under way.
    Idle,
    /// As one whose result could not be given again.
    Foreign,
}

/// A request under way, or a persistent one.
#[derive(Clone, Debug)]
pub struct Request {
    /// The call that began it or, if it is persistent, made it.
    pub shape: Shape,
    /// Where it receives.
    pub target: Target,
    /// Where the application had its handle when it began.
    pub place: usize,
    /// It receives one message, and the status says how much.
    pub is_message: bool,
    /// The number of what began it, 0 if that was outside parts. See
    /// [`Outcome::began`](crate::log::Outcome::began).
    pub began: u64,
    /// The number of what made it, if it is persistent; 0 if that was outside parts.
    pub made: u64,
    /// How many instances of parts had begun when it was made, if it is persistent.
    pub since: u64,
    /// It stays when it is done.
    pub persistent: bool,
    /// It is persistent and was started, and nobody has completed it.
    pub active: bool,
    /// Whether MPI knows it.
    pub life: Life,
    /// The application asked for its end.
    pub cancelled: bool,
    /// What it counts when it is done.
    pub counted: Counted,
    /// The request by which its message is sent or received again.
    pub again: Option<Handle>,
}

impl Request {
    /// One that MPI knows, has begun outside parts, and counts nothing when it is done.
    pub fn new(shape: Shape, target: Target, is_message: bool) -> Request {
        Request {
            shape,
            target,
            place: 0,
            is_message,
            began: 0,
            made: 0,
            since: 0,
            persistent: false,
            active: false,
            life: Life::Real,
            cancelled: false,
            counted: Counted::Nothing,
            again: None,
        }
    }

    /// Whether its handle is its own. Only a receive from another process can be sure of that.
    fn is_unique(&self) -> bool {
        self.persistent || self.life != Life::Real || self.is_message
    }
}

/// A send or a receive that has begun outside parts: as much as is needed if it ends inside one.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    /// The call that began it.
    pub call: Call,
    /// The communicator's handle.
    pub comm: usize,
    /// Where the application had its handle.
    pub place: usize,
    /// It receives, and there is a message.
    pub receives: bool,
    /// Where it receives.
    pub buf: usize,
    /// How many elements.
    pub count: i64,
    /// Their type's handle.
    pub datatype: usize,
    /// What it counts when it is done.
    pub counted: Counted,
}

impl Plain {
    fn known(&self) -> Request {
        let Plain { call, comm, place, receives, buf, count, datatype, counted } = *self;
        let target =
            if receives { Target::Plain { buf, count, datatype } } else { Target::Nothing };
        let shape = Shape { comm, ..Shape::new(call) };
        Request { place, counted, ..Request::new(shape, target, receives) }
    }
}

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

/// Where a plain request stands, until another one is added or removed.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

/// By handle: a table with open addressing, in which a request outside parts costs a few
/// nanoseconds.
#[derive(Debug, Default)]
pub struct Requests {
    /// No library has 0 for a request. As many places as a power of two, at most half of them taken,
    /// or none at all.
    entries: Vec<Entry>,
    taken: usize,
    /// How many of them are plain.
    plain: usize,
}

impl Requests {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// A request has begun outside parts. What had its handle before is gone, unseen: what that
    /// counts, if it was plain.
    #[inline]
    pub fn insert_plain(&mut self, handle: usize, plain: Plain) -> Option<Counted> {
        let place = self.place_for(handle);
        let slot = &mut self.entries[place].slot;
        let before = match slot {
            Slot::Free => None,
            Slot::Plain(before) => Some(before.counted),
            Slot::Known(_) => return self.insert_beside(place, plain),
        };
        *slot = Slot::Plain(plain);
        self.plain += usize::from(before.is_none());
        before
    }

    /// One whose handle another one has, or has had.
    #[cold]
    fn insert_beside(&mut self, place: usize, plain: Plain) -> Option<Counted> {
        let slot = &mut self.entries[place].slot;
        if let Slot::Known(known) = slot {
            if !plain.receives && !known.request.is_unique() {
                known.more.push(plain.known());
                return None;
            }
        }
        *slot = Slot::Plain(plain);
        self.plain += 1;
        None
    }

    /// A request has begun or was made.
    pub fn insert(&mut self, handle: usize, request: Request) {
        let place = self.place_for(handle);
        self.know(place);
        match &mut self.entries[place].slot {
            Slot::Known(known) if !request.is_unique() && !known.request.is_unique() => {
                known.more.push(request);
            }
            // What had this handle before is gone, unseen.
            slot => *slot = Slot::Known(Box::new(Known { request, more: Vec::new() })),
        }
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
    #[inline]
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

    /// The request with this handle.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut Request> {
        if self.taken == 0 {
            return None;
        }
        let place = self.find(handle);
        if self.plain > 0 {
            self.know(place);
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
        self.know(place);
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
                    Some(known.request)
                }
                Slot::Free | Slot::Plain(_) => None,
            },
        }
    }

    /// Where the requests receive that have this handle too and are done as well, which the caller
    /// sees to from now on; and what began each.
    pub fn take_alike(&mut self, handle: usize) -> Vec<(u64, Target)> {
        if self.taken == 0 {
            return Vec::new();
        }
        let place = self.find(handle);
        let Slot::Known(known) = &mut self.entries[place].slot else { return Vec::new() };
        if known.request.is_unique() {
            return Vec::new();
        }
        let all = std::iter::once(&mut known.request).chain(&mut known.more);
        all.map(|request| (request.began, std::mem::take(&mut request.target)))
            .filter(|(_, target)| !matches!(target, Target::Nothing))
            .collect()
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
    pub fn know_all(&mut self) {
        let mut places = 0..self.entries.len();
        while self.plain > 0 {
            let Some(place) = places.next() else { break };
            self.know(place);
        }
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

    fn know(&mut self, place: usize) {
        let slot = &mut self.entries[place].slot;
        if let Slot::Plain(plain) = slot {
            let request = plain.known();
            *slot = Slot::Known(Box::new(Known { request, more: Vec::new() }));
            self.plain -= 1;
        }
    }

    /// The place of a handle, which is taken from now on.
    #[inline]
    fn place_for(&mut self, handle: usize) -> usize {
        if 2 * self.taken >= self.entries.len() {
            self.grow();
        }
        let place = self.find(handle);
        let entry = &mut self.entries[place];
        self.taken += usize::from(entry.handle == 0);
        entry.handle = handle;
        place
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Requests::default();
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
    fn find(&self, handle: usize) -> usize {
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
    #[inline]
    fn close(&mut self, hole: usize) {
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

    #[cold]
    fn grow(&mut self) {
        let len = (2 * self.entries.len()).max(64);
        let entries = std::mem::take(&mut self.entries);
        self.entries.resize_with(len, Entry::default);
        for entry in entries.into_iter().filter(|entry| entry.handle != 0) {
            let place = self.find(entry.handle);
            self.entries[place] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A request that can be told from others by its number.
    fn request(began: u64, is_message: bool) -> Request {
        let shape = Shape::new(Call("MPI_Irecv"));
        Request { began, ..Request::new(shape, Target::Nothing, is_message) }
    }

    /// The number of a request, or the buffer of one that was plain.
    fn number_of(request: Request) -> u64 {
        match request.target {
            Target::Plain { buf, .. } => buf as u64,
            _ => request.began,
        }
    }

    proptest! {
        /// The table does as the standard library's, with few handles, so that places collide.
        #[test]
        fn is_a_table(steps in prop::collection::vec((0..5, 1..200usize), 0..400)) {
            let (mut table, mut model) = (Requests::default(), HashMap::new());
            for (number, (what, handle)) in steps.into_iter().enumerate() {
                // Like addresses.
                let handle = handle << 7;
                let number = number as u64;
                match what {
                    0 | 1 => {
                        table.insert(handle, request(number, true));
                        model.insert(handle, (number, false));
                    }
                    2 => {
                        let call = Call("MPI_Irecv");
                        let buf = number as usize;
                        let counted = Counted::Nothing;
                        let receives = true;
                        let plain = Plain {
                            call,
                            comm: 0,
                            place: 0,
                            receives,
                            buf,
                            count: 1,
                            datatype: 2,
                            counted,
                        };
                        table.insert_plain(handle, plain);
                        model.insert(handle, (number, true));
                    }
                    3 => {
                        let was_plain = model.get(&handle).is_some_and(|(_, plain)| *plain);
                        let place = table.plain(handle).map(|(place, _)| place);
                        prop_assert_eq!(place.is_some(), was_plain);
                        if let Some(place) = place {
                            table.remove_at(place);
                            model.remove(&handle);
                        }
                    }
                    _ => {
                        let gone = table.remove(handle, 0).map(number_of);
                        prop_assert_eq!(gone, model.remove(&handle).map(|(number, _)| number));
                    }
                }
                prop_assert_eq!(table.is_empty(), model.is_empty());
                for handle in (1..200).map(|handle| handle << 7) {
                    let found = table.get(handle).cloned().map(number_of);
                    let known = model.get(&handle).filter(|(_, plain)| !plain);
                    prop_assert_eq!(found, known.map(|(number, _)| *number));
                }
                let known = model.values().filter(|(_, plain)| !plain).count();
                prop_assert_eq!(table.iter_mut().count(), known);
            }
            table.know_all();
            for (handle, request) in table.iter_mut() {
                prop_assert_eq!(number_of(request.clone()), model[&handle].0);
            }
        }
    }

    #[test]
    fn requests_that_are_done_at_once_may_share_a_handle() {
        let mut table = Requests::default();
        for began in 1..=3 {
            table.insert(8, request(began, false));
        }
        assert_eq!(table.iter_mut().count(), 3);
        for began in 1..=3 {
            assert_eq!(table.remove(8, 0).map(|request| request.began), Some(began));
        }
        assert!(table.remove(8, 0).is_none() && table.is_empty());
        // A receive has its handle for itself: what had it before went unseen.
        table.insert(8, request(4, false));
        table.insert(8, request(5, true));
        table.insert(8, request(6, false));
        assert_eq!(table.remove(8, 0).map(|request| request.began), Some(6));
        assert!(table.is_empty());
    }

    /// A send outside parts must not hide a collective call, nor be taken for it.
    #[test]
    fn requests_that_share_a_handle_are_told_apart_by_their_places() {
        let mut table = Requests::default();
        let at = |began, place| Request { place, ..request(began, false) };
        let send = |place| Plain {
            call: Call("MPI_Isend"),
            comm: 0,
            place,
            receives: false,
            buf: 0,
            count: 1,
            datatype: 2,
            counted: Counted::Nothing,
        };
        assert!(table.insert_plain(8, send(100)).is_none());
        table.insert(8, at(1, 200));
        assert!(table.insert_plain(8, send(300)).is_none());
        table.insert(8, at(2, 400));
        let began = |request: Option<Request>| request.map(|request| request.began);
        assert_eq!(began(table.remove(8, 300)), Some(0));
        assert_eq!(began(table.remove(8, 400)), Some(2));
        assert_eq!(began(table.remove(8, 100)), Some(0));
        // Moved since: in their order.
        assert_eq!(began(table.remove(8, 500)), Some(1));
        assert!(table.is_empty());
    }
}
