//! Copies between the application's memory and the levels of memory, on the application's thread.
//!
//! Device memory is copied in the library's own stream, host memory by the processor, both at the same time.
//! No copy is running when `copy` returns, whatever happens; if that cannot be ensured, the checkpoint's room
//! is never reused.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::device_side::ApplicationLane;
use super::gate::Closed;
use super::lane::Direction;
use super::place::Place;
use super::run::{stop, Run, Way};
use super::shared::Shared;
use super::telemetry::Telemetry;
use catalog::space::Extent;
use catalog::state::Source;
use catalog::{Id, Level, Region, MOST};
use device::{Current, Pointer, PAGEABLE};
use errors::{Error, ErrorKind, Result};
use files::Target;
use levels::host_buffer::HostBuffer;
use levels::store::Store;
use os::sync::MutexGuard;
use trace::metrics::{Cause, Stop};
use trace::Activity;

impl Shared {
    /// Copies `runs` of checkpoint `id` and waits for them. The copies come after all work that the
    /// application has queued before (in its stream, if it gave one).
    pub(super) fn copy(&self, id: Id, way: Way, runs: &[Run]) -> Result<()> {
        let on_device = |run: &Run| run.place.kind != PAGEABLE || run.level == Level::DEVICE;
        if !runs.iter().any(on_device) {
            let since = Instant::now();
            let copied = self.copy_by_processor(way, runs);
            let time = since.elapsed();
            self.telemetry.metrics.waited_for(Cause::Copy, since, time);
            return copied.map(|()| count(&self.telemetry, way, runs, (since, time), true));
        }
        if way == Way::In {
            // As for copies by the processor: the driver uses it for pages that are not registered.
            let down = runs.iter().filter(|run| run.level == Level::HOST && !run.by_processor());
            down.into_iter().try_for_each(|run| self.host_side.host()?.ensure(&run.extents))?;
        }
        let mut queue = DeviceCopies::begin(self, id, runs)?;
        let since = Instant::now();
        let queued =
            runs.iter().filter(|run| !run.by_processor()).try_for_each(|run| queue.add(way, run));
        let copied = queued.and_then(|()| self.copy_and_count(way, runs));
        let finished = queue.finish();
        self.telemetry.metrics.waited(Cause::Copy, since);
        finished.and(copied)?;
        count(&self.telemetry, way, runs, (since, since.elapsed()), false);
        Ok(())
    }

    /// Copies the runs that the processor copies, and counts them.
    pub(super) fn copy_and_count(&self, way: Way, runs: &[Run]) -> Result<()> {
        let since = Instant::now();
        self.copy_by_processor(way, runs)?;
        count(&self.telemetry, way, runs, (since, since.elapsed()), true);
        Ok(())
    }

