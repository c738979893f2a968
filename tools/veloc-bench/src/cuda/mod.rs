//! The device, for those who measure: the few driver calls that the bench and its baselines make.
//!
//! Streams, events and address ranges are those of the crate `device`, which are no more than the
//! driver's calls. Handles free what they hold when they are dropped; addresses are plain numbers,
//! and the calls that believe them are unsafe.

mod driver;
mod kernels;
mod memory;
mod software;

use std::ffi::{c_char, c_int, CStr};
use std::ops::Deref;
use std::sync::Arc;

use anyhow::{ensure, Context as _, Result};
use cudarc::driver::sys;

use self::driver::{checked, extension};

pub(super) use kernels::Kernels;
pub(super) use memory::{register, unregister, CudaBuffer, Pinned};

/// The address of a byte of device memory, or of host memory that the device reaches.
pub(super) type Address = sys::CUdeviceptr;

/// A device with its primary context. Copies of it are the same device, which has the functions of the crate
/// `device` as well.
#[derive(Clone, Debug)]
pub(super) struct BenchDevice(Arc<RetainedContext>);

#[derive(Debug)]
struct RetainedContext {
    ordinal: sys::CUdevice,
    same: Arc<device::Device>,
}

impl Deref for BenchDevice {
    type Target = Arc<device::Device>;

    fn deref(&self) -> &Arc<device::Device> {
        &self.0.same
    }
}

impl Drop for RetainedContext {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`; what lives in the context holds a `BenchDevice`. Nothing can
        // be done about an error.
        let _ = unsafe { driver::cuDevicePrimaryCtxRelease_v2(self.ordinal) };
    }
}

impl BenchDevice {
    /// The number of devices that the driver has. An error without a driver.
    pub(super) fn count() -> Result<u32> {
        driver::load()?;
        // SAFETY: cuInit may be called at any time and more than once.
        checked(unsafe { driver::cuInit(0) }, || "starting the CUDA driver".into())?;
        let mut count = 0;
        // SAFETY: the function writes one number.
        let asked = unsafe { driver::cuDeviceGetCount(&mut count) };
        checked(asked, || "counting CUDA devices".into())?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Opens a device and makes its context current on this thread.
    pub(super) fn open(number: u32) -> Result<BenchDevice> {
        let count = BenchDevice::count()?;
        ensure!(number < count, "there is no CUDA device {number}; the driver has {count}");
        let what = || format!("opening CUDA device {number}");
        let (mut ordinal, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the function writes one number.
        checked(unsafe { driver::cuDeviceGet(&mut ordinal, number as c_int) }, what)?;
        // SAFETY: the device came from the driver; released when the last copy of it is dropped.
        checked(unsafe { driver::cuDevicePrimaryCtxRetain(&mut context, ordinal) }, what)?;
        // SAFETY: the context is retained.
        checked(unsafe { driver::cuCtxSetCurrent(context) }, what)?;
        software::install()?;
        let same = device::kinds::current()?.with_context(what)?;
        Ok(BenchDevice(Arc::new(RetainedContext { ordinal, same: Arc::new(same) })))
    }

    /// Waits for all work in the context, on any thread: before memory that the work may use is
    /// freed, after a failure too.
    fn settle(&self) {
        // After an error in the context no work runs in it any more.
        let _ = self.bind();
        // SAFETY: the function takes no arguments.
        let _ = unsafe { driver::cuCtxSynchronize() };
    }

    /// An attribute of the device; `None` if the driver does not know it.
    pub(super) fn attribute(&self, attribute: sys::CUdevice_attribute) -> Option<i32> {
        let mut value = 0;
        // SAFETY: the function writes one number; the device is the driver's.
        let asked =
            unsafe { driver::cuDeviceGetAttribute(&mut value, attribute as u32, self.0.ordinal) };
        (asked == 0).then_some(value)
    }
}

/// The types of the software device's own functions.
type IsSoftware = unsafe extern "C" fn() -> c_int;
type HostAlias = unsafe extern "C" fn(Address, usize) -> *mut std::ffi::c_void;
type RegisterKernel =
    unsafe extern "C" fn(*const c_char, u32, *const usize, software::Native) -> c_int;

/// A function that the software device has to have.
///
/// # Safety
/// `T` must be the type that the software device's header declares for it.
unsafe fn software_function<T: Copy>(name: &CStr) -> Result<T> {
    // SAFETY: the caller's promise.
    unsafe { extension(name) }
        .with_context(|| format!("the software device has no {}", name.to_string_lossy()))
}
