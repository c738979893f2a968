//! What is left to do behind a checkpoint call: its deferred captures are frozen or noted in the call, and copied by a worker.

use super::deferred::DeferredCapture;
use super::open::Open;
use super::place::Place;
use super::run::about;
use super::run::{Run, Way};
use super::shared::{Capturing, Restores, Shared};
use super::verify::ExpectedRun;
use crate::monitor::Worker;
use catalog::state::{Arrival, MoveEnd, State};
use device::PAGEABLE;
use errors::Result;
use policy::capture::Capture;
use trace::metrics::Cause;

impl Capturing<'_> {
    /// Defers the copies of these runs, to begin after the application's own queued work on them.
    pub(super) fn defer(&self, open: &mut Open, mut runs: Vec<Run>) -> Result<()> {
        if !runs.is_empty() && runs.iter().all(|run| run.place.capture == Capture::Ordered) {
            open.deferred.runs.append(&mut runs);
            // What the stream gets later may change them.
            return self.begin_deferred(open);
        }
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
        let queued = open.deferred.queued();
        if arriving.contains(&true) {
            self.shared.captures.deferred.keep(open.id, std::mem::take(&mut open.deferred));
        }
        let (id, regions) = (open.id, std::mem::take(&mut open.regions));
        let Some(queued) = queued else {
            self.shared.step_counted(|state| {
                state.captures().commit_deferred(id, regions, arriving, persist);
            });
            return;
        };
        let arrival = self
            .shared
            .step_counted(|state| state.captures().commit_arriving(id, regions, arriving, persist));
        if let Some(arrival) = arrival {
            self.shared.watch_capture(queued, arrival);
        }
    }
}

impl Restores<'_> {
    /// Waits until none of these places, which are about to be written to, is lent to a deferred capture.
    pub(super) fn await_lent(&self, places: &[Place]) -> Result<()> {
        if !self.shared.captures.deferred.are_lent(places) {
            return Ok(());
        }
        let _waiting = self.shared.telemetry.metrics.wait(Cause::Copy);
        // What no checkpoint expects any more is not waited for.
        let is_free =
            |state: &State| !self.shared.captures.deferred.are_lent(places) || !state.arriving();
        self.shared.catalog.wait(|state| is_free(state).then_some(()))
    }
}

/// Copies deferred captures until the engine stops.
pub(crate) fn arrive(shared: &Shared) -> Result<()> {
    while let Some(arrival) =
        shared.catalog.next(Worker::Arrive, |state| state.captures().next_arrival())
    {
        shared.arrive(&arrival, Ok(()));
    }
    Ok(())
}

impl Shared {
    /// Ends a deferred capture. If the copies that its call has queued are not known to have ended (`seen`), its room is
    /// never reused.
    pub(super) fn arrive(&self, arrival: &Arrival, seen: Result<()>) {
        let Some(mut deferred) = self.captures.deferred.take(arrival.id) else { return };
        let about = about(&arrival.name, arrival.version);
        // Each has to end, also after a failure.
        let mut all = Ok(0);
        for begun in deferred.begun.drain(..) {
            let ahead = match &seen {
                Ok(()) => begun.finish(self, arrival),
                Err(error) => {
                    begun.give_up();
                    Err(MoveEnd::Stranded(about(error.clone())))
                }
            };
            all = all.and_then(|before| ahead.map(|ahead| before + ahead));
        }
        self.captures.count_arrival(all.as_ref().ok().copied());
        let end = all
            .and_then(|_| verify(self, &deferred).map_err(|error| MoveEnd::Failed(about(error))));
        let end = end.err().unwrap_or(MoveEnd::Done);
        if let MoveEnd::Failed(error) | MoveEnd::Stranded(error) = &end {
            // The next call returns it. The process may be killed before.
            log::info!("not captured: {error}");
        }
        self.captures.deferred.ended(arrival.id);
        // Before others learn that all is done.
        self.capturing().end(deferred);
        self.catalog.step(|state| state.captures().arrived(arrival.id, end));
    }
}

/// Compares what has arrived with what the memory was in the call, with `verify_captures`.
fn verify(shared: &Shared, deferred: &DeferredCapture) -> Result<()> {
    deferred.expected.iter().try_for_each(|expected| expected.compare(shared.host_side.host()?))
}
