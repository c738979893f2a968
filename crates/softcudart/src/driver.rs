//! The driver, `libcuda.so.1`: found at run time, as a program's own runtime finds it.

use std::sync::OnceLock;

use driver::cuda::SONAME;
pub(crate) use driver::cuda::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUhostFn, CUstream,
};
use driver::{cuda_driver, LoadedLibrary};

use crate::answer::{notice, RuntimeError, RuntimeResult};

cuda_driver! {
    /// The driver.
    pub struct RuntimeDriver;
    pub calls fail with RuntimeError;
}

/// The driver, initialised. The first call that needs it loads it, as constructors run too early.
pub(crate) fn driver() -> RuntimeResult<&'static RuntimeDriver> {
    static DRIVER: OnceLock<RuntimeResult<RuntimeDriver>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(|status| *status)
}

fn load() -> RuntimeResult<RuntimeDriver> {
    // SAFETY: the name ends with a null byte; the driver's own constructors are meant to run. The
    // handle is never closed.
    unsafe { libc::dlopen(SONAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let library = LoadedLibrary::find(SONAME).ok_or_else(|| {
        notice("there is no libcuda.so.1");
        RuntimeError::INSUFFICIENT_DRIVER
    })?;
    let driver = RuntimeDriver::find(library).map_err(|name| {
        notice(&format!("libcuda.so.1 has no {name}"));
        RuntimeError::INSUFFICIENT_DRIVER
    })?;
    // SAFETY: a function of a number.
    unsafe { driver.cuInit(0)? };
    Ok(driver)
}
