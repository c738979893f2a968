//! Plain device memory, and what there is of it.

use super::entry::{enter, give, give_if_wanted, not_null, CallNeeds};
use crate::abi::{CUdeviceptr, ResultCode};
use crate::config;
use crate::memory::PointerKind;
use crate::status::ErrorCode;

/// How much memory the current device has, and has left.
///
/// # Safety
/// `free` and `total` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> ResultCode {
    enter("cuMemGetInfo_v2", CallNeeds::Context, |call| {
        not_null(free)?;
        let all = config::memory_bytes();
        let (memory, device) = (&call.driver()?.memory, call.context()?.device);
        let used = memory.used(device) + memory.managed_on(device);
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
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> ResultCode {
    enter("cuMemAlloc_v2", CallNeeds::Context, |call| {
        not_null(address)?;
        let context = call.context()?;
        let start = call.driver()?.memory.allocate(context.device, context.handle, bytes as u64)?;
        // SAFETY: the caller vouches for `address`.
        unsafe { give(address, start) }
    })
}

/// Frees device or managed memory by its first address.
#[no_mangle]
pub extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> ResultCode {
    enter("cuMemFree_v2", CallNeeds::Context, |call| {
        let memory = &call.driver()?.memory;
        if memory.managed(address).is_some() {
            memory.free_managed(address)
        } else {
            memory.free("cuMemFree_v2", address)
        }
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
) -> ResultCode {
    enter("cuMemGetAddressRange_v2", CallNeeds::Context, |call| {
        let found = call.driver()?.memory.describe(address);
        let found = found
            .filter(|found| found.kind != PointerKind::Reserved)
            .ok_or(ErrorCode::NOT_FOUND)?;
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            give_if_wanted(base, found.range.start);
            give_if_wanted(size, (found.range.end - found.range.start) as usize);
        }
        Ok(())
    })
}
