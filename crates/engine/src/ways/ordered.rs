//! Device memory in the order of the application's stream (`stream_ordered`): the device copies it within its memory.

use std::time::Instant;

use super::Deferral;
use crate::deferred::BegunCapture;
use crate::open::Open;
use crate::ordered::QueuedCopies;
use crate::run::{Run, Way};
use crate::shared::Shared;
use catalog::state::{Arrival, MoveEnd};
use catalog::Level;
use errors::Result;
use trace::metrics::Stop;
use trace::Activity;

/// The device copies.
#[derive(Debug)]
pub(super) struct Ordered;

/// Runs whose copies are queued.
#[derive(Debug)]
struct OrderedRuns {
    runs: Vec<Run>,
    since: Instant,
    queued: QueuedCopies,
    /// Whether their event was seen, or they are given up.
    seen: bool,
}

impl Deferral for Ordered {
    fn defers(&self, run: &Run) -> bool {
        run.level == Level::DEVICE
    }

    fn begin(&self, shared: &Shared, open: &Open, runs: &[Run]) -> Result<Box<dyn BegunCapture>> {
        let since = Instant::now();
        let queued = shared.queue_in_order(open.id, Way::In, runs)?;
        Ok(Box::new(OrderedRuns { runs: runs.to_vec(), since, queued, seen: false }))
    }
}

impl BegunCapture for OrderedRuns {
    fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn queued(&self) -> Option<&QueuedCopies> {
        Some(&self.queued)
    }

    fn give_up(mut self: Box<Self>) {
        self.seen = true;
    }

    /// Its event was seen.
    fn finish(
        mut self: Box<Self>,
        shared: &Shared,
        _: &Arrival,
    ) -> std::result::Result<u64, MoveEnd> {
        self.seen = true;
        let bytes = self.runs.iter().map(Run::bytes).sum();
        let time = self.since.elapsed();
        shared.telemetry.metrics.hop((Stop::Application, Stop::DEVICE)).add(bytes, time);
        shared.telemetry.trace.spent(Activity::Capture, self.since, time, bytes);
        Ok(0)
    }
}

impl Drop for OrderedRuns {
    fn drop(&mut self) {
        if !self.seen {
            // The error is that of whoever gave it up.
            let _ = self.queued.synchronize();
        }
    }
}
