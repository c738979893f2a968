//! What of a region goes into a checkpoint that has changes alone (`incremental = true`).

use std::ops::Range;

/// Checkpoints for which writes to a region are not noted any more, after one before which most of it was
/// written: each first write to a page costs the application more than the copy of that page saves.
pub const REST: u32 = 8;

/// Ranges of addresses, ascending and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds ranges, in any order.
    pub fn add(&mut self, more: &[Range<u64>]) {
        if more.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.0);
        all.extend_from_slice(more);
        all.sort_unstable_by_key(|range| range.start);
        for range in all {
            match self.0.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.0.push(range),
            }
        }
    }

    /// Their parts within a range.
    pub fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.0.partition_point(|own| own.end <= range.start);
        let near = self.0[first..].iter().take_while(|own| own.start < range.end);
        near.map(|own| own.start.max(range.start)..own.end.min(range.end)).collect()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a checkpoint has of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// What has changed.
    Changes,
    /// All of it; and writes to it are not noted for a while ([`REST`]).
    Everything,
}

/// What a checkpoint has of a region of `len` bytes, of which `changed` were written since the last one.
pub fn choose(len: u64, changed: u64) -> Has {
    if changed <= len / 2 {
        Has::Changes
    } else {
        Has::Everything
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a set of addresses: catches ranges that are lost, joined over a gap, or left apart.
        #[test]
        fn ranges_are_their_addresses(
            adds in prop::collection::vec(prop::collection::vec((0_u64..200, 1_u64..30), 0..6), 0..6),
            (from, len) in (0_u64..250, 0_u64..250),
        ) {
            let mut ranges = Ranges::default();
            let mut model = [false; 300];
            for add in adds {
                let more: Vec<_> = add.iter().map(|(start, len)| *start..start + len).collect();
                ranges.add(&more);
                more.into_iter().flatten().for_each(|address| model[address as usize] = true);
                prop_assert!(ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            let mut found = [false; 300];
            let asked = from..(from + len).min(300);
            ranges.within(&asked).into_iter().flatten().for_each(|at| found[at as usize] = true);
            for address in 0..300 {
                prop_assert_eq!(found[address as usize], model[address as usize] && asked.contains(&address));
            }
        }
    }

    #[test]
    fn what_has_mostly_changed_is_taken_whole() {
        assert_eq!(choose(100, 0), Has::Changes);
        assert_eq!(choose(100, 50), Has::Changes);
        assert_eq!(choose(100, 51), Has::Everything);
    }
}
