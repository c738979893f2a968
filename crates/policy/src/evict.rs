//! Which copies may be evicted from a memory level, and in which order.
//!
//! Eviction is FIFO (HiPC'22, section IV-C); checkpoints that the application has already restored
//! (consumed) go first. A copy is evicted only if a lower level has the bytes. The one exception is an
//! ephemeral job without files: it may discard consumed checkpoints.

/// The state of one copy in a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentCopy {
    /// A lower level has the complete bytes.
    pub backed: bool,
    /// A transfer is reading this copy.
    pub in_use: bool,
    /// The application has restored this checkpoint, and no hint or order says it will again.
    pub consumed: bool,
}

/// The eviction order: smaller classes first, the oldest first within a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionClass {
    /// Restored, and a lower level has it.
    Consumed,
    /// A lower level has it.
    Backed,
    /// Restored, and no other copy exists: only an ephemeral job without files discards it.
    Discardable,
}

/// The class of a copy that may be evicted; `None` if it may not.
///
/// `may_discard` is true for the lowest level of an ephemeral job without files.
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
