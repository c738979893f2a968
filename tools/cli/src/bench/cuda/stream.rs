//! Streams with their copies, and events.

use std::ffi::c_void;

use anyhow::Result;
use cudarc::driver::sys;

use super::driver::{self, checked};
use super::{Address, Device};

/// A stream that does not wait for the default stream.
#[derive(Debug)]
pub(crate) struct Stream {
    raw: sys::CUstream,
    _device: Device,
}

// SAFETY: a stream may be used by any thread on which its context is current.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver's functions may be called by several threads at once.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new one.
    pub(crate) fn new(device: &Device) -> Result<Stream> {
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        checked(unsafe { driver::cuStreamCreate(&mut raw, flags) }, || "creating a stream".into())?;
        Ok(Stream { raw, _device: device.clone() })
    }

    /// As the driver knows it.
    pub(crate) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Waits until all that is queued is done.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        checked(unsafe { driver::cuStreamSynchronize(self.raw) }, || "waiting for a stream".into())
    }

    /// Queues a copy between any addresses that the device reaches.
    ///
    /// # Safety
    /// `bytes` must be readable at `from` and writable at `to` until the copy is done.
    pub(crate) unsafe fn copy(&self, to: Address, from: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { driver::cuMemcpyAsync(to, from, bytes as usize, self.raw) };
        checked(queued, || format!("copying {bytes} bytes"))
    }

    /// Queues a copy within the device.
    ///
    /// # Safety
    /// As [`Stream::copy`], with device memory on both sides.
    pub(crate) unsafe fn copy_on_device(
        &self,
        to: Address,
        from: Address,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { driver::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, self.raw) };
        checked(queued, || format!("copying {bytes} bytes within the device"))
    }

    /// Queues a copy to host memory; one that is not registered is copied by the driver before
    /// this returns.
    ///
    /// # Safety
    /// As [`Stream::copy`]; no reference to the host memory may be in use until it is done.
    pub(crate) unsafe fn copy_to_host(&self, to: *mut u8, from: Address, bytes: u64) -> Result<()> {
        let to: *mut c_void = to.cast();
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { driver::cuMemcpyDtoHAsync_v2(to, from, bytes as usize, self.raw) };
        checked(queued, || format!("copying {bytes} bytes to the host"))
    }

    /// Queues a copy from host memory; as [`Stream::copy_to_host`].
    ///
    /// # Safety
    /// As [`Stream::copy`].
    pub(crate) unsafe fn copy_from_host(
        &self,
        to: Address,
        from: *const u8,
        bytes: u64,
    ) -> Result<()> {
        let from: *const c_void = from.cast();
        // SAFETY: the caller's promise; the stream lives.
        let queued = unsafe { driver::cuMemcpyHtoDAsync_v2(to, from, bytes as usize, self.raw) };
        checked(queued, || format!("copying {bytes} bytes from the host"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new` and destroyed only here. Nothing can be done about an error.
        let _ = unsafe { driver::cuStreamDestroy_v2(self.raw) };
    }
}

/// A point in a stream.
#[derive(Debug)]
pub(crate) struct Event {
    raw: sys::CUevent,
    _device: Device,
}

// SAFETY: an event may be used by any thread on which its context is current.
unsafe impl Send for Event {}
// SAFETY: as above; the driver's functions may be called by several threads at once.
unsafe impl Sync for Event {}

impl Event {
    /// A new one, which keeps no time.
    pub(crate) fn new(device: &Device) -> Result<Event> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        checked(unsafe { driver::cuEventCreate(&mut raw, flags) }, || "creating an event".into())?;
        Ok(Event { raw, _device: device.clone() })
    }

    /// Stands for all that is queued in `stream` now.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: event and stream live.
        let recorded = unsafe { driver::cuEventRecord(self.raw, stream.raw()) };
        checked(recorded, || "recording an event".into())
    }

    /// Waits until it has happened.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the event lives.
        checked(unsafe { driver::cuEventSynchronize(self.raw) }, || "waiting for an event".into())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new` and destroyed only here. Nothing can be done about an error.
        let _ = unsafe { driver::cuEventDestroy_v2(self.raw) };
    }
}
