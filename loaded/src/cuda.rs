//! The CUDA driver: how its functions are found and called, and what its failures are.
//!
//! Each user lists the functions that it needs ([`cuda_driver!`](crate::cuda_driver)), so that a
//! driver which lacks another one serves it all the same. A status is a number: a newer driver may
//! return one that is not known here.

use std::ffi::{c_char, c_uint, c_void, CStr};

use crate::Library;

/// The name under which the driver is loaded.
pub const SONAME: &CStr = c"libcuda.so.1";

/// A driver's status: 0 is success (`CUresult`).
pub type Status = u32;

/// `CUDA_ERROR_NOT_INITIALIZED`: the application has no memory of a device yet.
pub const NOT_INITIALIZED: Status = 3;
/// `CUDA_ERROR_DEINITIALIZED`: it has none any more.
pub const DEINITIALIZED: Status = 4;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Status = 100;
/// `CUDA_ERROR_INVALID_CONTEXT`: of an address, that no context knows it.
pub const INVALID_CONTEXT: Status = 201;

/// A call of the driver's that failed.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub status: Status,
    /// What names it.
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

/// How strictly the driver guards graph captures against a thread's calls
/// (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureMode(c_uint);

impl CaptureMode {
    /// The thread's calls have nothing to do with any capture.
    pub const RELAXED: CaptureMode = CaptureMode(2);
}

type NameOf = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
type ExchangeCaptureMode = unsafe extern "C" fn(*mut c_uint) -> Status;
/// `CUstream`.
type Stream = *mut c_void;
type IsCapturing = unsafe extern "C" fn(Stream, *mut c_uint) -> Status;

/// What a driver may lack.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    error_name: Option<NameOf>,
    // Graph capture; a driver without it captures nothing.
    exchange_capture_mode: Option<ExchangeCaptureMode>,
    is_capturing: Option<IsCapturing>,
    software: bool,
}

impl Extras {
    /// Those of a driver.
    pub fn find(library: Library) -> Extras {
        // SAFETY: the driver's header declares the functions of these names like this; of the last
        // one only the presence is asked for.
        unsafe {
            Extras {
                error_name: library.function(c"cuGetErrorName"),
                exchange_capture_mode: library.function(c"cuThreadExchangeStreamCaptureMode"),
                is_capturing: library.function(c"cuStreamIsCapturing"),
                software: library
                    .function::<unsafe extern "C" fn()>(c"softcuda_is_software")
                    .is_some(),
            }
        }
    }

    /// What a call's status says.
    ///
    /// # Errors
    /// It is not success.
    pub fn check(&self, call: &'static str, status: Status) -> Result<(), Failure> {
        match status {
            0 => Ok(()),
            status => Err(Failure { call, status, name_of: self.error_name }),
        }
    }

    /// Sets the calling thread's capture mode, and gives the one before.
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        let mut mode = mode.0;
        if let Some(exchange) = self.exchange_capture_mode {
            // SAFETY: the pointer is to a local. A failure leaves the mode as it is.
            unsafe { exchange(&mut mode) };
        }
        CaptureMode(mode)
    }

    /// Whether a stream's work is being captured into a graph.
    ///
    /// # Safety
    /// `stream` is a stream of the current context.
    pub unsafe fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut state: c_uint = 0;
        // SAFETY: the pointer is to a local; the rest is the caller's promise.
        self.is_capturing.is_some_and(|ask| unsafe { ask(stream, &mut state) } == 0 && state != 0)
    }

    /// Whether it is the software device of this project, which is no GPU.
    pub fn is_software(&self) -> bool {
        self.software
    }
}

/// Declares a driver: a struct with the functions that are listed, as methods which fail with an
/// error that is made of a [`Failure`]. Arguments have the types of the driver's header.
#[macro_export]
macro_rules! cuda_driver {
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
            /// Looks every function up.
            ///
            /// # Errors
            /// The name of the first that is missing.
            fn find(library: $crate::Library) -> ::std::result::Result<Self, &'static str> {
                $(
                    let name = ::std::ffi::CStr::from_bytes_with_nul(
                        concat!(stringify!($name), "\0").as_bytes(),
                    );
                    // SAFETY: the driver's header declares the function of this name like this.
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
                /// As the driver's reference says of this call; pointers must be valid for it.
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
