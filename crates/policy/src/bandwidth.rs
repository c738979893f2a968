//! Decides whether touching may use the host's memory bandwidth while flushes run.
//!
//! Counts the flushes and touches in progress, pauses touching in sequential mode, and gives the
//! measured rates to the model in [`super::touch`].

use super::touch::{Touch, TouchMode, TouchModel};

/// Touching and flushing of one process.
#[derive(Clone, Debug)]
pub struct BandwidthArbiter {
    model: TouchModel,
    flushing: u32,
    touching: u32,
}

/// A flush in progress. Ended by [`BandwidthArbiter::flush_ends`] or [`BandwidthArbiter::flush_failed`].
#[derive(Debug)]
pub struct Flush {
    beside_touch: bool,
}

impl BandwidthArbiter {
    /// An arbiter for this setting of the key `touch`.
    pub fn new(touch: Touch) -> Self {
        BandwidthArbiter { model: TouchModel::new(touch), flushing: 0, touching: 0 }
    }

    /// The performance model.
    pub fn model(&self) -> &TouchModel {
        &self.model
    }

    /// The application asks for a checkpoint at `now`, in seconds from any origin.
    pub fn checkpoint_begins(&mut self, now: f64) {
        self.model.begun(now);
    }

    /// The checkpoint that was asked for, of `bytes`, was captured at `now`.
    pub fn checkpoint_captured(&mut self, bytes: u64, now: f64) {
        self.model.captured(bytes, now);
    }

    /// A flush begins.
    pub fn flush_begins(&mut self) -> Flush {
        self.flushing += 1;
        Flush { beside_touch: self.touching > 0 && self.model.mode() == TouchMode::Concurrent }
    }

    /// The flush has moved `bytes` in `seconds`, of which `untouched` bytes went to untouched pages.
    pub fn flush_ends(&mut self, flush: Flush, bytes: u64, untouched: u64, seconds: f64) {
        self.flushing -= 1;
        let beside_touch = flush.beside_touch || self.touching > 0;
        self.model.flushed(bytes, untouched, seconds, beside_touch);
    }

    /// The flush moved nothing, so nothing was measured.
    pub fn flush_failed(&mut self) {
        self.flushing -= 1;
    }

    /// Whether a unit may be touched now.
    pub fn may_touch(&self) -> bool {
        self.flushing == 0 || self.model.mode() == TouchMode::Concurrent
    }

    /// All units are touched or being touched.
    pub fn all_touched(&mut self) {
        self.model.all_touched();
    }

    /// A thread begins to touch a unit.
    pub fn touch_begins(&mut self) {
        self.touching += 1;
        self.model.touch_begins();
    }

    /// One thread has touched a unit of `bytes` in `seconds`. The process's rate is that of one thread
    /// times the number of touching threads.
    pub fn touch_ends(&mut self, bytes: u64, seconds: f64) {
        let at_once = u64::from(self.touching);
        self.touching -= 1;
        self.model.touched(bytes * at_once, seconds, self.flushing > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches sequential touching that continues beside a flush, and touching that does not resume
    /// after it.
    #[test]
    fn sequential_touching_waits_for_the_last_flush() {
        let mut arbiter = BandwidthArbiter::new(Touch::Sequential);
        assert!(arbiter.may_touch());
        let (first, _second) = (arbiter.flush_begins(), arbiter.flush_begins());
        assert!(!arbiter.may_touch());
        arbiter.flush_ends(first, 1, 0, 1.0);
        assert!(!arbiter.may_touch());
        arbiter.flush_failed();
        assert!(arbiter.may_touch());
    }

    #[test]
    fn concurrent_touching_never_waits() {
        let mut arbiter = BandwidthArbiter::new(Touch::Concurrent);
        let _flush = arbiter.flush_begins();
        assert!(arbiter.may_touch());
    }

    /// Catches the rate of one thread that is taken for the process's rate.
    #[test]
    fn the_rate_of_touching_is_that_of_all_threads() {
        let mut arbiter = BandwidthArbiter::new(Touch::Concurrent);
        (0..4).for_each(|_| arbiter.touch_begins());
        arbiter.touch_ends(1000, 1.0);
        assert_eq!(arbiter.model().inputs().touch_alone.get(), Some(4000.0));
    }

    /// Catches measurements that are counted under the wrong competition.
    #[test]
    fn a_touch_beside_a_flush_counts_as_such() {
        let mut arbiter = BandwidthArbiter::new(Touch::Concurrent);
        arbiter.touch_begins();
        arbiter.touch_ends(1000, 1.0);
        assert_eq!(arbiter.model().inputs().touch_alone.get(), Some(1000.0));
        arbiter.touch_begins();
        let flush = arbiter.flush_begins();
        arbiter.touch_ends(500, 1.0);
        assert_eq!(arbiter.model().inputs().touch_beside_flush.get(), Some(500.0));
        arbiter.flush_ends(flush, 300, 0, 1.0);
        assert_eq!(arbiter.model().inputs().flush_beside_touch.get(), Some(300.0));
    }
}
