//! A chunk that is full: where its bytes are, as the application's thread and the keeper's see it.

use std::sync::{Arc, Mutex, MutexGuard};

use super::lock;
use crate::log::mapping::Mapping;

/// What is to be done with a chunk.
#[derive(Debug)]
pub(super) enum Order {
    /// It is to be given to the store.
    Take,
    /// It is to be brought back, into this memory.
    Give(Mapping),
    /// The keeper is at it.
    Running,
}

/// Where the bytes of a chunk are.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) memory: Option<Arc<Mapping>>,
    /// The digest of what the store has.
    pub(super) stored: Option<u64>,
    pub(super) order: Option<Order>,
    /// Nobody needs it any more.
    pub(super) is_dead: bool,
    /// Where it is not any more, and why.
    pub(super) lost: Option<String>,
}

/// A chunk, for the application's thread and for the keeper's.
#[derive(Debug)]
pub struct Kept {
    /// Names it in the store.
    pub number: u32,
    /// The bytes that the store gets.
    pub len: usize,
    /// The bytes of its memory.
    pub room: usize,
    place: Mutex<Place>,
}

impl Kept {
    /// A chunk in memory, of which so many bytes are used.
    pub fn new(number: u32, len: usize, memory: Arc<Mapping>) -> Kept {
        let room = memory.size();
        let place = Place { memory: Some(memory), ..Place::default() };
        Kept { number, len, room, place: Mutex::new(place) }
    }

    pub(super) fn place(&self) -> MutexGuard<'_, Place> {
        lock(&self.place)
    }

    /// Its memory, if it is there.
    pub fn memory(&self) -> Option<Arc<Mapping>> {
        self.place().memory.clone()
    }

    /// The digest of what the store has.
    ///
    /// # Errors
    /// It has nothing.
    pub fn digest(&self) -> Result<u64, String> {
        let place = self.place();
        let why = || place.lost.clone().unwrap_or_else(|| "it is nowhere".to_owned());
        place.stored.ok_or_else(|| format!("chunk {} of the log: {}", self.number, why()))
    }

    /// Whether it is in memory, and nobody has ordered that it goes elsewhere.
    pub fn is_dirty(&self) -> bool {
        let place = self.place();
        place.memory.is_some() && place.stored.is_none() && place.order.is_none()
    }

    /// Whether it is on its way to the store.
    pub fn is_leaving(&self) -> bool {
        let place = self.place();
        place.order.is_some() && place.memory.is_some()
    }

    /// Whether it is in the store alone, and nobody has ordered that it comes back.
    pub fn is_away(&self) -> bool {
        let place = self.place();
        place.memory.is_none() && place.order.is_none() && place.lost.is_none()
    }

    /// Gives up the memory of a chunk that the store has. `None` if it has it not.
    pub fn give_up_memory(&self) -> Option<Arc<Mapping>> {
        let mut place = self.place();
        if place.stored.is_none() || place.order.is_some() {
            return None;
        }
        place.memory.take()
    }

    /// Gives up the memory of a chunk that nobody needs. `None` if the keeper is still at it.
    pub fn give_up_dead(&self) -> Option<Arc<Mapping>> {
        self.place().memory.take()
    }
}
