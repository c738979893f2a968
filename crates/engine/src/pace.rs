//! When background work may run: touching beside flushes, registering between the application's calls.
//!
//! Carries out what `policy::bandwidth` and `policy::idle_window` decide, and gives them the measurements.

use std::time::{Duration, Instant};

use os::sync::{Condvar, Mutex};
use policy::bandwidth::{BandwidthArbiter, Flush};
use policy::idle_window::Forecast;
use policy::touch::{Prediction, Touch, TouchMode, TouchModel};

#[derive(Debug)]
struct Now {
    pace: BandwidthArbiter,
    calls: Forecast,
    done: bool,
}

/// The shared state of touching and flushing.
#[derive(Debug)]
pub(crate) struct Pace {
    now: Mutex<Now>,
    changed: Condvar,
    origin: Instant,
}

/// The result of waiting for an idle window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleWindow {
    /// The idle window has begun.
    Now,
    /// There was no idle window within the time limit.
    TooLate,
    /// The engine stops.
    Never,
}

/// An active flush.
#[derive(Debug)]
pub struct Flushing<'a> {
    pace: &'a Pace,
    since: Instant,
    flush: Option<Flush>,
}

impl Pace {
    /// Follows this setting of touching.
    pub(crate) fn new(touch: Touch) -> Self {
        Pace {
            now: Mutex::new(Now {
                pace: BandwidthArbiter::new(touch),
                calls: Forecast::default(),
                done: false,
            }),
            changed: Condvar::new(),
            origin: Instant::now(),
        }
    }

    /// A copy of the model.
    pub(crate) fn model(&self) -> TouchModel {
        self.now.lock().pace.model().clone()
    }

    /// The application has just taken a checkpoint of `bytes`.
    pub(crate) fn captured(&self, bytes: u64) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().pace.checkpoint_captured(bytes, now);
    }

    /// The application begins a checkpoint call.
    pub(crate) fn checkpoint_begins(&self) {
        let at = self.origin.elapsed().as_secs_f64();
        let mut now = self.now.lock();
        now.pace.checkpoint_begins(at);
        now.calls.call_begins(at);
    }

    /// The application begins a restore call.
    pub(crate) fn restore_begins(&self) {
        let at = self.origin.elapsed().as_secs_f64();
        self.now.lock().calls.call_begins(at);
    }

    /// The checkpoint or restore call has ended.
    pub(crate) fn call_ends(&self) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().calls.call_ends(now);
        self.changed.notify_all();
    }

    /// Work after [`await_idle_window`](Self::await_idle_window) has ended.
    pub(crate) fn worked(&self) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().calls.blocking_work_ended(now);
    }

    /// Waits until work of about `seconds`, which would keep a call of the application waiting, can begin;
    /// for at most `at_most` seconds, if set. Adds the time to `waited`, for which the work was already
    /// delayed.
    pub(crate) fn await_idle_window(
        &self,
        seconds: f64,
        at_most: Option<f64>,
        waited: &mut f64,
    ) -> IdleWindow {
        let since = self.origin.elapsed().as_secs_f64();
        let window = self.find_idle_window(seconds, at_most, *waited);
        *waited += self.origin.elapsed().as_secs_f64() - since;
        window
    }

    fn find_idle_window(&self, seconds: f64, at_most: Option<f64>, waited: f64) -> IdleWindow {
        let since = self.origin.elapsed().as_secs_f64();
        let mut now = self.now.lock();
        loop {
            if now.done {
                return IdleWindow::Never;
            }
            let at = self.origin.elapsed().as_secs_f64();
            let mut wait = now.calls.delay(at, seconds, waited + at - since);
            if wait <= 0.0 {
                return IdleWindow::Now;
            }
            if let Some(at_most) = at_most {
                let left = since + at_most - at;
                if left <= 0.0 {
                    return IdleWindow::TooLate;
                }
                wait = wait.min(left);
            }
            now = self.changed.wait_for(now, Duration::from_secs_f64(wait));
        }
    }

    /// Waits for so long. False: the engine stops.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut now = self.now.lock();
        while !now.done {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            now = self.changed.wait_for(now, left);
        }
        false
    }

    /// A flush begins.
    pub(crate) fn flush(&self) -> Flushing<'_> {
        let flush = self.now.lock().pace.flush_begins();
        Flushing { pace: self, since: Instant::now(), flush: Some(flush) }
    }

    /// Waits until a unit may be touched. False: touching ends.
    pub(crate) fn may_touch(&self) -> bool {
        let mut now = self.now.lock();
        while !now.done && !now.pace.may_touch() {
            now = self.changed.wait(now);
        }
        if now.done {
            return false;
        }
        now.pace.touch_begins();
        true
    }

    /// A unit of `bytes` was touched, starting at `since`.
    pub(crate) fn touched(&self, bytes: u64, since: Instant) {
        self.now.lock().pace.touch_ends(bytes, since.elapsed().as_secs_f64());
    }

    /// All remaining units are being touched.
    pub(crate) fn all_touched(&self) {
        self.now.lock().pace.all_touched();
    }

    /// Ends all waits: everything is touched, or the engine stops.
    pub(crate) fn finish(&self) {
        self.now.lock().done = true;
        self.changed.notify_all();
    }
}

impl Flushing<'_> {
    /// The flush has moved `bytes`, `untouched` of them to new pages. Returns the mode of touching and its
    /// reason, if the mode has changed.
    pub fn finish(mut self, bytes: u64, untouched: u64) -> Option<(TouchMode, Prediction)> {
        let seconds = self.since.elapsed().as_secs_f64();
        let flush = self.flush.take()?;
        let mut now = self.pace.now.lock();
        let before = now.pace.model().mode();
        now.pace.flush_ends(flush, bytes, untouched, seconds);
        let model = now.pace.model();
        let mode = model.mode();
        let changed = if mode == before { None } else { model.prediction() };
        drop(now);
        self.pace.changed.notify_all();
        changed.map(|prediction| (mode, prediction))
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        if self.flush.take().is_some() {
            self.pace.now.lock().pace.flush_failed();
            self.pace.changed.notify_all();
        }
    }
}
