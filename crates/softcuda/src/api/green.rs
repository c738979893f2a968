//! Green contexts: parts of a device, whose streams belong to its primary context.
//!
//! Only as much as such streams need: a part is always the whole device, whatever its description says, and a
//! green context that is made current is its device's primary one.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use super::entry::{enter, give, not_null, CallNeeds};
use super::stream::kind;
use crate::abi::{CUcontext, CUdevice, CUstream, ResultCode};
use crate::handles::{as_handle, as_pointer};
use crate::status::ErrorCode;

/// `CUgreenCtx`.
pub type CUgreenCtx = *mut c_void;

/// Makes a green context, which retains the primary one. The description is not read.
///
/// # Safety
/// `green` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuGreenCtxCreate(
    green: *mut CUgreenCtx,
    _description: *mut c_void,
    device: CUdevice,
    _flags: c_uint,
) -> ResultCode {
    enter("cuGreenCtxCreate", CallNeeds::Driver, |call| {
        not_null(green)?;
        let driver = call.driver()?;
        let made = driver.create_green(driver.device(device)?);
        // SAFETY: the caller vouches for `green`.
        unsafe { give(green, as_pointer(made)) }
    })
}

/// Ends a green context, and releases the primary one.
#[no_mangle]
pub extern "C" fn cuGreenCtxDestroy(green: CUgreenCtx) -> ResultCode {
    enter("cuGreenCtxDestroy", CallNeeds::Driver, |call| {
        call.driver()?.destroy_green(as_handle(green))
    })
}

/// The context that stands for a green one.
///
/// # Safety
/// `context` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxFromGreenCtx(
    context: *mut CUcontext,
    green: CUgreenCtx,
) -> ResultCode {
    enter("cuCtxFromGreenCtx", CallNeeds::Driver, |call| {
        // SAFETY: the caller vouches for `context`.
        unsafe { give(context, as_pointer(call.driver()?.green(as_handle(green))?.context)) }
    })
}

/// Makes a stream of a green context, which has to be a non-blocking one.
///
/// # Safety
/// `stream` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuGreenCtxStreamCreate(
    stream: *mut CUstream,
    green: CUgreenCtx,
    flags: c_uint,
    _priority: c_int,
) -> ResultCode {
    enter("cuGreenCtxStreamCreate", CallNeeds::Driver, |call| {
        not_null(stream)?;
        if flags == 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let made = call.driver()?.create_green_stream(as_handle(green), kind(flags)?, flags)?;
        // SAFETY: the caller vouches for `stream`.
        unsafe { give(stream, made) }
    })
}

/// The context of a stream: for one of a green context, the primary one and the green one beside it.
///
/// # Safety
/// `context` and `green` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuStreamGetCtx_v2(
    stream: CUstream,
    context: *mut CUcontext,
    green: *mut CUgreenCtx,
) -> ResultCode {
    enter("cuStreamGetCtx_v2", CallNeeds::Context, |call| {
        let driver = call.driver()?;
        let (owner, stream) = driver.stream(stream, call.context()?)?;
        let found = driver.green_of(&stream).map_or(null_mut(), |(green, _)| as_pointer(green));
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            give(context, as_pointer(owner.handle))?;
            give(green, found)
        }
    })
}
