//! What a job tells of itself: its counters, its timeline, and what it warned of.

use std::collections::HashSet;

use device::kinds;
use os::sync::Mutex;
use trace::metrics::Metrics;
use trace::Recorder;

/// What a job tells of itself.
#[derive(Debug)]
pub struct Telemetry {
    pub(crate) metrics: Metrics,
    /// The timeline.
    pub(crate) trace: Recorder,
    /// The topics of which it has warned.
    warned: Mutex<HashSet<&'static str>>,
}

impl Telemetry {
    pub(crate) fn new(trace: Recorder) -> Telemetry {
        let metrics = Metrics::new(trace.clone());
        Telemetry { metrics, trace, warned: Mutex::default() }
    }

    /// Whether this is the first time that something is said on a topic.
    pub(crate) fn is_new(&self, topic: &'static str) -> bool {
        self.warned.lock().insert(topic)
    }

    /// Warns, once per `topic`, that something works less well than it could.
    pub fn degrade(&self, topic: &'static str, what: impl std::fmt::Display) {
        if kinds::has_ended() {
            log::debug!("{what}");
        } else if self.is_new(topic) {
            log::warn!("{what}");
        }
    }
}
