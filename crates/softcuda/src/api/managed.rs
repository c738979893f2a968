//! Managed memory: its allocation, the moving of its pages, and what is asked for about ranges of it.

use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::Arc;

use super::entry::{enter, give, not_null, CallNeeds, DriverCall};
use crate::abi::{CUdevice, CUdeviceptr, CUstream, ResultCode};
use crate::memory::{AdviceQuestion, ManagedAllocation, RangeAdvice, CPU, NOWHERE};
use crate::registry;
use crate::status::{DriverResult, ErrorCode};

/// `CU_MEM_ATTACH_GLOBAL` and `CU_MEM_ATTACH_HOST`.
const ATTACH: [c_uint; 2] = [1, 2];

/// Allocates memory that host and device share. A device may have less memory than that: pages come and go.
///
/// # Safety
/// `address` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuMemAllocManaged(
    address: *mut CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> ResultCode {
    enter("cuMemAllocManaged", CallNeeds::Context, |call| {
        not_null(address)?;
        if !ATTACH.contains(&flags) {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let context = call.context()?;
        let memory = &call.driver()?.memory;
        let start = memory.allocate_managed(context.device, context.handle, bytes as u64)?;
        // SAFETY: the caller vouches for `address`.
        unsafe { give(address, start) }
    })
}

/// Moves pages to a device or the host, in the order of the stream.
#[no_mangle]
pub extern "C" fn cuMemPrefetchAsync(
    address: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> ResultCode {
    enter("cuMemPrefetchAsync", CallNeeds::Context, |call| {
        let (managed, range) = find(call, address, bytes)?;
        check_place(call, device)?;
        let stream = call.own_stream(stream)?;
        let work = move || {
            registry::driver()?.memory.prefetch(&managed, &range, device);
            Ok(())
        };
        call.submit(&stream, Box::new(work)).map(|_| ())
    })
}

/// Keeps an advice about a range.
#[no_mangle]
pub extern "C" fn cuMemAdvise(
    address: CUdeviceptr,
    bytes: usize,
    advice: c_uint,
    device: CUdevice,
) -> ResultCode {
    enter("cuMemAdvise", CallNeeds::Context, |call| {
        let (managed, range) = find(call, address, bytes)?;
        let advice = match advice {
            1 => RangeAdvice::ReadMostly(true),
            2 => RangeAdvice::ReadMostly(false),
            3 => RangeAdvice::Preferred(device),
            4 => RangeAdvice::Preferred(NOWHERE),
            5 => RangeAdvice::AccessedBy(device, true),
            6 => RangeAdvice::AccessedBy(device, false),
            _ => return Err(ErrorCode::INVALID_VALUE),
        };
        check_place(call, device)?;
        managed.advise(&range, advice);
        Ok(())
    })
}

/// What was asked for about a range, if it is the same everywhere in it.
///
/// # Safety
/// `data` must be null or writable for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn cuMemRangeGetAttribute(
    data: *mut c_void,
    size: usize,
    attribute: c_uint,
    address: CUdeviceptr,
    bytes: usize,
) -> ResultCode {
    enter("cuMemRangeGetAttribute", CallNeeds::Context, |call| {
        let (managed, range) = find(call, address, bytes)?;
        // SAFETY: the caller vouches for `data`.
        unsafe { answer(&managed, &range, attribute, data, size) }
    })
}

/// Several answers at once.
///
/// # Safety
/// The arrays must have `count` elements, and each of `data` be null or writable for its size.
#[no_mangle]
pub unsafe extern "C" fn cuMemRangeGetAttributes(
    data: *mut *mut c_void,
    sizes: *mut usize,
    attributes: *mut c_uint,
    count: usize,
    address: CUdeviceptr,
    bytes: usize,
) -> ResultCode {
    enter("cuMemRangeGetAttributes", CallNeeds::Context, |call| {
        not_null(data)?;
        not_null(sizes)?;
        not_null(attributes)?;
        let (managed, range) = find(call, address, bytes)?;
        for number in 0..count {
            // SAFETY: the caller vouches for the arrays.
            unsafe {
                let (data, size) = (data.add(number).read(), sizes.add(number).read());
                answer(&managed, &range, attributes.add(number).read(), data, size)?;
            }
        }
        Ok(())
    })
}

/// # Safety
/// `data` must be null or writable for `size` bytes.
unsafe fn answer(
    managed: &ManagedAllocation,
    range: &Range<u64>,
    attribute: c_uint,
    data: *mut c_void,
    size: usize,
) -> DriverResult {
    not_null(data)?;
    let numbers = size / size_of::<c_int>();
    if !size.is_multiple_of(size_of::<c_int>()) || numbers == 0 {
        return Err(ErrorCode::INVALID_VALUE);
    }
    let mut values = match attribute {
        1 => vec![managed.answer(range, AdviceQuestion::ReadMostly)],
        2 => vec![managed.answer(range, AdviceQuestion::Preferred)],
        3 => managed.accessed_by(range),
        4 => vec![managed.answer(range, AdviceQuestion::LastPrefetch)],
        _ => return Err(ErrorCode::INVALID_VALUE),
    };
    if attribute != 3 && numbers != 1 {
        return Err(ErrorCode::INVALID_VALUE);
    }
    values.resize(numbers, NOWHERE);
    // SAFETY: there is room for so many numbers.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), data.cast(), numbers) };
    Ok(())
}

/// The managed allocation that `bytes` at `address` lie in.
fn find(
    call: &DriverCall,
    address: CUdeviceptr,
    bytes: usize,
) -> DriverResult<(Arc<ManagedAllocation>, Range<u64>)> {
    let end = address.checked_add(bytes as u64).filter(|_| bytes > 0);
    let end = end.ok_or(ErrorCode::INVALID_VALUE)?;
    let found = call.driver()?.memory.managed(address).filter(|found| end <= found.range.end);
    Ok((found.ok_or(ErrorCode::INVALID_VALUE)?, address..end))
}

/// Checks a device's ordinal, or the processor's.
fn check_place(call: &DriverCall, device: CUdevice) -> DriverResult {
    if device != CPU {
        call.driver()?.device(device)?;
    }
    Ok(())
}
