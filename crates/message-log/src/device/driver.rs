//! The CUDA driver's functions, from the library that the application has loaded.

pub(super) use ::driver::cuda::{CUcontext as Context, CUdeviceptr as Address, CUstream as Stream};
use ::driver::cuda::{CaptureMode, Failure, SONAME};
use driver::{cuda_driver, LazyLibrary};

cuda_driver! {
    /// The driver.
    pub struct MemoryDriver;
    pub calls fail with Failure;
}

/// Kept for the life of the process, as the driver has threads of its own.
static DRIVER: LazyLibrary<MemoryDriver, String> = LazyLibrary::new();

/// The driver, if it was loaded at the last call of [`get_or_find`].
#[inline(always)]
pub(super) fn get() -> Option<&'static MemoryDriver> {
    DRIVER.get()
}

/// Searches for the driver, if a library was loaded since the last call.
///
/// # Errors
/// It lacks a required function.
pub(crate) fn get_or_find() -> Result<(), String> {
    let find = |library| {
        MemoryDriver::find(library).map(Some).map_err(|name| {
            format!(
                "libcuda.so.1 has no function {name}: buffers in device memory cannot be logged"
            )
        })
    };
    DRIVER.get_or_find(SONAME, find).map(|_| ())
}

impl MemoryDriver {
    /// Sets the calling thread's capture mode; returns the previous one.
    pub(super) fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        self.extras.exchange_capture_mode(mode)
    }

    /// A context's unique id; `None` before CUDA 12.0.
    ///
    /// # Safety
    /// `context` exists.
    pub(super) unsafe fn context_id(&self, context: Context) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.extras.context_id(context.cast()) }
    }
}
