//! When to look at the time, and to stop: all processes at the same step.
//!
//! Steps may take microseconds or minutes, so the time is looked at after a number of steps that
//! follows their pace. With several processes, each look tells the others whether to stop and after
//! how many steps to look again, and takes what was told at the look before, which everybody is past:
//! the processes wait for no more than one another's last look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::mpi::{Comm, Pending};

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
    channel: Option<Comm>,
    posted: Option<Pending>,
    last: Instant,
    /// From look to look.
    interval: u64,
    /// Until the next one.
    left: u64,
}

impl<'a> Clock<'a> {
    /// From `since` on, to stop after `limit` or when `asked`.
    pub fn new(
        since: Instant,
        limit: Option<Duration>,
        asked: &'a AtomicBool,
        channel: Option<Comm>,
    ) -> Clock<'a> {
        let last = Instant::now();
        Clock { since, limit, asked, channel, posted: None, last, interval: 1, left: 1 }
    }

    /// How many steps may be computed before the next look, at least 1.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// So many steps were computed. Whether to stop now.
    pub fn passed(&mut self, steps: u64) -> Result<bool> {
        self.left = self.left.saturating_sub(steps);
        let asked = self.asked.load(Ordering::Relaxed);
        // Alone, it need not wait for a look at the time.
        if self.left > 0 && !(asked && self.channel.is_none()) {
            return Ok(false);
        }
        let now = Instant::now();
        let stop = asked || self.limit.is_some_and(|limit| now.duration_since(self.since) >= limit);
        let wanted =
            paced(self.interval, now.duration_since(std::mem::replace(&mut self.last, now)));
        let (stop, interval) = match &self.channel {
            None => (stop, wanted),
            Some(channel) => {
                let (stop_now, interval) = match self.posted.take() {
                    Some(mut before) => decided(before.wait()?.as_deref(), self.interval),
                    None => (false, self.interval),
                };
                if !stop_now {
                    // Both numbers are small enough.
                    let mine = [i64::from(!stop), wanted as i64];
                    self.posted = Some(channel.begin_least(&mine)?);
                }
                (stop_now, interval)
            }
        };
        (self.interval, self.left) = (interval, interval);
        Ok(stop)
    }

    /// Ends what the processes tell each other. Collective.
    pub fn conclude(&mut self) -> Result<()> {
        self.posted.take().map_or(Ok(()), |mut pending| pending.wait().map(|_| ()))?;
        self.channel.take().map_or(Ok(()), Comm::free)
    }
}

/// What the processes have decided: whether to stop, and how many steps to the next look.
fn decided(least: Option<&[i64]>, interval: u64) -> (bool, u64) {
    match least {
        Some([go_on, wanted]) => (*go_on == 0, u64::try_from(*wanted).unwrap_or(1).max(1)),
        _ => (false, interval),
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
        let mut clock = Clock::new(Instant::now(), None, &asked, None);
        assert!(!clock.passed(1).unwrap());
        assert!(clock.left() > 1 && !clock.passed(1).unwrap());
        asked.store(true, Ordering::Relaxed);
        assert!(clock.passed(1).unwrap());
        asked.store(false, Ordering::Relaxed);
        let mut clock = Clock::new(Instant::now(), Some(Duration::ZERO), &asked, None);
        assert!(clock.passed(1).unwrap());
        assert_eq!(decided(Some(&[0, 7]), 3), (true, 7));
        assert_eq!(decided(Some(&[1, 7]), 3), (false, 7));
        assert_eq!(decided(None, 3), (false, 3));
    }
}
