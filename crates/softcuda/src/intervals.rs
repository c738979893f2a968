//! Non-overlapping address ranges, each with a value.

use std::collections::BTreeMap;
use std::ops::Range;

/// A map from disjoint, non-empty address ranges to values.
#[derive(Debug)]
pub(crate) struct Intervals<T> {
    by_start: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self { by_start: BTreeMap::new() }
    }
}

impl<T> Intervals<T> {
    /// Adds `range`; the caller has made sure that nothing overlaps it.
    pub(crate) fn insert(&mut self, range: Range<u64>, value: T) {
        debug_assert!(range.start < range.end && !self.overlaps(&range));
        self.by_start.insert(range.start, (range.end, value));
    }

    /// Removes and returns the range that begins exactly at `start`.
    pub(crate) fn remove(&mut self, start: u64) -> Option<(Range<u64>, T)> {
        let (end, value) = self.by_start.remove(&start)?;
        Some((start..end, value))
    }

    /// The range that begins exactly at `start`.
    pub(crate) fn at(&self, start: u64) -> Option<(Range<u64>, &T)> {
        let (end, value) = self.by_start.get(&start)?;
        Some((start..*end, value))
    }

    /// The range that holds `address`.
    pub(crate) fn containing(&self, address: u64) -> Option<(Range<u64>, &T)> {
        let (start, (end, value)) = self.by_start.range(..=address).next_back()?;
        (address < *end).then_some((*start..*end, value))
    }

    /// Whether any range shares an address with `range`.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        self.last_overlapping(range).is_some()
    }

    /// The last range that shares an address with `range`.
    pub(crate) fn last_overlapping(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let (start, (end, _)) = self.by_start.range(..range.end).next_back()?;
        (*end > range.start).then_some(*start..*end)
    }

    /// The starts of the ranges that together are exactly `range`, without a
    /// gap and without going past its ends; `None` if there are none such.
    pub(crate) fn tiling(&self, range: &Range<u64>) -> Option<Vec<u64>> {
        let mut starts = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let (end, _) = self.by_start.get(&next)?;
            starts.push(next);
            next = *end;
        }
        (next == range.end && !starts.is_empty()).then_some(starts)
    }

    /// Whether every address of `range` lies in a range that `allows`.
    pub(crate) fn covered_by(&self, range: &Range<u64>, allows: impl Fn(&T) -> bool) -> bool {
        let mut next = range.start;
        while next < range.end {
            match self.containing(next) {
                Some((found, value)) if allows(value) => next = found.end,
                _ => return false,
            }
        }
        true
    }

    /// All ranges in order of address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range<u64>, &T)> {
        self.by_start.iter().map(|(start, (end, value))| (*start..*end, value))
    }

    /// The value of the range that begins exactly at `start`, to change it.
    pub(crate) fn value_mut(&mut self, start: u64) -> Option<&mut T> {
        self.by_start.get_mut(&start).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_neighbours() -> Intervals<char> {
        let mut map = Intervals::default();
        map.insert(10..20, 'a');
        map.insert(20..30, 'b');
        map
    }

    #[test]
    fn ends_are_exclusive() {
        let map = two_neighbours();
        assert!(map.containing(9).is_none());
        assert_eq!(map.containing(19), Some((10..20, &'a')));
        assert_eq!(map.containing(20), Some((20..30, &'b')));
        assert!(map.containing(30).is_none());
        assert!(!map.overlaps(&(0..10)));
        assert!(map.overlaps(&(0..11)));
        assert!(!map.overlaps(&(30..31)));
    }

    #[test]
    fn a_tiling_keeps_to_the_borders() {
        let map = two_neighbours();
        assert_eq!(map.tiling(&(10..30)), Some(vec![10, 20]));
        assert_eq!(map.tiling(&(10..25)), None);
        assert_eq!(map.tiling(&(12..20)), None);
        assert_eq!(map.tiling(&(10..10)), None);
    }

    #[test]
    fn cover_needs_every_address_and_every_value() {
        let map = two_neighbours();
        assert!(map.covered_by(&(15..25), |_| true));
        assert!(!map.covered_by(&(15..25), |value| *value == 'a'));
        assert!(!map.covered_by(&(15..31), |_| true));
    }
}
