//! Copies between levels of memory, on their own workers: flushes down and fetches up.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder};
use std::time::Instant;

use super::lane::{Direction, Lane};
use super::run::about;
use super::run::stop;
use super::shared::Shared;
use crate::monitor::Worker;
use catalog::space::{side_by_side, Extent};
use catalog::state::{MoveEnd, MoveJob, State, StoreResult};
use catalog::Level;
use device::WaitMode;
use errors::{Error, ErrorKind, Result};
use levels::store::Room;
use os::{affinity, logging, threads};
use policy::slice;
use trace::Activity;

/// The result of a copy.
#[derive(Debug)]
pub(crate) struct Flushed {
    /// How it ended.
    pub end: MoveEnd,
    /// Bytes written to new pages of the host buffer.
    pub untouched: u64,
    /// What the level's store says of the bytes, if it has copied them.
    pub stored: Option<StoreResult>,
}

impl Flushed {
    /// The end of a copy to room of known size.
    fn new(end: MoveEnd, untouched: u64) -> Flushed {
        Flushed { end, untouched, stored: None }
    }

    /// Whether the bytes are there.
    fn is_there(&self) -> bool {
        self.end == MoveEnd::Done && !matches!(self.stored, Some(StoreResult::Full(_)))
    }

    /// Tells the catalog, before the end of the copy, of the room that was used.
    fn tell_room(&self, state: &mut State, job: &MoveJob) {
        if let Some(stored) = self.stored {
            state.down().stored(job, stored);
        }
    }
}

/// Flushes from a level until the engine stops.
pub(crate) fn flush(shared: &Shared, from: Level) -> Result<()> {
    let mut mover = Mover::new(shared, from)?;
    let next = |state: &mut State| {
        let job = state.down().next_flush(from)?;
        Some((job, state.levels().flushes_waiting(from)))
    };
    while let Some((job, waiting)) = shared.catalog.next(Worker::Flush(from), next) {
        let since = Instant::now();
        let mut span = shared.telemetry.trace.span(Activity::Flush).of(&job.name, job.version);
        let flushed = mover.carry_out(&job, "flushing", waiting);
        if flushed.is_there() {
            count(shared, &job, since);
            span.bytes(job.len);
            span.untouched(flushed.untouched);
        }
        drop(span);
        shared.step_counted(|state| {
            flushed.tell_room(state, &job);
            state.down().flush_done(&job, flushed.end);
        });
    }
    Ok(())
}

/// Fetches to a level until the engine stops.
pub(crate) fn fetch(shared: &Shared, to: Level) -> Result<()> {
    let mut mover = Mover::new(shared, to)?;
    let next = |state: &mut State| state.up().next_fetch(to);
    while let Some(job) = shared.catalog.next(Worker::Fetch(to), next) {
        let since = Instant::now();
        let mut span = shared.telemetry.trace.span(Activity::Fetch).of(&job.name, job.version);
        let fetched = mover.carry_out(&job, "fetching", 0);
        if fetched.is_there() {
            count(shared, &job, since);
            span.bytes(job.len);
        }
        if let MoveEnd::Failed(error) | MoveEnd::Stranded(error) = &fetched.end {
            // Nothing is lost: the restore uses the copy in the lower level.
            shared.telemetry.degrade("fetch", format!("fetching ahead failed: {error}"));
        }
        drop(span);
        shared.step_counted(|state| {
            fetched.tell_room(state, &job);
            state.up().fetch_done(&job, fetched.end);
        });
    }
    Ok(())
}

fn count(shared: &Shared, job: &MoveJob, since: Instant) {
    let hop = (stop(job.from.level), stop(job.to.level));
    shared.telemetry.metrics.hop(hop).add(job.len, since.elapsed());
}

/// Carries out the copies of one worker.
#[derive(Debug)]
struct Mover<'a> {
    shared: &'a Shared,
    /// For copies between device cache and host buffer. All others are made by the levels' stores.
    queue: Option<Queue<'a>>,
}

