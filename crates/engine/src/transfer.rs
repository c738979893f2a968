//! Copies between the device cache and the host buffer, on workers of their own: flushes down and
//! fetches up.

use std::time::Instant;

use super::lane::{Direction, Lane};
use super::shared::Shared;
use super::spool::about;
use crate::catalog::monitor::Worker;
use crate::catalog::state::{MoveEnd, MoveJob, State};
use device::WaitMode;
use levels::space::{side_by_side, Extent};
use os::error::Result;
use trace::metrics::Hop;
use trace::Activity;

/// A copy to the host buffer that has ended.
#[derive(Debug)]
pub struct Flushed {
    /// How.
    pub end: MoveEnd,
    /// Bytes that went to pages that did not exist.
    pub untouched: u64,
}

/// Flushes until the engine stops.
pub fn flush(shared: &Shared) -> Result<()> {
    let mut queue = Queue::new(shared)?;
    while let Some(job) = shared.catalog.next(Worker::Flush, State::next_flush) {
        let since = Instant::now();
        let mut span = shared.trace.span(Activity::Flush).of(&job.name, job.version);
        let flushed = queue.flush_to(&job.host, job.len, &job.name, job.version, |queue| {
            queue.queue(&job, Direction::Down)
        });
        let end = flushed.end;
        if end == MoveEnd::Done {
            shared.metrics.hop(Hop::DtoH).add(job.len, since.elapsed());
            span.bytes(job.len);
            span.untouched(flushed.untouched);
        }
        drop(span);
        shared.step_counted(|state| state.flush_done(job.id, end));
    }
    Ok(())
}

/// Fetches until the engine stops.
pub fn fetch(shared: &Shared) -> Result<()> {
    let mut queue = Queue::new(shared)?;
    while let Some(job) = shared.catalog.next(Worker::Fetch, State::next_fetch) {
        let since = Instant::now();
        let mut span = shared.trace.span(Activity::Fetch).of(&job.name, job.version);
        let what = "fetching to the device cache";
        let end = queue.run(what, &job.name, job.version, |q| q.queue(&job, Direction::Up));
        match &end {
            MoveEnd::Done => {
                shared.metrics.hop(Hop::HtoD).add(job.len, since.elapsed());
                span.bytes(job.len);
            }
            // Nothing is lost: the restore takes the copy in the host buffer.
            MoveEnd::Failed(error) | MoveEnd::Stranded(error) => {
                shared.degrade("fetch", format!("fetching ahead failed: {error}"));
            }
        }
        drop(span);
        shared.step_counted(|state| state.fetch_done(job.id, &end));
    }
    Ok(())
}

/// A lane of the calling thread.
#[derive(Debug)]
pub struct Queue<'a> {
    shared: &'a Shared,
    lane: Lane,
}

impl<'a> Queue<'a> {
    /// A queue for the calling thread.
    pub fn new(shared: &'a Shared) -> Result<Self> {
        let device = &shared.device_side()?.device;
        device.bind()?;
        Ok(Queue { shared, lane: Lane::new(device, WaitMode::Block)? })
    }

    /// Copies what `copies` queues to these places in the host buffer, and waits for it.
    pub fn flush_to(
        &mut self,
        places: &[Extent],
        bytes: u64,
        name: &str,
        version: i32,
        copies: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Flushed {
        let shared = self.shared;
        let what = "flushing to the host buffer";
        let host = match shared.host() {
            Ok(host) => host,
            Err(error) => return Flushed { end: MoveEnd::Failed(error), untouched: 0 },
        };
        let untouched = host.untouched(places);
        if untouched > 0 {
            shared.memory_is_short(untouched);
            // Not all copies are the device's: the driver writes by the processor to pages that are
            // not registered.
            if let Err(error) = host.ensure(places) {
                let error = about(name, version)(error.within(what));
                return Flushed { end: MoveEnd::Failed(error), untouched };
            }
        }
        host.writing(places);
        let flushing = shared.pace.flush();
        let end = self.run(what, name, version, copies);
        if end == MoveEnd::Done {
            host.written(places);
            shared.flushed(flushing, bytes, untouched);
        } else {
            host.not_written(places);
        }
        Flushed { end, untouched }
    }

    /// Waits for what `copies` queues. If that fails, `what` was tried.
    fn run(
        &mut self,
        what: &str,
        name: &str,
        version: i32,
        copies: impl FnOnce(&mut Self) -> Result<()>,
    ) -> MoveEnd {
        let finished = copies(self).and_then(|()| self.lane.finish(self.shared.host()?));
        let Err(error) = finished else {
            return MoveEnd::Done;
        };
        let error = about(name, version)(error.within(what));
        // The extents are given to others next: nothing may still be copying.
        match self.lane.abandon() {
            true => MoveEnd::Failed(error),
            false => MoveEnd::Stranded(error),
        }
    }

    fn queue(&mut self, job: &MoveJob, direction: Direction) -> Result<()> {
        let cache = self.shared.cache()?;
        for (device_at, host_at, len) in side_by_side(&job.device, &job.host, job.len) {
            let place = Extent { offset: host_at, len };
            self.stretch(cache.address(device_at), place, direction)?;
        }
        Ok(())
    }

    /// Copies between an address of the device and a place in the host buffer, which the catalog has
    /// given this worker until its job is ended.
    pub fn stretch(&mut self, device: u64, place: Extent, direction: Direction) -> Result<()> {
        let shared = self.shared;
        // SAFETY: the catalog has given this worker both runs, or the application has lent it the
        // device's; they stay until the job is ended, which `run` waits for on every path.
        unsafe { self.lane.copy(shared, direction, device, place, Some(&shared.gate)) }
    }
}
