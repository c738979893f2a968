//! Predicts the idle windows between checkpoint calls, and delays blocking work to fit into them.
//!
//! A registration blocks every copy of the process, even copies within the device (HiPC'22, section
//! IV-A). A checkpoint that arrives meanwhile waits for the rest of it, which may take a hundred times
//! as long as its own copy. Adjoint computations call at regular intervals, so the registrar works in
//! the windows between the calls and starts no registration that would last into the next call. (The
//! paper registers as soon as a process holds the node lock.)
//!
//! If a registration is longer than any window, it starts right after a call. If calls are irregular,
//! have ceased, or many windows were missed, it starts at once: the total delay is bounded.
//!
//! An application that spends much of its time in calls waits for copies there, so no moment is better
//! than another, and early registration speeds up more copies. Then nothing is delayed, except that a
//! call which waited for one registration gets some time for its copies before the next one.
//!
//! The first call cannot be predicted. The second call gives the interval, so registration waits for it.

/// Weight of a new interval in the running means.
const NEW_WEIGHT: f64 = 0.25;
/// Calls may come this many mean deviations early.
const EARLY: f64 = 2.0;
/// After this many intervals without a call, no further call is expected.
const CALLS_CEASED: f64 = 2.0;
/// Work that fits into no window starts within this share of an interval after a call.
const JUST_AFTER: f64 = 0.1;
/// If calls take more than this share of the time, they wait for copies: a copy into the device cache
/// takes a twentieth of the time of a copy out of it.
const BUSY: f64 = 0.25;
/// A call that waited for a registration gets this share of the registration's duration for its copies
/// before the next one. So a call takes at most five times its copies and one registration. A larger
/// share would delay the registrations that speed up later copies (figures in `docs/model.md`).
const LEFT_TO_COPIES: f64 = 0.25;
/// After waiting this many intervals, work starts at any time: on a loaded machine it might miss every
/// window.
const PATIENCE: f64 = 32.0;
/// Intervals longer than this, in seconds, are treated as a new phase.
const LONGEST_INTERVAL: f64 = 1.0;
/// How long to wait, in seconds, for the second call. It is less than the longest interval, so that
/// calls at nearly that interval leave time to register.
const SECOND_CALL: f64 = 0.5;

/// Predicts the next call from the times of past calls. Times are in seconds from any origin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    began: Option<f64>,
    ended: f64,
    calling: bool,
    interval: Option<f64>,
    deviation: f64,
    /// Mean duration of a call that no registration blocked.
    call: f64,
    /// When the last work ended that blocked the current call.
    stopped: Option<f64>,
}

impl Forecast {
    /// The application's call begins at `now`.
    pub fn call_begins(&mut self, now: f64) {
        if let Some(before) = self.began {
            let new = (now - before).max(0.0);
            match &mut self.interval {
                // A long pause ends a phase; the next one has its own interval.
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

    /// Blocking work has ended at `now`. The duration of the current call then says nothing about its
    /// copies.
    pub fn blocking_work_ended(&mut self, now: f64) {
        self.stopped = self.calling.then_some(now);
    }

    /// The call ends at `now`.
    pub fn call_ends(&mut self, now: f64) {
        if let (Some(began), true) = (self.began, self.calling && self.stopped.is_none()) {
            self.call += NEW_WEIGHT * (now - began - self.call);
        }
        self.ended = now;
        self.calling = false;
    }

    /// How many seconds to delay blocking work of `duration`, which was already delayed for `waited`; 0:
    /// start now. Ask again after that time, or after the next call.
    pub fn delay(&self, now: f64, duration: f64, waited: f64) -> f64 {
        let Some(began) = self.began else {
            return 0.0;
        };
        // The current call gets this much time for its copies.
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
        // From here on no call is expected; a call that takes unusually long counts as ended.
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
        // Regular calls every 20 ms leave room for 5 ms of work 4 ms after a call.
        assert_eq!(regular().delay(0.204, 0.005, 0.0), 0.0);
        assert!(forecast.delay(0.328, 0.005, 0.0) > 0.0, "{forecast:?}");
    }

    /// Catches a registrar that waits for idle windows where every call waits for a flush: it would
    /// register so little that flushes stay slow.
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
        // 5 ms of work, 1 ms before the next call.
        assert!(calls(0.1).delay(0.419, 0.005, 0.0) > 0.0);
        assert_eq!(calls(0.6).delay(0.419, 0.005, 0.0), 0.0);
        let mut waits = calls(0.6);
        waits.call_begins(0.42);
        assert_eq!(waits.delay(0.421, 0.005, 0.0), 0.0, "nor while a call waits");
    }

    /// Catches a registrar that registers all its chunks while one call waits.
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

    /// Catches a registration between the first two calls, which may block the second, and one that
    /// waits for a second call for ever.
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

    /// Catches a single long call (the first one that finds no room, or one blocked by a registration)
    /// that turns the idle windows off.
    #[test]
    fn one_long_call_makes_no_busy_application() {
        let mut forecast = regular();
        forecast.call_begins(0.22);
        forecast.call_ends(0.235);
        forecast.call_begins(0.24);
        forecast.call_ends(0.2401);
        assert!(forecast.delay(0.259, 0.005, 0.0) > 0.0, "{forecast:?}");
    }

    /// Catches a registrar that counts calls blocked by its own work as busy, and so works even more.
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

    /// Catches work that misses every window (it asks a little late, is longer than any window, or fits
    /// exactly) and so waits for as long as there are calls.
    #[test]
    fn a_registrar_that_misses_every_window_starts_some_time() {
        for duration in [0.5, 0.0195] {
            let mut forecast = regular();
            let (mut waited, mut calls) = (0.0, 0);
            while forecast.delay(0.2 + 0.02 * f64::from(calls) + 0.0025, duration, waited) > 0.0 {
                calls += 1;
                assert!(calls < 100, "{duration} s of work: no idle window in {calls} calls");
                forecast.call_begins(0.2 + 0.02 * f64::from(calls));
                forecast.call_ends(0.2 + 0.02 * f64::from(calls) + 0.0001);
                waited += 0.02;
            }
        }
    }
}
