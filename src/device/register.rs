//! Registering host memory with the driver, so that copies run at full speed and on their own.

use std::ffi::c_void;

use super::context::Device;
use crate::error::Result;

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
