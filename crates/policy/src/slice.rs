//! How a copy between the device and the host buffer is split.

/// Largest slice in bytes: long enough for full bandwidth, short enough that a capture which
/// synchronizes the whole context hardly waits for it.
pub const SLICE: u64 = 4 << 20;

/// Slices in flight: one is copied, one is queued, and one is waited for, which hides the wake-up
/// latency of the waiting thread.
pub const DEPTH: usize = 3;

/// Largest slice through the staging ring, in bytes: small enough to be in the processor's cache when it
/// is copied on.
pub const RING_SLOT: u64 = 1 << 20;

/// Bytes of the next slice, with `left` bytes to go and the next registration boundary, which no copy
/// may cross, `to_border` bytes ahead.
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
