//! Copies in the order of the application's stream (`stream_ordered`). A call queues them between what the stream has
//! and what it gets later, and returns; a worker waits for their end.
//!
//! They run in a stream of the library's own. It waits for the application's, and the application's waits for them, so
//! that nothing of ours is in a stream that may be destroyed. Room, and what is being read, are given back only when
//! their event was seen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::Calls;
use super::lifecycle::Engine;
use super::place::Place;
use super::recover::Reading;
use super::run::{about, stop, Run, Way};
use super::shared::Shared;
use catalog::state::Arrival;
use catalog::{Id, Level, Part};
use device::{ApplicationStream, Device, Event, Pointer, Stream, WaitMode, PAGEABLE};
use errors::{Error, ErrorKind, Result};
use os::sync::Mutex;
use os::threads::JOIN_TIMEOUT;
use policy::capture::Capture;
use trace::metrics::Stop;
use trace::Activity;

/// The ordered copies of a job.
#[derive(Debug, Default)]
pub(crate) struct OrderedCopies {
    stream: Mutex<Option<OrderedStream>>,
    /// Events that are not used.
    idle: Mutex<Vec<Arc<Event>>>,
    calls: Calls<Arc<Event>, CallEnd>,
}

/// The stream of the copies.
#[derive(Debug)]
struct OrderedStream {
    stream: Stream,
    /// The application's stream that it takes turns with.
    with: ApplicationStream,
    /// Is recorded in that stream.
    after: Event,
}

/// What is to be done when the event behind the copies of a call was seen.
#[derive(Debug)]
enum CallEnd {
    /// The checkpoint is complete.
    Capture(Arrival),
    /// The copy is not read any more.
    Restore(QueuedRestore),
}

/// A restore whose copies are queued.
#[derive(Debug)]
struct QueuedRestore {
    id: Id,
    part: Part,
    level: Level,
    name: String,
    version: i32,
    bytes: u64,
    since: Instant,
}

impl OrderedCopies {
    /// The job ends: the worker waits for what is queued, and for nothing more.
    pub(crate) fn stop(&self) {
        self.calls.stop();
    }
}

impl Shared {
    /// Whether copies are ordered with the stream that the application has handed over.
    fn orders(&self) -> bool {
        let config = &self.config;
        let waits = config.writes_directly() || config.incremental || config.verify_captures;
        config.stream_ordered
            && !waits
            && self.device_side.cache().is_ok()
            && self.device_side.given_stream().is_some()
    }

    /// Queues copies between plain device memory and the device cache. Returns the event behind them.
    ///
    /// # Errors
    /// Nothing is being copied. If that cannot be made sure, the checkpoint's room is never reused.
    pub(super) fn queue_in_order(&self, id: Id, way: Way, runs: &[Run]) -> Result<Arc<Event>> {
        let device = &self.device_side.attached()?.device;
        let cache = self.device_side.cache()?;
        let with = self.device_side.given_stream();
        let with = with.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no stream"))?;
        let _current = device.enter()?;
        let mut own = self.ordered.stream.lock();
        let own = match own.take() {
            Some(before) if before.with == with => own.insert(before),
            // What another stream waits for must not keep this one waiting.
            _ => own.insert(OrderedStream::new(device, with)?),
        };
        let idle = self.ordered.idle.lock().pop();
        let event = match idle {
            Some(event) => event,
            None => Arc::new(Event::new(device, WaitMode::Block)?),
        };
        own.after.record_in(with)?;
        own.stream.wait(&own.after)?;
        let all = || {
            for run in runs {
                let mut application = run.place.address;
                for extent in &run.extents {
                    let cached = cache.address(extent.offset);
                    let (to, from) = match way {
                        Way::In => (cached, application),
                        Way::Out => (application, cached),
                    };
                    // SAFETY: the extent is this checkpoint's, and complete if it is read; the catalog keeps it until
                    // the event was seen. The driver has confirmed the application's pointer, and the application uses
                    // its memory in the order of its stream.
                    unsafe { own.stream.copy_on_device(to, from, extent.len) }?;
                    application += extent.len;
                }
            }
            event.record(&own.stream)?;
            with.wait(&event)
        };
        let queued = all();
        if queued.is_err() && own.stream.synchronize().or_else(|_| device.synchronize()).is_err() {
            self.catalog.step(|state| state.captures().strand(id));
        }
        queued.map(|()| event)
    }

    /// Has the worker end a capture whose copies are queued.
    pub(super) fn watch_capture(&self, event: Arc<Event>, arrival: Arrival) {
        self.ordered.calls.add(event, CallEnd::Capture(arrival));
    }