    fn copy_by_processor(&self, way: Way, runs: &[Run]) -> Result<()> {
        let own: Vec<&Run> = runs.iter().filter(|run| run.by_processor()).collect();
        if own.is_empty() {
            return Ok(());
        }
        let host = self.host_side.host()?;
        match way {
            Way::Out => own.iter().for_each(|run| copy_run(host, way, run)),
            Way::In => {
                let extents: Cow<'_, [Extent]> = match &own[..] {
                    [run] => Cow::Borrowed(&run.extents),
                    _ => own.iter().flat_map(|run| &run.extents).copied().collect(),
                };
                // A capture into the host buffer writes new pages, like a flush.
                let untouched = host.untouched(&extents);
                // The touching threads check memory for it: that would keep a checkpoint waiting too long.
                self.host_side.guard.count(untouched);
                if untouched > 0 {
                    host.ensure(&extents)?;
                }
                host.writing(&extents);
                let flushing = self.host_side.pace.flush();
                own.iter().for_each(|run| copy_run(host, way, run));
                host.written(&extents);
                self.host_side.flushed(
                    flushing,
                    own.iter().map(|run| run.bytes()).sum(),
                    untouched,
                );
            }
        }
        Ok(())
    }

    /// Restores from a level whose own store has the bytes, each place from this byte of the copy on. The bytes
    /// go through this process's memory, like those of a file.
    pub(super) fn copy_by_store(&self, source: &Source, wanted: &[(u64, Place)]) -> Result<()> {
        if wanted.iter().any(|(_, place)| place.kind != PAGEABLE) {
            // After the application's own work on that memory.
            let _waiting = self.telemetry.metrics.wait(Cause::Order);
            drop(self.device_side.await_application()?);
        }
        let since = Instant::now();
        let store = self.store(source.level)?;
        for (start, place) in wanted {
            let region = Region {
                id: place.id,
                size: place.len,
                part: place.part,
                offset: 0,
                decoded: None,
            };
            let mut target = self.target(&region, place, true);
            let mut put = |bytes: &[u8]| match &mut target {
                Target::Taken(_, take) => take(bytes),
                Target::Memory(_) => Ok(()),
            };
            store.read(&source.extents, *start..start + place.len, &mut put)?;
        }
        self.telemetry.metrics.waited(Cause::Copy, since);
        let bytes = wanted.iter().map(|(_, place)| place.len).sum();
        let hop = (stop(source.level), Stop::Application);
        self.telemetry.metrics.hop(hop).add(bytes, since.elapsed());
        self.telemetry.trace.spent(Activity::Recover, since, since.elapsed(), bytes);
        Ok(())
    }

    /// The memory of a level, if the catalog says that it has bytes.
    pub(super) fn store(&self, level: Level) -> Result<&dyn Store> {
        match level {
            Level::DEVICE => Ok(&self.device_side),
            Level::HOST => Ok(self.host_side.host()?),
            lower => {
                let lower = self.host_side.lower.get(lower.index() - 2);
                let store = lower
                    .ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such level"))?;
                Ok(&**store)
            }
        }
    }

    /// Passes the bytes in `range` of a copy in memory to `put`, piece by piece in order, until the engine stops.
    /// The caller keeps the copy from being evicted.
    pub(super) fn read_copy(
        &self,
        source: &Source,
        range: Range<u64>,
        mut put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.store(source.level)?.read(&source.extents, range, &mut |piece| {
            self.go_on()?;
            put(piece)
        })
    }

    /// Passes the bytes of a region to `put` ([`read_copy`](Self::read_copy)).
    pub(super) fn read_memory(
        &self,
        source: &Source,
        region: &Region,
        put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.read_copy(source, region.offset..region.offset + region.size, put)
    }
}

/// Counts a copy: its bytes, its start and its duration.
fn count(
    telemetry: &Telemetry,
    way: Way,
    runs: &[Run],
    (since, time): (Instant, Duration),
    by_processor: bool,
) {
    let mut of_level = [0; MOST];
    for run in runs.iter().filter(|run| run.by_processor() == by_processor) {
        of_level[run.level.index()] += run.bytes();
    }
    for (level, bytes) in (0..MOST).map(Level::new).zip(of_level) {
        if bytes > 0 {
            let hop = match way {
                Way::In => (Stop::Application, stop(level)),
                Way::Out => (stop(level), Stop::Application),
            };
            telemetry.metrics.hop(hop).add(bytes, time);
            let event = if way == Way::In { Activity::Capture } else { Activity::Recover };
            telemetry.trace.spent(event, since, time, bytes);
        }
    }
}

/// Bytes that are copied at a time: new pages of so many are still in the processor's caches.
const STEP: u64 = 1 << 20;

/// Copies a run between host memory and the host buffer.
fn copy_run(host: &HostBuffer, way: Way, run: &Run) {
    let mut application = run.place.address as *mut u8;
    let steps = run.extents.iter().flat_map(|extent| {
        (0..extent.len)
            .step_by(STEP as usize)
            .map(|at| Extent { offset: extent.offset + at, len: STEP.min(extent.len - at) })
    });
    for extent in steps {
        if way == Way::In {
            host.make_pages(extent);
        }
        let (buffer, len) = (host.address(extent.offset), extent.len as usize);
        // SAFETY: the application passes at least as many bytes as the run has (the client has checked it)
        // and does not use them during the call; the extents are this checkpoint's, within the mapping, and
        // complete if they are read. Registration does not matter to the processor.
        unsafe {
            match way {
                Way::In => std::ptr::copy_nonoverlapping(application, buffer, len),
                Way::Out => std::ptr::copy_nonoverlapping(buffer, application, len),
            }
            application = application.add(len);
        }
    }
}

