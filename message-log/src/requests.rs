//! What each request of the application is: what it receives, and what began it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::log::Shape;
use crate::target::Target;

/// A request under way, or a persistent one.
#[derive(Clone, Debug)]
pub struct Request {
    /// What began it; for a persistent one, what made it.
    pub shape: Shape,
    /// Where it receives.
    pub target: Target,
    /// The number of the event that began it, 0 if that was outside parts.
    pub began: u64,
    /// The number of the event that made it, if it is persistent.
    pub made: u64,
    /// It stays when it is done.
    pub persistent: bool,
    /// A replay began it: MPI knows it as a generalized request, or as inactive.
    pub replayed: bool,
    /// The application asked for its end.
    pub cancelled: bool,
}

/// By handle.
#[derive(Debug, Default)]
pub struct Requests {
    table: HashMap<usize, Request, BuildHasherDefault<Spread>>,
}

impl Requests {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// A request has begun or was made. What had this handle before is gone.
    pub fn insert(&mut self, handle: usize, request: Request) {
        self.table.insert(handle, request);
    }

    /// The request with this handle.
    pub fn get(&self, handle: usize) -> Option<&Request> {
        self.table.get(&handle)
    }

    /// The request with this handle.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut Request> {
        self.table.get_mut(&handle)
    }

    /// The request is gone.
    pub fn remove(&mut self, handle: usize) -> Option<Request> {
        if self.table.is_empty() {
            return None;
        }
        self.table.remove(&handle)
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&usize, &mut Request)> {
        self.table.iter_mut()
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
