//! The time that all processes of a node share.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clocks are read again if one reading took longer than this, in nanoseconds: the thread was
/// interrupted, or the clock is slow.
const QUICK: u64 = 500;

/// So often at the most.
const TRIES: usize = 32;

/// A time as text, such as `2026-02-03T04:05:06Z`.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // SAFETY: a struct of numbers and a pointer, for which zeros are a value.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are places of this function's.
    unsafe { libc::gmtime_r(&(seconds as libc::time_t), &mut parts) };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

/// Translates instants to nanoseconds of `CLOCK_MONOTONIC`, which counts from the machine's start.
///
/// There is no way to ask an [`Instant`] for its time, so both clocks are read one after the other,
/// and what passes between is not known to either: that is [`error`](Clock::error).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    nanoseconds: u64,
    error: u64,
}

impl Clock {
    /// Reads both clocks, several times if it is interrupted, and keeps the reading that says most.
    pub fn new() -> Clock {
        let mut best = Clock::read();
        for _ in 1..TRIES {
            if best.error <= QUICK / 2 {
                break;
            }
            let again = Clock::read();
            if again.error < best.error {
                best = again;
            }
        }
        best
    }

    fn read() -> Clock {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let before = Instant::now();
        // SAFETY: the pointer is to a local. The call cannot fail: Linux has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        let took = before.elapsed();
        let nanoseconds = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        // It was read at some moment between the two others.
        let error = (took.as_nanos() as u64).div_ceil(2);
        Clock { instant: before + took / 2, nanoseconds, error }
    }

    /// By how many nanoseconds the times of this clock may be off, all by the same. Processes of one
    /// machine differ by the sum of theirs at the most.
    pub fn error(&self) -> u64 {
        self.error
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
    fn a_time_as_text() {
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(1_770_091_506)), "2026-02-03T04:05:06Z");
    }

    /// Catches a clock that takes the time between its two readings for none: the timelines of two
    /// processes are then off by it. A clock that was interrupted, and says so, passes.
    #[test]
    fn clocks_differ_by_no_more_than_they_say() {
        let at = Instant::now();
        let clocks: Vec<Clock> = (0..2000).map(|_| Clock::new()).collect();
        for pair in clocks.windows(2) {
            let apart = pair[0].nanoseconds(at).abs_diff(pair[1].nanoseconds(at));
            assert!(apart <= pair[0].error() + pair[1].error(), "{apart} ns: {pair:?}");
        }
    }

    #[test]
    fn distances_are_kept() {
        let clock = Clock::new();
        let before = Instant::now();
        let later = before + Duration::from_nanos(12_345);
        assert_eq!(clock.nanoseconds(later) - clock.nanoseconds(before), 12_345);
    }
}
