//! Room in the device cache, in pieces: what has been free for longest is given out first.

use std::collections::VecDeque;

/// Pieces begin at multiples of this many bytes, for fast copies.
const GRANULE: u64 = 256;

/// A run of bytes of the device cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachePiece {
    pub offset: u64,
    pub len: u64,
}

impl CachePiece {
    fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// The room of the cache.
#[derive(Debug, Default)]
pub(super) struct CacheRoom {
    capacity: u64,
    /// No two of them touch each other; what was given back last stands behind.
    free: VecDeque<CachePiece>,
}

impl CacheRoom {
    /// Adds `bytes` behind the end.
    pub(super) fn grow(&mut self, bytes: u64) {
        let len = bytes - bytes % GRANULE;
        self.give_back(CachePiece { offset: self.capacity, len });
        self.capacity += len;
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn taken(&self) -> u64 {
        self.capacity - self.free.iter().map(|piece| piece.len).sum::<u64>()
    }

    /// Takes room for `bytes`, if there is as much, in one piece or in several.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Vec<CachePiece>> {
        let mut need = bytes.next_multiple_of(GRANULE);
        if need > self.capacity - self.taken() {
            return None;
        }
        let mut taken = Vec::new();
        while need > 0 {
            let mut piece = self.free.pop_front()?;
            if piece.len > need {
                self.free
                    .push_front(CachePiece { offset: piece.offset + need, len: piece.len - need });
                piece.len = need;
            }
            need -= piece.len;
            taken.push(piece);
        }
        Some(taken)
    }

    /// Gives back what [`CacheRoom::take`] gave.
    pub(super) fn release(&mut self, pieces: &[CachePiece]) {
        pieces.iter().for_each(|piece| self.give_back(*piece));
    }

    /// Joins a piece with those that it touches.
    fn give_back(&mut self, mut piece: CachePiece) {
        if piece.len == 0 {
            return;
        }
        self.free.retain(|other| {
            let touches = other.end() == piece.offset || piece.end() == other.offset;
            if touches {
                piece.offset = piece.offset.min(other.offset);
                piece.len += other.len;
            }
            !touches
        });
        self.free.push_back(piece);
    }
}

/// The runs of the first `bytes` bytes in `pieces`: for each, its place among those bytes, and
/// where it lies.
pub(super) fn runs(
    pieces: &[CachePiece],
    bytes: u64,
) -> impl Iterator<Item = (u64, CachePiece)> + '_ {
    pieces.iter().scan(0, move |done, piece| {
        let (at, len) = (*done, piece.len.min(bytes - *done));
        *done += len;
        (len > 0).then_some((at, CachePiece { len, ..*piece }))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Catches bytes that two have, room beyond the end, room that is lost, and room that is refused although it is
    /// there: whatever is taken and given back, in any order, and however late the room comes.
    #[test]
    fn room_has_one_owner_and_none_is_lost() {
        let step = (0_u8..4, 1_u64..3000, any::<prop::sample::Index>());
        proptest!(|(steps in prop::collection::vec(step, 0..200))| {
            let (mut room, mut held) = (CacheRoom::default(), Vec::<(u64, Vec<CachePiece>)>::new());
            for (kind, bytes, which) in steps {
                let taken: u64 = held.iter().map(|(bytes, _)| bytes.next_multiple_of(GRANULE)).sum();
                prop_assert_eq!(room.taken(), taken);
                match kind {
                    0 => room.grow(bytes),
                    1 if !held.is_empty() => {
                        let (_, pieces) = held.swap_remove(which.index(held.len()));
                        room.release(&pieces);
                    }
                    _ => {
                        let fits = taken + bytes.next_multiple_of(GRANULE) <= room.capacity();
                        let pieces = room.take(bytes);
                        prop_assert_eq!(pieces.is_some(), fits);
                        held.extend(pieces.map(|pieces| (bytes, pieces)));
                    }
                }
                let mut all: Vec<CachePiece> = held.iter().flat_map(|(_, pieces)| pieces.clone()).collect();
                all.sort_by_key(|piece| piece.offset);
                prop_assert!(all.iter().all(|piece| piece.offset % GRANULE == 0 && piece.len > 0));
                prop_assert!(all.windows(2).all(|two| two[0].end() <= two[1].offset));
                prop_assert!(all.last().is_none_or(|last| last.end() <= room.capacity()));
            }
            for (bytes, pieces) in &held {
                prop_assert_eq!(runs(pieces, *bytes).map(|(_, run)| run.len).sum::<u64>(), *bytes);
                room.release(pieces);
            }
            // All in one piece again.
            let whole = CachePiece { offset: 0, len: room.capacity() };
            prop_assert_eq!(room.take(whole.len).unwrap_or_default().len(), usize::from(whole.len > 0));
        });
    }

    /// Catches room that is scattered where versions leave in the order in which they came.
    #[test]
    fn first_in_first_out_is_a_ring() {
        let mut room = CacheRoom::default();
        room.grow(10 * GRANULE);
        let mut held: VecDeque<_> = (0..3).map(|_| room.take(3 * GRANULE).unwrap()).collect();
        for _ in 0..20 {
            room.release(&held.pop_front().unwrap());
            held.push_back(room.take(3 * GRANULE).unwrap());
            // At the end of the cache, and nowhere else, a version is in two pieces.
            let pieces = held.back().unwrap();
            assert!(
                pieces.len() == 1 || (pieces.len() == 2 && pieces[1].offset == 0),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn runs_cover_what_is_asked_for_and_no_more() {
        let piece = |offset, len| CachePiece { offset, len };
        let pieces = [piece(512, 256), piece(0, 256)];
        assert_eq!(runs(&pieces, 300).collect::<Vec<_>>(), [(0, pieces[0]), (256, piece(0, 44))]);
        assert_eq!(runs(&pieces, 256).collect::<Vec<_>>(), [(0, pieces[0])]);
    }
}
