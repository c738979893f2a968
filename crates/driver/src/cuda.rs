//! The CUDA driver: finding and calling its functions, and its errors.
//!
//! The types are cudarc's, the calls are not: cudarc's loader panics on a missing library or symbol,
//! chooses the library itself, and returns the status as an enum, for which an unknown code of a newer
//! driver would be undefined behaviour. Here a status is a number.

use std::ffi::{c_char, c_uint, c_void, CStr};
use std::sync::atomic::{AtomicBool, Ordering};

use errors::{Error, ErrorKind};

pub use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUhostFn, CUmemAccessDesc,
    CUmemAllocationProp, CUmemGenericAllocationHandle, CUmodule, CUstream,
};

use crate::LoadedLibrary;

/// The soname of the driver library.
pub const SONAME: &CStr = c"libcuda.so.1";

/// A driver's status: 0 is success (`CUresult`).
pub type Status = u32;

/// `CUDA_ERROR_NOT_INITIALIZED`: the application does not use a device yet.
pub const NOT_INITIALIZED: Status = 3;
/// `CUDA_ERROR_DEINITIALIZED`: the driver has shut down.
pub const DEINITIALIZED: Status = 4;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Status = 100;
/// `CUDA_ERROR_INVALID_CONTEXT`: the calling thread has no context. It says nothing about an address
/// that was queried.
pub const INVALID_CONTEXT: Status = 201;
/// `CUDA_ERROR_CONTEXT_IS_DESTROYED`: the calling thread's context was destroyed.
pub const CONTEXT_IS_DESTROYED: Status = 709;

/// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`: the legacy stream is unusable because a blocking stream is
/// being captured.
const CAPTURE_IMPLICIT: Status = 906;

/// A failed driver call.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The function.
    call: &'static str,
    /// The status it returned.
    pub status: Status,
    /// The driver's function that names errors.
    name_of: Option<NameOf>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { call, status, name_of } = *self;
        let mut text: *const c_char = std::ptr::null();
        let name = match name_of {
            // SAFETY: the driver writes a pointer to a constant string, or null.
            Some(name_of) if unsafe { name_of(status, &mut text) } == 0 && !text.is_null() => {
                // SAFETY: it is not null; the driver's strings end with a null byte and stay.
                unsafe { CStr::from_ptr(text) }.to_string_lossy()
            }
            _ => "unknown error".into(),
        };
        write!(f, "{call} failed: {name} ({status})")
    }
}

/// A call has returned `CUDA_ERROR_DEINITIALIZED`: the process is exiting, and the driver has shut down.
static ENDED: AtomicBool = AtomicBool::new(false);

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        if failure.status == DEINITIALIZED {
            ENDED.store(true, Ordering::Release);
        }
        Error::new(ErrorKind::Driver(failure.status), failure.to_string())
    }
}

/// Whether the driver has shut down, as at process exit. Later errors are not failures, and all device
/// resources are released.
pub fn has_ended() -> bool {
    ENDED.load(Ordering::Acquire)
}

/// How strictly the driver checks a thread's calls during graph captures (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureMode(pub c_uint);

impl CaptureMode {
    /// The thread's calls are unrelated to any capture.
    pub const RELAXED: CaptureMode = CaptureMode(2);
}

type NameOf = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
type ExchangeCaptureMode = unsafe extern "C" fn(*mut c_uint) -> Status;
/// `CUcontext`.
type RawContext = *mut c_void;
/// `CUgreenCtx`.
type GreenContext = *mut c_void;
/// `CUstream`.
type RawStream = *mut c_void;
type ContextId = unsafe extern "C" fn(RawContext, *mut u64) -> Status;
type StreamContexts = unsafe extern "C" fn(RawStream, *mut RawContext, *mut GreenContext) -> Status;
type IsCapturing = unsafe extern "C" fn(RawStream, *mut c_uint) -> Status;

/// Functions that a driver may lack.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    error_name: Option<NameOf>,
    // Graph capture: a driver without these functions captures nothing.
    exchange_capture_mode: Option<ExchangeCaptureMode>,
    is_capturing: Option<IsCapturing>,
    /// Since CUDA 12.0.
    context_id: Option<ContextId>,
    /// Since CUDA 12.5.
    stream_contexts: Option<StreamContexts>,
    software: bool,
}

impl Extras {
    /// Looks them up.
    pub fn find(library: LoadedLibrary) -> Extras {
        // SAFETY: the driver's header declares these functions with these types; the last one is only
        // looked up.
        unsafe {
            Extras {
                error_name: library.function(c"cuGetErrorName"),
                exchange_capture_mode: library.function(c"cuThreadExchangeStreamCaptureMode"),
                is_capturing: library.function(c"cuStreamIsCapturing"),
                context_id: library.function(c"cuCtxGetId"),
                stream_contexts: library.function(c"cuStreamGetCtx_v2"),
                software: library
                    .function::<unsafe extern "C" fn()>(c"softcuda_is_software")
                    .is_some(),
            }
        }
    }

