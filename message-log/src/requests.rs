//! What each request of the application is: what it receives, and what began it.
//!
//! Libraries give the same handle to several requests that are done when they begin (small sends,
//! messages of `MPI_PROC_NULL`, collective calls of one process). These stand in a queue; which of
//! them a handle means makes no difference then.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::log::Shape;
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
}

/// A request under way, or a persistent one.
#[derive(Clone, Debug)]
pub struct Request {
    /// The call that began it or, if it is persistent, made it.
    pub shape: Shape,
    /// Where it receives.
    pub target: Target,
    /// It receives one message, and the status says how much.
    pub is_message: bool,
    /// The number of what began it, 0 if that was outside parts. See
    /// [`Outcome::began`](crate::log::Outcome::began).
    pub began: u64,
    /// The number of what made it, if it is persistent; 0 if that was outside parts.
    pub made: u64,
    /// It stays when it is done.
    pub persistent: bool,
    /// Whether MPI knows it.
    pub life: Life,
    /// The application asked for its end.
    pub cancelled: bool,
}

impl Request {
    /// Whether its handle is its own. Only a receive from another process can be sure of that.
    fn is_unique(&self) -> bool {
        self.persistent || self.life != Life::Real || self.is_message
    }
}

#[derive(Debug)]
struct Slot {
    request: Request,
    /// Others with the same handle, later ones behind.
    more: Vec<Request>,
}

/// By handle.
#[derive(Debug, Default)]
pub struct Requests {
    table: HashMap<usize, Slot, BuildHasherDefault<Spread>>,
}

impl Requests {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// A request has begun or was made.
    pub fn insert(&mut self, handle: usize, request: Request) {
        match self.table.get_mut(&handle) {
            // What had this handle before is gone, unseen, unless both may be of the kind above.
            Some(slot) if !request.is_unique() && !slot.request.is_unique() => {
                slot.more.push(request);
            }
            Some(slot) => *slot = Slot { request, more: Vec::new() },
            None => {
                self.table.insert(handle, Slot { request, more: Vec::new() });
            }
        }
    }

    /// The request with this handle.
    pub fn get(&self, handle: usize) -> Option<&Request> {
        if self.table.is_empty() {
            return None;
        }
        self.table.get(&handle).map(|slot| &slot.request)
    }

    /// The request with this handle.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut Request> {
        self.table.get_mut(&handle).map(|slot| &mut slot.request)
    }

    /// The request is gone.
    pub fn remove(&mut self, handle: usize) -> Option<Request> {
        if self.table.is_empty() {
            return None;
        }
        let slot = self.table.get_mut(&handle)?;
        if !slot.more.is_empty() {
            let next = slot.more.remove(0);
            return Some(std::mem::replace(&mut slot.request, next));
        }
        self.table.remove(&handle).map(|slot| slot.request)
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Request)> {
        self.table.iter_mut().flat_map(|(handle, slot)| {
            std::iter::once(&mut slot.request).chain(&mut slot.more).map(|one| (*handle, one))
        })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.table.clear();
    }
}

/// Handles are addresses or small numbers: one multiplication spreads them.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
