//! Deferred captures: the application leaves a region unchanged until it is released, so that a worker can
//! copy it to the host buffer after the checkpoint call has returned.
//!
//! The catalog has the checkpoint with incomplete bytes. The deferred capture ends in any case: by the
//! worker, by the call that aborted the checkpoint, or with the job.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::capture::Open;
use super::carried::Carried;
use super::copy::{Run, Way};
use super::frozen::FrozenRuns;
use super::lane::Direction;
use super::place::{check_mapped, Place};
use super::shared::Shared;
use super::spool::about;
use super::transfer::Queue;
use super::verify::Expected;
use crate::monitor::Worker;
use catalog::space::Extent;
use catalog::state::{Arrival, MoveEnd, State};
use catalog::Id;
use device::PAGEABLE;
use errors::{Error, Result};
use os::memory;
use os::sync::Mutex;
use policy::capture::Capture;
use trace::metrics::{Cause, Stop};
use trace::Activity;

/// Tells the application that a region may be changed again.
pub trait Release: Debug + Send + Sync {
    /// The bytes are not needed any more: the application may change its memory.
    ///
    /// # Errors
    /// The application's callback has failed; the memory is released all the same.
    fn release(&self) -> Result<()>;
}

/// The part of a checkpoint that has still to be copied from the application's memory. Its end releases the
/// regions, on every path.
#[derive(Debug, Default)]
pub(crate) struct DeferredCapture {
    pub(super) runs: Vec<Run>,
    /// What a carrier copies.
    pub(super) carried: Option<Carried>,
    /// What is frozen until it is copied.
    pub(super) frozen: Option<FrozenRuns>,
    /// With `verify_captures`.
    expected: Vec<Expected>,
    releases: Vec<(i32, Arc<dyn Release>)>,
}

impl DeferredCapture {
    /// All deferred runs.
    fn all(&self) -> impl Iterator<Item = &Run> {
        let carried = self.carried.iter().flat_map(|carried| &carried.runs);
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.runs);
        self.runs.iter().chain(carried).chain(frozen)
    }

    /// Takes the deferred runs that are captured in this way.
    pub(super) fn take(&mut self, way: Capture) -> Vec<Run> {
        let (taken, others) = self.runs.drain(..).partition(|run: &Run| run.place.capture == way);
        self.runs = others;
        taken
    }

    /// Whether a region of this id is deferred.
    pub(crate) fn has(&self, id: i32) -> bool {
        self.all().any(|run| run.place.id == id)
    }

    /// Sets the callback for a region, for the end of the capture.
    pub(crate) fn until(&mut self, region: i32, release: Arc<dyn Release>) {
        self.releases.push((region, release));
    }

    /// Releases the regions. Returns the errors of the callbacks.
    fn release(&mut self) -> Vec<Error> {
        let failed = |(region, release): (i32, Arc<dyn Release>)| {
            release.release().err().map(|error| error.within(format!("region {region}")))
        };
        self.releases.drain(..).filter_map(failed).collect()
    }

    /// The parts of the checkpoint with deferred bytes, indexed by `Part`.
    fn parts(&self) -> [bool; 2] {
        let mut parts = [false; 2];
        for run in self.all() {
            parts[run.place.part as usize] = true;
        }
        parts
    }
}

impl Drop for DeferredCapture {
    fn drop(&mut self) {
        for error in self.release() {
            // No later call can report it.
            log::error!("{error}");
        }
    }
}

/// A range of memory that the application has lent to a checkpoint.
#[derive(Debug)]
struct Lent {
    to: Id,
    address: u64,
    len: u64,
}

/// The deferred captures of checkpoints that are committed.
#[derive(Debug, Default)]
pub(crate) struct DeferredCaptures {
    by_checkpoint: Mutex<HashMap<Id, DeferredCapture>>,
    /// Memory that the application has lent to them, until it has been copied.
    lent: Mutex<Vec<Lent>>,
    /// How many carriers have failed.
    pub(crate) failed_carriers: AtomicUsize,
}

impl DeferredCaptures {
    fn take(&self, id: Id) -> Option<DeferredCapture> {
        self.by_checkpoint.lock().remove(&id)
    }

    /// The lent memory of a checkpoint has been copied, or never will be.
    fn ended(&self, id: Id) {
        self.lent.lock().retain(|lent| lent.to != id);
    }

    /// Whether some of these places are lent.
    fn are_lent(&self, places: &[Place]) -> bool {
        let lent = self.lent.lock();
        lent.iter().any(|lent| {
            places.iter().any(|place| {
                lent.address < place.address + place.len && place.address < lent.address + lent.len
            })
        })
    }
}

impl Shared {
    /// Defers the copies of these runs, to begin after the application's own queued work on them.
    pub(super) fn defer(&self, open: &mut Open, mut runs: Vec<Run>) -> Result<()> {
        if runs.iter().any(|run| run.place.kind != PAGEABLE) {
            let side = self.device_side()?;
            let own = side.own.lock();
            let _current = side.device.enter()?;
            drop(side.after_application(self, &own)?);
            own.lane.stream().synchronize()?;
            if self.config.verify_captures {
                open.deferred.expected.append(&mut Expected::of(Some(&own), &runs)?);
            }
        } else if self.config.verify_captures {
            open.deferred.expected.append(&mut Expected::of(None, &runs)?);
        }
        open.deferred.runs.append(&mut runs);
        Ok(())
    }

