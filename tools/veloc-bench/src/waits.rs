//! Why the application waited, call by call: the waits that an approach tells, and the account of
//! the measuring process, in which the causes of each call add up to the time that the call took.

use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use trace::metrics::{self, CAUSES};

use super::results::{CallKind, CauseWait};

/// Waiting for pages to be locked for the driver: all of a buffer before the first checkpoint, or a
/// registration that stands in a copy's way. With the paper's baselines this includes touching.
pub(super) const PIN: &str = "pin";
/// Waiting for managed memory to be allocated.
pub(super) const ALLOCATE: &str = "allocate";
/// Waiting for the processor to copy between pinned memory and the place where bytes stay; the
/// first time, the system makes their pages meanwhile.
pub(super) const HOST_COPY: &str = "host copy";
/// Waiting for a copy into or out of managed memory, and for the pages that the driver moves or
/// makes for it. Nobody is told how much of the time is which.
pub(super) const MANAGED_COPY: &str = "copy + page moves";
/// Waiting for the driver to take an order to move pages.
pub(super) const PAGE_MOVES: &str = "page moves";
/// The rest of initialisation, before the first checkpoint.
pub(crate) const INIT: &str = "initialisation";
/// The rest of a call: the approach's own work, and time that no other cause covers.
pub(super) const REST: &str = "rest of the call";

/// Causes beside those of the library, in the order of tables.
const MORE: [&str; 7] = [PIN, ALLOCATE, HOST_COPY, MANAGED_COPY, PAGE_MOVES, INIT, REST];

/// The name in results of a cause of the library, which means the same with every approach.
pub(super) fn name(cause: metrics::Cause) -> &'static str {
    CAUSES[cause as usize].1
}

/// The place of a cause in tables and legends: first the library's, then the others, then the rest.
pub(super) fn order(name: &str) -> usize {
    let all = CAUSES.iter().map(|(_, name)| *name).chain(MORE);
    all.take_while(|known| *known != name).count()
}

/// Waiting time by cause, since the approach was started. No two intervals overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingTimes(Vec<Wait>);

/// The sum of one cause.
#[derive(Clone, Copy, Debug)]
struct Wait {
    cause: &'static str,
    time: Duration,
    count: u64,
}

impl WaitingTimes {
    pub(super) fn add(&mut self, cause: &'static str, time: Duration, count: u64) {
        match self.0.iter_mut().find(|known| known.cause == cause) {
            Some(known) => {
                known.time += time;
                known.count += count;
            }
            None => self.0.push(Wait { cause, time, count }),
        }
    }

    /// Adds one wait that ends now, and returns how long it was.
    pub(super) fn since(&mut self, cause: &'static str, since: Instant) -> Duration {
        let time = since.elapsed();
        self.add(cause, time, 1);
        time
    }

    fn of(&self, cause: &str) -> (Duration, u64) {
        let found = self.0.iter().find(|wait| wait.cause == cause);
        found.map_or((Duration::ZERO, 0), |wait| (wait.time, wait.count))
    }
}

/// The causes of all calls so far.
#[derive(Debug, Default)]
pub(super) struct Account {
    before: WaitingTimes,
    calls: Vec<(CallKind, WaitingTimes)>,
}

