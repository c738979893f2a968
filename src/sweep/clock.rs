//! When to look at the time, and whether to stop.
//!
//! Steps may take microseconds or minutes, so the time is looked at after a number of steps that
//! follows their pace. Several processes agree on that number, and on a stop, when they meet
//! ([`meetings`](super::meetings)), which is at each look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// About how long it takes from look to look.
const LOOK: Duration = Duration::from_millis(50);
/// The most steps from look to look.
const MOST: u64 = 1 << 32;

/// The time of a run.
#[derive(Debug)]
pub struct Clock<'a> {
    since: Instant,
    limit: Option<Duration>,
    asked: &'a AtomicBool,
    last: Instant,
    /// From look to look.
    interval: u64,
    /// Until the next one.
    left: u64,
}

/// What a look shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The time is over, or the run was asked to stop.
    pub stop: bool,
    /// After how many steps this process would look again.
    pub interval: u64,
}

impl<'a> Clock<'a> {
    /// From `since` on, to stop after `limit` or when `asked`.
    pub fn new(since: Instant, limit: Option<Duration>, asked: &'a AtomicBool) -> Clock<'a> {
        Clock { since, limit, asked, last: Instant::now(), interval: 1, left: 1 }
    }

    /// How many steps may be computed before the next look, at least 1.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// So many steps were computed. A look, if it is time for one; `alone`, also when the run was asked
    /// to stop.
    pub fn passed(&mut self, steps: u64, alone: bool) -> Option<Look> {
        self.left = self.left.saturating_sub(steps);
        let asked = self.asked.load(Ordering::Relaxed);
        if self.left > 0 && !(asked && alone) {
            return None;
        }
        let now = Instant::now();
        let stop = asked || self.limit.is_some_and(|limit| now.duration_since(self.since) >= limit);
        let took = now.duration_since(std::mem::replace(&mut self.last, now));
        Some(Look { stop, interval: paced(self.interval, took) })
    }

    /// The run cannot stop as it was asked to: it is not asked any more.
    pub fn decline(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Looks again after so many steps; `None`: after as many as before.
    pub fn set(&mut self, interval: Option<u64>) {
        self.interval = interval.unwrap_or(self.interval);
        self.left = self.interval;
    }
}

/// The number of steps to the next look, if so many have taken so long.
fn paced(interval: u64, took: Duration) -> u64 {
    if took < LOOK / 2 {
        (interval * 2).min(MOST)
    } else if took > LOOK {
        (interval / 2).max(1)
    } else {
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a limit that is never looked at again, and one that is looked at after each step.
    #[test]
    fn looks_follow_the_pace() {
        for micros in [1_u64, 900, 40_000, 10_000_000] {
            let mut interval = 1;
            for _ in 0..60 {
                interval = paced(interval, Duration::from_micros(micros) * interval as u32);
            }
            let took = Duration::from_micros(micros) * interval as u32;
            assert!(interval == 1 || (LOOK / 2..=LOOK * 2).contains(&took), "{micros}: {took:?}");
        }
        assert_eq!(paced(MOST, Duration::ZERO), MOST);
    }

    #[test]
    fn a_run_stops_when_it_is_asked_to_or_its_time_is_over() {
        let asked = AtomicBool::new(false);
        let mut clock = Clock::new(Instant::now(), None, &asked);
        let look = clock.passed(1, true).unwrap();
        assert!(!look.stop && look.interval > 1);
        clock.set(Some(look.interval));
        assert!(clock.left() > 1 && clock.passed(1, true).is_none());
        asked.store(true, Ordering::Relaxed);
        // Several processes stop at a look that is one for all.
        assert!(clock.left() == 1 || clock.passed(1, false).is_none());
        assert!(clock.passed(0, true).unwrap().stop);
        asked.store(false, Ordering::Relaxed);
        let mut clock = Clock::new(Instant::now(), Some(Duration::ZERO), &asked);
        assert!(clock.passed(1, true).unwrap().stop);
        clock.set(None);
        assert_eq!(clock.left(), 1);
    }
}