    /// Waits until none of these places, which are about to be written to, is lent to a deferred capture.
    pub(super) fn await_lent(&self, places: &[Place]) -> Result<()> {
        if !self.deferred.are_lent(places) {
            return Ok(());
        }
        let since = Instant::now();
        // What no checkpoint expects any more is not waited for.
        let is_free = |state: &State| !self.deferred.are_lent(places) || !state.arriving();
        let waited = self.catalog.wait(|state| is_free(state).then_some(()));
        self.metrics.waited(Cause::Copy, since);
        waited
    }

    /// Copies the deferred runs of an open checkpoint at once.
    pub(super) fn finish_deferred(&self, open: &mut Open) -> Result<()> {
        let deferred = std::mem::take(&mut open.deferred);
        let copied = self.copy(open.id, Way::In, &deferred.runs);
        self.end(deferred);
        copied
    }

    /// Releases the regions of a deferred capture. Errors of callbacks are reported like background failures,
    /// whichever thread called them.
    pub(super) fn end(&self, mut deferred: DeferredCapture) {
        for error in deferred.release() {
            self.catalog.step(|state| state.report(error));
        }
    }

    /// Commits a checkpoint and leaves its deferred capture, if any, to the worker.
    pub(super) fn commit_deferred(&self, open: &mut Open, persist: bool) {
        let arriving = open.deferred.parts();
        if arriving.contains(&true) {
            let lent =
                |run: &Run| Lent { to: open.id, address: run.place.address, len: run.bytes() };
            self.deferred.lent.lock().extend(open.deferred.runs.iter().map(lent));
            self.deferred.by_checkpoint.lock().insert(open.id, std::mem::take(&mut open.deferred));
        }
        let (id, regions) = (open.id, std::mem::take(&mut open.regions));
        self.step_counted(|state| state.captures().commit_deferred(id, regions, arriving, persist));
    }
}

/// Copies deferred captures until the engine stops.
pub fn arrive(shared: &Shared) -> Result<()> {
    let mut queue = None;
    while let Some(arrival) =
        shared.catalog.next(Worker::Arrive, |state| state.captures().next_arrival())
    {
        let Some(mut deferred) = shared.deferred.take(arrival.id) else { continue };
        // Frozen memory first: the application may be waiting for it.
        let thawed = copy_frozen(shared, &arrival, &mut deferred);
        let carried = await_carrier(shared, &arrival, &mut deferred);
        let ahead = thawed.and_then(|ahead| carried.map(|()| ahead));
        shared.count_arrival(ahead.as_ref().ok().copied());
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
        shared.deferred.ended(arrival.id);
        // Before others learn that all is done.
        shared.end(deferred);
        shared.catalog.step(|state| state.captures().arrived(arrival.id, end));
    }
    Ok(())
}

/// Compares what has arrived with what the memory was in the call, with `verify_captures`.
fn verify(shared: &Shared, deferred: &DeferredCapture) -> Result<()> {
    deferred.expected.iter().try_for_each(|expected| expected.compare(shared.host()?))
}

/// Copies the frozen regions of a checkpoint, if it has some. Returns the bytes that were copied because the application
/// was about to write to them.
fn copy_frozen(shared: &Shared, arrival: &Arrival, deferred: &mut DeferredCapture) -> Result<u64> {
    let Some(frozen) = deferred.frozen.take() else { return Ok(0) };
    let since = Instant::now();
    let mut span = shared.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let copied = frozen.frozen.copy();
    let host = shared.host()?;
    frozen.runs.iter().for_each(|run| host.written(&run.extents));
    let ahead = copied?;
    let bytes = frozen.runs.iter().map(Run::bytes).sum();
    shared.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
    span.bytes(bytes);
    Ok(ahead)
}

/// Waits until the carrier of a checkpoint, if it has one, has copied everything.
fn await_carrier(shared: &Shared, arrival: &Arrival, deferred: &mut DeferredCapture) -> Result<()> {
    let Some(carried) = &mut deferred.carried else { return Ok(()) };
    let since = Instant::now();
    let mut span = shared.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let ended = carried.wait();
    let host = shared.host()?;
    carried.runs.iter().for_each(|run| host.written(&run.extents));
    let bytes: u64 = carried.runs.iter().map(Run::bytes).sum();
    shared.count_forked(carried.call, memory::page_faults() - carried.faults, bytes);
    ended.inspect_err(|_| {
        shared.deferred.failed_carriers.fetch_add(1, Ordering::Relaxed);
    })?;
    shared.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
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
    let mut span = shared.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
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
        shared.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
        span.bytes(bytes);
        span.untouched(flushed.untouched);
    }
    flushed.end
}
