//! When the application will call next, and what still fits in before.
//!
//! A registration stops every copy of the process, those within the device too (HiPC'22, section
//! IV-A). A checkpoint that comes meanwhile waits for the rest of it, which may be a hundred times
//! its own copy. But an adjoint computation calls at regular intervals: so the registrar keeps to
//! the lulls between the calls, one short registration after the other, and begins none that would
//! last into the next call. (The paper registers whenever its turn has come.)
//!
//! Where a registration is longer than any lull, the best moment is just after a call. Where calls
//! are irregular or have ceased, nothing is waited for; nor after many lulls that were all missed:
//! this only ever delays by a bounded time.
//!
//! An application that spends much of its time in calls waits for copies there. No moment is better
//! than another then: each registration costs what it lasts, and the earlier it comes the more
//! copies are faster for it. So nothing is put off, but that a call which waited for one registration
//! has a while for its copies before it waits for the next: no call waits for all of them.
//!
//! The first call of all cannot be expected. The second one tells the interval, and is waited for.

/// Weight of a new interval in the running means.
const NEW_WEIGHT: f64 = 0.25;
/// Calls may come this many mean deviations early.
const EARLY: f64 = 2.0;
/// After this many intervals without a call, none is expected any more.
const CALLS_CEASED: f64 = 2.0;
/// What does not fit in begins within this share of an interval after a call.
const JUST_AFTER: f64 = 0.1;
/// Calls that take more than this share of the time wait for copies: to copy into the device cache
/// takes a twentieth of what it takes to copy out of it.
const BUSY: f64 = 0.25;
/// A call that waited for one registration has this share of its duration for copies before the
/// next: so it takes five times its copies and one registration at the most. More of it puts off
/// what makes the copies of all later calls faster (`docs/model.md` has the figures).
const LEFT_TO_COPIES: f64 = 0.25;
/// Who has waited for a lull for so many intervals begins at any moment: who is late because the
/// processors are taken may find that every lull has begun without it.
const PATIENCE: f64 = 32.0;
/// Intervals longer than this, in seconds, are no pattern worth waiting for.
const LONGEST_INTERVAL: f64 = 1.0;
/// For so long, in seconds, the call after the first one is waited for. Less than the longest
/// interval, or calls just behind that would leave next to no time to register.
const SECOND_CALL: f64 = 0.5;

/// Expects the next call from the times of the last ones. Times are in seconds from any origin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    began: Option<f64>,
    ended: f64,
    calling: bool,
    interval: Option<f64>,
    deviation: f64,
    /// What a call takes that no registration kept waiting.
    call: f64,
    /// When the last one ended that kept the call under way waiting.
    stopped: Option<f64>,
}

impl Forecast {
    /// The application calls.
    pub fn call_begins(&mut self, now: f64) {
        if let Some(before) = self.began {
            let new = (now - before).max(0.0);
            match &mut self.interval {
                // Such a pause ends a phase; what comes after has its own rhythm.
                _ if new > LONGEST_INTERVAL => {
                    (self.interval, self.deviation, self.call) = (None, 0.0, 0.0);
                }
                None => self.interval = Some(new),
                Some(mean) => {
                    self.deviation += NEW_WEIGHT * ((new - *mean).abs() - self.deviation);
                    *mean += NEW_WEIGHT * (new - *mean);
                }
            }
        }
        self.began = Some(now);
        self.calling = true;
        self.stopped = None;
    }

    /// Work that would keep a call waiting has ended: what the call under way takes says nothing
    /// about its copies.
    pub fn blocking_work_ended(&mut self, now: f64) {
        self.stopped = self.calling.then_some(now);
    }

    /// The call has ended.
    pub fn call_ends(&mut self, now: f64) {
        if let (Some(began), true) = (self.began, self.calling && self.stopped.is_none()) {
            self.call += NEW_WEIGHT * (now - began - self.call);
        }
        self.ended = now;
        self.calling = false;
    }

