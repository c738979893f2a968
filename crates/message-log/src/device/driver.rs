//! The CUDA driver's functions, looked up in the library that the application has loaded.

pub use ::driver::cuda::{CUcontext as Context, CUdeviceptr as Address, CUstream as Stream};
use ::driver::cuda::{CaptureMode, Failure, SONAME};
use driver::{cuda_driver, LazyLibrary};

cuda_driver! {
    /// The driver.
    pub struct Driver;
    pub calls fail with Failure;
}

/// The driver, kept for the life of the process, as it has threads of its own.
static DRIVER: LazyLibrary<Driver, String> = LazyLibrary::new();

/// The driver, if the application had loaded it when [`get_or_find`] was last called.
#[inline(always)]
pub fn get() -> Option<&'static Driver> {
    DRIVER.get()
}

/// Looks for the driver, if the application has loaded a library since the last time.
///
/// # Errors
/// It lacks a function that is needed for buffers in device memory.
pub fn get_or_find() -> Result<(), String> {
    let find = |library| {
        Driver::find(library).map(Some).map_err(|name| {
            format!(
                "libcuda.so.1 has no function {name}: buffers in device memory cannot be logged"
            )
        })
    };
    DRIVER.get_or_find(SONAME, find).map(|_| ())
}

impl Driver {
    /// Sets the calling thread's capture mode; the one before.
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        self.extras.exchange_capture_mode(mode)
    }

    /// What tells a context from every other one of the process; `None` before CUDA 12.0.
    ///
    /// # Safety
    /// `context` is a living context.
    pub unsafe fn context_id(&self, context: Context) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.extras.context_id(context.cast()) }
    }
}
