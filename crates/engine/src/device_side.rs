//! The device of a job, once the application uses one, and what its threads need there.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::device_compression::DeviceCompression;
use super::gate::{Closed, Gate};
use super::lane::Lane;
use super::telemetry::Telemetry;
use catalog::space::{cut, Extent};
use catalog::state::StoreResult;
use device::{ApplicationStream, Current, Device, Event, WaitMode};
use errors::{Error, ErrorKind, Result};
use levels::device_cache::DeviceCache;
use levels::store::{Put, Room, Store};
use once_cell::sync::OnceCell;
use os::sync::{Mutex, MutexGuard};

/// The device of a job.
#[derive(Debug)]
pub struct DeviceSide {
    pub(super) telemetry: Arc<Telemetry>,
    pub(crate) attached: OnceLock<Attached>,
    /// Lets captures pause background copies.
    pub(crate) gate: Gate,
    /// The stream that the application handed over.
    stream: Mutex<Option<ApplicationStream>>,
}

/// A device that the job uses.
#[derive(Debug)]
pub(crate) struct Attached {
    pub device: Arc<Device>,
    /// The device cache; `None` if it is disabled or impossible.
    pub cache: Option<DeviceCache>,
    /// The lane and event of captures and restores, from the first one on ([`DeviceSide::own`]).
    pub own: OnceCell<Mutex<ApplicationLane>>,
    /// The lane by which files are written from the device cache, while it is unused. A thread that finds
    /// none makes another one: no thread waits for another's file.
    pub to_files: Mutex<Option<Lane>>,
    /// The lane by which lent memory arrives, while it is unused.
    pub arrivals: Mutex<Option<Lane>>,
    /// What compressed regions need.
    pub compression: DeviceCompression,
}

/// The lane and event of the application's threads on the device, for one thread at a time.
#[derive(Debug)]
pub(crate) struct ApplicationLane {
    /// The lane of their copies.
    pub lane: Lane,
    /// Orders the lane after the application's queued work.
    pub after: Event,
}

impl DeviceSide {
    pub(crate) fn new(telemetry: Arc<Telemetry>) -> DeviceSide {
        DeviceSide {
            telemetry,
            attached: OnceLock::new(),
            gate: Gate::default(),
            stream: Mutex::default(),
        }
    }

    /// The application hands over its stream, or takes it back.
    pub fn set_stream(&self, stream: Option<ApplicationStream>) {
        *self.stream.lock() = stream;
    }

    /// The stream that the application has handed over.
    pub(crate) fn given_stream(&self) -> Option<ApplicationStream> {
        *self.stream.lock()
    }

    /// The device, if there are device pointers or bytes in the device cache.
    pub(crate) fn attached(&self) -> Result<&Attached> {
        self.attached.get().ok_or_else(|| Error::new(ErrorKind::Internal, "there is no device"))
    }

    /// A lane of the device, whose thread waits in this mode.
    pub(crate) fn lane(&self, waiting: WaitMode) -> Result<Lane> {
        Lane::new(&self.attached()?.device, &self.telemetry, waiting)
    }

    /// The lane and event of captures and restores, which no other thread uses meanwhile.
    pub(crate) fn own(&self) -> Result<MutexGuard<'_, ApplicationLane>> {
        let side = self.attached()?;
        let own = side.own.get_or_try_init(|| -> Result<_> {
            let after = Event::new(&side.device, WaitMode::Spin)?;
            Ok(Mutex::new(ApplicationLane { lane: self.lane(WaitMode::Spin)?, after }))
        });
        Ok(own?.lock())
    }

    /// The device cache, if the catalog says that it has bytes.
    pub fn cache(&self) -> Result<&DeviceCache> {
        self.attached()?
            .cache
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "there is no device cache"))
    }

    /// Whether the job has a device yet.
    pub fn has_device(&self) -> bool {
        self.attached.get().is_some()
    }

    /// The job's device.
    ///
    /// # Errors
    /// The job has none yet.
    pub fn device(&self) -> Result<&Arc<Device>> {
        Ok(&self.attached()?.device)
    }

    /// Whether kernels on the device can write to memory of `malloc`.
    pub fn kernels_reach_host(&self) -> bool {
        self.attached.get().is_some_and(|side| side.device.capabilities().reaches_host)
    }

    /// The driver is about to shut down: no copy on the device begins until [`DeviceSide::resume_copies`].
    pub fn hold_copies(&self) {
        self.gate.rest();
    }

    /// The driver has shut down, and copies get its error.
    pub fn resume_copies(&self) {
        self.gate.resume();
    }

    /// Orders the library's stream after all work that the application has queued: in its stream if it gave
    /// one, otherwise in the whole context. Returns a guard that pauses background copies until the
    /// application's copy is done.
    pub(crate) fn after_application(
        &self,
        device: &Device,
        own: &ApplicationLane,
    ) -> Result<Option<Closed<'_>>> {
        if let Some(application) = self.given_stream() {
            own.after.record_in(application)?;
            own.lane.stream().wait(&own.after)?;
            return Ok(None);
        }
        let closed = self.gate.close();
        device.synchronize()?;
        Ok(Some(closed))
    }

    /// Waits for all work that the application has queued, which may use registered host memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn await_queued(&self) -> Result<()> {
        self.await_application().map(drop)
    }

    /// Waits for all work that the application has queued. The context is current until the second is dropped.
    pub(crate) fn await_application(&self) -> Result<(Current, MutexGuard<'_, ApplicationLane>)> {
        let own = self.own()?;
        let side = self.attached()?;
        let current = side.device.enter()?;
        drop(self.after_application(&side.device, &own)?);
        own.lane.stream().synchronize()?;
        Ok((current, own))
    }
}

impl Store for DeviceSide {
    fn read(&self, copy: &[Extent], range: Range<u64>, put: &mut Put<'_>) -> Result<()> {
        let (cache, side) = (self.cache()?, self.attached()?);
        let _current = side.device.enter()?;
        let idle = side.to_files.lock().take();
        let mut lane = idle.map_or_else(|| self.lane(WaitMode::Block), Ok)?;
        for place in cut(copy, range.start, range.end - range.start) {
            let from = cache.address(place.offset);
            // SAFETY: a complete copy, which does not change while it is read.
            unsafe { lane.read(from, place.len, Some(&self.gate), &mut *put) }?;
        }
        *side.to_files.lock() = Some(lane);
        Ok(())
    }

    fn write(&self, room: &mut Room<'_>, bytes: &[u8]) -> Result<StoreResult> {
        let (cache, side) = (self.cache()?, self.attached()?);
        let own = self.own()?;
        let _current = side.device.enter()?;
        let stream = own.lane.stream();
        let stored = room.put(bytes.len() as u64, |place, range| {
            let (to, from) = (cache.address(place.offset), &bytes[range]);
            // SAFETY: the catalog has given the caller the place; the caller's bytes stay valid until the
            // stream was waited for.
            unsafe { stream.copy_from_host(to, from.as_ptr(), place.len) }
        });
        stream.synchronize()?;
        stored
    }
}
