//! The device, for those who measure: the few driver calls that the bench and its baselines make.
//!
//! The library under test is used through its own C functions and shares nothing with this but the
//! device's primary context. Handles give back what they hold when they are dropped; addresses are
//! plain numbers, and the calls that believe them are unsafe.

mod driver;
mod kernels;
mod memory;
mod range;
mod software;
mod stream;

use std::ffi::{c_char, c_int, CStr};
use std::fs;
use std::sync::Arc;

use anyhow::{ensure, Context as _, Result};
use cudarc::driver::sys;

use self::driver::{checked, extension};

pub(super) use kernels::Kernels;
pub(super) use memory::{Buffer, Managed, Pinned};
pub(super) use range::{register, unregister, Range};
pub(super) use stream::{Event, Stream};

/// The address of a byte of device memory, or of host memory that the device reaches.
pub(super) type Address = sys::CUdeviceptr;

/// Bytes of a device's name, the NUL included.
const NAME_LEN: usize = 256;

/// A device with its primary context. Copies of it are the same device.
#[derive(Clone, Debug)]
pub(super) struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: sys::CUdevice,
    context: sys::CUcontext,
    name: String,
    memory: u64,
    software: bool,
}

// SAFETY: a context may be used by any thread that makes it current.
unsafe impl Send for Inner {}
// SAFETY: as above; the driver's functions may be called by several threads at once.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`; what lives in the context holds a `Device`. Nothing can
        // be done about an error.
        let _ = unsafe { driver::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

impl Device {
    /// How many devices the driver has. An error without a driver.
    pub(super) fn count() -> Result<u32> {
        driver::load()?;
        // SAFETY: it may be called at any time and more than once.
        checked(unsafe { driver::cuInit(0) }, || "starting the CUDA driver".into())?;
        let mut count = 0;
        // SAFETY: the function writes one number.
        let asked = unsafe { driver::cuDeviceGetCount(&mut count) };
        checked(asked, || "counting CUDA devices".into())?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Opens a device and makes its context current on this thread.
    pub(super) fn open(ordinal: u32) -> Result<Device> {
        let count = Device::count()?;
        ensure!(ordinal < count, "there is no CUDA device {ordinal}; the driver has {count}");
        let what = || format!("opening CUDA device {ordinal}");
        let (mut device, mut memory, mut context) = (0, 0, std::ptr::null_mut());
        let mut name: [c_char; NAME_LEN] = [0; NAME_LEN];
        // SAFETY: the function writes one number.
        checked(unsafe { driver::cuDeviceGet(&mut device, ordinal as c_int) }, what)?;
        // SAFETY: as above; the device came from the driver.
        checked(unsafe { driver::cuDeviceTotalMem_v2(&mut memory, device) }, what)?;
        // SAFETY: the function writes at most so many bytes, the last of them NUL.
        let named =
            unsafe { driver::cuDeviceGetName(name.as_mut_ptr(), NAME_LEN as c_int - 1, device) };
        checked(named, what)?;
        // SAFETY: the last byte is NUL, whatever the function has written before it.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        // SAFETY: as above; released when the last copy of the device is dropped.
        checked(unsafe { driver::cuDevicePrimaryCtxRetain(&mut context, device) }, what)?;
        let software = software::install()?;
        let memory = memory as u64;
        let opened = Device(Arc::new(Inner { device, context, name, memory, software }));
        opened.bind()?;
        Ok(opened)
    }

    /// Makes the context current on this thread.
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained as long as `self`.
        checked(unsafe { driver::cuCtxSetCurrent(self.0.context) }, || "binding a thread".into())
    }

    /// Waits for all work in the context, on any thread: before memory is given back that the work
    /// may use, after a failure too.
    fn settle(&self) {
        // After an error in the context nothing runs in it any more.
        let _ = self.bind();
        // SAFETY: it takes nothing.
        let _ = unsafe { driver::cuCtxSynchronize() };
    }

    /// The driver's number of the device.
    pub(super) fn raw(&self) -> sys::CUdevice {
        self.0.device
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// Its memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.0.memory
    }

    /// Whether it is the software device.
    pub(super) fn is_software(&self) -> bool {
        self.0.software
    }

    /// Bytes of its memory that are free. The context has to be current.
    pub(super) fn free(&self) -> Result<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the function writes two numbers.
        let asked = unsafe { driver::cuMemGetInfo_v2(&mut free, &mut total) };
        checked(asked, || "asking for free memory".into())?;
        Ok(free as u64)
    }

    /// The version of CUDA that the driver serves, as 12080; 0 if it does not say.
    pub(super) fn cuda_version(&self) -> i32 {
        let mut version = 0;
        // SAFETY: the function writes one number.
        match unsafe { driver::cuDriverGetVersion(&mut version) } {
            0 => version,
            _ => 0,
        }
    }

    /// An attribute of the device; `None` if the driver does not know it.
    pub(super) fn attribute(&self, attribute: sys::CUdevice_attribute) -> Option<i32> {
        let mut value = 0;
        // SAFETY: the function writes one number; the device is the driver's.
        let asked =
            unsafe { driver::cuDeviceGetAttribute(&mut value, attribute as u32, self.0.device) };
        (asked == 0).then_some(value)
    }

    /// The version of the driver's kernel module; empty if it does not say.
    pub(super) fn kernel_module(&self) -> String {
        let text = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let mut words = text.split_whitespace();
        let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        version.unwrap_or_default().to_owned()
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
