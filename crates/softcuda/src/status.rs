//! Result codes: their numbers, names and meanings.

use std::ffi::CStr;

/// A driver result other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorCode(pub(crate) u32);

/// The return value of inner functions.
pub(crate) type DriverResult<T = ()> = Result<T, ErrorCode>;

/// Declares each code once: as a constant and as a row of the table that
/// `cuGetErrorName` and `cuGetErrorString` read.
macro_rules! codes {
    ($($name:ident = $number:literal, $cuda:literal, $meaning:literal;)*) => {
        #[allow(dead_code, reason = "the table has every code, the functions use only some")]
        impl ErrorCode {
            $(pub(crate) const $name: Self = Self($number);)*
        }

        const TABLE: &[(u32, &CStr, &CStr)] = &[
            (0, c"CUDA_SUCCESS", c"no error"),
            $(($number, $cuda, $meaning),)*
        ];
    };
}

codes! {
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"an argument is outside what the call accepts";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"not enough memory is left";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"cuInit has not been called";
    DEINITIALIZED = 4, c"CUDA_ERROR_DEINITIALIZED", c"the driver is shutting down";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"there is no device";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"there is no device of this number";
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE", c"the kernel image cannot be read";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"no context is current, or it is not one";
    MAP_FAILED = 205, c"CUDA_ERROR_MAP_FAILED", c"a mapping failed";
    UNMAP_FAILED = 206, c"CUDA_ERROR_UNMAP_FAILED", c"an unmapping failed";
    ALREADY_MAPPED = 208, c"CUDA_ERROR_ALREADY_MAPPED", c"the resource is mapped already";
    NOT_MAPPED = 211, c"CUDA_ERROR_NOT_MAPPED", c"the resource is not mapped";
    NO_BINARY_FOR_GPU = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"the image holds no code for this device";
    ECC_UNCORRECTABLE = 214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"a memory error that cannot be corrected";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"the PTX text cannot be compiled";
    OPERATING_SYSTEM = 304, c"CUDA_ERROR_OPERATING_SYSTEM", c"the operating system refused a call";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"a handle does not name a living object";
    ILLEGAL_STATE = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"the object is in a state that forbids the call";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"nothing of this name was found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"the work has not finished";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"the device touched memory that is not accessible to it";
    LAUNCH_OUT_OF_RESOURCES = 701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"the launch asks for more than the device has";
    LAUNCH_TIMEOUT = 702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"a kernel ran too long";
    CONTEXT_IS_DESTROYED = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"the current context has been destroyed";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"part of the host range is registered already";
    HOST_MEMORY_NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"no registration begins at this host address";
    MISALIGNED_ADDRESS = 716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"the device used a misaligned address";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"a kernel failed while it ran";
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"the call is not permitted here";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"the device or driver does not support this";
    SYSTEM_NOT_READY = 802, c"CUDA_ERROR_SYSTEM_NOT_READY", c"the system is not ready to use the device";
    STREAM_CAPTURE_UNSUPPORTED = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"not permitted while a stream is captured";
    STREAM_CAPTURE_INVALIDATED = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"an earlier error has broken the capture";
    STREAM_CAPTURE_IMPLICIT = 906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", c"the legacy stream would depend on one that is captured";
    STREAM_CAPTURE_WRONG_THREAD = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"the capture is to be ended by the thread that began it";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"an unknown internal error";
}

/// The name and the meaning of a result code, if it is one.
pub(crate) fn describe(code: u32) -> Option<(&'static CStr, &'static CStr)> {
    TABLE.iter().find(|(number, ..)| *number == code).map(|(_, name, meaning)| (*name, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys::CUresult;

    #[test]
    fn the_numbers_are_the_drivers() {
        assert_eq!(ErrorCode::OUT_OF_MEMORY.0, CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32);
        assert_eq!(ErrorCode::INVALID_CONTEXT.0, CUresult::CUDA_ERROR_INVALID_CONTEXT as u32);
        assert_eq!(ErrorCode::INVALID_HANDLE.0, CUresult::CUDA_ERROR_INVALID_HANDLE as u32);
        assert_eq!(ErrorCode::NOT_READY.0, CUresult::CUDA_ERROR_NOT_READY as u32);
        assert_eq!(ErrorCode::ILLEGAL_ADDRESS.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as u32);
        assert_eq!(
            ErrorCode::HOST_MEMORY_ALREADY_REGISTERED.0,
            CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED as u32
        );
        assert_eq!(ErrorCode::NOT_PERMITTED.0, CUresult::CUDA_ERROR_NOT_PERMITTED as u32);
        for (ours, theirs) in [
            (
                ErrorCode::STREAM_CAPTURE_UNSUPPORTED,
                CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            ),
            (
                ErrorCode::STREAM_CAPTURE_INVALIDATED,
                CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            ),
            (ErrorCode::STREAM_CAPTURE_IMPLICIT, CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
            (
                ErrorCode::STREAM_CAPTURE_WRONG_THREAD,
                CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
            ),
        ] {
            assert_eq!(ours.0, theirs as u32);
        }
    }

    #[test]
    fn only_known_codes_have_a_name() {
        assert_eq!(describe(2).map(|(name, _)| name), Some(c"CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(describe(123_456), None);
    }
}
