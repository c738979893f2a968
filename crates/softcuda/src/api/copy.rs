//! Copies and fills.
//!
//! What a call waits for: a copy to or from page-locked or managed memory in a stream waits for nothing; one
//! with any other host memory waits until it is done, behind everything queued before it. Calls without a
//! stream go to the legacy default stream and wait, except copies within devices and fills of device memory.

use std::ffi::{c_uchar, c_uint, c_void};
use std::ptr::null_mut;

use super::entry::{enter, CallNeeds, DriverCall};
use crate::abi::{CUdeviceptr, CUstream, ResultCode};
use crate::memory::{AddressSide, MemoryAccess, Operand, RangeKind};
use crate::status::{DriverResult, ErrorCode};
use crate::transfer::{self, CheckedCopy};

/// A copy as a call describes it.
struct CopyRequest {
    to: (u64, AddressSide),
    from: (u64, AddressSide),
    bytes: usize,
}

impl CopyRequest {
    fn new(to: (u64, AddressSide), from: (u64, AddressSide), bytes: usize) -> Self {
        Self { to, from, bytes }
    }

    /// Finds the memory that it touches; an illegal access breaks the context at once, before anything is
    /// touched.
    fn resolve(&self, call: &DriverCall) -> DriverResult<CheckedCopy> {
        let device = call.context()?.device;
        let from = operand(call, self.from, self.bytes, false)?;
        let to = operand(call, self.to, self.bytes, true)?;
        Ok(CheckedCopy { from, to, bytes: self.bytes, device })
    }

    fn queue(&self, call: &DriverCall, stream: CUstream) -> DriverResult {
        let stream = call.own_stream(stream)?;
        if self.bytes == 0 {
            return Ok(());
        }
        let copy = self.resolve(call)?;
        if copy.blocks_the_caller() {
            call.submit_and_wait(&stream, run(copy))
        } else {
            call.submit(&stream, run(copy)).map(|_| ())
        }
    }

    fn carry_out(&self, call: &DriverCall) -> DriverResult {
        if self.bytes == 0 {
            return Ok(());
        }
        let copy = self.resolve(call)?;
        let must_wait = copy.involves_the_host();
        let ticket = call.submit(&call.own_stream(null_mut())?, run(copy))?;
        if must_wait {
            call.wait(&[ticket])
        } else {
            Ok(())
        }
    }
}

fn run(copy: CheckedCopy) -> crate::queue::OperationWork {
    Box::new(move || {
        copy.run();
        Ok(())
    })
}

fn operand(
    call: &DriverCall,
    (address, side): (u64, AddressSide),
    bytes: usize,
    writes: bool,
) -> DriverResult<Operand> {
    let context = call.context()?;
    let access = MemoryAccess { device: context.device, writes, by_kernel: false };
    call.driver()?.memory.operand(address, bytes as u64, side, access).inspect_err(|status| {
        if *status == ErrorCode::ILLEGAL_ADDRESS {
            context.health.fail(*status);
        }
    })
}

fn host<T>(pointer: *const T) -> (u64, AddressSide) {
    (pointer.expose_provenance() as u64, AddressSide::Host)
}

fn device(address: CUdeviceptr) -> (u64, AddressSide) {
    (address, AddressSide::Device)
}

fn either(address: CUdeviceptr) -> (u64, AddressSide) {
    (address, AddressSide::Either)
}

/// Copies between any two addresses.
///
/// # Safety
/// Host memory among them must be accessible for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> ResultCode {
    enter("cuMemcpy", CallNeeds::Context, |call| {
        CopyRequest::new(either(to), either(from), bytes).carry_out(call)
    })
}

/// Copies between any two addresses, in a stream.
///
/// # Safety
/// Host memory among them must be accessible for `bytes` until the copy is
/// done.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyAsync(
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> ResultCode {
    enter("cuMemcpyAsync", CallNeeds::Context, |call| {
        CopyRequest::new(either(to), either(from), bytes).queue(call, stream)
    })
}

/// Copies within devices and does not wait for it.
#[no_mangle]
pub extern "C" fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> ResultCode {
    enter("cuMemcpyDtoD_v2", CallNeeds::Context, |call| {
        CopyRequest::new(device(to), device(from), bytes).carry_out(call)
    })
}

