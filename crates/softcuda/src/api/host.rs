//! Page-locked host memory: allocated, and registered.

use std::ffi::{c_uint, c_void};

use super::entry::{enter, enter_unstalled, give, not_null, CallNeeds, DriverCall};
use crate::abi::{CUdeviceptr, ResultCode};
use crate::status::{DriverResult, ErrorCode};

/// Portable, device-mapped, write-combined.
const ALLOCATION_FLAGS: c_uint = 0x7;
/// Portable, device-mapped, I/O memory, read-only.
const REGISTRATION_FLAGS: c_uint = 0xf;

/// Allocates page-locked memory.
///
/// # Safety
/// `address` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemAllocHost_v2(address: *mut *mut c_void, bytes: usize) -> ResultCode {
    // SAFETY: the caller vouches for `address`.
    enter("cuMemAllocHost_v2", CallNeeds::Context, |call| unsafe { allocate(call, address, bytes) })
}

/// Allocates page-locked memory; the flags make no difference.
///
/// # Safety
/// `address` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemHostAlloc(
    address: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> ResultCode {
    enter("cuMemHostAlloc", CallNeeds::Context, |call| {
        if flags & !ALLOCATION_FLAGS != 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        // SAFETY: the caller vouches for `address`.
        unsafe { allocate(call, address, bytes) }
    })
}

/// # Safety
/// `address` must be null or writable.
unsafe fn allocate(call: &DriverCall, address: *mut *mut c_void, bytes: usize) -> DriverResult {
    not_null(address)?;
    let context = call.context()?;
    let memory = &call.driver()?.memory;
    let start = memory.allocate_pinned(context.device, context.handle, bytes as u64)?;
    // SAFETY: the caller vouches for `address`.
    unsafe { give(address, std::ptr::with_exposed_provenance_mut(start as usize)) }
}

/// Frees page-locked memory by its first address.
#[no_mangle]
pub extern "C" fn cuMemFreeHost(address: *mut c_void) -> ResultCode {
    enter("cuMemFreeHost", CallNeeds::Context, |call| {
        call.driver()?.memory.free_pinned(address.addr() as u64)
    })
}

/// Page-locks memory of the program's. While that goes on, no copy out of
/// device memory does.
///
/// # Safety
/// The memory must stay mapped until it is unregistered, and the device may
/// write to it as queued work says.
#[no_mangle]
pub unsafe extern "C" fn cuMemHostRegister_v2(
    address: *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> ResultCode {
    enter_unstalled("cuMemHostRegister_v2", CallNeeds::Context, |call| {
        if flags & !REGISTRATION_FLAGS != 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let context = call.context()?;
        let start = address.expose_provenance() as u64;
        let memory = &call.driver()?.memory;
        let _held = context.hold_queueing();
        memory.register(context.device, context.handle, start, bytes as u64, || call.stall())
    })
}

/// Ends a registration by its first address.
#[no_mangle]
pub extern "C" fn cuMemHostUnregister(address: *mut c_void) -> ResultCode {
    enter("cuMemHostUnregister", CallNeeds::Context, |call| {
        call.driver()?.memory.unregister(address.addr() as u64)
    })
}

/// The device address of page-locked memory, which is its host address.
///
/// # Safety
/// `device` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    device: *mut CUdeviceptr,
    address: *mut c_void,
    flags: c_uint,
) -> ResultCode {
    enter("cuMemHostGetDevicePointer_v2", CallNeeds::Context, |call| {
        let address = address.addr() as u64;
        if flags != 0 || !call.driver()?.memory.is_pinned(address) {
            return Err(ErrorCode::INVALID_VALUE);
        }
        // SAFETY: the caller vouches for `device`.
        unsafe { give(device, address) }
    })
}
