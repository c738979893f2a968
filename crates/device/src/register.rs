//! Registers (pins) host memory with the driver, so that copies are asynchronous and at full speed.

use std::sync::Arc;

use super::device::Device;
use errors::{Error, Result};
use os::mapping::Mapping;

/// Registers `len` bytes at `start`. All copies of this process are blocked meanwhile.
///
/// # Safety
/// The memory stays mapped until [`unregister`], and no copy is using it now.
pub unsafe fn register(device: &Device, start: *mut u8, len: u64) -> Result<()> {
    let _current = device.enter()?;
    // SAFETY: the caller's promise.
    unsafe { device.api().register(start, len) }
}

/// Undoes [`register`].
///
/// # Safety
/// No copy is using the memory.
pub unsafe fn unregister(device: &Device, start: *mut u8) -> Result<()> {
    let _current = device.enter()?;
    // SAFETY: the caller's promise.
    unsafe { device.api().unregister(start) }
}

/// A small buffer of the library's own that is registered from the start.
#[derive(Debug)]
pub struct PinnedBuffer {
    device: Arc<Device>,
    mapping: Mapping,
    registered: bool,
}

impl PinnedBuffer {
    /// Allocates and registers `len` bytes. Also returns the driver's error if it refuses the
    /// registration.
    ///
    /// # Errors
    /// The system's: out of memory.
    pub fn new(device: &Arc<Device>, len: u64) -> Result<(PinnedBuffer, Option<Error>)> {
        let mapping = Mapping::reserve(len as usize)?;
        // A fork would give the parent's writes a copied page that the device does not know.
        mapping.dont_fork()?;
        let base = mapping.base().as_ptr();
        // SAFETY: the memory stays mapped until it is unregistered on drop, and nobody else uses it.
        let refused = unsafe { register(device, base, mapping.len() as u64) }.err();
        let registered = refused.is_none();
        Ok((PinnedBuffer { device: device.clone(), mapping, registered }, refused))
    }

    /// The address of the byte at `offset`.
    pub fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.mapping.len() as u64);
        // SAFETY: within the mapping.
        unsafe { self.mapping.base().as_ptr().add(offset as usize) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if !self.registered {
            return;
        }
        // SAFETY: registered in `new`; its owner has waited for all copies.
        if let Err(error) = unsafe { unregister(&self.device, self.mapping.base().as_ptr()) } {
            log::debug!("{error}");
        }
    }
}