    /// Queues the copies of a restore, if they can be ordered, and leaves it to the worker to end the reading.
    pub(super) fn restore_in_order(
        &self,
        reading: Reading<'_>,
        (name, version): (&str, i32),
        runs: &[Run],
    ) -> Result<()> {
        let since = Instant::now();
        let event = self.queue_in_order(reading.id, Way::Out, runs)?;
        let Reading { id, part, level, .. } = reading;
        // Not by its drop, but by the worker.
        std::mem::forget(reading);
        let (name, bytes) = (name.to_owned(), runs.iter().map(Run::bytes).sum());
        let restore = QueuedRestore { id, part, level, name, version, bytes, since };
        self.ordered.calls.add(event, CallEnd::Restore(restore));
        Ok(())
    }

    /// Ends a call whose copies are complete, or can not be waited for.
    fn end_in_order(&self, end: CallEnd, seen: Result<()>) {
        match end {
            CallEnd::Capture(arrival) => self.arrive(&arrival, seen),
            CallEnd::Restore(restore) => {
                let QueuedRestore { id, part, level, bytes, since, .. } = restore;
                if let Err(error) = seen {
                    let error = about(&restore.name, restore.version)(error.within("restoring"));
                    self.catalog.step(|state| {
                        state.captures().strand(id);
                        state.up().release(id, part, level);
                        state.report(error);
                    });
                    return;
                }
                let hop = (stop(level), Stop::Application);
                self.telemetry.metrics.hop(hop).add(bytes, since.elapsed());
                self.telemetry.trace.spent(Activity::Recover, since, since.elapsed(), bytes);
                self.catalog.step(|state| state.up().release(id, part, level));
            }
        }
    }
}

impl Shared {
    pub(super) fn give_up_ordered(&self, longest: Duration) {
        for end in self.ordered.calls.give_up_after(longest) {
            let why = format!(
                "its copy is behind work of the application's stream (VELOC_Set_stream) that has not ended in {} s",
                longest.as_secs()
            );
            self.end_in_order(end, Err(Error::new(ErrorKind::System, why)));
        }
    }
}

impl Engine {
    /// Whether copies of device memory stand in the order of the application's stream (`stream_ordered`).
    ///
    /// # Errors
    /// There is no thread for the worker that waits for them.
    pub fn orders(&self) -> Result<bool> {
        if !self.shared.orders() {
            return Ok(false);
        }
        let start = || self.workers.spawn("order", watch);
        self.ordered_worker.get_or_try_init(start).map(|()| true)
    }

    /// Has the device copy the regions on it in the order of the application's stream, if the others are copied by the
    /// processor in the call. A checkpoint with memory that queued work may use beside the device waits as without a
    /// stream's order.
    ///
    /// # Errors
    /// As of [`orders`](Self::orders).
    pub fn order_captures(&self, places: &mut [Place]) -> Result<()> {
        let may_be = |place: &Place| {
            place.capture == Capture::Copy && (is_plain(place.kind) || place.kind == PAGEABLE)
        };
        if places.iter().all(may_be) && self.orders()? {
            for place in places.iter_mut().filter(|place| is_plain(place.kind)) {
                place.capture = Capture::Ordered;
            }
        }
        Ok(())
    }

    /// Waits until no ordered copies are queued, at most as long as for a thread. What is behind work of the application
    /// that does not end is given up: its room stays as it is, and its version does not exist.
    pub fn await_ordered(&self) {
        self.shared.give_up_ordered(JOIN_TIMEOUT);
    }
}

impl OrderedStream {
    fn new(device: &Arc<Device>, with: ApplicationStream) -> Result<OrderedStream> {
        let (stream, after) = (Stream::new(device)?, Event::new(device, WaitMode::Spin)?);
        Ok(OrderedStream { stream, with, after })
    }
}

/// Whether memory is on the device, and nowhere else.
pub(super) fn is_plain(kind: Pointer) -> bool {
    matches!(kind, Pointer::Device { managed: false, .. })
}

/// Waits for queued copies until the engine stops.
fn watch(shared: &Shared) -> Result<()> {
    shared.device_side.attached()?.device.bind()?;
    while let Some(event) = shared.ordered.calls.first() {
        let seen = event.synchronize();
        let seen = seen.map_err(|error| error.within("its copies in the order of the stream"));
        if let Some(end) = shared.ordered.calls.end() {
            shared.end_in_order(end, seen);
        }
        shared.ordered.idle.lock().push(event);
    }
    Ok(())
}
