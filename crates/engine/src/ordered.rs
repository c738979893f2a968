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
    /// Those of each stream that the application has handed over, the last one at the end.
    streams: Mutex<Vec<OrderedStream>>,
    /// Events that are not used.
    idle: Mutex<Vec<Arc<Event>>>,
}

type OrderedCalls = Calls<Arc<Event>, CallEnd>;

/// For more streams that have queued copies at the same time, calls wait.
const MOST_STREAMS: usize = 16;

/// The copies of a call that are queued.
#[derive(Clone, Debug)]
pub(super) struct QueuedCopies {
    /// Is reached when they are made.
    event: Arc<Event>,
    calls: Arc<OrderedCalls>,
}

impl QueuedCopies {
    /// Waits for them.
    pub(super) fn synchronize(&self) -> Result<()> {
        self.event.synchronize()
    }
}

/// The stream of the copies.
#[derive(Debug)]
struct OrderedStream {
    stream: Stream,
    /// The application's stream that it takes turns with.
    with: ApplicationStream,
    /// Is recorded in that stream.
    after: Event,
    /// What is queued. It has a worker of its own, as another stream may stand still.
    calls: Arc<OrderedCalls>,
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
        self.streams.lock().iter().for_each(|own| own.calls.stop());
    }
}

impl Shared {
    /// Whether the configuration lets copies stand in the order of a stream. What else it has was told at the start.
    fn may_order(&self) -> bool {
        let config = &self.config;
        let waits = config.writes_directly() || config.incremental || config.verify_captures;
        config.stream_ordered && !waits
    }