impl Account {
    /// Adds a call that has kept the application for `took`; `now` are the waits that its approach
    /// tells after it. Time without a cause of the approach is [`INIT`] or [`REST`], so that the
    /// causes add up to `took`.
    ///
    /// # Errors
    /// The causes come to more than the call took: some time was counted twice.
    pub(super) fn call(&mut self, call: CallKind, took: Duration, now: WaitingTimes) -> Result<()> {
        let mut told = WaitingTimes::default();
        for wait in &now.0 {
            let (time, count) = self.before.of(wait.cause);
            told.add(
                wait.cause,
                wait.time.saturating_sub(time),
                wait.count - count.min(wait.count),
            );
        }
        let sum: Duration = told.0.iter().map(|wait| wait.time).sum();
        ensure!(
            sum <= took,
            "the causes of waiting come to {sum:?}, and the call took {took:?}: {:?}",
            told.0
        );
        let left = if call == CallKind::Init { INIT } else { REST };
        told.add(left, took - sum, 1);
        let at = self.calls.iter().position(|(known, _)| *known == call).unwrap_or_else(|| {
            self.calls.push((call, WaitingTimes::default()));
            self.calls.len() - 1
        });
        for wait in told.0.iter().filter(|wait| wait.count > 0) {
            self.calls[at].1.add(wait.cause, wait.time, wait.count);
        }
        self.before = now;
        Ok(())
    }

    /// The causes in the form of results.
    pub(super) fn causes(&self) -> Vec<CauseWait> {
        let mut causes = Vec::new();
        for (call, waits) in &self.calls {
            let mut waits: Vec<&Wait> = waits.0.iter().collect();
            waits.sort_by_key(|wait| order(wait.cause));
            causes.extend(waits.into_iter().map(|wait| CauseWait {
                name: wait.cause.to_owned(),
                call: *call,
                seconds: wait.time.as_secs_f64(),
                count: wait.count,
            }));
        }
        causes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 4] = ["copy", "device room", PIN, HOST_COPY];

    proptest! {
        /// Catches a cause that is counted again in the next call, one that is lost, and a rest
        /// that is not the difference: whatever calls there are, and whatever they tell.
        #[test]
        fn the_causes_of_each_kind_of_call_add_up_to_its_time(
            calls in proptest::collection::vec(
                (0..3usize, proptest::collection::vec((0..4usize, 0..2_000_000u64), 0..5), 0..500u64),
                1..40,
            ),
        ) {
            let kinds = [CallKind::Init, CallKind::Checkpoint, CallKind::Restore];
            let (mut account, mut waits) = (Account::default(), WaitingTimes::default());
            let mut took = [Duration::ZERO; 3];
            for (kind, told, rest) in calls {
                let mut time = Duration::from_nanos(rest);
                for (cause, nanoseconds) in told {
                    waits.add(NAMES[cause], Duration::from_nanos(nanoseconds), 1);
                    time += Duration::from_nanos(nanoseconds);
                }
                account.call(kinds[kind], time, waits.clone()).unwrap();
                took[kind] += time;
            }
            for (kind, took) in kinds.into_iter().zip(took) {
                let of = |(_, waits): &(CallKind, WaitingTimes)| waits.0.iter().map(|w| w.time).sum::<Duration>();
                let sum: Duration = account.calls.iter().filter(|(k, _)| *k == kind).map(of).sum();
                prop_assert_eq!(sum, took);
            }
        }
    }

    #[test]
    fn time_that_is_counted_twice_is_an_error() {
        let (mut account, mut waits) = (Account::default(), WaitingTimes::default());
        waits.add("copy", Duration::from_millis(3), 1);
        account.call(CallKind::Checkpoint, Duration::from_millis(3), waits.clone()).unwrap();
        waits.add("copy", Duration::from_millis(2), 1);
        waits.add("fetch", Duration::from_millis(2), 1);
        let error = account.call(CallKind::Restore, Duration::from_millis(3), waits).unwrap_err();
        assert!(error.to_string().contains("4ms, and the call took 3ms"), "{error}");
    }

    #[test]
    fn what_is_left_comes_last_and_each_name_has_a_place() {
        let mut places: Vec<usize> =
            CAUSES.iter().map(|(_, name)| *name).chain(MORE).map(order).collect();
        assert_eq!(places.pop(), Some(CAUSES.len() + MORE.len() - 1), "{REST}");
        assert!(places.windows(2).all(|two| two[0] < two[1]), "{places:?}");
        assert_eq!(order("of another version"), CAUSES.len() + MORE.len());
    }
}
