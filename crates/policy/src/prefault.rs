//! How far the host buffer is touched, where nobody has asked for its size.
//!
//! HiPC'22 touches all of it, in the background: right where its size was asked for, or where a
//! device fills it faster than pages can be made. But without `host_cache_size` it is as large as
//! the machine allows, and most jobs never use most of it. Touching that would take processors, and
//! memory, from the application: one with two processes on two processors took up to ten times as
//! long. So there pages are made ahead of what is known to come: what is protected, and as much again
//! as was used. What an object of C++ will write is not known; its first checkpoint makes its own pages.

/// Checkpoints of what is protected that find their pages.
const CHECKPOINTS_AHEAD: u64 = 8;
/// So many times as many bytes as were used have pages: touching is asked for twice as fast as
/// checkpoints come, so it gets ahead of them wherever it can.
const TIMES_USED: u64 = 2;

/// What is known of the bytes that a job needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefaultTarget {
    expected: u64,
    used: u64,
}

impl PrefaultTarget {
    /// A checkpoint may have so many bytes: the most counts.
    pub fn note_checkpoint(&mut self, bytes: u64) {
        self.expected = self.expected.max(bytes);
    }

    /// The buffer is used up to this byte: the highest counts, as room is given out going up.
    pub fn note_use(&mut self, end: u64) {
        self.used = self.used.max(end);
    }

    /// So many bytes, from the first one on, are to have pages.
    pub fn bytes(&self) -> u64 {
        let ahead = self.expected.saturating_mul(CHECKPOINTS_AHEAD);
        ahead.saturating_add(self.used.saturating_mul(TIMES_USED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches touching for a job that has nothing to store, touching that stays behind what is
    /// used, and a need that goes back when less is protected.
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