/// Copies of a checkpoint that are queued in the library's own stream. They are waited for on every path, as
/// their room may be reused afterwards.
struct DeviceCopies<'a> {
    shared: &'a Shared,
    id: Id,
    /// Whether some may be running.
    under_way: bool,
    own: MutexGuard<'a, ApplicationLane>,
    /// The extents of the host buffer that they write.
    written: Vec<Extent>,
    /// Keeps background copies paused while the application waits for the whole context.
    _closed: Option<Closed<'a>>,
    _current: Current,
}

impl<'a> DeviceCopies<'a> {
    fn begin(shared: &'a Shared, id: Id, runs: &[Run]) -> Result<Self> {
        let side = shared.device_side.attached()?;
        let own = shared.device_side.own()?;
        let current = side.device.enter()?;
        let waiting = shared.telemetry.metrics.wait(Cause::Order);
        let closed = shared.device_side.after_application(&side.device, &own)?;
        // Queued copies of the application may still use registered host memory, which the processor is about
        // to use.
        let pinned = Pointer::Host { pinned: true };
        if runs.iter().any(|run| run.place.kind == pinned && run.by_processor()) {
            own.lane.stream().synchronize()?;
        }
        drop(waiting);
        Ok(DeviceCopies {
            shared,
            id,
            under_way: true,
            own,
            written: Vec::new(),
            _closed: closed,
            _current: current,
        })
    }

    fn add(&mut self, way: Way, run: &Run) -> Result<()> {
        let mut application = run.place.address;
        for extent in &run.extents {
            if run.level == Level::DEVICE {
                let cached = self.shared.device_side.cache()?.address(extent.offset);
                self.add_to_cache(way, &run.place, application, cached, extent.len)?;
            } else {
                self.add_to_host(way, application, *extent)?;
            }
            application += extent.len;
        }
        Ok(())
    }

    /// Copies between the application's memory of any kind and the device cache.
    fn add_to_cache(
        &self,
        way: Way,
        place: &Place,
        application: u64,
        cached: u64,
        len: u64,
    ) -> Result<()> {
        let stream = self.own.lane.stream();
        let (to, from) = match way {
            Way::In => (cached, application),
            Way::Out => (application, cached),
        };
        // SAFETY: the extent is this checkpoint's, and complete if it is read; the driver has confirmed
        // device pointers, the application guarantees host pointers; all stay valid until `finish` has waited
        // for the stream.
        unsafe {
            match place.kind {
                Pointer::Device { managed: false, .. } => stream.copy_on_device(to, from, len),
                Pointer::Device { managed: true, .. } | Pointer::Host { .. } => {
                    stream.copy_any(to, from, len)
                }
            }
        }
    }

    /// Copies between device memory of the application and the host buffer.
    fn add_to_host(&mut self, way: Way, application: u64, extent: Extent) -> Result<()> {
        let direction = match way {
            Way::In => Direction::Down,
            Way::Out => Direction::Up,
        };
        let host = self.shared.host_side.host()?;
        // SAFETY: as in `add_to_cache`.
        unsafe { self.own.lane.copy(host, direction, application, extent, None)? };
        if way == Way::In {
            self.written.push(extent);
        }
        Ok(())
    }

    /// Waits for all copies.
    fn finish(mut self) -> Result<()> {
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        let (lane, host) = (&mut self.own.lane, &self.shared.host_side.buffer);
        let arrived = host.as_ref().map_or(Ok(()), |host| lane.finish(host));
        let waited = arrived.and_then(|()| lane.stream().synchronize());
        if waited.is_err() && !lane.abandon() {
            // If even the context cannot be waited for, the copies may be running for ever.
            self.shared.catalog.step(|state| state.captures().strand(self.id));
        }
        if let Some(host) = host.as_ref().filter(|_| waited.is_ok()) {
            host.written(&self.written);
        }
        self.under_way = false;
        waited
    }
}

impl Drop for DeviceCopies<'_> {
    fn drop(&mut self) {
        if self.under_way {
            // The panic itself is reported.
            let _ = self.wait();
        }
    }
}
