//! What may leave a memory tier, and in which order.
//!
//! FIFO (HiPC'22, section IV-C): the oldest checkpoint leaves first. Checkpoints that the
//! application has already taken back (consumed) leave before all others. Nothing leaves whose
//! bytes are nowhere else, with one exception: an ephemeral job without files, whose consumed
//! checkpoints are the only thing that can make room.

/// What a tier knows of one resident copy when it must decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentCopy {
    /// The same bytes are complete in a lower tier.
    pub backed: bool,
    /// Transfers read this copy right now.
    pub in_use: bool,
    /// The application has restored this checkpoint and nothing says that it will again.
    pub consumed: bool,
}

/// The rank of a victim: smaller leaves first; within a rank, the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionClass {
    /// Restored already, and backed by a lower tier.
    Consumed,
    /// Backed by a lower tier.
    Backed,
    /// Restored already and nowhere else: discarded only by an ephemeral job without files.
    Discardable,
}

/// Whether a copy may leave its tier, and its rank among those that may.
///
/// `may_discard` is true for the lowest tier of an ephemeral job without files.
pub fn eviction_class(copy: ResidentCopy, may_discard: bool) -> Option<EvictionClass> {
    match copy {
        ResidentCopy { in_use: true, .. } => None,
        ResidentCopy { backed: true, consumed: true, .. } => Some(EvictionClass::Consumed),
        ResidentCopy { backed: true, .. } => Some(EvictionClass::Backed),
        ResidentCopy { consumed: true, .. } if may_discard => Some(EvictionClass::Discardable),
        ResidentCopy { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_copy_leaves_only_when_consumed_and_discardable() {
        let only = ResidentCopy { backed: false, in_use: false, consumed: false };
        assert_eq!(eviction_class(only, true), None);
        assert_eq!(eviction_class(ResidentCopy { consumed: true, ..only }, false), None);
        assert_eq!(
            eviction_class(ResidentCopy { consumed: true, ..only }, true),
            Some(EvictionClass::Discardable)
        );
    }

    #[test]
    fn a_copy_in_use_stays() {
        let used = ResidentCopy { backed: true, in_use: true, consumed: true };
        assert_eq!(eviction_class(used, true), None);
    }

    #[test]
    fn consumed_copies_leave_first_and_the_last_ones_of_their_bytes_last() {
        assert!(
            EvictionClass::Consumed < EvictionClass::Backed
                && EvictionClass::Backed < EvictionClass::Discardable
        );
    }
}
