//! What stands with each state in the store: which run it is of, and where it belongs there.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::client::callbacks::{Object, Written};
use crate::error::{Error, Kind, Result};
use crate::sync::Mutex;

/// The first word: these bytes are a position, of the format's first version.
const MAGIC: u64 = u64::from_le_bytes(*b"VELOCadj");
/// Words of a position.
const WORDS: usize = 9;

/// What a stored state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A state of the forward sweep.
    State = 1,
    /// The state of the adjoint.
    Adjoint = 2,
}

/// What tells a computation from others. States of one with other values are of no use to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The application's number for it.
    pub tag: u64,
    /// Steps.
    pub steps: u64,
    /// Slots.
    pub slots: u64,
    /// Processes.
    pub ranks: u64,
}

/// Where a stored state belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// What it is.
    pub role: Role,
    /// The number that its run was given when it began.
    pub run: u64,
    /// The computation.
    pub of: Identity,
    /// The number of the state, or the state that the adjoint has come to.
    pub number: u64,
    /// The state's hash, if it is known; never 0.
    pub hash: Option<u64>,
}

impl Position {
    fn encode(&self) -> [u8; WORDS * 8] {
        let Identity { tag, steps, slots, ranks } = self.of;
        let role = self.role as u64;
        let hash = self.hash.unwrap_or(0);
        let words = [MAGIC, role, self.run, tag, steps, slots, ranks, self.number, hash];
        let mut bytes = [0; WORDS * 8];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Position> {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [MAGIC, role, run, tag, steps, slots, ranks, number, hash] = words else { return None };
        if bytes.len() != WORDS * 8 {
            return None;
        }
        let role = [Role::State, Role::Adjoint].into_iter().find(|known| *known as u64 == role)?;
        let of = Identity { tag, steps, slots, ranks };
        Some(Position { role, run, of, number, hash: (hash != 0).then_some(hash) })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { tag, steps, slots, ranks } = self;
        write!(f, "{steps} steps, {slots} slots, tag {tag}, {ranks} processes")
    }
}

/// The region of a name's checkpoints that has their position: written with what it was set to, and
/// having what was read last.
#[derive(Clone, Debug)]
pub struct Marker(Arc<Cell>);

#[derive(Debug)]
struct Cell(Mutex<Position>);

impl Marker {
    /// With the position of state 0.
    pub fn new(role: Role, of: Identity) -> Marker {
        let position = Position { role, run: 0, of, number: 0, hash: None };
        Marker(Arc::new(Cell(Mutex::new(position))))
    }

    /// What the client protects.
    pub fn object(&self) -> Arc<dyn Object> {
        self.0.clone()
    }

    /// Sets what is written.
    pub fn set(&self, run: u64, number: u64, hash: Option<u64>) {
        let mut position = self.0 .0.lock();
        (position.run, position.number, position.hash) = (run, number, hash);
    }

    /// What was read last.
    pub fn get(&self) -> Position {
        *self.0 .0.lock()
    }
}

impl Object for Cell {
    fn write(&self) -> Result<Written> {
        Ok(Box::new(self.0.lock().encode()))
    }

    fn read(&self, bytes: &[u8]) -> Result<()> {
        let position = Position::decode(bytes).ok_or_else(|| {
            Error::new(Kind::Corrupt, "its position in an adjoint computation cannot be read")
        })?;
        *self.0.lock() = position;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(words in prop::array::uniform8(any::<u64>()), state: bool) {
            let [run, tag, steps, slots, ranks, number, hash, _] = words;
            let role = if state { Role::State } else { Role::Adjoint };
            let of = Identity { tag, steps, slots, ranks };
            let position = Position { role, run, of, number, hash: (hash != 0).then_some(hash) };
            prop_assert_eq!(Position::decode(&position.encode()), Some(position));
        }

        /// Regions of an application's own that happen to have the id are no positions.
        #[test]
        fn other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(Position::decode(&bytes), None);
        }
    }
}
