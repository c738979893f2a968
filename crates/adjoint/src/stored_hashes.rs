//! Stored hashes of a series of states, so that a later job can verify the states between two stored
//! ones.

use std::sync::Arc;

use super::position::{checksum_of, ComputationIdentity, ObjectRole, Position, BYTES};
use client::callbacks::{Object, WrittenBytes};
use errors::{Error, ErrorKind, Result};
use os::sync::Mutex;

/// The region of a checkpoint of hashes: a position, the hashes (0: unknown), and a checksum. It is
/// written as last set, and keeps what was last read.
#[derive(Clone, Debug)]
pub(crate) struct StoredHashes(Arc<HashesCell>);

#[derive(Debug)]
struct HashesCell(Mutex<(Position, Vec<u64>)>);

impl StoredHashes {
    /// A region without hashes.
    pub(crate) fn new(of: ComputationIdentity) -> StoredHashes {
        let position = Position { role: ObjectRole::Hashes, run: 0, of, number: 0, hash: None };
        StoredHashes(Arc::new(HashesCell(Mutex::new((position, Vec::new())))))
    }

    /// The object that the client protects.
    pub(crate) fn object(&self) -> Arc<dyn Object> {
        self.0.clone()
    }

    /// Sets the hashes that are written, from state `first` on.
    pub(crate) fn set(&self, run: u64, first: u64, hashes: Vec<u64>) {
        let mut cell = self.0 .0.lock();
        (cell.0.run, cell.0.number) = (run, first);
        cell.1 = hashes;
    }

    /// The position and hashes that were read last; the hashes are moved out.
    pub(crate) fn take(&self) -> (Position, Vec<u64>) {
        let mut cell = self.0 .0.lock();
        (cell.0, std::mem::take(&mut cell.1))
    }
}

impl Object for HashesCell {
    fn write(&self) -> Result<WrittenBytes> {
        let (position, hashes) = &*self.0.lock();
        Ok(Box::new(encode(position, hashes)))
    }

    fn read(&self, bytes: &[u8]) -> Result<Option<String>> {
        *self.0.lock() = decode(bytes)?;
        Ok(None)
    }
}

fn encode(position: &Position, hashes: &[u64]) -> Vec<u8> {
    let mut bytes = position.encode().to_vec();
    bytes.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
    let checksum = checksum_of(&bytes[BYTES..]);
    bytes.extend(checksum);
    bytes
}

fn decode(bytes: &[u8]) -> Result<(Position, Vec<u64>)> {
    let (position, rest) = Position::decode(bytes)?;
    if position.role != ObjectRole::Hashes {
        // Another object under this name, for readers of positions.
        return Ok((position, Vec::new()));
    }
    match rest.split_last_chunk::<8>() {
        Some((hashes, checksum)) if hashes.len() % 8 == 0 && checksum_of(hashes) == *checksum => {
            let word =
                |word: &[u8]| word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
            Ok((position, hashes.chunks_exact(8).map(word).collect()))
        }
        _ => Err(Error::new(ErrorKind::Corrupt, "its hashes of states are damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Catches a changed bit, which would make a state look different.
        #[test]
        fn what_is_written_is_read(
            hashes in prop::collection::vec(any::<u64>(), 0..40),
            number: u64,
            bit: prop::sample::Index,
        ) {
            let of = ComputationIdentity { tag: 1, steps: 100, slots: 5, ranks: 2 };
            let position = Position { role: ObjectRole::Hashes, run: 7, of, number, hash: None };
            let mut bytes = encode(&position, &hashes);
            prop_assert_eq!(decode(&bytes).ok(), Some((position, hashes)));
            prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
