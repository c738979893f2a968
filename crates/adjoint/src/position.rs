//! The position that is stored with each state: its run, and its number in the run. By these bytes
//! the store recognizes a run's checkpoint ([`format::mark`]).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use client::callbacks::{Object, WrittenBytes};
use errors::{Error, ErrorKind, Result};
pub(super) use format::mark::{checksum_of, LEN as BYTES};
use format::mark::{MAGIC, OLD_MAGIC};
use os::sync::Mutex;

/// Words of a position; the last is its checksum.
const WORDS: usize = BYTES / 8;

/// The kind of a stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ObjectRole {
    /// A state of the forward sweep.
    State = 1,
    /// A state of the adjoint.
    Adjoint = 2,
    /// Hashes of states of the forward sweep.
    Hashes = 3,
}

impl ObjectRole {
    const ALL: [ObjectRole; 3] = [ObjectRole::State, ObjectRole::Adjoint, ObjectRole::Hashes];
}

/// Identifies a computation: states with another identity are of no use to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComputationIdentity {
    /// The application's number for the computation.
    pub tag: u64,
    /// Steps.
    pub steps: u64,
    /// Slots.
    pub slots: u64,
    /// Processes.
    pub ranks: u64,
}

/// The position of a stored state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Its kind.
    pub role: ObjectRole,
    /// The random number of its run.
    pub run: u64,
    /// The computation.
    pub of: ComputationIdentity,
    /// The number of the state (of the first one for hashes), or the state that the adjoint has come to.
    pub number: u64,
    /// The state's hash, if known; never 0.
    pub hash: Option<u64>,
}

impl Position {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let ComputationIdentity { tag, steps, slots, ranks } = self.of;
        let role = self.role as u64;
        let hash = self.hash.unwrap_or(0);
        let words = [MAGIC, role, self.run, tag, steps, slots, ranks, self.number, hash];
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let (content, checksum) = bytes.split_at_mut((WORDS - 1) * 8);
        checksum.copy_from_slice(&checksum_of(content));
        bytes
    }

    /// Decodes a position; returns it with the bytes after it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: another format version; [`ErrorKind::Corrupt`]: damaged, or no position.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Position, &[u8])> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| wrong());
        if bytes.get(..8).map(word).transpose()? == Some(OLD_MAGIC) {
            return Err(Error::invalid(
                "its position in an adjoint computation is of format version 1, and this library \
                 reads version 2",
            ));
        }
        let (position, behind) = bytes.split_at_checked(BYTES).ok_or_else(wrong)?;
        let (content, checksum) = position.split_at((WORDS - 1) * 8);
        if checksum != checksum_of(content) {
            return Err(wrong());
        }
        let mut words = [0; WORDS - 1];
        for (place, bytes) in words.iter_mut().zip(content.chunks_exact(8)) {
            *place = word(bytes)?;
        }
        let [MAGIC, role, run, tag, steps, slots, ranks, number, hash] = words else {
            return Err(wrong());
        };
        let role = ObjectRole::ALL.into_iter().find(|known| *known as u64 == role);
        let of = ComputationIdentity { tag, steps, slots, ranks };
        let hash = (hash != 0).then_some(hash);
        Ok((Position { role: role.ok_or_else(wrong)?, run, of, number, hash }, behind))
    }
}

fn wrong() -> Error {
    Error::new(ErrorKind::Corrupt, "its position in an adjoint computation cannot be read")
}

impl fmt::Display for ComputationIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ComputationIdentity { tag, steps, slots, ranks } = self;
        write!(f, "{steps} steps, {slots} slots, tag {tag}, {ranks} processes")
    }
}

/// The region that holds the position in a name's checkpoints. It is written as last set, and keeps
/// the position that was last read.
#[derive(Clone, Debug)]
pub(crate) struct Marker(Arc<PositionCell>);

#[derive(Debug)]
struct PositionCell(Mutex<Position>);

impl Marker {
    /// A marker with the position of state 0.
    pub(crate) fn new(role: ObjectRole, of: ComputationIdentity) -> Marker {
        let position = Position { role, run: 0, of, number: 0, hash: None };
        Marker(Arc::new(PositionCell(Mutex::new(position))))
    }

    /// The object that the client protects.
    pub(crate) fn object(&self) -> Arc<dyn Object> {
        self.0.clone()
    }

    /// Sets the position that is written.
    pub(crate) fn set(&self, run: u64, number: u64, hash: Option<u64>) {
        let mut position = self.0 .0.lock();
        (position.run, position.number, position.hash) = (run, number, hash);
    }

    /// The position that was read last.
    pub(crate) fn get(&self) -> Position {
        *self.0 .0.lock()
    }
}

impl Object for PositionCell {
    fn write(&self) -> Result<WrittenBytes> {
        Ok(Box::new(self.0.lock().encode()))
    }

    fn read(&self, bytes: &[u8]) -> Result<Option<String>> {
        let (position, behind) = Position::decode(bytes)?;
        if !behind.is_empty() && position.role != ObjectRole::Hashes {
            return Err(wrong());
        }
        *self.0.lock() = position;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::mark::is_mark;
    use proptest::prelude::*;

    proptest! {
        /// Also catches a changed bit, which would give the position of another state.
        #[test]
        fn what_is_written_is_read(
            words in prop::array::uniform8(any::<u64>()),
            role in prop::sample::select(ObjectRole::ALL.to_vec()),
            bit in 0..WORDS * 64,
        ) {
            let [run, tag, steps, slots, ranks, number, hash, _] = words;
            let of = ComputationIdentity { tag, steps, slots, ranks };
            let position = Position { role, run, of, number, hash: (hash != 0).then_some(hash) };
            let mut bytes = position.encode();
            prop_assert_eq!(Position::decode(&bytes).ok(), Some((position, &[][..])));
            prop_assert!(is_mark(&bytes, BYTES as u64));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Position::decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
            prop_assert!(is_mark(&bytes, BYTES as u64));
        }

        /// Application data in a region of this id is not a position.
        #[test]
        fn other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(Position::decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    /// Positions of an older library are neither ignored nor removed.
    #[test]
    fn positions_without_a_checksum_are_refused_by_name() {
        let old = [&b"VELOCadj"[..], &[0; 64]].concat();
        let error = Position::decode(&old).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Invalid && error.to_string().contains("version 1"),
            "{error}"
        );
    }
}
