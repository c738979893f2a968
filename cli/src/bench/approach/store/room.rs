//! Room in a device cache: contiguous pieces, first fit.

use std::collections::BTreeMap;

/// Pieces begin at multiples of this many bytes, for fast copies.
const ALIGNMENT: u64 = 256;

/// Which bytes of a range are free. The range can grow at its end.
#[derive(Debug, Default)]
pub struct Room {
    holes: BTreeMap<u64, u64>,
    end: u64,
}

impl Room {
    /// Adds bytes at the end.
    pub fn grow(&mut self, bytes: u64) {
        self.release(self.end, bytes);
        self.end += bytes;
    }

    /// Bytes there are in all, free or not.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Takes the first hole that is large enough.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let (&at, &len) = self.holes.iter().find(|(_, len)| **len >= bytes)?;
        self.holes.remove(&at);
        if len > bytes {
            self.holes.insert(at + bytes, len - bytes);
        }
        Some(at)
    }

    /// Gives a piece back that was taken.
    pub fn give_back(&mut self, at: u64, bytes: u64) {
        self.release(at, bytes.next_multiple_of(ALIGNMENT));
    }

    fn release(&mut self, mut at: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(after) = self.holes.remove(&(at + bytes)) {
            bytes += after;
        }
        if let Some((&before, &len)) = self.holes.range(..at).next_back() {
            if before + len == at {
                (at, bytes) = (before, bytes + len);
            }
        }
        self.holes.insert(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_grow_together_whichever_neighbour_comes_first() {
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let mut room = Room::default();
            room.grow(3 * 256);
            let pieces = [0; 3].map(|_| room.take(200).unwrap());
            assert_eq!(pieces, [0, 256, 512]);
            assert_eq!(room.take(1), None);
            for piece in order {
                room.give_back(pieces[piece], 200);
            }
            assert_eq!(room.take(3 * 256), Some(0), "{order:?}");
        }
    }

    #[test]
    fn what_is_added_joins_the_last_hole() {
        let mut room = Room::default();
        room.grow(256);
        assert_eq!(room.take(512), None);
        room.grow(256);
        assert_eq!((room.take(512), room.bytes()), (Some(0), 512));
    }
}
