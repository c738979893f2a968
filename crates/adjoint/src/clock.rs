//! When to check the time, and whether to stop.
//!
//! Steps may take microseconds or minutes, so the time is checked after a number of steps that follows
//! their pace. Several processes agree on that number and on a stop at each check
//! ([`progress_exchange`](super::progress_exchange)).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The aimed time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The most steps between two checks.
const LONGEST_INTERVAL: u64 = 1 << 32;

/// The clock of a run.
#[derive(Debug)]
pub(crate) struct RunClock<'a> {
    since: Instant,
    limit: Option<Duration>,
    asked: &'a AtomicBool,
    last: Instant,
    /// No check was made yet.
    first: bool,
    /// Steps from check to check.
    interval: u64,
    /// Steps until the next check.
    left: u64,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeCheck {
    /// The time limit is reached, or the run was asked to stop.
    pub stop: bool,
    /// After how many steps this process wants the next check.
    pub interval: u64,
}

impl<'a> RunClock<'a> {
    /// A clock that starts at `since`, and stops after `limit` or when `asked`.
    pub(crate) fn new(
        since: Instant,
        limit: Option<Duration>,
        asked: &'a AtomicBool,
    ) -> RunClock<'a> {
        let (last, first) = (Instant::now(), true);
        RunClock { since, limit, asked, last, first, interval: 1, left: 1 }
    }

    /// How many steps may be computed before the next check, at least 1.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Counts computed steps. Returns a check if one is due or, for a process `alone`, if the run was
    /// asked to stop.
    pub(crate) fn after_steps(&mut self, steps: u64, alone: bool) -> Option<TimeCheck> {
        self.left = self.left.saturating_sub(steps);
        let asked = self.asked.load(Ordering::Relaxed);
        if self.left > 0 && !(asked && alone) {
            return None;
        }
        let now = Instant::now();
        let over = self.limit.filter(|limit| now.duration_since(self.since) >= *limit);
        if let Some(limit) = over.filter(|_| std::mem::replace(&mut self.first, false)) {
            let begun = self.last.duration_since(self.since);
            log::warn!("{}", too_short(limit, begun, now.duration_since(self.last)));
        }
        self.first = false;
        let stop = asked || over.is_some();
        let took = now.duration_since(std::mem::replace(&mut self.last, now));
        Some(TimeCheck { stop, interval: paced(self.interval, took) })
    }

    /// Withdraws the request to stop, which cannot be met.
    pub(crate) fn cancel_stop(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Sets the steps until the next check.
    pub(crate) fn set_interval(&mut self, interval: u64) {
        (self.interval, self.left) = (interval, interval);
    }
}

/// The warning for a time limit that is exceeded by the first step.
fn too_short(limit: Duration, before: Duration, step: Duration) -> String {
    let [limit, before, step] = [limit, before, step].map(|time| time.as_secs_f64());
    format!(
        "time_limit = {limit} s was over after one step, which began {before:.3} s after the call and took {step:.3} \
         s: each job with this limit computes only one step"
    )
}

/// The steps to the next check, if the last `interval` steps took `took`.
fn paced(interval: u64, took: Duration) -> u64 {
    if took < CHECK_INTERVAL / 2 {
        (interval * 2).min(LONGEST_INTERVAL)
    } else if took > CHECK_INTERVAL {
        (interval / 2).max(1)
    } else {
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a clock that stops checking, and one that checks after each step.
    #[test]
    fn looks_follow_the_pace() {
        for micros in [1_u64, 900, 40_000, 10_000_000] {
            let mut interval = 1;
            for _ in 0..60 {
                interval = paced(interval, Duration::from_micros(micros) * interval as u32);
            }
            let took = Duration::from_micros(micros) * interval as u32;
            assert!(
                interval == 1 || (CHECK_INTERVAL / 2..=CHECK_INTERVAL * 2).contains(&took),
                "{micros}: {took:?}"
            );
        }
        assert_eq!(paced(LONGEST_INTERVAL, Duration::ZERO), LONGEST_INTERVAL);
    }

    #[test]
    fn a_run_stops_when_it_is_asked_to_or_its_time_is_over() {
        let asked = AtomicBool::new(false);
        let mut clock = RunClock::new(Instant::now(), None, &asked);
        // More than one step also where they have taken long.
        clock.set_interval(8);
        let check = clock.after_steps(8, true).unwrap();
        assert!(!check.stop && check.interval > 1);
        clock.set_interval(check.interval);
        assert!(clock.left() > 1 && clock.after_steps(1, true).is_none());
        asked.store(true, Ordering::Relaxed);
        // Several processes stop only at a common check.
        assert!(clock.left() == 1 || clock.after_steps(1, false).is_none());
        assert!(clock.after_steps(0, true).unwrap().stop);
        asked.store(false, Ordering::Relaxed);
        let mut clock = RunClock::new(Instant::now(), Some(Duration::ZERO), &asked);
        assert!(clock.after_steps(1, true).unwrap().stop);
        clock.set_interval(1);
        assert_eq!(clock.left(), 1);
        let text =
            too_short(Duration::from_millis(20), Duration::ZERO, Duration::from_millis(1500));
        let words = "time_limit = 0.02 s was over after one step, which began 0.000 s after the call and took 1.500 s";
        assert!(text.contains(words), "{text}");
    }
}
