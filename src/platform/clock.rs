//! The time that all processes of a node share.

use std::time::{Duration, Instant};

/// Translates instants to nanoseconds of `CLOCK_MONOTONIC`, which counts from the machine's start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    nanoseconds: u64,
}

impl Clock {
    /// Reads both clocks.
    pub fn new() -> Clock {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a local. The call cannot fail: Linux has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        let nanoseconds = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Clock { instant: Instant::now(), nanoseconds }
    }

    /// An instant, before or after the clocks were read.
    pub fn nanoseconds(&self, at: Instant) -> u64 {
        let count = |time: Duration| time.as_nanos() as u64;
        match at.checked_duration_since(self.instant) {
            Some(after) => self.nanoseconds + count(after),
            None => self.nanoseconds.saturating_sub(count(self.instant - at)),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_agree_on_an_instant_and_keep_distances() {
        let before = Instant::now();
        let (one, other) = (Clock::new(), Clock::new());
        let distance = one.nanoseconds(before).abs_diff(other.nanoseconds(before));
        assert!(distance < 1_000_000_000, "{distance} ns");
        let later = before + Duration::from_nanos(12_345);
        assert_eq!(one.nanoseconds(later) - one.nanoseconds(before), 12_345);
    }
}
