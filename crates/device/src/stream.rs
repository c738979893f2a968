//! Streams, events and copies.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUevent, CUstream};

use super::context::Device;
use os::error::{Error, Result};

/// `CU_STREAM_NON_BLOCKING`: does not synchronize with the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_BLOCKING_SYNC`: a thread that waits for the event sleeps.
const BLOCKING_SYNC: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`: cheaper; no event is used for timing.
const DISABLE_TIMING: u32 = 2;

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// A stream of the library's own, independent of all others.
#[derive(Debug)]
pub struct Stream {
    device: Arc<Device>,
    raw: CUstream,
}

// SAFETY: the driver allows a stream's use from any thread.
unsafe impl Send for Stream {}

impl Stream {
    /// Makes a stream.
    pub fn new(device: &Arc<Device>) -> Result<Stream> {
        let _current = device.enter()?;
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: the pointer is to a local, and a context is current.
        unsafe { device.driver.cuStreamCreate(&mut raw, NON_BLOCKING) }?;
        Ok(Stream { device: device.clone(), raw })
    }

    /// Waits for all queued work.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { self.device.driver.cuStreamSynchronize(self.raw) }
    }

    /// Makes work that is queued later wait for the event.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { self.device.driver.cuStreamWaitEvent(self.raw, event.raw, 0) }
    }

    /// Queues a copy between device addresses; managed memory counts as such.
    ///
    /// # Safety
    /// Both ranges stay valid until the copy is complete, and nothing else uses `to`.
    pub unsafe fn copy_on_device(&self, to: u64, from: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.driver.cuMemcpyDtoDAsync_v2(to, from, len as usize, self.raw) }
    }

    /// Queues a copy whose direction the driver determines, for managed memory.
    ///
    /// # Safety
    /// As for [`Stream::copy_on_device`].
    pub unsafe fn copy_any(&self, to: u64, from: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.driver.cuMemcpyAsync(to, from, len as usize, self.raw) }
    }

    /// Queues a copy from device to host memory. If the host memory is not registered, the call blocks
    /// until the copy is complete.
    ///
    /// # Safety
    /// As for [`Stream::copy_on_device`]; the host range lies within one registration.
    pub unsafe fn copy_to_host(&self, to: *mut u8, from: u64, len: u64) -> Result<()> {
        let to = to.cast::<c_void>();
        // SAFETY: the caller's promise.
        unsafe { self.device.driver.cuMemcpyDtoHAsync_v2(to, from, len as usize, self.raw) }
    }

    /// Queues a copy from host to device memory. If the host memory is not registered, the call may
    /// block.
    ///
    /// # Safety
    /// As for [`Stream::copy_to_host`].
    pub unsafe fn copy_from_host(&self, to: u64, from: *const u8, len: u64) -> Result<()> {
        let from = from.cast::<c_void>();
        // SAFETY: the caller's promise.
        unsafe { self.device.driver.cuMemcpyHtoDAsync_v2(to, from, len as usize, self.raw) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made in `new`, used by nobody else.
        self.device.destroy_in_context(|driver| unsafe { driver.cuStreamDestroy_v2(self.raw) });
    }
}

/// How a thread waits for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// As the context is configured, by default by polling: it takes a processor, with the least
    /// latency. For the application's threads, which have nothing else to do.
    Spin,
    /// Sleeps until the driver wakes the thread, leaving the processor to the application. For workers.
    Block,
}

/// A point in a stream that can be waited for.
#[derive(Debug)]
pub struct Event {
    device: Arc<Device>,
    raw: CUevent,
}

// SAFETY: the driver allows an event's use from any thread.
unsafe impl Send for Event {}

impl Event {
    /// Creates an event with this way of waiting.
    pub fn new(device: &Arc<Device>, waiting: WaitMode) -> Result<Event> {
        let flags = match waiting {
            WaitMode::Spin => DISABLE_TIMING,
            WaitMode::Block => DISABLE_TIMING | BLOCKING_SYNC,
        };
        let _current = device.enter()?;
        let mut raw: CUevent = std::ptr::null_mut();
        // SAFETY: the pointer is to a local, and a context is current.
        unsafe { device.driver.cuEventCreate(&mut raw, flags) }?;
        Ok(Event { device: device.clone(), raw })
    }

    /// Records the event after the work that is queued in `stream`.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { self.device.driver.cuEventRecord(self.raw, stream.raw) }
    }

    /// Records the event after the work that is queued in a stream of the application.
    pub fn record_in(&self, stream: ApplicationStream) -> Result<()> {
        // SAFETY: the application promised to keep its stream until it sets another one.
        if unsafe { self.device.driver.is_capturing(stream.0.cast()) } {
            return Err(Error::invalid(format!(
                "the stream {:p} is being captured into a graph, which a checkpoint cannot be part \
                 of",
                stream.0
            )));
        }
        // SAFETY: as above.
        unsafe { self.device.driver.cuEventRecord(self.raw, stream.0.cast()) }
            .map_err(|error| error.within(format!("the stream {:p}", stream.0)))
    }

    /// Waits until the event has been reached.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { self.device.driver.cuEventSynchronize(self.raw) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new`, used by nobody else.
        self.device.destroy_in_context(|driver| unsafe { driver.cuEventDestroy_v2(self.raw) });
    }
}

/// A stream of the application (`VELOC_Set_stream`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationStream(*mut c_void);

// SAFETY: a handle; the driver allows its use from any thread.
unsafe impl Send for ApplicationStream {}

impl ApplicationStream {
    /// Takes the handle, if it is a stream of this device's context.
    ///
    /// # Safety
    /// `raw` is a stream that stays alive as long as it is used here.
    pub unsafe fn new(device: &Device, raw: *mut c_void) -> Result<ApplicationStream> {
        if raw as usize == PER_THREAD {
            return Err(Error::invalid(
                "the per-thread default stream is another one on each thread; give NULL, which \
                 stands for everything that is queued",
            ));
        }
        let _current = device.enter()?;
        let mut context: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer is to a local; the rest is the caller's promise.
        unsafe { device.driver.cuStreamGetCtx(raw.cast(), &mut context) }
            .map_err(|error| error.within(format!("the stream {raw:p}")))?;
        // For a green context's stream, the reported context represents the green context. Work and
        // memory belong to the primary context, whose events can be recorded in the stream.
        // SAFETY: as above.
        let parent = unsafe { device.driver.primary_context_of(raw.cast()) };
        if device.has_context(context) || parent.is_some_and(|parent| device.has_context(parent)) {
            Ok(ApplicationStream(raw))
        } else {
            Err(Error::invalid(format!(
                "the stream {raw:p} belongs to another context than this job's checkpoints; NULL \
                 stands for everything that is queued"
            )))
        }
    }
}