    /// What is missing, so that calls wait for their copies.
    fn lacks_for_order(&self) -> Option<&'static str> {
        if self.device_side.cache().is_err() {
            return Some("there is no device cache (gpu_cache_size)");
        }
        let given = self.device_side.given_stream();
        given
            .is_none()
            .then_some("no stream was given whose order copies could follow (VELOC_Set_stream)")
    }

    /// Says once for each reason that calls wait, though the key is set.
    pub(super) fn waits_unordered(&self, topic: &'static str, why: impl std::fmt::Display) {
        let what = format_args!("calls wait for their copies (stream_ordered): {why}");
        self.telemetry.degrade(topic, what);
    }

    /// Queues copies between plain device memory and the device cache.
    ///
    /// # Errors
    /// Nothing is being copied. If that cannot be made sure, the checkpoint's room is never reused.
    pub(super) fn queue_in_order(&self, id: Id, way: Way, runs: &[Run]) -> Result<QueuedCopies> {
        let device = &self.device_side.attached()?.device;
        let cache = self.device_side.cache()?;
        let _current = device.enter()?;
        let streams = self.ordered.streams.lock();
        let own = streams.last().filter(|own| Some(own.with) == self.device_side.given_stream());
        let own = own.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such stream"))?;
        let with = own.with;
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
        queued.map(|()| QueuedCopies { event, calls: own.calls.clone() })
    }

    /// Whether the copies of a capture are queued where those of a restore would be queued now.
    pub(super) fn is_queued_before(&self, id: Id) -> bool {
        let streams = self.ordered.streams.lock();
        let own = streams.last().filter(|own| Some(own.with) == self.device_side.given_stream());
        let is_capture =
            |end: &CallEnd| matches!(end, CallEnd::Capture(arrival) if arrival.id == id);
        own.is_some_and(|own| own.calls.any(is_capture))
    }

    /// Has the worker end a capture whose copies are queued.
    pub(super) fn watch_capture(&self, queued: QueuedCopies, arrival: Arrival) {
        queued.calls.add(queued.event, CallEnd::Capture(arrival));
    }

    /// Queues the copies of a restore, if they can be ordered, and leaves it to the worker to end the reading.
    pub(super) fn restore_in_order(
        &self,
        reading: Reading<'_>,
        (name, version): (&str, i32),
        runs: &[Run],
    ) -> Result<()> {
        let since = Instant::now();
        let queued = self.queue_in_order(reading.id, Way::Out, runs)?;
        let Reading { id, part, level, .. } = reading;
        // Not by its drop, but by the worker.
        std::mem::forget(reading);
        let (name, bytes) = (name.to_owned(), runs.iter().map(Run::bytes).sum());
        let restore = QueuedRestore { id, part, level, name, version, bytes, since };
        queued.calls.add(queued.event, CallEnd::Restore(restore));
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
        let since = Instant::now();
        let streams = self.ordered.streams.lock();
        let calls: Vec<Arc<OrderedCalls>> = streams.iter().map(|own| own.calls.clone()).collect();
        drop(streams);
        for end in calls
            .iter()
            .flat_map(|calls| calls.give_up_after(longest.saturating_sub(since.elapsed())))
        {
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
    pub fn orders(&self) -> bool {
        if !self.shared.may_order() || self.shared.lacks_for_order().is_some() {
            return false;
        }
        self.ready_to_order().unwrap_or_else(|error| {
            self.shared.waits_unordered("stream_ordered", error);
            false
        })
    }

    /// Makes the stream of the copies and starts the worker that waits for them, unless they are those of the stream that
    /// was handed over.
    fn ready_to_order(&self) -> Result<bool> {
        let Some(with) = self.shared.device_side.given_stream() else { return Ok(false) };
        let mut streams = self.shared.ordered.streams.lock();
        if let Some(at) = streams.iter().position(|own| own.with == with) {
            let own = streams.remove(at);
            streams.push(own);
            return Ok(true);
        }
        if streams.len() == MOST_STREAMS {
            let Some(idle) = streams.iter().position(OrderedStream::is_idle) else {
                let what = format!("copies are queued for {MOST_STREAMS} other streams");
                return Err(Error::new(ErrorKind::NoRoom, what));
            };
            streams.remove(idle).calls.stop();
        }
        let made = OrderedStream::new(&self.shared.device_side.attached()?.device, with)?;
        let calls = made.calls.clone();
        self.workers.spawn("order", move |shared| watch(shared, &calls))?;
        streams.push(made);
        Ok(true)
    }

    /// Has the device copy the regions on it in the order of the application's stream, if the others are copied by the
    /// processor in the call. A checkpoint with memory that queued work may use beside the device waits as without a
    /// stream's order.
    pub fn order_captures(&self, places: &mut [Place]) {
        if !self.shared.may_order() || !places.iter().any(|place| is_plain(place.kind)) {
            return;
        }
        // Its buffer is the next checkpoint's.
        let encoded = places.iter().find(|place| is_plain(place.kind) && place.decoded.is_some());
        let may_be = |place: &Place| {
            place.capture == Capture::Copy && (is_plain(place.kind) || place.kind == PAGEABLE)
        };
        if let Some(other) = places.iter().find(|place| !may_be(place)) {
            let why = format_args!(
                "region {} is managed or registered memory, which queued work may use, too, or its capture is \
                 deferred",
                other.id
            );
            self.shared.waits_unordered("stream_ordered, regions", why);
        } else if let Some(encoded) = encoded {
            let why = format_args!("region {} is compressed in the call", encoded.id);
            self.shared.waits_unordered("stream_ordered, compressed", why);
        } else if let Some(missing) = self.shared.lacks_for_order() {
            self.shared.waits_unordered("stream_ordered, missing", missing);
        } else if self.orders() {
            for place in places.iter_mut().filter(|place| is_plain(place.kind)) {
                place.capture = Capture::Ordered;
            }
        }
    }

    /// Waits until no ordered copies are queued, at most as long as for a thread. What is behind work of the application
    /// that does not end is given up: its room stays as it is, and its version does not exist.
    pub fn await_ordered(&self) {
        self.shared.give_up_ordered(JOIN_TIMEOUT);
    }
}

impl OrderedStream {
    /// Whether nothing is queued, and no call is about to add what it has queued: only this and the worker have the calls.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.calls) <= 2 && self.calls.is_empty()
    }

    fn new(device: &Arc<Device>, with: ApplicationStream) -> Result<OrderedStream> {
        let (stream, after) = (Stream::new(device)?, Event::new(device, WaitMode::Spin)?);
        Ok(OrderedStream { stream, with, after, calls: Arc::default() })
    }
}

/// Whether memory is on the device, and nowhere else.
pub(super) fn is_plain(kind: Pointer) -> bool {
    matches!(kind, Pointer::Device { managed: false, .. })
}

/// Waits for queued copies until the engine stops, or the stream is not the application's any more.
fn watch(shared: &Shared, calls: &OrderedCalls) -> Result<()> {
    let device = &shared.device_side.attached()?.device;
    let mut is_bound = false;
    while let Some(event) = calls.first() {
        // A context that is gone fails the calls that are queued, each by name, and not this worker.
        let bound = if is_bound { Ok(()) } else { device.bind() };
        is_bound = bound.is_ok();
        let seen = bound.and_then(|()| event.synchronize());
        let seen = seen.map_err(|error| error.within("its copies in the order of the stream"));
        if let Some(end) = calls.end() {
            shared.end_in_order(end, seen);
        }
        shared.ordered.idle.lock().push(event);
    }
    Ok(())
}
