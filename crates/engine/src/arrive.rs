//! What is left to do behind a checkpoint call: its deferred captures are frozen or noted in the call, and copied by a worker.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::deferred::DeferredCapture;
use super::frozen::FrozenRuns;
use super::lane::Direction;
use super::open::Open;
use super::place::{check_mapped, Place};
use super::run::about;
use super::run::{Run, Way};
use super::shared::{Capturing, Restores, Shared};
use super::transfer::Queue;
use super::verify::Expected;
use crate::monitor::Worker;
use catalog::space::Extent;
use catalog::state::{Arrival, MoveEnd, State};
use device::PAGEABLE;
use errors::Result;
use os::memory;
use policy::capture::Capture;
use trace::metrics::{Cause, Stop};
use trace::Activity;

impl Capturing<'_> {
    /// Freezes the regions of a checkpoint that is about to be committed, as far as they are to be. If that is
    /// impossible, this thread copies them.
    pub(super) fn freeze(&self, open: &mut Open) -> Result<()> {
        let runs = open.deferred.take(Capture::Protect);
        if runs.is_empty() {
            return Ok(());
        }
        let host = self.shared.host_side.host()?;
        self.shared
            .host_side
            .guard
            .count(runs.iter().map(|run| host.untouched(&run.extents)).sum());
        runs.iter().try_for_each(|run| host.ensure(&run.extents))?;
        runs.iter().for_each(|run| host.writing(&run.extents));
        let frozen = self.shared.captures.freezer().and_then(|freezer| {
            // SAFETY: the extents are this checkpoint's, whose deferred capture ends before they are another's.
            unsafe { freezer.freeze(host, &runs) }
        });
        match frozen {
            Ok(frozen) => {
                open.deferred.frozen = Some(FrozenRuns { frozen, runs });
                Ok(())
            }
            Err(error) => {
                runs.iter().for_each(|run| host.written(&run.extents));
                self.shared.captures.captures_in_call(&error);
                self.shared.copy(open.id, Way::In, &runs)
            }
        }
    }
}

impl Capturing<'_> {
    /// Defers the copies of these runs, to begin after the application's own queued work on them.
    pub(super) fn defer(&self, open: &mut Open, mut runs: Vec<Run>) -> Result<()> {
        if runs.iter().any(|run| run.place.kind != PAGEABLE) {
            let (_current, own) = self.shared.device_side.await_application()?;
            if self.shared.config.verify_captures {
                open.deferred.expected.append(&mut Expected::of(Some(&own), &runs)?);
            }
        } else if self.shared.config.verify_captures {
            open.deferred.expected.append(&mut Expected::of(None, &runs)?);
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
    let mut queue = None;
    while let Some(arrival) =
        shared.catalog.next(Worker::Arrive, |state| state.captures().next_arrival())
    {
        let Some(mut deferred) = shared.captures.deferred.take(arrival.id) else { continue };
        // Frozen memory first: the application may be waiting for it.
        let thawed = copy_frozen(shared, &arrival, &mut deferred);
        let carried = await_carrier(shared, &arrival, &mut deferred);
        let ahead = thawed.and_then(|ahead| carried.map(|()| ahead));
        shared.captures.count_arrival(ahead.as_ref().ok().copied());
        let failed = |error| {
            let error = about(&arrival.name, arrival.version)(error);
            // The next call returns it. The process may be killed before.
            log::info!("not captured: {error}");
            MoveEnd::Failed(error)
        };
        let end = match ahead.map(drop) {
            Ok(()) => match bring(shared, &mut queue, &arrival, &deferred) {
                MoveEnd::Done => verify(shared, &deferred).map_or_else(failed, |()| MoveEnd::Done),
                end => end,
            },
            Err(error) => failed(error),
        };
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

/// Copies the frozen regions of a checkpoint, if it has some. Returns the bytes that were copied because the application
/// was about to write to them.
fn copy_frozen(shared: &Shared, arrival: &Arrival, deferred: &mut DeferredCapture) -> Result<u64> {
    let Some(frozen) = deferred.frozen.take() else { return Ok(0) };
    let since = Instant::now();
    let mut span =
        shared.telemetry.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let copied = frozen.frozen.copy();
    let host = shared.host_side.host()?;
    frozen.runs.iter().for_each(|run| host.written(&run.extents));
    let ahead = copied?;
    let bytes = frozen.runs.iter().map(Run::bytes).sum();
    shared.telemetry.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
    span.bytes(bytes);
    Ok(ahead)
}

/// Waits until the carrier of a checkpoint, if it has one, has copied everything.
fn await_carrier(shared: &Shared, arrival: &Arrival, deferred: &mut DeferredCapture) -> Result<()> {
    let Some(carried) = &mut deferred.carried else { return Ok(()) };
    let since = Instant::now();
    let mut span =
        shared.telemetry.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let ended = carried.wait();
    let host = shared.host_side.host()?;
    carried.runs.iter().for_each(|run| host.written(&run.extents));
    let bytes: u64 = carried.runs.iter().map(Run::bytes).sum();
    shared.captures.count_forked(carried.call, memory::page_faults() - carried.faults, bytes);
    ended.inspect_err(|_| {
        shared.captures.deferred.failed_carriers.fetch_add(1, Ordering::Relaxed);
    })?;
    shared.telemetry.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
    span.bytes(bytes);
    Ok(())
}

fn bring<'a>(
    shared: &'a Shared,
    queue: &mut Option<Queue<'a>>,
    arrival: &Arrival,
    deferred: &DeferredCapture,
) -> MoveEnd {
    let there = check_mapped(deferred.runs.iter().map(|run| &run.place));
    let by_processor = there.and_then(|()| shared.copy_and_count(Way::In, &deferred.runs));
    let by_device: Vec<&Run> = deferred.runs.iter().filter(|run| !run.by_processor()).collect();
    let ready = by_processor.and_then(|()| match queue {
        _ if by_device.is_empty() => Ok(None),
        Some(queue) => Ok(Some(queue)),
        None => Ok(Some(queue.insert(Queue::new(shared)?))),
    });
    match ready {
        Ok(None) => MoveEnd::Done,
        Ok(Some(queue)) => bring_from_device(shared, queue, arrival, &by_device),
        Err(error) => MoveEnd::Failed(about(&arrival.name, arrival.version)(error)),
    }
}

fn bring_from_device(
    shared: &Shared,
    queue: &mut Queue<'_>,
    arrival: &Arrival,
    runs: &[&Run],
) -> MoveEnd {
    let since = Instant::now();
    let mut span =
        shared.telemetry.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let extents: Vec<Extent> = runs.iter().flat_map(|run| run.extents.iter().copied()).collect();
    let bytes = extents.iter().map(|extent| extent.len).sum();
    let what = "flushing to the host buffer";
    let whose = (&*arrival.name, arrival.version);
    let flushed = queue.flush_to(&extents, bytes, what, whose, |queue| {
        runs.iter().try_for_each(|run| {
            let mut from = run.place.address;
            run.extents.iter().try_for_each(|extent| {
                queue.stretch(from, *extent, Direction::Down)?;
                from += extent.len;
                Ok(())
            })
        })
    });
    if flushed.end == MoveEnd::Done {
        shared.telemetry.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
        span.bytes(bytes);
        span.untouched(flushed.untouched);
    }
    flushed.end
}
