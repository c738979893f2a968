//! The device, for those who measure: the few driver calls that the bench and its baselines make.
//!
//! The library under test is used through its own C functions and shares nothing with this but the
//! device's primary context. Handles give back what they hold when they are dropped; addresses are
//! plain numbers, and the calls that believe them are unsafe.

mod kernels;
mod memory;
mod range;
mod software;
mod stream;

use std::ffi::{c_char, c_int, CStr};
use std::fs;
use std::sync::Arc;

use anyhow::{ensure, Context as _, Result};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

pub use kernels::Kernels;
pub use memory::{Buffer, Managed, Pinned};
pub use range::{register, unregister, Range};
pub use stream::{Event, Stream};

/// The address of a byte of device memory, or of host memory that the device reaches.
pub type Address = sys::CUdeviceptr;

/// A driver call's result with what was tried.
fn driver<T>(result: Result<T, DriverError>, what: impl FnOnce() -> String) -> Result<T> {
    result.map_err(|error| {
        let (code, what) = (error.0 as u32, what());
        match error.error_string() {
            Ok(text) => anyhow::anyhow!("{what}: {} (CUDA error {code})", text.to_string_lossy()),
            Err(_) => anyhow::anyhow!("{what}: CUDA error {code}"),
        }
    })
}

/// A device with its primary context. Copies of it are the same device.
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

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
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Device {
    /// How many devices the driver has. An error without a driver.
    pub fn count() -> Result<u32> {
        // SAFETY: loading the driver runs no more than its constructors.
        let present = unsafe { sys::is_culib_present() };
        ensure!(
            present,
            "no CUDA driver (libcuda) was found; `cargo xtask veloc` brings one along"
        );
        driver(result::init(), || "starting the CUDA driver".into())?;
        let count = driver(result::device::get_count(), || "counting CUDA devices".into())?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Opens a device and makes its context current on this thread.
    pub fn open(ordinal: u32) -> Result<Device> {
        let count = Device::count()?;
        ensure!(ordinal < count, "there is no CUDA device {ordinal}; the driver has {count}");
        let what = || format!("opening CUDA device {ordinal}");
        let device = driver(result::device::get(ordinal as c_int), what)?;
        // SAFETY: the device came from the driver.
        let memory = driver(unsafe { result::device::total_mem(device) }, what)? as u64;
        let name = driver(result::device::get_name(device), what)?;
        // SAFETY: as above; released when the last copy of the device is dropped.
        let context = driver(unsafe { result::primary_ctx::retain(device) }, what)?;
        let software = software::install()?;
        let opened = Device(Arc::new(Inner { device, context, name, memory, software }));
        opened.bind()?;
        Ok(opened)
    }

    /// Makes the context current on this thread.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained as long as `self`.
        driver(unsafe { result::ctx::set_current(self.0.context) }, || "binding a thread".into())
    }

    /// Waits for all work in the context, on any thread: before memory is given back that the work
    /// may use, after a failure too.
    fn settle(&self) {
        // After an error in the context nothing runs in it any more.
        let _ = self.bind();
        let _ = result::ctx::synchronize();
    }

    /// The driver's number of the device.
    pub fn raw(&self) -> sys::CUdevice {
        self.0.device
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its memory in bytes.
    pub fn memory(&self) -> u64 {
        self.0.memory
    }

    /// Whether it is the software device.
    pub fn is_software(&self) -> bool {
        self.0.software
    }

    /// Bytes of its memory that are free. The context has to be current.
    pub fn free(&self) -> Result<u64> {
        let (free, _) = driver(result::mem_get_info(), || "asking for free memory".into())?;
        Ok(free as u64)
    }

    /// The version of CUDA that the driver serves, as 12080; 0 if it does not say.
    pub fn cuda_version(&self) -> i32 {
        let mut version = 0;
        // SAFETY: the function writes one number.
        let asked = unsafe { sys::cuDriverGetVersion(&mut version) }.result();
        asked.map_or(0, |()| version)
    }

    /// The version of the driver's kernel module; empty if it does not say.
    pub fn kernel_module(&self) -> String {
        let text = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let mut words = text.split_whitespace();
        let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        version.unwrap_or_default().to_owned()
    }
}

/// A symbol of the driver that is not part of CUDA.
fn extension<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: whoever opens a device has found the driver, so this does not panic.
    let library = unsafe { sys::culib() };
    // SAFETY: `T` is the type that the software device's header declares for the symbol.
    let symbol = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    symbol.ok().map(|symbol| *symbol)
}

/// The types of the software device's own functions.
type IsSoftware = unsafe extern "C" fn() -> c_int;
type HostAlias = unsafe extern "C" fn(Address, usize) -> *mut std::ffi::c_void;
type RegisterKernel =
    unsafe extern "C" fn(*const c_char, u32, *const usize, software::Native) -> c_int;

/// A function that the software device has to have.
fn software_function<T: Copy>(name: &CStr) -> Result<T> {
    extension(name)
        .with_context(|| format!("the software device has no {}", name.to_string_lossy()))
}
