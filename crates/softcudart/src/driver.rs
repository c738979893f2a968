//! The driver, `libcuda.so.1`: found at run time, as a program's own runtime finds it.

use std::sync::OnceLock;

use driver::cuda::SONAME;
pub(crate) use driver::cuda::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUhostFn, CUstream,
};
use driver::{cuda_driver, Library};

use crate::answer::{notice, Outcome, Status};

cuda_driver! {
    /// The driver.
    pub struct Driver;
    pub calls fail with Status;
}

/// The driver, initialised. The first call that needs it loads it, as constructors run too early.
pub(crate) fn driver() -> Outcome<&'static Driver> {
    static DRIVER: OnceLock<Outcome<Driver>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(|status| *status)
}

fn load() -> Outcome<Driver> {
    // SAFETY: the name ends with a null byte; the driver's own constructors are meant to run. The
    // handle is never closed.
    unsafe { libc::dlopen(SONAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let library = Library::find(SONAME).ok_or_else(|| {
        notice("there is no libcuda.so.1");
        Status::INSUFFICIENT_DRIVER
    })?;
    let driver = Driver::find(library).map_err(|name| {
        notice(&format!("libcuda.so.1 has no {name}"));
        Status::INSUFFICIENT_DRIVER
    })?;
    // SAFETY: a function of a number.
    unsafe { driver.cuInit(0)? };
    Ok(driver)
}
