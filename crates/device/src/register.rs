//! Registering host memory with the driver, so that copies run at full speed and on their own.

use std::ffi::c_void;
use std::sync::Arc;

use super::context::Device;
use os::error::{Error, Result};
use os::mapping::Mapping;

/// `CU_MEMHOSTREGISTER_PORTABLE`: for every context of the process.
const PORTABLE: u32 = 1;

/// Registers `len` bytes at `start`. Copies of this process wait while it runs.
///
/// # Safety
/// The memory must stay mapped until [`unregister`], and no copy may be using it now.
pub unsafe fn register(device: &Device, start: *mut u8, len: u64) -> Result<()> {
    let _current = device.enter()?;
    // SAFETY: the caller's promise.
    unsafe { device.driver.cuMemHostRegister_v2(start.cast::<c_void>(), len as usize, PORTABLE) }
}

/// Undoes [`register`].
///
/// # Safety
/// No copy may be using the memory.
pub unsafe fn unregister(device: &Device, start: *mut u8) -> Result<()> {
    let _current = device.enter()?;
    // SAFETY: the caller's promise.
    unsafe { device.driver.cuMemHostUnregister(start.cast::<c_void>()) }
}

/// A little memory of the library's own that is registered from the beginning.
#[derive(Debug)]
pub struct PinnedBuffer {
    device: Arc<Device>,
    mapping: Mapping,
    registered: bool,
}

impl PinnedBuffer {
    /// Makes `len` bytes, and registers them. If the driver will not, that is given, too.
    ///
    /// # Errors
    /// The system's: there is no memory.
    pub fn new(device: &Arc<Device>, len: u64) -> Result<(PinnedBuffer, Option<Error>)> {
        let mapping = Mapping::reserve(len as usize)?;
        // What a forked process wrote to would be another page than the one that the device knows.
        mapping.dont_fork()?;
        let base = mapping.base().as_ptr();
        // SAFETY: the memory is mapped until it is unregistered when this is dropped, and nobody else
        // knows of it.
        let refused = unsafe { register(device, base, mapping.len() as u64) }.err();
        let registered = refused.is_none();
        Ok((PinnedBuffer { device: device.clone(), mapping, registered }, refused))
    }

    /// The address of a byte.
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
