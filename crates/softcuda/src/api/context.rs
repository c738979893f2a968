//! Contexts: primary ones, the program's own, and which is current.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use super::entry::{enter, give, give_if_wanted, not_null, CallNeeds, DriverCall};
use crate::abi::{CUcontext, CUdevice, ResultCode};
use crate::capture;
use crate::context::Context;
use crate::handles::{as_handle, as_pointer};
use crate::status::{DriverResult, ErrorCode};
use crate::thread;

/// The API version of contexts since CUDA 4.0.
const API_VERSION: c_uint = 3020;
/// The flags a context may have: how it waits, and what it maps.
const FLAGS: c_uint = 0x7f;

/// Retains the device's primary context, making it if need be.
///
/// # Safety
/// `context` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    context: *mut CUcontext,
    device: CUdevice,
) -> ResultCode {
    enter("cuDevicePrimaryCtxRetain", CallNeeds::Driver, |call| {
        not_null(context)?;
        let driver = call.driver()?;
        let handle = driver.retain_primary(driver.device(device)?);
        // SAFETY: the caller vouches for `context`.
        unsafe { give(context, as_pointer(handle)) }
    })
}

/// Gives the primary context back; the last one to do so destroys it.
#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> ResultCode {
    enter("cuDevicePrimaryCtxRelease_v2", CallNeeds::Driver, |call| {
        let driver = call.driver()?;
        driver.release_primary(driver.device(device)?)
    })
}

/// Destroys the primary context although others hold it.
#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> ResultCode {
    enter("cuDevicePrimaryCtxReset_v2", CallNeeds::Driver, |call| {
        let driver = call.driver()?;
        driver.reset_primary(driver.device(device)?);
        Ok(())
    })
}

/// Whether the primary context exists.
///
/// # Safety
/// `flags` and `active` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: CUdevice,
    flags: *mut c_uint,
    active: *mut c_int,
) -> ResultCode {
    enter("cuDevicePrimaryCtxGetState", CallNeeds::Driver, |call| {
        let driver = call.driver()?;
        let exists = driver.primary_is_active(driver.device(device)?);
        not_null(flags)?;
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            give(active, c_int::from(exists))?;
            give(flags, 0)
        }
    })
}

/// Makes a context and makes it current.
///
/// # Safety
/// `context` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxCreate_v2(
    context: *mut CUcontext,
    flags: c_uint,
    device: CUdevice,
) -> ResultCode {
    // SAFETY: the caller vouches for `context`.
    enter("cuCtxCreate_v2", CallNeeds::Driver, |call| unsafe {
        create(call, context, flags, device)
    })
}

/// Makes a context and makes it current; special parameters are refused.
///
/// # Safety
/// `context` must be null or writable. `parameters` is not read.
#[no_mangle]
pub unsafe extern "C" fn cuCtxCreate_v4(
    context: *mut CUcontext,
    parameters: *mut c_void,
    flags: c_uint,
    device: CUdevice,
) -> ResultCode {
    enter("cuCtxCreate_v4", CallNeeds::Driver, |call| {
        if !parameters.is_null() {
            return Err(ErrorCode::NOT_SUPPORTED);
        }
        // SAFETY: the caller vouches for `context`.
        unsafe { create(call, context, flags, device) }
    })
}

/// # Safety
/// `context` must be null or writable.
unsafe fn create(
    call: &DriverCall,
    context: *mut CUcontext,
    flags: c_uint,
    device: CUdevice,
) -> DriverResult {
    not_null(context)?;
    let driver = call.driver()?;
    let device = driver.device(device)?;
    if flags & !FLAGS != 0 {
        return Err(ErrorCode::INVALID_VALUE);
    }
    let created = driver.create_context(device);
    if let Err(status) = thread::push(created.handle) {
        driver.destroy_context(&created);
        return Err(status);
    }
    // SAFETY: the caller vouches for `context`.
    unsafe { give(context, as_pointer(created.handle)) }
}

/// Destroys a context that `cuCtxCreate` made, with all that belongs to it.
#[no_mangle]
pub extern "C" fn cuCtxDestroy_v2(context: CUcontext) -> ResultCode {
    enter("cuCtxDestroy_v2", CallNeeds::Driver, |call| {
        let driver = call.driver()?;
        let handle = as_handle(context);
        let found = driver.given_context(handle)?;
        if found.primary {
            return Err(ErrorCode::INVALID_CONTEXT);
        }
        if thread::current() == Some(handle) {
            thread::pop();
        }
        driver.destroy_context(&found);
        Ok(())
    })
}

