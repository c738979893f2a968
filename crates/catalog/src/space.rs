//! Room in a memory level, given out in first-in first-out order.
//!
//! The room is a ring: allocations follow a cursor that runs upwards and wraps. A checkpoint that
//! does not fit in the hole at the cursor takes several: since every copy is cut into slices
//! anyway, nothing is gained by holding a checkpoint in one piece, and free room is never lost to
//! fragmentation (the paper's FIFO order, HiPC'22 section IV-C, without its ring's worst case).

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A run of bytes in a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First byte, counted from the start of the level.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// The free and the taken room of one level, in bytes.
#[derive(Debug)]
pub struct Space {
    granule: u64,
    capacity: u64,
    free_bytes: u64,
    cursor: u64,
    /// The lowest holes are taken first: they are likely to have pages.
    packs: bool,
    /// The most bytes that were taken at once since [`Space::most_taken`] was called.
    most_taken: u64,
    /// Offset of each hole -> its length. Holes never touch.
    holes: BTreeMap<u64, u64>,
    /// Room that was withdrawn, as (offset, length).
    withdrawn: Vec<(u64, u64)>,
}

impl Space {
    /// A space without room as yet. Every allocation is rounded up to `granule` bytes, so that all
    /// extents start at multiples of it.
    pub fn new(granule: u64) -> Self {
        Space {
            granule: granule.max(1),
            capacity: 0,
            free_bytes: 0,
            cursor: 0,
            packs: false,
            most_taken: 0,
            holes: BTreeMap::new(),
            withdrawn: Vec::new(),
        }
    }

    /// From here on the lowest holes are taken first, or else those behind the last one.
    pub fn pack(&mut self, packs: bool) {
        self.packs = packs;
    }

    /// Whether the lowest holes are taken first.
    pub fn packs(&self) -> bool {
        self.packs
    }

    /// The most bytes that were taken at once since the last call.
    pub fn most_taken(&mut self) -> u64 {
        let now = self.taken();
        std::mem::replace(&mut self.most_taken, now).max(now)
    }

    fn taken(&self) -> u64 {
        self.capacity - self.free_bytes
    }

    /// The runs of free bytes, the last one first.
    pub fn holes(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.holes.iter().rev().map(|(&offset, &len)| offset..offset + len)
    }

    /// Adds `bytes` (rounded down to the granule) behind the end.
    pub fn grow(&mut self, bytes: u64) {
        let bytes = bytes - bytes % self.granule;
        if bytes > 0 {
            let start = self.capacity;
            self.capacity += bytes;
            self.free_bytes += bytes;
            self.insert_hole(start, bytes);
        }
    }

    /// Removes the room from `start`, a multiple of the granule, to the end. False, and nothing is removed, if
    /// there is none, not all of it is free, or room was withdrawn.
    pub fn shrink(&mut self, start: u64) -> bool {
        let last = self.holes().next();
        let free = last.filter(|hole| hole.contains(&start) && hole.end == self.capacity);
        let Some(Range { start: offset, .. }) = free.filter(|_| self.withdrawn.is_empty()) else {
            return false;
        };
        self.holes.remove(&offset);
        if start > offset {
            self.holes.insert(offset, start - offset);
        }
        self.free_bytes -= self.capacity - start;
        self.capacity = start;
        true
    }

    /// Withdraws the free room from `start` on, until [`Space::restore`]. What is taken there
    /// stays, and is room again when it is released.
    pub fn withdraw(&mut self, start: u64) {
        let behind: Vec<(u64, u64)> = self
            .holes
            .iter()
            .map(|(&offset, &len)| (offset, offset + len))
            .filter(|&(_, end)| end > start)
            .collect();
        for (offset, end) in behind {
            self.holes.remove(&offset);
            let kept = start.saturating_sub(offset);
            if kept > 0 {
                self.holes.insert(offset, kept);
            }
            let given_up = end - offset - kept;
            self.free_bytes -= given_up;
            self.capacity -= given_up;
            self.withdrawn.push((offset + kept, given_up));
        }
    }

