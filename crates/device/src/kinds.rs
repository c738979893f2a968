//! The kinds of devices there are, and which device this process uses. A second kind would be asked
//! here, after the first.

use super::cuda;
use super::device::Device;
use errors::Result;

/// Whether the process has loaded a driver. Without one there is no device memory.
///
/// # Errors
/// The driver is unusable.
pub fn is_there() -> Result<bool> {
    Ok(cuda::Driver::get()?.is_some())
}

/// The device that the calling thread uses, else the only one that the process uses. `None`: the application
/// does not use a device yet, or several.
pub fn current() -> Result<Option<Device>> {
    cuda::Driver::get()?.map_or(Ok(None), |driver| cuda::current(&driver))
}

/// The device of the memory at `address`, if a driver knows the memory: for applications that create their
/// context after initialising the library.
pub fn device_of(address: u64) -> Result<Option<Device>> {
    cuda::Driver::get()?.map_or(Ok(None), |driver| cuda::device_of(&driver, address))
}

/// Whether a driver has shut down, as at process exit. Later errors are not failures, and all device
/// resources are released.
pub fn has_ended() -> bool {
    cuda::has_ended()
}

pub use cuda::says_ended;
