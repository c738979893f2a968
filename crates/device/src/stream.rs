//! Streams, events and copies.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUevent, CUstream};

use super::context::Device;
use os::error::{Error, Result};

/// `CU_STREAM_NON_BLOCKING`: no waiting for the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_BLOCKING_SYNC`: who waits for the event sleeps.
const BLOCKING_SYNC: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`: cheaper, and nothing here is timed by events.
const DISABLE_TIMING: u32 = 2;

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// A stream of the library's own, which waits for no other.
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

    /// Waits for all that was queued.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { self.device.driver.cuStreamSynchronize(self.raw) }
    }

    /// Lets what is queued from here on wait for the event.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { self.device.driver.cuStreamWaitEvent(self.raw, event.raw, 0) }
    }

    /// Queues a copy between device addresses. Managed memory counts as device memory.
    ///
    /// # Safety
    /// Both ranges must stay valid until the copy is done, and only the copy may use `to`.
    pub unsafe fn copy_on_device(&self, to: u64, from: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.driver.cuMemcpyDtoDAsync_v2(to, from, len as usize, self.raw) }
    }

    /// Queues a copy whose directions the driver finds out: for managed memory.
    ///
    /// # Safety
    /// As for [`Stream::copy_on_device`].
    pub unsafe fn copy_any(&self, to: u64, from: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.driver.cuMemcpyAsync(to, from, len as usize, self.raw) }
    }

    /// Queues a copy from device to host memory. Onto memory that is not registered the call
    /// blocks until the copy is done.
    ///
    /// # Safety
    /// As for [`Stream::copy_on_device`]; the host range must not cross a border of registrations.
    pub unsafe fn copy_to_host(&self, to: *mut u8, from: u64, len: u64) -> Result<()> {
        let to = to.cast::<c_void>();
        // SAFETY: the caller's promise.
        unsafe { self.device.driver.cuMemcpyDtoHAsync_v2(to, from, len as usize, self.raw) }
    }

    /// Queues a copy from host to device memory. From memory that is not registered the call may
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
    /// As the context has it: by default it looks again and again, which takes a processor and sees the
    /// end at once. For the application's threads, which have nothing else to do.
    Spin,
    /// It sleeps until the driver wakes it. For workers, which take no processor from the application.
    Block,
}

/// A point in a stream that others can wait for.
#[derive(Debug)]
pub struct Event {
    device: Arc<Device>,
    raw: CUevent,
}

// SAFETY: the driver allows an event's use from any thread.
unsafe impl Send for Event {}

impl Event {
    /// Makes an event that is waited for in this way.
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

    /// Puts the event behind what is queued in `stream`.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { self.device.driver.cuEventRecord(self.raw, stream.raw) }
    }

    /// Puts the event behind what is queued in a stream of the application.
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

    /// Waits until the stream has come past the event.
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

/// A stream that the application handed over (`VELOC_Set_stream`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationStream(*mut c_void);

// SAFETY: a handle; the driver allows its use from any thread.
unsafe impl Send for ApplicationStream {}

impl ApplicationStream {
    /// Takes the handle, if it is a stream of this device's context.
    ///
    /// # Safety
    /// `raw` is a stream, which stays alive as long as it is used here.
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
        // Of a stream of a green context that was a context which stands for the green one. Its work and
        // its memory are the primary one's, whose events can be recorded in it.
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