    /// Withdrawn room will not come back.
    pub fn forget_withdrawn(&mut self) {
        self.withdrawn.clear();
    }

    /// Takes back all withdrawn room.
    pub fn restore(&mut self) {
        for (offset, len) in std::mem::take(&mut self.withdrawn) {
            self.free_bytes += len;
            self.capacity += len;
            self.insert_hole(offset, len);
        }
    }

    /// All room, free or taken, in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Free room in bytes.
    pub fn free(&self) -> u64 {
        self.free_bytes
    }

    /// The bytes that an allocation of `len` bytes takes.
    pub fn rounded(&self, len: u64) -> u64 {
        len.div_ceil(self.granule).saturating_mul(self.granule)
    }

    /// Takes room for `len` bytes, in as few extents as the holes behind the cursor allow, or
    /// nothing at all if there is not enough. The extents' lengths add up to [`Space::rounded`].
    pub fn allocate(&mut self, len: u64) -> Option<Vec<Extent>> {
        let mut need = self.rounded(len);
        if need > self.free_bytes {
            return None;
        }
        let mut taken = Vec::new();
        while need > 0 {
            let (offset, hole) = self.hole_at_cursor()?;
            let len = hole.min(need);
            self.holes.remove(&offset);
            if hole > len {
                self.holes.insert(offset + len, hole - len);
            }
            self.free_bytes -= len;
            self.cursor = offset + len;
            need -= len;
            taken.push(Extent { offset, len });
        }
        self.most_taken = self.most_taken.max(self.taken());
        Some(taken)
    }

    /// Takes exactly these extents. False, and nothing is taken, if they are not all free, or not
    /// such as [`Space::allocate`] gives.
    pub fn take(&mut self, extents: &[Extent]) -> bool {
        for (done, extent) in extents.iter().enumerate() {
            let hole = self.holes.range(..=extent.offset).next_back().map(|(&o, &l)| (o, o + l));
            let end = extent.offset.checked_add(extent.len);
            let whole = extent.offset % self.granule == 0 && extent.len % self.granule == 0;
            let (Some((start, hole_end)), Some(end)) = (hole, end.filter(|_| whole)) else {
                self.release(&extents[..done]);
                return false;
            };
            if extent.len == 0 || end > hole_end {
                self.release(&extents[..done]);
                return false;
            }
            self.holes.remove(&start);
            for (from, to) in [(start, extent.offset), (end, hole_end)] {
                if to > from {
                    self.holes.insert(from, to - from);
                }
            }
            self.free_bytes -= extent.len;
        }
        true
    }

    /// Releases the room that [`Space::allocate`] gave.
    pub fn release(&mut self, extents: &[Extent]) {
        for extent in extents {
            self.free_bytes += extent.len;
            self.insert_hole(extent.offset, extent.len);
        }
    }

    /// The next hole at or behind the cursor, else the first one.
    fn hole_at_cursor(&self) -> Option<(u64, u64)> {
        let cursor = if self.packs { 0 } else { self.cursor };
        self.holes
            .range(cursor..)
            .next()
            .or_else(|| self.holes.iter().next())
            .map(|(&o, &l)| (o, l))
    }

    fn insert_hole(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.holes.range(..offset).next_back() {
            if before + before_len == offset {
                self.holes.remove(&before);
                offset = before;
                len += before_len;
            }
        }
        if let Some(behind_len) = self.holes.remove(&(offset + len)) {
            len += behind_len;
        }
        self.holes.insert(offset, len);
    }
}

/// Appends extents to others, and puts neighbours together.
pub fn join(extents: &mut Vec<Extent>, more: &[Extent]) {
    for next in more {
        match extents.last_mut() {
            Some(last) if last.offset + last.len == next.offset => last.len += next.len,
            _ => extents.push(*next),
        }
    }
}

