//! Which checkpoints are copied to persistent, if not each (`persistent_interval`).

use std::time::Duration;

/// Lets one checkpoint pass, at most, in each interval. The first begins with the job, as upstream
/// has it.
#[derive(Clone, Debug)]
pub struct Interval {
    /// `None`: nothing passes; 0: everything.
    length: Option<Duration>,
    /// When the next one may pass, as time since the job began.
    next: Duration,
}

impl Interval {
    /// Of so many seconds; 0: everything passes, `None`: nothing does.
    pub fn new(seconds: Option<u64>) -> Interval {
        let length = seconds.map(Duration::from_secs);
        Interval { length, next: length.unwrap_or_default() }
    }

    /// Whether time matters at all.
    pub fn depends_on_time(&self) -> bool {
        self.length.is_some_and(|length| !length.is_zero())
    }

    /// Whether a checkpoint passes that is taken `now`, as time since the job began.
    pub fn passes(&mut self, now: Duration) -> bool {
        let Some(length) = self.length else {
            return false;
        };
        let passes = now >= self.next;
        if passes {
            self.next = now + length;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_each_interval() {
        let at = |interval: &mut Interval, seconds: f64| {
            interval.passes(Duration::from_secs_f64(seconds))
        };
        let mut every = Interval::new(Some(10));
        let passed: Vec<bool> =
            [0.0, 9.9, 10.0, 10.1, 19.9, 20.0, 47.0, 56.9, 57.0].map(|t| at(&mut every, t)).into();
        assert_eq!(passed, [false, false, true, false, false, true, true, false, true]);
        let mut all = Interval::new(Some(0));
        assert!(at(&mut all, 0.0) && at(&mut all, 0.0) && !all.depends_on_time());
        let mut none = Interval::new(None);
        assert!(!at(&mut none, 1e6) && !none.depends_on_time());
    }
}
