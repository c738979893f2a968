//! How much of the host buffer has pages, in a job without a device.
//!
//! HiPC'22 touches the whole buffer in the background, for a device that fills it faster than pages can be
//! made. Elsewhere the processor copies, and makes pages on the way: touching has only to stay ahead of it. So
//! pages are made for what is likely to come, eight checkpoints of the protected bytes and as much as is held
//! up to 8 MiB, but never more than [`slack`] beyond what is held: most jobs use little of a buffer, and pages
//! that nobody uses are missing elsewhere. What was freed is used again first, and pages beyond the slack that
//! nobody has used for a while go back ([`surplus`]). The size of serialized C++ objects is unknown in advance, so their
//! first checkpoint makes its own pages.

/// How many checkpoints of the protected bytes are touched ahead.
const CHECKPOINTS_AHEAD: u64 = 8;
/// Bytes touched ahead of checkpoints so small that eight of them are no lead: two steps of touching.
const SMALL_AHEAD: u64 = 8 << 20;
/// The least slack in bytes.
pub const LEAST_SLACK: u64 = 64 << 20;
/// The slack is this share (1/10) of the bytes held.
const SLACK_SHARE: u64 = 10;

/// How many bytes of pages there may be that hold nothing, where `held` bytes are held.
pub fn slack(held: u64) -> u64 {
    LEAST_SLACK.max(held / SLACK_SHARE)
}

/// How many of `made` bytes of pages are to go back, where at most `held` bytes were held for a while.
pub fn surplus(made: u64, held: u64) -> u64 {
    made.saturating_sub(held.saturating_add(slack(held)))
}

/// How many bytes of pages there should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefaultTarget {
    expected: u64,
    held: u64,
}

impl PrefaultTarget {
    /// Notes that a checkpoint may have `bytes`; the maximum counts.
    pub fn note_checkpoint(&mut self, bytes: u64) {
        self.expected = self.expected.max(bytes);
    }

    /// Notes that so many more bytes are about to be held.
    pub fn note_use(&mut self, bytes: u64) {
        self.held = self.held.saturating_add(bytes);
    }

    /// Notes how many bytes are held.
    pub fn hold(&mut self, bytes: u64) {
        self.held = bytes;
    }

    /// The target in bytes.
    pub fn bytes(&self) -> u64 {
        let small = self.held.min(SMALL_AHEAD);
        let likely = self.expected.saturating_mul(CHECKPOINTS_AHEAD).saturating_add(small);
        self.held.saturating_add(likely.min(slack(self.held)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Catches touching for a job that stores nothing, touching that falls behind use, a target that shrinks
    /// when less is protected, and memory beside many small checkpoints that none of them will use.
    #[test]
    fn pages_are_made_ahead_of_what_comes() {
        let mut target = PrefaultTarget::default();
        assert_eq!(target.bytes(), 0);
        target.note_checkpoint(100);
        assert_eq!(target.bytes(), 800);
        target.note_checkpoint(50);
        assert_eq!(target.bytes(), 800);
        target.note_use(700);
        assert_eq!(target.bytes(), 2 * 700 + 800);
        target.hold(300);
        assert_eq!(target.bytes(), 2 * 300 + 800);
        target.hold(1 << 30);
        assert_eq!(target.bytes(), (1 << 30) + SMALL_AHEAD + 800);
        target.hold(300);
        target.note_checkpoint(u64::MAX / 2);
        assert_eq!(target.bytes(), 300 + LEAST_SLACK);
        target.hold(u64::MAX);
        assert_eq!(target.bytes(), u64::MAX);
    }

    proptest! {
        /// Catches a target that has pages made which then go back, over and over, and memory beyond what the
        /// job was promised to cost.
        #[test]
        fn what_is_made_is_kept(
            steps in prop::collection::vec((0..3u8, 0..1u64 << 32), 1..40)
        ) {
            let mut target = PrefaultTarget::default();
            let mut held = 0;
            for (what, bytes) in steps {
                match what {
                    0 => target.note_checkpoint(bytes),
                    1 => { held += bytes; target.note_use(bytes) }
                    _ => { held = bytes; target.hold(bytes) }
                }
                prop_assert!(target.bytes() >= held);
                prop_assert!(target.bytes() <= held + (held / 10).max(64 << 20));
                prop_assert_eq!(surplus(target.bytes(), held), 0);
                let more = target.bytes() + bytes;
                prop_assert!(more - surplus(more, held) >= target.bytes());
            }
        }
    }
}