impl<'a> Mover<'a> {
    /// A mover for copies whose upper level is this one.
    fn new(shared: &'a Shared, upper: Level) -> Result<Self> {
        let queue = (upper == Level::DEVICE).then(|| Queue::new(shared)).transpose()?;
        Ok(Mover { shared, queue })
    }

    /// `waiting`: how many others there are to be carried out.
    fn carry_out(&mut self, job: &MoveJob, verb: &str, waiting: usize) -> Flushed {
        let what = format!("{verb} to the {}", job.to_name);
        match (&mut self.queue, (job.from.level, job.to.level)) {
            (Some(queue), (Level::DEVICE, Level::HOST)) => {
                let copies = |queue: &mut Queue<'_>| queue.flush(job, waiting);
                queue.flush_to(&job.to.extents, job.len, &what, (&job.name, job.version), copies)
            }
            (Some(queue), (Level::HOST, Level::DEVICE)) => {
                let copies = |queue: &mut Queue<'_>| queue.queue(job, Direction::Up);
                let end = queue.run(&what, (&job.name, job.version), copies);
                Flushed::new(end, 0)
            }
            _ => by_store(self.shared, job, &what),
        }
    }
}

/// Copies between two levels by their stores.
fn by_store(shared: &Shared, job: &MoveJob, what: &str) -> Flushed {
    let to_host = (job.to.level == Level::HOST).then(|| shared.host_side.host());
    let is_in_vain = || shared.catalog.read(|state| job.is_in_vain(state));
    // It may be of use again when it has ended.
    let was_in_vain = AtomicBool::new(false);
    let copy = || {
        let go_on = || match is_in_vain() {
            true => {
                was_in_vain.store(true, Ordering::Relaxed);
                Err(Error::new(ErrorKind::Internal, "the copy is of no use any more"))
            }
            false => shared.go_on(),
        };
        let (from, to) = (shared.store(job.from.level)?, shared.store(job.to.level)?);
        if job.to.level == Level::HOST {
            let host = shared.host_side.host()?;
            from.read_to(&job.from.extents, host, &job.to.extents, job.len, &go_on)?;
            return Ok(StoreResult::In(job.len));
        }
        let mut more = |bytes| shared.catalog.step(|state| state.down().more_room(job, bytes));
        let mut room = Room::new(&job.to.extents, &mut more);
        if job.from.level == Level::HOST {
            let host = shared.host_side.host()?;
            return to.write_from(&mut room, host, &job.from.extents, job.len, &go_on);
        }
        let mut stored = StoreResult::In(0);
        shared.read_copy(&job.from, 0..job.len, |bytes| {
            stored = to.write(&mut room, bytes)?;
            Ok(())
        })?;
        Ok(stored)
    };
    let mut untouched = 0;
    let copied = match to_host {
        Some(Ok(host)) => {
            untouched = host.untouched(&job.to.extents);
            let made = host.ensure(&job.to.extents);
            host.writing(&job.to.extents);
            let copied = made.and_then(|()| copy());
            match &copied {
                Ok(_) => host.written(&job.to.extents),
                Err(_) => host.not_written(&job.to.extents),
            }
            copied
        }
        Some(Err(error)) => Err(error),
        None => copy(),
    };
    let failed = |error: Error| about(&job.name, job.version)(error.within(what));
    match copied {
        Ok(stored) => Flushed { stored: Some(stored), ..Flushed::new(MoveEnd::Done, untouched) },
        Err(_) if was_in_vain.load(Ordering::Relaxed) || is_in_vain() => {
            let stored = Some(StoreResult::Full(job.len));
            Flushed { stored, ..Flushed::new(MoveEnd::Done, untouched) }
        }
        Err(error) => Flushed::new(MoveEnd::Failed(failed(error)), untouched),
    }
}

/// A lane for the calling thread, and those of the threads that help it with a large flush.
#[derive(Debug)]
pub(crate) struct Queue<'a> {
    shared: &'a Shared,
    lane: Lane,
    helpers: Vec<Lane>,
}

