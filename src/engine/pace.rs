//! When background work may go on: touching beside flushes, registering between the
//! application's calls.
//!
//! Carries out what `policy::touch` and `policy::lull` decide, and tells them what was measured.

use std::time::{Duration, Instant};

use crate::policy::lull::Forecast;
use crate::policy::touch::{Mode, Model, Touch};
use crate::sync::{Condvar, Mutex};

#[derive(Debug)]
struct Now {
    model: Model,
    calls: Forecast,
    flushing: u32,
    touching: u32,
    done: bool,
}

/// The shared state of touching and flushing.
#[derive(Debug)]
pub struct Pace {
    now: Mutex<Now>,
    changed: Condvar,
    origin: Instant,
}

/// A flush under way.
#[derive(Debug)]
pub struct Flushing<'a> {
    pace: &'a Pace,
    since: Instant,
    beside_touch: bool,
    finished: bool,
}

impl Pace {
    /// Touching is to go by this setting.
    pub fn new(touch: Touch) -> Self {
        Pace {
            now: Mutex::new(Now {
                model: Model::new(touch),
                calls: Forecast::default(),
                flushing: 0,
                touching: 0,
                done: false,
            }),
            changed: Condvar::new(),
            origin: Instant::now(),
        }
    }

    /// A look at the model.
    pub fn model(&self) -> Model {
        self.now.lock().model.clone()
    }

    /// A checkpoint of so many bytes was taken now.
    pub fn captured(&self, bytes: u64) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().model.captured(bytes, now);
    }

    /// The application begins a checkpoint or a restore.
    pub fn call_begins(&self) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().calls.begins(now);
    }

    /// It ends.
    pub fn call_ends(&self) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().calls.ends(now);
        self.changed.notify_all();
    }

    /// Waits until work of about `seconds` can begin that would keep a call of the application
    /// waiting. False: the engine stops.
    pub fn await_lull(&self, seconds: f64) -> bool {
        let mut now = self.now.lock();
        loop {
            if now.done {
                return false;
            }
            let wait = now.calls.put_off(self.origin.elapsed().as_secs_f64(), seconds);
            if wait <= 0.0 {
                return true;
            }
            now = self.changed.wait_for(now, Duration::from_secs_f64(wait));
        }
    }

    /// A flush begins.
    pub fn flush(&self) -> Flushing<'_> {
        let mut now = self.now.lock();
        now.flushing += 1;
        let beside_touch = now.touching > 0 && now.model.mode() == Mode::Concurrent;
        Flushing { pace: self, since: Instant::now(), beside_touch, finished: false }
    }

    /// Waits until a unit may be touched. False: there is nothing more to touch.
    pub fn may_touch(&self) -> bool {
        let mut now = self.now.lock();
        while !now.done && now.flushing > 0 && now.model.mode() == Mode::Sequential {
            now = self.changed.wait(now);
        }
        if now.done {
            return false;
        }
        now.touching += 1;
        true
    }

    /// A unit was touched, since `since`.
    pub fn touched(&self, bytes: u64, since: Instant) {
        let mut now = self.now.lock();
        now.touching -= 1;
        let beside_flush = now.flushing > 0;
        now.model.touched(bytes, since.elapsed().as_secs_f64(), beside_flush);
    }

    /// Ends all waiting: everything is touched, or the engine stops.
    pub fn finish(&self) {
        self.now.lock().done = true;
        self.changed.notify_all();
    }
}

impl Flushing<'_> {
    /// The flush has moved `bytes`, `untouched` of them to pages that did not exist.
    pub fn finish(mut self, bytes: u64, untouched: u64) {
        self.finished = true;
        let seconds = self.since.elapsed().as_secs_f64();
        let mut now = self.pace.now.lock();
        now.flushing -= 1;
        let beside_touch = self.beside_touch || now.touching > 0;
        now.model.flushed(bytes, untouched, seconds, beside_touch);
        drop(now);
        self.pace.changed.notify_all();
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.pace.now.lock().flushing -= 1;
            self.pace.changed.notify_all();
        }
    }
}
