//! Virtual memory management: reserving addresses, making physical memory,
//! mapping the one to the other and granting access.
//!
//! These functions need no current context, as with the real driver.

use std::ffi::{c_int, c_ulonglong};

use super::entry::{enter, give, not_null, CallNeeds};
use crate::abi::{
    AccessDesc, AllocationProp, CUdeviceptr, CUmemGenericAllocationHandle, Location, ResultCode,
    ALLOCATION_PINNED, LOCATION_DEVICE,
};
use crate::address_space::GRANULARITY;
use crate::status::ErrorCode;

/// The unit of sizes and addresses: 2 MiB, whichever is asked for.
///
/// # Safety
/// `granularity` must be null or writable, `properties` null or readable.
#[no_mangle]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(
    granularity: *mut usize,
    properties: *const AllocationProp,
    option: c_int,
) -> ResultCode {
    enter("cuMemGetAllocationGranularity", CallNeeds::NoBrokenContext, |call| {
        // SAFETY: the caller vouches for `properties`.
        let properties = unsafe { properties.as_ref() }.ok_or(ErrorCode::INVALID_VALUE)?;
        let known = properties.kind == ALLOCATION_PINNED
            && properties.location.kind == LOCATION_DEVICE
            && (0..=1).contains(&option);
        if !known {
            return Err(ErrorCode::INVALID_VALUE);
        }
        call.driver()?.device(properties.location.id)?;
        // SAFETY: the caller vouches for `granularity`.
        unsafe { give(granularity, GRANULARITY as usize) }
    })
}

/// Reserves addresses, at `wish` if that can be.
///
/// # Safety
/// `address` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemAddressReserve(
    address: *mut CUdeviceptr,
    size: usize,
    alignment: usize,
    wish: CUdeviceptr,
    flags: c_ulonglong,
) -> ResultCode {
    enter("cuMemAddressReserve", CallNeeds::NoBrokenContext, |call| {
        not_null(address)?;
        if flags != 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let start = call.driver()?.memory.reserve(size as u64, alignment as u64, wish)?;
        // SAFETY: the caller vouches for `address`.
        unsafe { give(address, start) }
    })
}

/// Gives a whole reservation back, which must hold no mapping.
#[no_mangle]
pub extern "C" fn cuMemAddressFree(address: CUdeviceptr, size: usize) -> ResultCode {
    enter("cuMemAddressFree", CallNeeds::NoBrokenContext, |call| {
        call.driver()?.memory.unreserve(address, size as u64)
    })
}

/// Makes physical memory, which cannot be exported.
///
/// # Safety
/// `handle` must be null or writable, `properties` null or readable.
#[no_mangle]
pub unsafe extern "C" fn cuMemCreate(
    handle: *mut CUmemGenericAllocationHandle,
    size: usize,
    properties: *const AllocationProp,
    flags: c_ulonglong,
) -> ResultCode {
    enter("cuMemCreate", CallNeeds::NoBrokenContext, |call| {
        not_null(handle)?;
        // SAFETY: the caller vouches for `properties`.
        let properties = unsafe { properties.as_ref() }.ok_or(ErrorCode::INVALID_VALUE)?;
        if flags != 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let created = call.driver()?.memory.create(size as u64, properties)?;
        // SAFETY: the caller vouches for `handle`.
        unsafe { give(handle, created) }
    })
}

/// Ends a handle; the memory lives on where it is mapped.
#[no_mangle]
pub extern "C" fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> ResultCode {
    enter("cuMemRelease", CallNeeds::NoBrokenContext, |call| call.driver()?.memory.release(handle))
}

/// Maps physical memory at reserved addresses; nobody may touch it yet.
#[no_mangle]
pub extern "C" fn cuMemMap(
    address: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: c_ulonglong,
) -> ResultCode {
    enter("cuMemMap", CallNeeds::NoBrokenContext, |call| {
        if flags != 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        call.driver()?.memory.map(address, size as u64, offset as u64, handle)
    })
}

/// Removes whole mappings.
#[no_mangle]
pub extern "C" fn cuMemUnmap(address: CUdeviceptr, size: usize) -> ResultCode {
    enter("cuMemUnmap", CallNeeds::NoBrokenContext, |call| {
        call.driver()?.memory.unmap(address, size as u64)
    })
}

/// Grants devices access to whole mappings, or takes it from them.
///
/// # Safety
/// `grants` must be null or point to `count` descriptions.
#[no_mangle]
pub unsafe extern "C" fn cuMemSetAccess(
    address: CUdeviceptr,
    size: usize,
    grants: *const AccessDesc,
    count: usize,
) -> ResultCode {
    enter("cuMemSetAccess", CallNeeds::NoBrokenContext, |call| {
        if grants.is_null() {
            return Err(ErrorCode::INVALID_VALUE);
        }
        // SAFETY: the caller vouches for `grants`.
        let grants = unsafe { std::slice::from_raw_parts(grants, count) };
        call.driver()?.memory.set_access(address, size as u64, grants)
    })
}

/// The access of a device to a mapped address.
///
/// # Safety
/// `flags` must be null or writable, `location` null or readable.
#[no_mangle]
pub unsafe extern "C" fn cuMemGetAccess(
    flags: *mut c_ulonglong,
    location: *const Location,
    address: CUdeviceptr,
) -> ResultCode {
    enter("cuMemGetAccess", CallNeeds::NoBrokenContext, |call| {
        // SAFETY: the caller vouches for `location`.
        let location = unsafe { location.as_ref() }.ok_or(ErrorCode::INVALID_VALUE)?;
        let granted = call.driver()?.memory.access_of(address, location.kind, location.id)?;
        // SAFETY: the caller vouches for `flags`.
        unsafe { give(flags, c_ulonglong::from(granted)) }
    })
}