    /// How long to put off work of `duration` that would keep a call waiting, and that was put off for
    /// `waited` already: 0 to begin now. Ask again after that time, or after the next call.
    pub fn delay(&self, now: f64, duration: f64, waited: f64) -> f64 {
        let Some(began) = self.began else {
            return 0.0;
        };
        // So much the call under way has for its copies.
        if let Some(left) = self.stopped.map(|stopped| stopped + LEFT_TO_COPIES * duration - now) {
            if self.calling && left > 0.0 {
                return left;
            }
        }
        let Some(interval) = self.interval else {
            return (began + SECOND_CALL - now).max(0.0);
        };
        if self.call > BUSY * interval || waited > PATIENCE * interval {
            return 0.0;
        }
        // From here on no call is expected; also the end of a call that takes unusually long.
        let ceased = began + CALLS_CEASED * interval;
        let next = began + interval - EARLY * self.deviation;
        let fits = !self.calling && now + duration <= next;
        let window = next - self.ended;
        let just_after = !self.calling && now - self.ended <= JUST_AFTER * interval;
        if fits || (duration > window && just_after) || now >= ceased {
            0.0
        } else {
            ceased - now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls every 20 ms, each of 0.1 ms; the last began at 0.2 s.
    fn regular() -> Forecast {
        let mut forecast = Forecast::default();
        for call in 0..=10 {
            forecast.call_begins(f64::from(call) * 0.02);
            forecast.call_ends(f64::from(call) * 0.02 + 0.0001);
        }
        forecast
    }

    #[test]
    fn what_fits_before_the_next_call_begins_at_once() {
        assert_eq!(regular().delay(0.201, 0.015, 0.0), 0.0);
        assert_eq!(regular().delay(0.216, 0.003, 0.0), 0.0);
    }

    #[test]
    fn what_would_last_into_the_next_call_waits_for_its_end() {
        let mut forecast = regular();
        let wait = forecast.delay(0.216, 0.006, 0.0);
        assert!(wait > 0.0);
        forecast.call_begins(0.22);
        assert!(forecast.delay(0.2201, 0.006, 0.0) > 0.0, "a call is under way");
        forecast.call_ends(0.2202);
        assert_eq!(forecast.delay(0.2202, 0.006, 0.0), 0.0);
    }

    #[test]
    fn what_fits_nowhere_begins_just_after_a_call() {
        assert_eq!(regular().delay(0.2005, 0.5, 0.0), 0.0);
        assert!(regular().delay(0.21, 0.5, 0.0) > 0.0);
    }

    #[test]
    fn nothing_is_waited_for_once_calls_have_ceased_and_never_for_longer() {
        assert_eq!(regular().delay(0.25, 0.5, 0.0), 0.0);
        let wait = regular().delay(0.21, 0.5, 0.0);
        assert!(wait <= 0.03 + 1e-9, "{wait}");
        assert_eq!(regular().delay(0.21 + wait, 0.5, 0.0), 0.0);
        assert_eq!(Forecast::default().delay(1.0, 0.5, 0.0), 0.0);
    }

    #[test]
    fn irregular_calls_are_expected_early() {
        let mut forecast = regular();
        for (call, late) in [0.0, 0.004, -0.004, 0.004, -0.004, 0.004].into_iter().enumerate() {
            let now = 0.22 + 0.02 * call as f64 + late;
            forecast.call_begins(now);
            forecast.call_ends(now + 0.0001);
        }
        // 4 ms after a call, 5 ms of work: at regular calls every 20 ms there is no question.
        assert_eq!(regular().delay(0.204, 0.005, 0.0), 0.0);
        assert!(forecast.delay(0.328, 0.005, 0.0) > 0.0, "{forecast:?}");
    }

    /// Catches a registrar that keeps to lulls where every call waits for a flush: it would register
    /// so little that flushes stay slow.
    #[test]
    fn nothing_is_put_off_where_calls_take_much_of_the_time() {
        let calls = |share: f64| {
            let mut forecast = Forecast::default();
            for call in 0..=20 {
                forecast.call_begins(f64::from(call) * 0.02);
                forecast.call_ends((f64::from(call) + share) * 0.02);
            }
            forecast
        };
        // 1 ms before the next call, 5 ms of work.
        assert!(calls(0.1).delay(0.419, 0.005, 0.0) > 0.0);
        assert_eq!(calls(0.6).delay(0.419, 0.005, 0.0), 0.0);
        let mut waits = calls(0.6);
        waits.call_begins(0.42);
        assert_eq!(waits.delay(0.421, 0.005, 0.0), 0.0, "nor while a call waits");
    }

    /// Catches a registrar that goes through all its chunks while one call waits, and one that leaves
    /// a call that waits for long nothing but its copies.
    #[test]
    fn between_two_registrations_a_call_has_time_for_its_copies() {
        let mut forecast = Forecast::default();
        for call in 0..=20 {
            forecast.call_begins(f64::from(call) * 0.02);
            forecast.call_ends((f64::from(call) + 0.6) * 0.02);
        }
        forecast.call_begins(0.42);
        assert_eq!(forecast.delay(0.421, 0.004, 0.0), 0.0);
        forecast.blocking_work_ended(0.425);
        assert!(forecast.delay(0.425, 0.004, 0.0) > 0.0);
        assert_eq!(forecast.delay(0.4261, 0.004, 0.0), 0.0);
        forecast.blocking_work_ended(0.43);
        forecast.call_ends(0.4305);
        assert_eq!(forecast.delay(0.4305, 0.004, 0.0), 0.0, "nobody waits any more");
    }

    /// Catches a registration that is begun between the first two calls: it may hit the second one,
    /// of which nothing is known, and one that waits for a second call for ever.
    #[test]
    fn the_second_call_is_waited_for() {
        let mut forecast = Forecast::default();
        assert_eq!(forecast.delay(0.0, 0.005, 0.0), 0.0, "the first cannot be expected");
        forecast.call_begins(0.1);
        assert!(forecast.delay(0.1, 0.005, 0.0) > 0.0);
        forecast.call_ends(0.101);
        let wait = forecast.delay(0.102, 0.005, 0.0);
        assert!(wait > 0.0 && wait <= SECOND_CALL, "{wait}");
        assert_eq!(forecast.delay(0.102 + wait, 0.005, 0.0), 0.0);
        forecast.call_begins(0.12);
        forecast.call_ends(0.121);
        assert_eq!(forecast.delay(0.122, 0.005, 0.0), 0.0);
    }

    /// Catches a single long call (the first one that finds no room, a registration that was begun
    /// too late) that ends all keeping to lulls.
    #[test]
    fn one_long_call_makes_no_busy_application() {
        let mut forecast = regular();
        forecast.call_begins(0.22);
        forecast.call_ends(0.235);
        forecast.call_begins(0.24);
        forecast.call_ends(0.2401);
        assert!(forecast.delay(0.259, 0.005, 0.0) > 0.0, "{forecast:?}");
    }

    /// Catches a registrar that takes calls which its own work keeps waiting for busy ones, and so
    /// does more of it.
    #[test]
    fn calls_that_the_work_itself_prolongs_make_no_busy_application() {
        let mut forecast = regular();
        for call in 0..10 {
            let began = 0.22 + 0.02 * f64::from(call);
            forecast.call_begins(began);
            forecast.blocking_work_ended(began + 0.014);
            forecast.call_ends(began + 0.015);
        }
        assert!(forecast.delay(0.419, 0.005, 0.0) > 0.0, "{forecast:?}");
    }

    #[test]
    fn a_long_pause_is_no_interval() {
        let mut forecast = regular();
        forecast.call_begins(100.0);
        forecast.call_ends(100.1);
        let wait = forecast.delay(100.15, 0.5, 0.0);
        assert!(wait <= SECOND_CALL, "{wait}");
        assert_eq!(forecast.delay(100.15 + wait, 0.5, 0.0), 0.0);
    }

    /// Catches work that every lull begins without: it asks a little late after each call, is longer
    /// than any lull, or fits only into a whole one, and so would wait as long as there are calls.
    #[test]
    fn who_is_late_for_every_lull_begins_some_time() {
        for duration in [0.5, 0.0195] {
            let mut forecast = regular();
            let (mut waited, mut calls) = (0.0, 0);
            while forecast.delay(0.2 + 0.02 * f64::from(calls) + 0.0025, duration, waited) > 0.0 {
                calls += 1;
                assert!(calls < 100, "{duration} s of work: no lull in {calls} calls");
                forecast.call_begins(0.2 + 0.02 * f64::from(calls));
                forecast.call_ends(0.2 + 0.02 * f64::from(calls) + 0.0001);
                waited += 0.02;
            }
        }
    }
}
