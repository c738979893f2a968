//! How much of the host buffer is touched ahead (prefaulted) when `host_cache_size` is not set.
//!
//! HiPC'22 touches the whole buffer in the background. That is right for a configured size. The default
//! size is as large as the machine allows, and most jobs use little of it: touching all of it cost a job
//! of two processes on two processors up to ten times its run time. So the default buffer is touched
//! ahead of the expected demand: eight checkpoints of the protected bytes, and twice the bytes used so
//! far. The size of serialized C++ objects is unknown in advance, so their first checkpoint faults in
//! its own pages.

/// How many checkpoints of the protected bytes are touched ahead.
const CHECKPOINTS_AHEAD: u64 = 8;
/// How many times the used bytes are touched: touching then stays ahead of steady use.
const TIMES_USED: u64 = 2;

/// How many bytes of the buffer are to be touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefaultTarget {
    expected: u64,
    used: u64,
}

impl PrefaultTarget {
    /// Notes that a checkpoint may have `bytes`; the maximum counts.
    pub fn note_checkpoint(&mut self, bytes: u64) {
        self.expected = self.expected.max(bytes);
    }

    /// Notes that the buffer is used up to offset `end`; the maximum counts, as allocation goes upward.
    pub fn note_use(&mut self, end: u64) {
        self.used = self.used.max(end);
    }

    /// The target: this many bytes from the start of the buffer.
    pub fn bytes(&self) -> u64 {
        let ahead = self.expected.saturating_mul(CHECKPOINTS_AHEAD);
        ahead.saturating_add(self.used.saturating_mul(TIMES_USED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches touching for a job that stores nothing, touching that falls behind use, and a target that
    /// shrinks when less is protected.
    #[test]
    fn pages_are_made_ahead_of_what_comes() {
        let mut target = PrefaultTarget::default();
        assert_eq!(target.bytes(), 0);
        target.note_checkpoint(100);
        assert_eq!(target.bytes(), 800);
        target.note_checkpoint(50);
        assert_eq!(target.bytes(), 800);
        target.note_use(700);
        target.note_use(300);
        assert_eq!(target.bytes(), 800 + 1400);
        target.note_checkpoint(u64::MAX / 2);
        assert_eq!(target.bytes(), u64::MAX);
    }
}
