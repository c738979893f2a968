//! What is left to do behind a checkpoint call: its deferred captures are frozen or noted in the call, and copied by a worker.

use std::time::Instant;

use super::deferred::DeferredCapture;
use super::open::Open;
use super::place::Place;
use super::run::about;
use super::run::{Run, Way};
use super::shared::{Capturing, Restores, Shared};
use super::verify::ExpectedRun;
use crate::monitor::Worker;
use catalog::state::{MoveEnd, State};
use device::PAGEABLE;
use errors::Result;
use trace::metrics::Cause;

impl Capturing<'_> {
    /// Defers the copies of these runs, to begin after the application's own queued work on them.
    pub(super) fn defer(&self, open: &mut Open, mut runs: Vec<Run>) -> Result<()> {
        if runs.iter().any(|run| run.place.kind != PAGEABLE) {
            let (_current, own) = self.shared.device_side.await_application()?;
            if self.shared.config.verify_captures {
                open.deferred.expected.append(&mut ExpectedRun::of(Some(&own), &runs)?);
            }
        } else if self.shared.config.verify_captures {
            open.deferred.expected.append(&mut ExpectedRun::of(None, &runs)?);
        }
        open.deferred.runs.append(&mut runs);
        Ok(())
    }

    /// Copies the deferred runs of an open checkpoint at once.
    pub(super) fn finish_deferred(&self, open: &mut Open) -> Result<()> {
        let deferred = std::mem::take(&mut open.deferred);
        let copied = self.shared.copy(open.id, Way::In, &deferred.runs);
        self.end(deferred);
        copied
    }

    /// Releases the regions of a deferred capture. Errors of callbacks are reported like background failures,
    /// whichever thread called them.
    pub(super) fn end(&self, mut deferred: DeferredCapture) {
        for error in deferred.release() {
            self.shared.catalog.step(|state| state.report(error));
        }
    }

    /// Commits a checkpoint and leaves its deferred capture, if any, to the worker.
    pub(super) fn commit_deferred(&self, open: &mut Open, persist: bool) {
        let arriving = open.deferred.parts();
        if arriving.contains(&true) {
            self.shared.captures.deferred.keep(open.id, std::mem::take(&mut open.deferred));
        }
        let (id, regions) = (open.id, std::mem::take(&mut open.regions));
        self.shared
            .step_counted(|state| state.captures().commit_deferred(id, regions, arriving, persist));
    }
}

impl Restores<'_> {
    /// Waits until none of these places, which are about to be written to, is lent to a deferred capture.
    pub(super) fn await_lent(&self, places: &[Place]) -> Result<()> {
        if !self.shared.captures.deferred.are_lent(places) {
            return Ok(());
        }
        let since = Instant::now();
        // What no checkpoint expects any more is not waited for.
        let is_free =
            |state: &State| !self.shared.captures.deferred.are_lent(places) || !state.arriving();
        let waited = self.shared.catalog.wait(|state| is_free(state).then_some(()));
        self.shared.telemetry.metrics.waited(Cause::Copy, since);
        waited
    }
}

/// Copies deferred captures until the engine stops.
pub(crate) fn arrive(shared: &Shared) -> Result<()> {
    while let Some(arrival) =
        shared.catalog.next(Worker::Arrive, |state| state.captures().next_arrival())
    {
        let Some(mut deferred) = shared.captures.deferred.take(arrival.id) else { continue };
        // Each has to end, also after a failure.
        let mut all = Ok(0);
        for begun in deferred.begun.drain(..) {
            let ahead = begun.finish(shared, &arrival);
            all = all.and_then(|before| ahead.map(|ahead| before + ahead));
        }
        shared.captures.count_arrival(all.as_ref().ok().copied());
        let end = all.and_then(|_| {
            let failed = |error| MoveEnd::Failed(about(&arrival.name, arrival.version)(error));
            verify(shared, &deferred).map_err(failed)
        });
        let end = end.err().unwrap_or(MoveEnd::Done);
        if let MoveEnd::Failed(error) = &end {
            // The next call returns it. The process may be killed before.
            log::info!("not captured: {error}");
        }
        shared.captures.deferred.ended(arrival.id);
        // Before others learn that all is done.
        shared.capturing().end(deferred);
        shared.catalog.step(|state| state.captures().arrived(arrival.id, end));
    }
    Ok(())
}

/// Compares what has arrived with what the memory was in the call, with `verify_captures`.
fn verify(shared: &Shared, deferred: &DeferredCapture) -> Result<()> {
    deferred.expected.iter().try_for_each(|expected| expected.compare(shared.host_side.host()?))
}
