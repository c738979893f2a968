//! The CUDA driver's functions, looked up in the library that the application has loaded.

use std::ffi::{c_int, c_uint, c_void};

use loaded::cuda::{CaptureMode, Failure, SONAME};
use loaded::{cuda_driver, Awaited};

/// `CUcontext`.
pub type Context = *mut c_void;
/// `CUstream`.
pub type Stream = *mut c_void;
/// `CUdeviceptr`.
pub type Address = u64;

cuda_driver! {
    /// The driver.
    pub struct Driver;
    pub calls fail with Failure;
    /// Several attributes of a pointer at once.
    cuPointerGetAttributes(
        count: c_uint, names: *mut c_uint, data: *mut *mut c_void, pointer: Address,
    );
    /// How many devices there are.
    cuDeviceGetCount(count: *mut c_int);
    /// The calling thread's context.
    cuCtxGetCurrent(context: *mut Context);
    /// Makes a context the calling thread's, to be undone by a pop.
    cuCtxPushCurrent_v2(context: Context);
    /// Undoes a push.
    cuCtxPopCurrent_v2(context: *mut Context);
    /// Whether a device's primary context exists.
    cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int);
    /// Keeps a device's primary context alive.
    cuDevicePrimaryCtxRetain(context: *mut Context, device: c_int);
    /// Gives it back.
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    /// Makes a stream.
    cuStreamCreate(stream: *mut Stream, flags: c_uint);
    /// Ends a stream.
    cuStreamDestroy_v2(stream: Stream);
    /// Waits for a stream.
    cuStreamSynchronize(stream: Stream);
    /// Queues a copy from device to host memory.
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: Address, bytes: usize, stream: Stream);
    /// Queues a copy from host to device memory.
    cuMemcpyHtoDAsync_v2(to: Address, from: *const c_void, bytes: usize, stream: Stream);
}

/// The driver, kept for the life of the process, as it has threads of its own.
static DRIVER: Awaited<Driver, String> = Awaited::new();

/// The driver, if the application had loaded it when [`look`] was last called.
#[inline(always)]
pub fn get() -> Option<&'static Driver> {
    DRIVER.get()
}

/// Looks for the driver, if the application has loaded a library since the last time.
///
/// # Errors
/// It lacks a function that is needed for buffers in device memory.
pub fn look() -> Result<(), String> {
    let find = |library| {
        Driver::find(library).map(Some).map_err(|name| {
            format!(
                "libcuda.so.1 has no function {name}: buffers in device memory cannot be logged"
            )
        })
    };
    DRIVER.look(SONAME, find).map(|_| ())
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
        unsafe { self.extras.context_id(context) }
    }
}