/// The current context, or null.
///
/// # Safety
/// `context` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> ResultCode {
    enter("cuCtxGetCurrent", CallNeeds::Driver, |_| {
        let current = thread::current().map_or(null_mut(), as_pointer);
        // SAFETY: the caller vouches for `context`.
        unsafe { give(context, current) }
    })
}

/// Replaces the current context; null takes it off the stack.
#[no_mangle]
pub extern "C" fn cuCtxSetCurrent(context: CUcontext) -> ResultCode {
    enter("cuCtxSetCurrent", CallNeeds::Driver, |call| {
        if context.is_null() {
            return thread::replace(None);
        }
        let found = call.driver()?.given_context(as_handle(context))?;
        thread::replace(Some(found.handle))
    })
}

/// Makes a context current above the one that was.
#[no_mangle]
pub extern "C" fn cuCtxPushCurrent_v2(context: CUcontext) -> ResultCode {
    enter("cuCtxPushCurrent_v2", CallNeeds::Driver, |call| {
        thread::push(call.driver()?.given_context(as_handle(context))?.handle)
    })
}

/// Takes the current context off the stack.
///
/// # Safety
/// `context` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut CUcontext) -> ResultCode {
    enter("cuCtxPopCurrent_v2", CallNeeds::Driver, |_| {
        let popped = thread::pop().ok_or(ErrorCode::INVALID_CONTEXT)?;
        // SAFETY: the caller vouches for `context`.
        unsafe { give_if_wanted(context, as_pointer(popped)) };
        Ok(())
    })
}

/// The device of the current context.
///
/// # Safety
/// `device` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut CUdevice) -> ResultCode {
    enter("cuCtxGetDevice", CallNeeds::Driver, |call| {
        // SAFETY: the caller vouches for `device`.
        unsafe { give(device, call.context()?.device as CUdevice) }
    })
}

/// The API version of a context; of the current one for null.
///
/// # Safety
/// `version` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetApiVersion(
    context: CUcontext,
    version: *mut c_uint,
) -> ResultCode {
    enter("cuCtxGetApiVersion", CallNeeds::Driver, |call| {
        asked(call, context)?;
        // SAFETY: the caller vouches for `version`.
        unsafe { give(version, API_VERSION) }
    })
}

/// The id of a context, unique in the process; of the current one for null.
///
/// # Safety
/// `id` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong) -> ResultCode {
    enter("cuCtxGetId", CallNeeds::Driver, |call| {
        // SAFETY: the caller vouches for `id`.
        unsafe { give(id, asked(call, context)?.id) }
    })
}

fn asked(call: &DriverCall, context: CUcontext) -> DriverResult<Arc<Context>> {
    if context.is_null() {
        return call.context().cloned();
    }
    call.driver()?.context(as_handle(context))
}

/// The flags of the current context; none are ever set.
///
/// # Safety
/// `flags` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetFlags(flags: *mut c_uint) -> ResultCode {
    enter("cuCtxGetFlags", CallNeeds::Driver, |call| {
        call.context()?;
        // SAFETY: the caller vouches for `flags`.
        unsafe { give(flags, 0) }
    })
}

/// Waits for all work of the current context, in streams of every kind.
#[no_mangle]
pub extern "C" fn cuCtxSynchronize() -> ResultCode {
    enter("cuCtxSynchronize", CallNeeds::Context, |call| {
        capture::check_wait_for_all(call.context()?.handle)?;
        call.wait(&call.context()?.pending())
    })
}

/// The range of stream priorities. They are accepted but have no effect.
///
/// # Safety
/// `least` and `greatest` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(
    least: *mut c_int,
    greatest: *mut c_int,
) -> ResultCode {
    enter("cuCtxGetStreamPriorityRange", CallNeeds::Context, |_| {
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            give_if_wanted(least, super::stream::LEAST_PRIORITY);
            give_if_wanted(greatest, super::stream::GREATEST_PRIORITY);
        }
        Ok(())
    })
}
