//! How a copy between the device and the host buffer is split.

use std::ops::Range;

/// Largest slice in bytes: long enough for full bandwidth, short enough that a capture which
/// synchronizes the whole context hardly waits for it.
pub const SLICE: u64 = 4 << 20;

/// Slices in flight: one is copied, one is queued, and one is waited for, which hides the wake-up
/// latency of the waiting thread.
pub const DEPTH: usize = 3;

/// Largest slice through the staging ring, in bytes: small enough to be in the processor's cache when it
/// is copied on.
pub const RING_SLOT: u64 = 1 << 20;

/// Least bytes through a ring for each thread that copies them on: fewer gain little over what it takes to
/// start a thread.
const LEAST_SHARE: u64 = 8 << 20;

/// How many threads copy `bytes` on from rings, where the process may use so many processors and so many
/// checkpoints are `waiting` behind. One thread is slower than the device, but the processors are the application's,
/// and other processes': more are taken only where one does not keep up, a quarter of them, and not more than the
/// memory needs.
pub fn lanes(processors: usize, bytes: u64, waiting: usize) -> usize {
    if waiting == 0 {
        return 1;
    }
    let most = if processors < 32 { 4 } else { 8 };
    let worthwhile = (bytes / LEAST_SHARE) as usize;
    (processors / 4).min(most).min(worthwhile).max(1)
}

/// Shares pieces of these lengths among so many lanes: each gets what lies side by side, in whole ring slots but
/// for the end. Returns lane, piece, and the lane's part of it.
pub fn shares(pieces: &[u64], lanes: usize) -> Vec<(usize, usize, Range<u64>)> {
    let all: u64 = pieces.iter().sum();
    let share = all.div_ceil(lanes as u64).next_multiple_of(RING_SLOT);
    let (mut parts, mut before) = (Vec::new(), 0);
    for (piece, &len) in pieces.iter().enumerate() {
        let mut at = 0;
        while at < len {
            let lane = (before + at) / share;
            let end = len.min((lane + 1) * share - before);
            parts.push((lane as usize, piece, at..end));
            at = end;
        }
        before += len;
    }
    parts
}

/// Bytes of the next slice, with `left` bytes to go and the next registration boundary, which no copy
/// may cross, `to_border` bytes ahead.
pub fn next(left: u64, to_border: u64) -> u64 {
    left.min(SLICE).min(to_border)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Catches threads where there are few processors or bytes, where nothing waits, or more than the memory needs.
    #[test]
    fn few_processors_or_bytes_have_one_lane() {
        let (small, large) = (LEAST_SHARE * 2 - 1, LEAST_SHARE * 100);
        let counts =
            [1, 2, 3, 4, 7, 8, 16, 31, 32, 256].map(|n| (lanes(n, small, 1), lanes(n, large, 1)));
        assert_eq!(counts.map(|count| count.0), [1; 10]);
        assert_eq!(counts.map(|count| count.1), [1, 1, 1, 1, 1, 2, 4, 4, 8, 8]);
        // One keeps up.
        assert_eq!(lanes(64, large, 0), 1);
        assert_eq!([0, 3, 5].map(|n| lanes(64, LEAST_SHARE * n, 1)), [1, 3, 5]);
    }

    proptest! {
        /// Catches bytes that are left out, shared twice or given to a lane that does not exist, and a lane
        /// with more than its share.
        #[test]
        fn lanes_share_all_bytes_in_order(
            pieces in prop::collection::vec(0..LEAST_SHARE * 3, 0..20),
            lanes in 1..9_usize,
        ) {
            let (mut shared, mut bytes) = (vec![0; pieces.len()], vec![0; lanes]);
            let mut last = (0, 0);
            for (lane, piece, part) in shares(&pieces, lanes) {
                prop_assert!(part.start < part.end && part.start == shared[piece]);
                prop_assert!(last <= (lane, piece) && last.1 <= piece);
                last = (lane, piece);
                shared[piece] = part.end;
                bytes[lane] += part.end - part.start;
            }
            let most = pieces.iter().sum::<u64>() / lanes as u64 + RING_SLOT;
            prop_assert!(bytes.into_iter().all(|bytes| bytes <= most));
            prop_assert_eq!(shared, pieces);
        }
    }

    #[test]
    fn a_slice_ends_at_the_border_or_with_the_copy() {
        assert_eq!(next(SLICE * 3, SLICE * 2), SLICE);
        assert_eq!(next(SLICE * 3, 10), 10);
        assert_eq!(next(7, 10), 7);
    }
}
