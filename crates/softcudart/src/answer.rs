//! The way out of every function of the runtime, and the errors. A driver's codes are also the runtime's.

use std::cell::Cell;
use std::ffi::{c_char, CStr};
use std::io::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};

use driver::cuda::Failure;

/// What a function of the runtime returns (`cudaError_t`).
pub(crate) type RuntimeCode = u32;

/// An error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeError(pub RuntimeCode);

/// What the inner functions return.
pub(crate) type RuntimeResult<T = ()> = Result<T, RuntimeError>;

impl From<Failure> for RuntimeError {
    fn from(failure: Failure) -> RuntimeError {
        RuntimeError(failure.status)
    }
}

impl RuntimeError {
    pub(crate) const INVALID_VALUE: RuntimeError = RuntimeError(1);
    pub(crate) const MISSING_CONFIGURATION: RuntimeError = RuntimeError(52);
    pub(crate) const INVALID_CONFIGURATION: RuntimeError = RuntimeError(9);
    pub(crate) const INVALID_MEMCPY_DIRECTION: RuntimeError = RuntimeError(21);
    pub(crate) const INSUFFICIENT_DRIVER: RuntimeError = RuntimeError(35);
    pub(crate) const INVALID_DEVICE_FUNCTION: RuntimeError = RuntimeError(98);
    pub(crate) const NO_DEVICE: RuntimeError = RuntimeError(100);
    pub(crate) const INVALID_KERNEL_IMAGE: RuntimeError = RuntimeError(200);
    pub(crate) const NO_KERNEL_IMAGE: RuntimeError = RuntimeError(209);
    const NOT_READY: RuntimeError = RuntimeError(600);
    const UNKNOWN: RuntimeError = RuntimeError(999);
}

/// The codes that the software device and this library give: name and meaning.
const TABLE: [(RuntimeCode, &CStr, &CStr); 31] = [
    (0, c"cudaSuccess", c"no error"),
    (1, c"cudaErrorInvalidValue", c"an argument is outside what the call accepts"),
    (2, c"cudaErrorMemoryAllocation", c"not enough memory is left"),
    (3, c"cudaErrorInitializationError", c"the driver is not initialised"),
    (4, c"cudaErrorCudartUnloading", c"the process ends, and the driver has ended"),
    (9, c"cudaErrorInvalidConfiguration", c"no device can run a grid or a block of this size"),
    (21, c"cudaErrorInvalidMemcpyDirection", c"this direction of a copy is not known"),
    (35, c"cudaErrorInsufficientDriver", c"there is no driver, or it lacks a function"),
    (52, c"cudaErrorMissingConfiguration", c"a kernel was launched without a grid"),
    (98, c"cudaErrorInvalidDeviceFunction", c"no kernel is registered for this function"),
    (100, c"cudaErrorNoDevice", c"there is no device"),
    (101, c"cudaErrorInvalidDevice", c"there is no device of this number"),
    (200, c"cudaErrorInvalidKernelImage", c"the program's kernels cannot be read"),
    (201, c"cudaErrorDeviceUninitialized", c"no context is current, or it is not one"),
    (209, c"cudaErrorNoKernelImageForDevice", c"the program has no PTX"),
    (218, c"cudaErrorInvalidPtx", c"the program's PTX cannot be compiled"),
    (304, c"cudaErrorOperatingSystem", c"the operating system refused a call"),
    (400, c"cudaErrorInvalidResourceHandle", c"a handle does not name a living object"),
    (401, c"cudaErrorIllegalState", c"the object is in a state that forbids the call"),
    (500, c"cudaErrorSymbolNotFound", c"nothing of this name was found"),
    (600, c"cudaErrorNotReady", c"the work has not finished"),
    (700, c"cudaErrorIllegalAddress", c"the device touched memory that is not accessible to it"),
    (709, c"cudaErrorContextIsDestroyed", c"the current context has been destroyed"),
    (712, c"cudaErrorHostMemoryAlreadyRegistered", c"part of the range is registered already"),
    (713, c"cudaErrorHostMemoryNotRegistered", c"no registration begins at this address"),
    (719, c"cudaErrorLaunchFailure", c"a kernel failed while it ran"),
    (800, c"cudaErrorNotPermitted", c"the call is not permitted here"),
    (801, c"cudaErrorNotSupported", c"the device or driver does not support this"),
    (900, c"cudaErrorStreamCaptureUnsupported", c"not permitted while a stream is captured"),
    (906, c"cudaErrorStreamCaptureImplicit", c"the legacy stream would depend on a captured one"),
    (999, c"cudaErrorUnknown", c"an unknown error"),
];

thread_local! {
    static LAST: Cell<RuntimeCode> = const { Cell::new(0) };
}

/// Carries out a call. A failure becomes the thread's last error, except that work is not done yet. No panic
/// gets past it.
pub(crate) fn answer(body: impl FnOnce() -> RuntimeResult) -> RuntimeCode {
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(RuntimeError::UNKNOWN)) {
        Ok(()) => 0,
        Err(status) => {
            if status != RuntimeError::NOT_READY {
                LAST.set(status.0);
            }
            status.0
        }
    }
}

/// Hands `value` out through `pointer`.
///
/// # Safety
/// `pointer` is null, which is an error, or writable.
pub(crate) unsafe fn give<T>(pointer: *mut T, value: T) -> RuntimeResult {
    if pointer.is_null() {
        return Err(RuntimeError::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Prints a line under this library's name. That it cannot be printed is no reason to fail.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "softcudart: {text}");
}

/// The thread's last error, which is then forgotten.
#[no_mangle]
pub(crate) extern "C" fn cudaGetLastError() -> RuntimeCode {
    LAST.replace(0)
}

/// The thread's last error.
#[no_mangle]
pub(crate) extern "C" fn cudaPeekAtLastError() -> RuntimeCode {
    LAST.get()
}

/// The name of a code.
#[no_mangle]
pub(crate) extern "C" fn cudaGetErrorName(code: RuntimeCode) -> *const c_char {
    describe(code).0.as_ptr()
}

/// The meaning of a code.
#[no_mangle]
pub(crate) extern "C" fn cudaGetErrorString(code: RuntimeCode) -> *const c_char {
    describe(code).1.as_ptr()
}

fn describe(code: RuntimeCode) -> (&'static CStr, &'static CStr) {
    let found = TABLE.iter().find(|(known, ..)| *known == code);
    found.map_or((c"unrecognized error code", c"unrecognized error code"), |(_, name, meaning)| {
        (*name, *meaning)
    })
}