/// Copies from a device to the host.
///
/// # Safety
/// `to` must be writable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
) -> ResultCode {
    enter("cuMemcpyDtoH_v2", CallNeeds::Context, |call| {
        CopyRequest::new(host(to), device(from), bytes).carry_out(call)
    })
}

/// Copies from the host to a device.
///
/// # Safety
/// `from` must be readable for `bytes`.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
) -> ResultCode {
    enter("cuMemcpyHtoD_v2", CallNeeds::Context, |call| {
        CopyRequest::new(device(to), host(from), bytes).carry_out(call)
    })
}

/// Copies within devices, in a stream.
#[no_mangle]
pub extern "C" fn cuMemcpyDtoDAsync_v2(
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> ResultCode {
    enter("cuMemcpyDtoDAsync_v2", CallNeeds::Context, |call| {
        CopyRequest::new(device(to), device(from), bytes).queue(call, stream)
    })
}

/// Copies from a device to the host, in a stream.
///
/// # Safety
/// `to` must be writable for `bytes` until the copy is done.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> ResultCode {
    enter("cuMemcpyDtoHAsync_v2", CallNeeds::Context, |call| {
        CopyRequest::new(host(to), device(from), bytes).queue(call, stream)
    })
}

/// Copies from the host to a device, in a stream.
///
/// # Safety
/// `from` must be readable for `bytes` until the copy is done.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> ResultCode {
    enter("cuMemcpyHtoDAsync_v2", CallNeeds::Context, |call| {
        CopyRequest::new(device(to), host(from), bytes).queue(call, stream)
    })
}

/// Queues a fill of `count` items; `waits` if the call has no stream of its
/// own and the target is not plain device memory.
fn fill<T>(
    call: &DriverCall,
    to: CUdeviceptr,
    value: T,
    count: usize,
    stream: Option<CUstream>,
) -> DriverResult
where
    T: std::marker::Copy + Send + 'static,
{
    let queue = call.own_stream(stream.unwrap_or(null_mut()))?;
    if !to.is_multiple_of(align_of::<T>() as u64) {
        return Err(ErrorCode::INVALID_VALUE);
    }
    if count == 0 {
        return Ok(());
    }
    let bytes = count.checked_mul(size_of::<T>()).ok_or(ErrorCode::INVALID_VALUE)?;
    let target = operand(call, device(to), bytes, true)?;
    let must_wait = stream.is_none() && target.place != RangeKind::Device;
    let work = move || {
        transfer::fill(target, value, count);
        Ok(())
    };
    let ticket = call.submit(&queue, Box::new(work))?;
    if must_wait {
        call.wait(&[ticket])
    } else {
        Ok(())
    }
}

/// Fills bytes.
#[no_mangle]
pub extern "C" fn cuMemsetD8_v2(to: CUdeviceptr, value: c_uchar, count: usize) -> ResultCode {
    enter("cuMemsetD8_v2", CallNeeds::Context, |call| fill(call, to, value, count, None))
}

/// Fills bytes, in a stream.
#[no_mangle]
pub extern "C" fn cuMemsetD8Async(
    to: CUdeviceptr,
    value: c_uchar,
    count: usize,
    stream: CUstream,
) -> ResultCode {
    enter("cuMemsetD8Async", CallNeeds::Context, |call| fill(call, to, value, count, Some(stream)))
}

/// Fills words of 32 bits.
#[no_mangle]
pub extern "C" fn cuMemsetD32_v2(to: CUdeviceptr, value: c_uint, count: usize) -> ResultCode {
    enter("cuMemsetD32_v2", CallNeeds::Context, |call| fill(call, to, value, count, None))
}

/// Fills words of 32 bits, in a stream.
#[no_mangle]
pub extern "C" fn cuMemsetD32Async(
    to: CUdeviceptr,
    value: c_uint,
    count: usize,
    stream: CUstream,
) -> ResultCode {
    enter("cuMemsetD32Async", CallNeeds::Context, |call| fill(call, to, value, count, Some(stream)))
}