impl<'a> Queue<'a> {
    /// A queue for the calling thread.
    pub(crate) fn new(shared: &'a Shared) -> Result<Self> {
        let device = &shared.device_side.attached()?.device;
        device.bind()?;
        Ok(Queue { shared, lane: shared.device_side.lane(WaitMode::Block)?, helpers: Vec::new() })
    }

    /// The queue of arrivals, whose lane stays for the next one.
    pub(crate) fn for_arrivals(shared: &'a Shared) -> Result<Self> {
        let side = shared.device_side.attached()?;
        let before = side.arrivals.lock().take();
        match before {
            Some(lane) => {
                side.device.bind()?;
                Ok(Queue { shared, lane, helpers: Vec::new() })
            }
            None => Queue::new(shared),
        }
    }

    /// Keeps the lane for the next arrival.
    pub(crate) fn arrived(self) {
        if let Ok(side) = self.shared.device_side.attached() {
            *side.arrivals.lock() = Some(self.lane);
        }
    }

    /// Makes copies that `copies` queues, to these places in the host buffer, and waits for them.
    pub(crate) fn flush_to(
        &mut self,
        places: &[Extent],
        bytes: u64,
        what: &str,
        (name, version): (&str, i32),
        copies: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Flushed {
        let shared = self.shared;
        let host = match shared.host_side.host() {
            Ok(host) => host,
            Err(error) => return Flushed::new(MoveEnd::Failed(error), 0),
        };
        let untouched = host.untouched(places);
        if untouched > 0 {
            shared.host_side.memory_is_short(untouched);
            // Not all copies are the device's: the driver uses the processor for pages that are not
            // registered.
            if let Err(error) = host.ensure(places) {
                let error = about(name, version)(error.within(what));
                return Flushed::new(MoveEnd::Failed(error), untouched);
            }
        }
        host.writing(places);
        let flushing = shared.host_side.pace.flush();
        let end = self.run(what, (name, version), copies);
        if end == MoveEnd::Done {
            host.written(places);
            shared.host_side.flushed(flushing, bytes, untouched);
        } else {
            host.not_written(places);
        }
        Flushed::new(end, untouched)
    }

    /// Waits for the copies that `copies` queues. `what` describes them in errors.
    fn run(
        &mut self,
        what: &str,
        (name, version): (&str, i32),
        copies: impl FnOnce(&mut Self) -> Result<()>,
    ) -> MoveEnd {
        let finished = copies(self).and_then(|()| self.lane.finish(self.shared.host_side.host()?));
        let Err(error) = finished else {
            return MoveEnd::Done;
        };
        let error = about(name, version)(error.within(what));
        // The extents are reused next, so no copy may be running, in whichever lane: each is waited for.
        let lanes = std::iter::once(&mut self.lane).chain(&mut self.helpers);
        match lanes.fold(true, |ended, lane| lane.abandon() & ended) {
            true => MoveEnd::Failed(error),
            false => MoveEnd::Stranded(error),
        }
    }

    /// Makes the copies of a flush. Where the device cannot copy straight to the host buffer, one thread copies
    /// on from its ring, which is slower than the device: there, others help if it does not keep up and there are
    /// enough processors.
    fn flush(&mut self, job: &MoveJob, waiting: usize) -> Result<()> {
        let shared = self.shared;
        let wanted = |bytes| {
            #[cfg(test)]
            if let Some(lanes) = shared.host_side.flush_lanes.get() {
                return *lanes;
            }
            slice::lanes(affinity::usable_cpus(), bytes, waiting)
        };
        if wanted(job.len) == 1 {
            return self.queue(job, Direction::Down);
        }
        let (device, host, cache) = (
            &shared.device_side.attached()?.device,
            shared.host_side.host()?,
            shared.device_side.cache()?,
        );
        let (mut straight, mut staged) = (Vec::new(), Vec::new());
        for (device_at, host_at, len) in side_by_side(&job.from.extents, &job.to.extents, job.len) {
            let mut done = 0;
            while done < len {
                let offset = host_at + done;
                let place =
                    Extent { offset, len: (len - done).min(host.chunks().end(offset) - offset) };
                let is_straight = self.lane.is_straight(host, offset);
                let pieces = if is_straight { &mut straight } else { &mut staged };
                pieces.push((cache.address(device_at + done), place));
                done += place.len;
            }
        }
        let lens: Vec<u64> = staged.iter().map(|(_, place)| place.len).collect();
        let lanes = self.ready_lanes(wanted(lens.iter().sum()));
        if lanes == 1 {
            return self.queue(job, Direction::Down);
        }
        let mut shares = vec![Vec::new(); lanes];
        shares[0] = straight;
        for (lane, piece, part) in slice::shares(&lens, lanes) {
            let (device_at, place) = staged[piece];
            let len = part.end - part.start;
            let place = Extent { offset: place.offset + part.start, len };
            shares[lane].push((device_at + part.start, place));
        }
        let copy = |lane: &mut Lane, pieces: &[(u64, Extent)]| {
            debug_assert!(lane.is_idle(), "a slice of an earlier job is active");
            for &(device_at, place) in pieces {
                let (down, gate) = (Direction::Down, Some(&shared.device_side.gate));
                // SAFETY: the catalog has given this worker both runs until its job ends, and each lane has a part
                // of its own. Before, `run` waits for all lanes, or their drop does after a panic.
                unsafe { lane.copy(host, down, device_at, place, gate) }?;
            }
            lane.finish(host)
        };
        let mut own = shares.remove(0);
        thread::scope(|scope| {
            let mut started = Vec::new();
            for (lane, share) in self.helpers.iter_mut().zip(&shares) {
                let topic = logging::topic();
                let help = move || {
                    logging::set_topic(topic);
                    device.bind()?;
                    copy(lane, share)
                };
                let builder = Builder::new().name("veloc-flush".to_owned());
                match threads::unsignalled(|| builder.spawn_scoped(scope, help)) {
                    Ok(thread) => started.push(thread),
                    Err(error) => {
                        let what = format!("a flush has fewer threads, so it is slower: {error}");
                        shared.telemetry.degrade("flush threads", what);
                        own.extend(share);
                    }
                }
            }
            let copied = copy(&mut self.lane, &own);
            // A panic goes on in this worker, as if it were its own; the lanes' ends wait for what is active.
            let helped = started
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            helped.fold(copied, Result::and)
        })
    }

    /// Makes lanes for helpers, if there are fewer than wanted. Returns how many lanes can be used.
    fn ready_lanes(&mut self, wanted: usize) -> usize {
        while self.helpers.len() + 1 < wanted {
            match self.shared.device_side.lane(WaitMode::Block) {
                Ok(lane) => self.helpers.push(lane),
                Err(error) => {
                    let what = format!("flushes have fewer threads, so they are slower: {error}");
                    self.shared.telemetry.degrade("flush threads", what);
                    break;
                }
            }
        }
        wanted.min(self.helpers.len() + 1)
    }

    fn queue(&mut self, job: &MoveJob, direction: Direction) -> Result<()> {
        let cache = self.shared.device_side.cache()?;
        let (device, host) = match direction {
            Direction::Down => (&job.from.extents, &job.to.extents),
            Direction::Up => (&job.to.extents, &job.from.extents),
        };
        for (device_at, host_at, len) in side_by_side(device, host, job.len) {
            let place = Extent { offset: host_at, len };
            self.stretch(cache.address(device_at), place, direction)?;
        }
        Ok(())
    }

    /// Copies between a device address and a place in the host buffer, which the catalog has given this
    /// worker until its job ends.
    pub(crate) fn stretch(
        &mut self,
        device: u64,
        place: Extent,
        direction: Direction,
    ) -> Result<()> {
        let (shared, host) = (self.shared, self.shared.host_side.host()?);
        // SAFETY: the catalog has given this worker both runs, or the device's belongs to a deferred capture;
        // they stay valid until the job ends, which `run` waits for on every path.
        unsafe { self.lane.copy(host, direction, device, place, Some(&shared.device_side.gate)) }
    }
}
