//! How a copy between the device and the host buffer is cut.

/// Bytes of one slice at the most: long enough for full speed, short enough that a capture which
/// has to wait for the whole context hardly waits for it.
pub const SLICE: u64 = 4 << 20;

/// Slices under way at a time: while one is copied, and another is queued behind it, the thread that waits
/// for the one before has the time that waking up takes.
pub const DEPTH: usize = 3;

/// Bytes of a slice that goes by way of the ring, at the most: so few that what the device has written is
/// in the processor's cache when it is moved on.
pub const RING_SLOT: u64 = 1 << 20;

/// Bytes of the next slice, with `left` bytes to go and a border between registrations, which no
/// copy may cross, `to_border` bytes ahead.
pub fn next(left: u64, to_border: u64) -> u64 {
    left.min(SLICE).min(to_border)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_at_the_border_or_with_the_copy() {
        assert_eq!(next(SLICE * 3, SLICE * 2), SLICE);
        assert_eq!(next(SLICE * 3, 10), 10);
        assert_eq!(next(7, 10), 7);
    }
}
