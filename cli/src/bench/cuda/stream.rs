//! Streams with their copies, and events.

use std::ffi::c_void;

use anyhow::Result;
use cudarc::driver::result::{event, stream};
use cudarc::driver::sys;

use super::{driver, Address, Device};

/// A stream that does not wait for the default stream.
#[derive(Debug)]
pub struct Stream {
    raw: sys::CUstream,
    _device: Device,
}

// SAFETY: a stream may be used by any thread on which its context is current.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver's functions may be called by several threads at once.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new one.
    pub fn new(device: &Device) -> Result<Stream> {
        let raw = stream::create(stream::StreamKind::NonBlocking);
        let raw = driver(raw, || "creating a stream".into())?;
        Ok(Stream { raw, _device: device.clone() })
    }

    /// As the driver knows it.
    pub fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Waits until all that is queued is done.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        driver(unsafe { stream::synchronize(self.raw) }, || "waiting for a stream".into())
    }

    /// Queues a copy between any addresses that the device reaches.
    ///
    /// # Safety
    /// `bytes` must be readable at `from` and writable at `to` until the copy is done.
    pub unsafe fn copy(&self, to: Address, from: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { sys::cuMemcpyAsync(to, from, bytes as usize, self.raw) };
        driver(queued.result(), || format!("copying {bytes} bytes"))
    }

    /// Queues a copy within the device.
    ///
    /// # Safety
    /// As [`Stream::copy`], with device memory on both sides.
    pub unsafe fn copy_on_device(&self, to: Address, from: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, self.raw) };
        driver(queued.result(), || format!("copying {bytes} bytes within the device"))
    }

    /// Queues a copy to host memory; one that is not registered is copied by the driver before
    /// this returns.
    ///
    /// # Safety
    /// As [`Stream::copy`]; no reference to the host memory may be in use until it is done.
    pub unsafe fn copy_to_host(&self, to: *mut u8, from: Address, bytes: u64) -> Result<()> {
        let to: *mut c_void = to.cast();
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes as usize, self.raw) };
        driver(queued.result(), || format!("copying {bytes} bytes to the host"))
    }

    /// Queues a copy from host memory; as [`Stream::copy_to_host`].
    ///
    /// # Safety
    /// As [`Stream::copy`].
    pub unsafe fn copy_from_host(&self, to: Address, from: *const u8, bytes: u64) -> Result<()> {
        let from: *const c_void = from.cast();
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes as usize, self.raw) };
        driver(queued.result(), || format!("copying {bytes} bytes from the host"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new` and destroyed only here. Nothing can be done about an error.
        let _ = unsafe { stream::destroy(self.raw) };
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    raw: sys::CUevent,
    _device: Device,
}

// SAFETY: an event may be used by any thread on which its context is current.
unsafe impl Send for Event {}
// SAFETY: as above; the driver's functions may be called by several threads at once.
unsafe impl Sync for Event {}

impl Event {
    /// A new one, which keeps no time.
    pub fn new(device: &Device) -> Result<Event> {
        let raw = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        Ok(Event { raw: driver(raw, || "creating an event".into())?, _device: device.clone() })
    }

    /// Stands for all that is queued in `stream` now.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: event and stream live.
        driver(unsafe { event::record(self.raw, stream.raw()) }, || "recording an event".into())
    }

    /// Waits until it has happened.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event lives.
        driver(unsafe { event::synchronize(self.raw) }, || "waiting for an event".into())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new` and destroyed only here. Nothing can be done about an error.
        let _ = unsafe { event::destroy(self.raw) };
    }
}