/// Cuts `extents`, read one after the other as one run of bytes, to the `len` bytes from `start`.
pub fn cut(extents: &[Extent], start: u64, len: u64) -> impl Iterator<Item = Extent> + '_ {
    let mut skip = start;
    let mut left = len;
    extents.iter().filter_map(move |extent| {
        if left == 0 || skip >= extent.len {
            skip = skip.saturating_sub(extent.len);
            return None;
        }
        let piece = Extent { offset: extent.offset + skip, len: (extent.len - skip).min(left) };
        skip = 0;
        left -= piece.len;
        Some(piece)
    })
}

/// Walks two lists of extents side by side: runs of `len` bytes in all that are contiguous in both,
/// as (offset in the first, offset in the second, length).
pub fn side_by_side<'a>(
    first: &'a [Extent],
    second: &'a [Extent],
    len: u64,
) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
    let (mut i, mut j, mut into_i, mut into_j, mut left) = (0, 0, 0, 0, len);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let (a, b) = (first.get(i)?, second.get(j)?);
        let run = (a.len - into_i).min(b.len - into_j).min(left);
        let step = (a.offset + into_i, b.offset + into_j, run);
        into_i += run;
        into_j += run;
        left -= run;
        if into_i == a.len {
            (i, into_i) = (i + 1, 0);
        }
        if into_j == b.len {
            (j, into_j) = (j + 1, 0);
        }
        Some(step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_allocation_wraps_into_two_extents_instead_of_losing_the_end() {
        let mut space = Space::new(1);
        space.grow(100);
        let first = space.allocate(40).unwrap();
        let second = space.allocate(40).unwrap();
        space.release(&first);
        let third = space.allocate(60).unwrap();
        assert_eq!(third, [Extent { offset: 80, len: 20 }, Extent { offset: 0, len: 40 }]);
        space.release(&second);
        space.release(&third);
        assert_eq!(space.holes, BTreeMap::from([(0, 100)]));
    }

    #[test]
    fn growth_joins_the_hole_at_the_end() {
        let mut space = Space::new(16);
        space.grow(32);
        space.grow(47);
        assert_eq!(space.capacity(), 64);
        assert_eq!(space.allocate(64).unwrap().len(), 1);
    }

    #[test]
    fn room_is_given_up_only_where_it_is_free() {
        let mut space = Space::new(1);
        space.grow(100);
        let low = space.allocate(30).unwrap();
        let high = space.allocate(30).unwrap();
        space.release(&low);
        space.withdraw(20);
        assert_eq!((space.capacity(), space.free()), (50, 20));
        space.release(&high);
        assert_eq!((space.capacity(), space.free()), (50, 50));
        space.withdraw(10);
        assert_eq!((space.capacity(), space.free()), (10, 10));
        let kept = space.allocate(5).unwrap();
        space.restore();
        assert_eq!((space.capacity(), space.free()), (100, 95));
        space.release(&kept);
        assert_eq!(space.holes, BTreeMap::from([(0, 100)]));
        space.restore();
        assert!(space.allocate(101).is_none() && space.allocate(100).is_some());
    }

    #[test]
    fn cutting_follows_the_order_of_the_extents() {
        let extents = [Extent { offset: 80, len: 20 }, Extent { offset: 0, len: 40 }];
        let cut: Vec<_> = cut(&extents, 15, 10).collect();
        assert_eq!(cut, [Extent { offset: 95, len: 5 }, Extent { offset: 0, len: 5 }]);
    }

    #[test]
    fn two_lists_side_by_side_break_where_either_breaks() {
        let first = [Extent { offset: 0, len: 10 }, Extent { offset: 50, len: 10 }];
        let second = [Extent { offset: 90, len: 4 }, Extent { offset: 20, len: 16 }];
        let runs: Vec<_> = side_by_side(&first, &second, 15).collect();
        assert_eq!(runs, [(0, 90, 4), (4, 20, 6), (50, 26, 5)]);
    }

    /// Catches freed room that is left alone while there is other room, and a peak that is forgotten.
    #[test]
    fn what_packs_takes_the_lowest_room() {
        let mut space = Space::new(1);
        space.grow(100);
        space.pack(true);
        let first = space.allocate(10).unwrap();
        space.allocate(10).unwrap();
        space.release(&first);
        assert_eq!(space.holes().collect::<Vec<_>>(), [20..100, 0..10]);
        let next = [Extent { offset: 0, len: 10 }, Extent { offset: 20, len: 5 }];
        assert_eq!(space.allocate(15).unwrap(), next);
        space.release(&next);
        assert_eq!((space.most_taken(), space.most_taken()), (25, 10));
        space.pack(false);
        space.cursor = 20;
        assert_eq!(space.allocate(5).unwrap(), [Extent { offset: 20, len: 5 }]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Grow(u64),
        Shrink(u64),
        Withdraw(u64),
        Restore,
        Take(u64),
        Give(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..40u64).prop_map(Step::Grow),
            (0..60u64).prop_map(Step::Shrink),
            (0..60u64).prop_map(Step::Withdraw),
            Just(Step::Restore),
            (0..60u64).prop_map(Step::Take),
            any::<prop::sample::Index>().prop_map(|i| Step::Give(i.index(1 << 16))),
        ]
    }

    fn free(taken: &[bool], gone: &[bool]) -> u64 {
        taken.iter().zip(gone).filter(|(taken, gone)| !**taken && !**gone).count() as u64
    }

    proptest! {
        /// The model is two flags per byte. Catches extents that overlap or leave the space, room
        /// that is lost or counted twice, and refusals while there is room.
        #[test]
        fn agrees_with_a_bitmap(granule in 1..5u64, steps in prop::collection::vec(step(), 1..120)) {
            let mut space = Space::new(granule);
            let mut taken: Vec<bool> = Vec::new();
            // Bytes that were withdrawn.
            let mut gone: Vec<bool> = Vec::new();
            let mut held: Vec<Vec<Extent>> = Vec::new();
            for step in steps {
                match step {
                    Step::Grow(bytes) if !gone.contains(&true) => {
                        space.grow(bytes);
                        taken.resize(taken.len() + (bytes - bytes % granule) as usize, false);
                        gone.resize(taken.len(), false);
                    }
                    Step::Grow(_) => {}
                    Step::Shrink(bytes) => {
                        let start = (taken.len() as u64).saturating_sub(bytes * granule) as usize;
                        let beyond = &taken[start..];
                        let free = !beyond.is_empty() && !beyond.contains(&true);
                        let shrinks = free && !gone.contains(&true);
                        prop_assert_eq!(space.shrink(start as u64), shrinks);
                        if shrinks {
                            taken.truncate(start);
                            gone.truncate(start);
                        }
                    }
                    Step::Withdraw(start) => {
                        let start = start * granule;
                        space.withdraw(start);
                        for byte in (start as usize).min(taken.len())..taken.len() {
                            gone[byte] |= !taken[byte];
                        }
                    }
                    Step::Restore => {
                        space.restore();
                        gone.fill(false);
                    }
                    Step::Take(len) => {
                        let free = free(&taken, &gone);
                        match space.allocate(len) {
                            None => prop_assert!(free < len.div_ceil(granule) * granule),
                            Some(extents) => {
                                let sum: u64 = extents.iter().map(|e| e.len).sum();
                                prop_assert_eq!(sum, len.div_ceil(granule) * granule);
                                for extent in &extents {
                                    prop_assert_eq!(extent.offset % granule, 0);
                                    for byte in extent.offset..extent.offset + extent.len {
                                        prop_assert!(!gone[byte as usize]);
                                        prop_assert!(!std::mem::replace(&mut taken[byte as usize], true));
                                    }
                                }
                                held.push(extents);
                            }
                        }
                    }
                    Step::Give(which) if !held.is_empty() => {
                        let extents = held.swap_remove(which % held.len());
                        space.release(&extents);
                        for extent in &extents {
                            for byte in extent.offset..extent.offset + extent.len {
                                taken[byte as usize] = false;
                            }
                        }
                    }
                    Step::Give(_) => {}
                }
                prop_assert_eq!(space.free(), free(&taken, &gone));
                let there = gone.iter().filter(|gone| !**gone).count();
                prop_assert_eq!(space.capacity(), there as u64);
            }
        }
    }
}
