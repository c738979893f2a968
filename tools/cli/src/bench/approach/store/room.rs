//! Room in a device cache. What is asked for comes in as many pieces as the holes have it, so that
//! no room is lost to fragmentation: every checkpoint gets the room that the sizes leave, and none
//! is evicted for the sake of one hole.

use std::collections::BTreeMap;

/// Pieces begin at multiples of this many bytes, for fast copies.
const ALIGNMENT: u64 = 256;

/// A run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its first byte.
    pub at: u64,
    /// How many there are.
    pub bytes: u64,
}

/// Which bytes of a range are free. The range can grow at its end.
#[derive(Debug, Default)]
pub(super) struct Room {
    holes: BTreeMap<u64, u64>,
    free: u64,
    end: u64,
    /// Where to look first: behind what was taken last, so that room is used in a ring.
    cursor: u64,
}

impl Room {
    /// Adds bytes at the end.
    pub(super) fn grow(&mut self, bytes: u64) {
        let bytes = bytes / ALIGNMENT * ALIGNMENT;
        self.release(self.end, bytes);
        self.end += bytes;
    }

    /// Bytes there are in all, free or not.
    pub(super) fn bytes(&self) -> u64 {
        self.end
    }

    /// How many of them are free.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Takes so many bytes, rounded up to the alignment, from the holes behind the cursor on; none
    /// if there are not enough.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Vec<Piece>> {
        let mut left = bytes.next_multiple_of(ALIGNMENT);
        if left > self.free {
            return None;
        }
        let mut pieces = Vec::new();
        while left > 0 {
            let behind = self.holes.range(self.cursor..).next();
            let (&at, &hole) = behind.or_else(|| self.holes.iter().next())?;
            let bytes = hole.min(left);
            self.holes.remove(&at);
            if hole > bytes {
                self.holes.insert(at + bytes, hole - bytes);
            }
            (left, self.free, self.cursor) = (left - bytes, self.free - bytes, at + bytes);
            pieces.push(Piece { at, bytes });
        }
        Some(pieces)
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.release(piece.at, piece.bytes);
        }
    }

    fn release(&mut self, mut at: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.free += bytes;
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

    fn piece(at: u64, bytes: u64) -> Piece {
        Piece { at, bytes }
    }

    #[test]
    fn holes_grow_together_whichever_neighbour_comes_first() {
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let mut room = Room::default();
            room.grow(3 * 256);
            let taken = [0; 3].map(|_| room.take(200).unwrap());
            assert_eq!(taken, [0, 256, 512].map(|at| vec![piece(at, 256)]));
            assert_eq!(room.take(1), None);
            for number in order {
                room.give_back(&taken[number]);
            }
            assert_eq!(room.take(3 * 256), Some(vec![piece(0, 768)]), "{order:?}");
        }
    }

    #[test]
    fn what_is_added_joins_the_last_hole() {
        let mut room = Room::default();
        room.grow(256);
        assert_eq!(room.take(512), None);
        room.grow(256);
        assert_eq!((room.take(512), room.bytes()), (Some(vec![piece(0, 512)]), 512));
    }

    #[test]
    fn no_free_byte_is_out_of_reach() {
        let mut room = Room::default();
        room.grow(5 * 256);
        let taken = [0; 5].map(|_| room.take(256).unwrap());
        room.give_back(&taken[1]);
        room.give_back(&taken[3]);
        assert_eq!(room.take(513), None, "two holes of 256 are free");
        assert_eq!(room.take(512), Some(vec![piece(256, 256), piece(768, 256)]));
        assert_eq!(room.take(1), None);
    }
}
