//! Memory: of devices, managed, page-locked; copies and fills.

use std::ffi::{c_int, c_uint, c_void};

use crate::answer::{answer, give, RuntimeCode, RuntimeError, RuntimeResult};
use crate::context::enter;
use crate::driver::{CUdeviceptr, CUstream};

/// Declares functions that do what one of the driver's does, in the current context.
macro_rules! passed_on {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) => $call:ident($($value:expr),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the driver's function says of these arguments.
        #[no_mangle]
        pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> $crate::answer::RuntimeCode {
            // SAFETY: the caller's promise, which is the driver's own.
            $crate::answer::answer(|| unsafe { $crate::context::enter()?.$call($($value),*) })
        }
    )*};
}
pub(crate) use passed_on;

passed_on! {
    /// Free and total memory of the device.
    cudaMemGetInfo(free: *mut usize, total: *mut usize) => cuMemGetInfo_v2(free, total);
    /// Locks the pages of memory of the program's.
    cudaHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint)
        => cuMemHostRegister_v2(pointer, bytes, flags);
    /// Unlocks them.
    cudaHostUnregister(pointer: *mut c_void) => cuMemHostUnregister(pointer);
    /// Where the device has page-locked memory.
    cudaHostGetDevicePointer(address: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint)
        => cuMemHostGetDevicePointer_v2(address, pointer, flags);
    /// Fills device memory.
    cudaMemset(address: CUdeviceptr, value: c_int, bytes: usize)
        => cuMemsetD8_v2(address, value as u8, bytes);
    /// Fills device memory, in a stream.
    cudaMemsetAsync(address: CUdeviceptr, value: c_int, bytes: usize, stream: CUstream)
        => cuMemsetD8Async(address, value as u8, bytes, stream);
}

/// Allocates memory by `allocate`; for 0 bytes gives null.
///
/// # Safety
/// `pointer` is null or writable.
unsafe fn allocated<T: Default>(
    pointer: *mut T,
    bytes: usize,
    allocate: impl FnOnce() -> RuntimeResult,
) -> RuntimeCode {
    answer(|| {
        enter()?;
        // SAFETY: the caller's promise.
        unsafe { give(pointer, T::default())? };
        if bytes == 0 {
            Ok(())
        } else {
            allocate()
        }
    })
}

/// Allocates device memory.
///
/// # Safety
/// `address` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaMalloc(address: *mut CUdeviceptr, bytes: usize) -> RuntimeCode {
    // SAFETY: the caller's promise.
    unsafe { allocated(address, bytes, || enter()?.cuMemAlloc_v2(address, bytes)) }
}

/// Allocates managed memory.
///
/// # Safety
/// `address` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaMallocManaged(
    address: *mut CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    unsafe { allocated(address, bytes, || enter()?.cuMemAllocManaged(address, bytes, flags)) }
}

/// Allocates page-locked memory.
///
/// # Safety
/// `pointer` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaHostAlloc(
    pointer: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> RuntimeCode {
    // SAFETY: the caller's promise; a pointer is as large as an address.
    unsafe {
        allocated(pointer.cast::<usize>(), bytes, || enter()?.cuMemHostAlloc(pointer, bytes, flags))
    }
}

/// Allocates page-locked memory.
///
/// # Safety
/// `pointer` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaMallocHost(
    pointer: *mut *mut c_void,
    bytes: usize,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    unsafe { cudaHostAlloc(pointer, bytes, 0) }
}

/// Frees device or managed memory; null is ignored. Programs call it first, to create a context.
#[no_mangle]
pub(crate) extern "C" fn cudaFree(address: CUdeviceptr) -> RuntimeCode {
    answer(|| {
        let driver = enter()?;
        if address == 0 {
            return Ok(());
        }
        // SAFETY: a function of a number, which the driver checks.
        unsafe { driver.cuMemFree_v2(address) }
    })
}

/// Frees page-locked memory; null is none.
///
/// # Safety
/// Nothing uses it any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaFreeHost(pointer: *mut c_void) -> RuntimeCode {
    answer(|| {
        let driver = enter()?;
        if pointer.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { driver.cuMemFreeHost(pointer) }
    })
}

/// The directions of a copy (`cudaMemcpyKind`); with the last one the addresses decide.
const HOST_TO_HOST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
const BY_ADDRESS: c_int = 4;

/// Copies.
///
/// # Safety
/// Both ranges are accessible for `bytes`.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaMemcpy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe {
        let driver = enter()?;
        match kind {
            HOST_TO_DEVICE => driver.cuMemcpyHtoD_v2(address(to), from, bytes),
            DEVICE_TO_HOST => driver.cuMemcpyDtoH_v2(to, address(from), bytes),
            DEVICE_TO_DEVICE => driver.cuMemcpyDtoD_v2(address(to), address(from), bytes),
            HOST_TO_HOST | BY_ADDRESS => driver.cuMemcpy(address(to), address(from), bytes),
            _ => Err(RuntimeError::INVALID_MEMCPY_DIRECTION),
        }
    })
}

/// Copies, in a stream.
///
/// # Safety
/// Both ranges are accessible for `bytes` until the copy is done.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: CUstream,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe {
        let driver = enter()?;
        let (device_to, device_from) = (address(to), address(from));
        match kind {
            HOST_TO_DEVICE => driver.cuMemcpyHtoDAsync_v2(device_to, from, bytes, stream),
            DEVICE_TO_HOST => driver.cuMemcpyDtoHAsync_v2(to, device_from, bytes, stream),
            DEVICE_TO_DEVICE => driver.cuMemcpyDtoDAsync_v2(device_to, device_from, bytes, stream),
            HOST_TO_HOST | BY_ADDRESS => {
                driver.cuMemcpyAsync(device_to, device_from, bytes, stream)
            }
            _ => Err(RuntimeError::INVALID_MEMCPY_DIRECTION),
        }
    })
}

/// A pointer as a driver's address.
fn address<T>(pointer: *const T) -> CUdeviceptr {
    pointer.expose_provenance() as CUdeviceptr
}
