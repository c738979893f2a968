//! Carries out what `policy::pace` decides: threads that touch wait here, and the clock is here.

use std::time::Instant;

use crate::policy::pace::{self, Flush};
use crate::policy::touch::{Model, Touch};
use crate::sync::{Condvar, Mutex};

#[derive(Debug)]
struct Now {
    pace: pace::Pace,
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
    flush: Option<Flush>,
}

impl Pace {
    /// Touching is to go by this setting.
    pub fn new(touch: Touch) -> Self {
        Pace {
            now: Mutex::new(Now { pace: pace::Pace::new(touch), done: false }),
            changed: Condvar::new(),
            origin: Instant::now(),
        }
    }

    /// A look at the model.
    pub fn model(&self) -> Model {
        self.now.lock().pace.model().clone()
    }

    /// The application asks for a checkpoint now.
    pub fn begun(&self) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().pace.begun(now);
    }

    /// A checkpoint of so many bytes was taken now.
    pub fn captured(&self, bytes: u64) {
        let now = self.origin.elapsed().as_secs_f64();
        self.now.lock().pace.captured(bytes, now);
    }

    /// A flush begins.
    pub fn flush(&self) -> Flushing<'_> {
        let flush = self.now.lock().pace.flush();
        Flushing { pace: self, since: Instant::now(), flush: Some(flush) }
    }

    /// Waits until a unit may be touched. False: there is nothing more to touch.
    pub fn may_touch(&self) -> bool {
        let mut now = self.now.lock();
        while !now.done && !now.pace.may_touch() {
            now = self.changed.wait(now);
        }
        if now.done {
            return false;
        }
        now.pace.touch();
        true
    }

    /// A unit was touched, since `since`.
    pub fn touched(&self, bytes: u64, since: Instant) {
        self.now.lock().pace.touched(bytes, since.elapsed().as_secs_f64());
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
        let seconds = self.since.elapsed().as_secs_f64();
        if let Some(flush) = self.flush.take() {
            self.pace.now.lock().pace.flushed(flush, bytes, untouched, seconds);
        }
        self.pace.changed.notify_all();
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
