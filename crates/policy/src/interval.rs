//! Which checkpoints are copied to persistent storage (`persistent_interval`), and which of an earlier
//! job's scratch files still have to be (the persist backlog).

use std::time::{Duration, SystemTime};

/// Selects at most one checkpoint in each interval. The first interval begins with the job, as in
/// upstream VELOC.
#[derive(Clone, Debug)]
pub struct Interval {
    /// `None`: no checkpoint is selected; 0: every one.
    length: Option<Duration>,
    /// When the next checkpoint may be selected, as time since the job began.
    next: Duration,
}

impl Interval {
    /// An interval of `seconds`; 0: every checkpoint, `None`: none.
    pub fn new(seconds: Option<u64>) -> Interval {
        let length = seconds.map(Duration::from_secs);
        Interval { length, next: length.unwrap_or_default() }
    }

    /// Whether the selection depends on time.
    pub fn depends_on_time(&self) -> bool {
        self.length.is_some_and(|length| !length.is_zero())
    }

    /// Whether a checkpoint taken `now` (time since the job began) is selected.
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

/// A version that an earlier job left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftVersion {
    /// About when it was taken.
    pub taken: SystemTime,
    /// Its version.
    pub version: i32,
    /// Whether it has a persistent copy.
    pub persistent: bool,
}

/// The versions that should have a persistent copy but have none, newest first: one per interval of
/// `seconds` (0: each; `None`: none), judged by the times of their files, and none older than the
/// `limit` newest that persistent storage keeps (0: all).
pub fn persist_backlog(seconds: Option<u64>, limit: usize, mut left: Vec<LeftVersion>) -> Vec<i32> {
    let Some(interval) = seconds.map(Duration::from_secs) else {
        return Vec::new();
    };
    left.sort_unstable();
    // The first interval begins with the oldest version that is left.
    let mut last = left.first().map(|first| first.taken).filter(|_| !interval.is_zero());
    let mut kept = Vec::new();
    for one in left {
        let due = last.is_none_or(|last| one.taken >= last + interval);
        if one.persistent || due {
            kept.push(one);
            last = Some(one.taken);
        }
    }
    let too_many = if limit == 0 { 0 } else { kept.len().saturating_sub(limit) };
    kept[too_many..].iter().rev().filter(|one| !one.persistent).map(|one| one.version).collect()
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

    /// Catches copies that nobody asked for, and copies that would be removed at once.
    #[test]
    fn what_earlier_jobs_owe() {
        let backlog = |seconds, limit, left: &[(u64, i32, bool)]| {
            let one = |&(taken, version, persistent): &(u64, i32, bool)| LeftVersion {
                taken: SystemTime::UNIX_EPOCH + Duration::from_secs(taken),
                version,
                persistent,
            };
            super::persist_backlog(seconds, limit, left.iter().map(one).collect())
        };
        // In the order in which they were taken, after a rollback.
        let left = [(0, 7, true), (10, 8, false), (20, 5, true), (30, 6, false), (40, 9, false)];
        assert_eq!(backlog(Some(0), 0, &left), [9, 6, 8]);
        assert_eq!(backlog(None, 0, &left), [0; 0]);
        assert_eq!(backlog(Some(0), 3, &left), [9, 6]);
        assert_eq!(backlog(Some(0), 1, &left), [9]);
        assert_eq!(backlog(Some(20), 0, &left), [9]);
        assert_eq!(backlog(Some(5), 0, &left), [9, 6, 8]);
        assert_eq!(backlog(Some(50), 0, &left), [0; 0]);
        let nothing = [(0, 1, false), (10, 2, false), (20, 3, false)];
        assert_eq!(
            backlog(Some(10), 0, &nothing),
            [3, 2],
            "the first interval begins with the first"
        );
        assert_eq!(backlog(Some(0), 2, &nothing), [3, 2]);
    }
}
