//! Which checkpoint will be read next.
//!
//! Hinted versions come first, in the order of the hints. Without hints, a job reads the versions of a
//! name in reverse (adjoints), in the order they were written, or in no predictable order.

use serde::{Deserialize, Serialize};

/// The key `restore_order`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestoreOrder {
    /// Newest first: the backward pass of an adjoint computation.
    #[default]
    Reverse,
    /// In the order they were taken.
    Same,
    /// No order: only hinted versions are prefetched.
    Random,
}

/// How many reads away `version` is if `current` was read last; 1: the next read. `None`: it is not
/// expected to be read.
pub fn distance(order: RestoreOrder, current: i64, version: i64) -> Option<u64> {
    match order {
        RestoreOrder::Reverse if version < current => Some((current - version).unsigned_abs()),
        RestoreOrder::Same if version > current => Some((version - current).unsigned_abs()),
        _ => None,
    }
}

/// When a checkpoint will be read; smaller is sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextUse {
    /// Hinted: its position among all hints given.
    Hinted(u64),
    /// Expected by the restore order: how many reads away it is.
    Expected(u64),
    /// Not expected to be read.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_counts_down_and_same_counts_up() {
        assert_eq!(distance(RestoreOrder::Reverse, 10, 9), Some(1));
        assert_eq!(distance(RestoreOrder::Reverse, 10, 11), None);
        assert_eq!(distance(RestoreOrder::Same, 10, 12), Some(2));
        assert_eq!(distance(RestoreOrder::Same, 10, 10), None);
        assert_eq!(distance(RestoreOrder::Random, 10, 9), None);
    }

    #[test]
    fn hints_come_before_expectations() {
        assert!(NextUse::Hinted(1_000_000) < NextUse::Expected(1));
        assert!(NextUse::Expected(7) < NextUse::Never);
    }
}
