//! Plain device memory and managed memory.

use std::ffi::c_uint;

use super::entry::{enter, give, give_if_wanted, not_null, Needs};
use crate::abi::{CUdevice, CUdeviceptr, CUstream, Result};
use crate::config;
use crate::memory::{HostKind, PointerKind};
use crate::status::{Outcome, Status};

/// `CU_MEM_ATTACH_GLOBAL` and `CU_MEM_ATTACH_HOST`.
const ATTACH: [c_uint; 2] = [1, 2];
/// `CU_DEVICE_CPU`.
const CPU: CUdevice = -1;

/// How much memory the current device has, and has left.
///
/// # Safety
/// `free` and `total` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Result {
    enter("cuMemGetInfo_v2", Needs::Context, |call| {
        not_null(free)?;
        let all = config::memory_bytes();
        let used = call.driver()?.memory.used(call.context()?.device);
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            give(total, all as usize)?;
            give(free, all.saturating_sub(used) as usize)
        }
    })
}

/// Allocates device memory, which no host access can reach.
///
/// # Safety
/// `address` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> Result {
    enter("cuMemAlloc_v2", Needs::Context, |call| {
        not_null(address)?;
        let context = call.context()?;
        let start = call.driver()?.memory.allocate(context.device, context.handle, bytes as u64)?;
        // SAFETY: the caller vouches for `address`.
        unsafe { give(address, start) }
    })
}

/// Frees device or managed memory by its first address.
#[no_mangle]
pub extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> Result {
    enter("cuMemFree_v2", Needs::Context, |call| {
        let memory = &call.driver()?.memory;
        if memory.is_managed(address, 0) {
            memory.free_managed(address)
        } else {
            memory.free("cuMemFree_v2", address)
        }
    })
}

/// Allocates memory that host and device share. It does not count as device
/// memory, which it may exceed.
///
/// # Safety
/// `address` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemAllocManaged(
    address: *mut CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> Result {
    enter("cuMemAllocManaged", Needs::Context, |call| {
        not_null(address)?;
        if !ATTACH.contains(&flags) {
            return Err(Status::INVALID_VALUE);
        }
        let context = call.context()?;
        let (device, handle) = (context.device, context.handle);
        let memory = &call.driver()?.memory;
        let start = memory.allocate_host(HostKind::Managed, device, handle, bytes as u64)?;
        // SAFETY: the caller vouches for `address`.
        unsafe { give(address, start) }
    })
}

/// The allocation that an address lies in.
///
/// # Safety
/// `base` and `size` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut CUdeviceptr,
    size: *mut usize,
    address: CUdeviceptr,
) -> Result {
    enter("cuMemGetAddressRange_v2", Needs::Context, |call| {
        let found = call.driver()?.memory.describe(address);
        let found =
            found.filter(|found| found.kind != PointerKind::Reserved).ok_or(Status::NOT_FOUND)?;
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            give_if_wanted(base, found.range.start);
            give_if_wanted(size, (found.range.end - found.range.start) as usize);
        }
        Ok(())
    })
}

/// Checks its arguments and, there being only one memory, moves nothing.
#[no_mangle]
pub extern "C" fn cuMemPrefetchAsync(
    address: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> Result {
    enter("cuMemPrefetchAsync", Needs::Context, |call| {
        let driver = call.driver()?;
        check_advice(driver, address, bytes, device)?;
        let stream = call.own_stream(stream)?;
        call.submit(&stream, Box::new(|| Ok(()))).map(|_| ())
    })
}

/// Checks its arguments and does nothing.
#[no_mangle]
pub extern "C" fn cuMemAdvise(
    address: CUdeviceptr,
    bytes: usize,
    advice: c_uint,
    device: CUdevice,
) -> Result {
    enter("cuMemAdvise", Needs::Context, |call| {
        if !(1..=6).contains(&advice) {
            return Err(Status::INVALID_VALUE);
        }
        check_advice(call.driver()?, address, bytes, device)
    })
}

fn check_advice(
    driver: &crate::registry::Driver,
    address: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
) -> Outcome {
    if device != CPU {
        driver.device(device)?;
    }
    if bytes == 0 || !driver.memory.is_managed(address, bytes as u64) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}
