//! Streams, events and copies.

use std::ffi::c_void;
use std::sync::Arc;

use super::api::{CopyKind, EventHandle, KernelHandle, StreamHandle, WaitMode};
use super::device::Device;
use errors::{Error, Result};

/// A stream of the library's own, independent of all others.
#[derive(Debug)]
pub struct Stream {
    device: Arc<Device>,
    raw: StreamHandle,
}

impl Stream {
    /// Makes a stream.
    pub fn new(device: &Arc<Device>) -> Result<Stream> {
        let _current = device.enter()?;
        let raw = device.api().create_stream()?;
        Ok(Stream { device: device.clone(), raw })
    }

    /// The stream as the driver knows it.
    pub fn raw(&self) -> *mut c_void {
        self.raw.0 as *mut c_void
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// As for [`DeviceApi::launch`](super::api::DeviceApi::launch).
    pub(crate) unsafe fn launch(
        &self,
        kernel: KernelHandle,
        (blocks, threads): (u64, u32),
        arguments: &[u64],
    ) -> Result<()> {
        /// Enough to fill any device; the kernels loop over the rest.
        const MOST_BLOCKS: u64 = 1 << 15;
        let blocks = blocks.clamp(1, MOST_BLOCKS) as u32;
        // SAFETY: the caller's promise.
        unsafe { self.device.api().launch(self.raw, kernel, blocks, threads, arguments) }
    }

    /// Waits for all queued work.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { self.device.api().synchronize_stream(self.raw) }
    }

    /// Makes work that is queued later wait for the event.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { self.device.api().wait_for_event(self.raw, event.raw) }
    }

    /// Queues a copy between device addresses; managed memory counts as such.
    ///
    /// # Safety
    /// Both ranges stay valid until the copy is complete, and nothing else uses `to`.
    pub unsafe fn copy_on_device(&self, to: u64, from: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.api().copy(self.raw, CopyKind::OnDevice, to, from, len) }
    }

    /// Queues a copy whose direction the driver determines, for managed memory.
    ///
    /// # Safety
    /// As for [`Stream::copy_on_device`].
    pub unsafe fn copy_any(&self, to: u64, from: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.api().copy(self.raw, CopyKind::Any, to, from, len) }
    }

    /// Queues a copy from device to host memory. If the host memory is not registered, the call blocks
    /// until the copy is complete.
    ///
    /// # Safety
    /// As for [`Stream::copy_on_device`]; the host range lies within one registration.
    pub unsafe fn copy_to_host(&self, to: *mut u8, from: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.api().copy(self.raw, CopyKind::ToHost, to as u64, from, len) }
    }

    /// Queues a copy from host to device memory. If the host memory is not registered, the call may
    /// block.
    ///
    /// # Safety
    /// As for [`Stream::copy_to_host`].
    pub unsafe fn copy_from_host(&self, to: u64, from: *const u8, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.api().copy(self.raw, CopyKind::FromHost, to, from as u64, len) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made in `new`, used by nobody else.
        self.device.destroy_in_context(|api| unsafe { api.destroy_stream(self.raw) });
    }
}

/// A point in a stream that can be waited for.
#[derive(Debug)]
pub struct Event {
    device: Arc<Device>,
    raw: EventHandle,
}

impl Event {
    /// Creates an event with this way of waiting.
    pub fn new(device: &Arc<Device>, waiting: WaitMode) -> Result<Event> {
        let _current = device.enter()?;
        let raw = device.api().create_event(waiting)?;
        Ok(Event { device: device.clone(), raw })
    }

    /// Records the event after the work that is queued in `stream`.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { self.device.api().record_event(self.raw, stream.raw) }
    }

    /// Records the event after the work that is queued in a stream of the application.
    pub fn record_in(&self, stream: ApplicationStream) -> Result<()> {
        let ApplicationStream(stream) = stream;
        // SAFETY: the application promised to keep its stream until it sets another one.
        if unsafe { self.device.api().is_capturing(stream) } {
            return Err(Error::invalid(format!(
                "the stream {:#x} is being captured into a graph, which a checkpoint cannot be part \
                 of",
                stream.0
            )));
        }
        // SAFETY: as above.
        unsafe { self.device.api().record_event(self.raw, stream) }.map_err(|error| {
            let what = "given to VELOC_Set_stream, which has to live until another is given";
            error.within(format!("the stream {:#x}, {what}", stream.0))
        })
    }

    /// Waits until the event has been reached.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { self.device.api().synchronize_event(self.raw) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new`, used by nobody else.
        self.device.destroy_in_context(|api| unsafe { api.destroy_event(self.raw) });
    }
}

/// A stream of the application (`VELOC_Set_stream`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationStream(StreamHandle);

impl ApplicationStream {
    /// Makes work that the application queues later wait for the event.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: the event is alive, and the application promised to keep its stream.
        unsafe { event.device.api().wait_for_event(self.0, event.raw) }
            .map_err(|error| error.within(format!("the stream {:#x}", self.0 .0)))
    }

    /// Takes the handle, if it is a stream of this device's context.
    ///
    /// # Safety
    /// `raw` is a stream that stays alive as long as it is used here.
    pub unsafe fn new(device: &Device, raw: *mut c_void) -> Result<ApplicationStream> {
        let stream = StreamHandle(raw as usize);
        // SAFETY: the caller's promise.
        if unsafe { device.api().has_stream(stream) }? {
            Ok(ApplicationStream(stream))
        } else {
            Err(Error::invalid(format!(
                "the stream {raw:p} belongs to another context than this job's checkpoints; NULL \
                 stands for everything that is queued"
            )))
        }
    }
}