    /// Turns a call's status into a result.
    ///
    /// # Errors
    /// The status is not success.
    pub fn check(&self, call: &'static str, status: Status) -> Result<(), Failure> {
        match status {
            0 => Ok(()),
            status => Err(Failure { call, status, name_of: self.error_name }),
        }
    }

    /// Sets the calling thread's capture mode, and returns the previous one.
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        let mut mode = mode.0;
        if let Some(exchange) = self.exchange_capture_mode {
            // SAFETY: the pointer is to a local. A failure leaves the mode as it is.
            unsafe { exchange(&mut mode) };
        }
        CaptureMode(mode)
    }

    /// Whether a stream is being captured into a graph; for the legacy stream, whether any stream that
    /// synchronizes with it is. The query does not invalidate the capture.
    ///
    /// # Safety
    /// `stream` is a stream of the current context.
    pub unsafe fn is_capturing(&self, stream: *mut c_void) -> bool {
        let Some(ask) = self.is_capturing else { return false };
        let mut state: c_uint = 0;
        // SAFETY: the pointer is to a local; the rest is the caller's promise.
        match unsafe { ask(stream, &mut state) } {
            0 => state != 0,
            status => status == CAPTURE_IMPLICIT,
        }
    }

    /// The context's unique id, which later contexts of the same handle do not have. `None`: the driver
    /// has no ids.
    ///
    /// # Safety
    /// `context` exists.
    pub unsafe fn context_id(&self, context: *mut c_void) -> Option<u64> {
        let mut id = 0;
        // SAFETY: the pointer is to a local; the rest is the caller's promise.
        self.context_id.filter(|ask| unsafe { ask(context, &mut id) } == 0).map(|_| id)
    }

    /// The primary context of a green context's stream. `None`: the stream belongs to an ordinary
    /// context, or the driver does not tell.
    ///
    /// # Safety
    /// `stream` is a stream, or stands for one of the calling thread's context.
    pub unsafe fn primary_context_of(&self, stream: *mut c_void) -> Option<*mut c_void> {
        let (mut context, mut green) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the pointers are to locals; the rest is the caller's promise.
        let asked =
            self.stream_contexts.map(|ask| unsafe { ask(stream, &mut context, &mut green) });
        (asked == Some(0) && !green.is_null()).then_some(context)
    }

    /// Whether it is the software device of this project, which is no GPU.
    pub fn is_software(&self) -> bool {
        self.software
    }
}

/// Declares a driver struct whose methods are all functions in the [list](crate::driver_functions).
/// Their error type is converted from [`Failure`].
#[macro_export]
macro_rules! cuda_driver {
    ($(#[$meta:meta])* $vis:vis struct $Driver:ident; $calls:vis calls fail with $Error:ty;) => {
        $crate::driver_functions! { $crate::driver_of_functions {
            $(#[$meta])* $vis struct $Driver; $calls calls fail with $Error;
        } }
    };
}

/// The expansion of [`cuda_driver!`](crate::cuda_driver).
#[doc(hidden)]
#[macro_export]
macro_rules! driver_of_functions {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Driver:ident;
        $calls:vis calls fail with $Error:ty;
        $($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),* $(,)?);)*
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        #[allow(non_snake_case)] // As the driver names them.
        $vis struct $Driver {
            $($name: unsafe extern "C" fn($($type),*) -> $crate::cuda::Status,)*
            extras: $crate::cuda::Extras,
        }

        #[allow(non_snake_case, clippy::too_many_arguments)] // As the driver has it.
        impl $Driver {
            /// Looks up all functions.
            ///
            /// # Errors
            /// The name of the first missing function.
            fn find(library: $crate::LoadedLibrary) -> ::std::result::Result<Self, &'static str> {
                $(
                    let name = ::std::ffi::CStr::from_bytes_with_nul(
                        concat!(stringify!($name), "\0").as_bytes(),
                    );
                    // SAFETY: the driver's header declares the function with this type.
                    let $name = name.ok().and_then(|name| unsafe {
                        library.function::<unsafe extern "C" fn($($type),*) -> $crate::cuda::Status>(
                            name,
                        )
                    });
                )*
                Ok($Driver {
                    $($name: $name.ok_or(stringify!($name))?,)*
                    extras: $crate::cuda::Extras::find(library),
                })
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The requirements of the driver's reference for this call; pointers must be valid for
                /// it.
                #[allow(dead_code)] // Not every user calls all of them.
                $calls unsafe fn $name(
                    &self, $($arg: $type),*
                ) -> ::std::result::Result<(), $Error> {
                    // SAFETY: the caller's promise; the pointer was found under this very name.
                    let status = unsafe { (self.$name)($($arg),*) };
                    self.extras.check(stringify!($name), status).map_err(Into::into)
                }
            )*
        }
    };
}
