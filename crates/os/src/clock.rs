//! The time that all processes of a node share.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A reading that takes longer than this, in nanoseconds, is repeated: the thread was interrupted, or
/// the clock is slow.
const QUICK: u64 = 500;

/// How many readings are tried.
const TRIES: usize = 32;

/// A time as text, such as `2026-02-03T04:05:06Z`.
pub(crate) fn utc(time: SystemTime) -> String {
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
/// An [`Instant`] does not reveal its time, so both clocks are read one after the other. The time
/// between the readings is the [`error`](Clock::error).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    nanoseconds: u64,
    error: u64,
}

impl Clock {
    /// Reads both clocks several times if interrupted, and keeps the most accurate reading.
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
        // The clock was read between the other two readings.
        let error = (took.as_nanos() as u64).div_ceil(2);
        Clock { instant: before + took / 2, nanoseconds, error }
    }

    /// The error of this clock's times in nanoseconds, the same for all times. Two processes of one
    /// machine differ by at most the sum of their errors.
    pub fn error(&self) -> u64 {
        self.error
    }

    /// The time of an instant, before or after the clocks were read.
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

    /// Catches a clock that ignores the time between its two readings, which would shift the timelines
    /// of two processes. An interrupted clock that reports its error passes.
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
