//! Copies between the device cache and the host buffer, on workers of their own: flushes down and
//! fetches up.

use std::collections::VecDeque;
use std::time::Instant;

use super::shared::Shared;
use super::spool::about;
use crate::catalog::monitor::Worker;
use crate::catalog::state::{MoveEnd, MoveJob, State};
use crate::device::{Event, Stream};
use crate::error::Result;
use crate::metrics::Hop;
use crate::policy::slice::{self, DEPTH};
use crate::tier::host_buffer::Lease;
use crate::tier::space::{side_by_side, Extent};
use crate::trace::Activity;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the host buffer.
    Down,
    /// To the device.
    Up,
}

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

/// A stream with its slices under way.
#[derive(Debug)]
pub struct Queue<'a> {
    shared: &'a Shared,
    stream: Stream,
    events: Vec<Event>,
    under_way: VecDeque<(usize, Lease<'a>)>,
    next: usize,
}

impl<'a> Queue<'a> {
    /// A queue for the calling thread.
    pub fn new(shared: &'a Shared) -> Result<Self> {
        let device = &shared.device_side()?.device;
        device.bind()?;
        let events = (0..DEPTH).map(|_| Event::new(device)).collect::<Result<_>>()?;
        let stream = Stream::new(device)?;
        Ok(Queue { shared, stream, events, under_way: VecDeque::new(), next: 0 })
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
        let Err(error) = copies(self).and_then(|()| self.drain()) else {
            return MoveEnd::Done;
        };
        let error = about(name, version)(error.within(what));
        // The extents are given to others next: nothing may still be copying.
        match self.give_back() {
            true => MoveEnd::Failed(error),
            false => MoveEnd::Stranded(error),
        }
    }

    /// Gives the leases back once nothing uses them any more. False: that cannot be waited for, and
    /// their chunks are left as they are for good.
    fn give_back(&mut self) -> bool {
        let ended = self.stream.synchronize().or_else(|_| {
            let device = &self.shared.device_side()?.device;
            device.synchronize()
        });
        if ended.is_err() {
            self.under_way.drain(..).for_each(|(_, lease)| lease.strand());
        }
        self.under_way.clear();
        ended.is_ok()
    }

    fn queue(&mut self, job: &MoveJob, direction: Direction) -> Result<()> {
        let cache = self.shared.cache()?;
        for (device_at, host_at, len) in side_by_side(&job.device, &job.host, job.len) {
            self.stretch(cache.address(device_at), host_at, len, direction)?;
        }
        Ok(())
    }

    /// Queues copies of `len` bytes between an address of the device and a place in the host
    /// buffer, which the catalog has given this worker until its job is ended.
    pub fn stretch(
        &mut self,
        device: u64,
        host_at: u64,
        len: u64,
        direction: Direction,
    ) -> Result<()> {
        let host = self.shared.host()?;
        let mut done = 0;
        while done < len {
            let at = host_at + done;
            let run = slice::next(len - done, host.chunk_end(at) - at);
            if self.shared.gate.is_closed() {
                // Whoever closed it may need a chunk that these slices hold.
                self.drain()?;
                self.shared.gate.pass();
            }
            let lease = match host.try_lease(at) {
                Some(lease) => lease,
                None => {
                    self.drain()?;
                    host.lease(at)
                }
            };
            if self.under_way.len() == DEPTH {
                self.wait_for_oldest()?;
            }
            // Held from here on, also if the copy fails: `run` waits before it is given back.
            let event = self.next;
            self.under_way.push_back((event, lease));
            self.next = (self.next + 1) % DEPTH;
            let device = device + done;
            // SAFETY: the catalog has given this worker both runs, or the application has lent it
            // the device's; they stay until the job is ended, which waits for the stream on every
            // path. The run lies in one chunk.
            unsafe {
                match direction {
                    Direction::Down => {
                        self.stream.copy_to_host(host.address(at), device, run)?;
                    }
                    Direction::Up => {
                        self.stream.copy_from_host(device, host.address(at), run)?;
                    }
                }
            }
            self.events[event].record(&self.stream)?;
            done += run;
        }
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<()> {
        if let Some((event, _)) = self.under_way.front() {
            self.events[*event].synchronize()?;
            self.under_way.pop_front();
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        while !self.under_way.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(())
    }
}

impl Drop for Queue<'_> {
    /// After a panic slices may be under way, in chunks that others would register or unregister.
    fn drop(&mut self) {
        if !self.under_way.is_empty() {
            self.give_back();
        }
    }
}
