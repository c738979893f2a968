//! The CUDA driver library, found at run time.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUstream};
pub(crate) use driver::cuda::has_ended;
pub(super) use driver::cuda::{CaptureMode, CONTEXT_IS_DESTROYED, INVALID_CONTEXT};
use driver::cuda::{DEINITIALIZED, NO_DEVICE, SONAME};
use driver::{cuda_driver, LazyLibrary, LoadedLibrary};

use errors::{Error, ErrorKind, Result};

cuda_driver! {
    /// The CUDA driver.
    pub(crate) struct Driver;
    pub(super) calls fail with Error;
}

/// Whether an error says that the driver has shut down, and all its memory with it.
pub fn says_ended(error: &Error) -> bool {
    error.kind() == ErrorKind::Driver(DEINITIALIZED)
}

impl Driver {
    /// The driver that the application has loaded, initialised; found once, it is kept. `Ok(None)`: none
    /// is loaded, so there is no device memory. An error if the driver is unusable.
    pub(crate) fn get() -> Result<Option<Arc<Driver>>> {
        static DRIVER: LazyLibrary<Arc<Driver>, Error> = LazyLibrary::new();
        Ok(DRIVER
            .get_or_find(SONAME, |library| Ok(Driver::start(library)?.map(Arc::new)))?
            .cloned())
    }

    fn start(library: LoadedLibrary) -> Result<Option<Driver>> {
        let driver = Driver::find(library).map_err(|name| {
            Error::new(ErrorKind::System, format!("the CUDA driver library has no function {name}"))
        })?;
        // SAFETY: cuInit may be called at any time and more than once.
        match unsafe { driver.cuInit(0) } {
            Ok(()) => Ok(Some(driver)),
            Err(error) if error.kind() == ErrorKind::Driver(NO_DEVICE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether this is the software device of this project, which is no GPU.
    pub(super) fn is_software(&self) -> bool {
        self.extras.is_software()
    }

    /// The driver's CUDA version, 12080 for 12.8.
    pub(super) fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.cuDriverGetVersion(&mut version) }?;
        Ok(version)
    }

    /// The context's unique id, if the driver has ids.
    ///
    /// # Safety
    /// `context` exists.
    pub(super) unsafe fn context_id(&self, context: CUcontext) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.extras.context_id(context.cast()) }
    }

    /// The primary context of a green context's stream.
    ///
    /// # Safety
    /// `stream` is a stream, or stands for one of the current context.
    pub(super) unsafe fn primary_context_of(&self, stream: CUstream) -> Option<CUcontext> {
        // SAFETY: the caller's promise.
        unsafe { self.extras.primary_context_of(stream.cast()) }.map(|context| context.cast())
    }

    /// Sets the calling thread's capture mode, and returns the previous one.
    pub(super) fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        self.extras.exchange_capture_mode(mode)
    }

    /// Whether a stream's work is being captured into a graph.
    ///
    /// # Safety
    /// `stream` is a stream of the current context.
    pub(super) unsafe fn is_capturing(&self, stream: CUstream) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.extras.is_capturing(stream.cast()) }
    }
}
