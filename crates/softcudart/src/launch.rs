//! Launches of kernels, as nvcc writes them: `kernel<<<grid, block, shared, stream>>>(...)` pushes the
//! configuration, and calls the host function of this name, which pops it and launches.

use std::cell::RefCell;
use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

use crate::answer::{answer, give, RuntimeCode, RuntimeError, RuntimeResult};
use crate::driver::CUstream;
use crate::registration;

/// The sides of a grid or a block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

/// What stands between `<<<` and `>>>`.
struct Configuration {
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: CUstream,
}

thread_local! {
    static PUSHED: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the configuration of the thread's next launch; returns 0, or an error.
#[no_mangle]
pub(crate) extern "C" fn __cudaPushCallConfiguration(
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: CUstream,
) -> c_uint {
    answer(|| {
        let configuration = Configuration { grid, block, shared, stream };
        PUSHED.with_borrow_mut(|pushed| pushed.push(configuration));
        Ok(())
    })
}

/// Returns the configuration that was pushed last, and forgets it.
///
/// # Safety
/// The pointers are null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: *mut dim3,
    block: *mut dim3,
    shared: *mut usize,
    stream: *mut CUstream,
) -> RuntimeCode {
    answer(|| {
        let last = PUSHED.with_borrow_mut(Vec::pop).ok_or(RuntimeError::MISSING_CONFIGURATION)?;
        // SAFETY: the caller's promise.
        unsafe {
            give(grid, last.grid)?;
            give(block, last.block)?;
            give(shared, last.shared)?;
            give(stream, last.stream)
        }
    })
}

/// Queues the kernel that belongs to the host function `host`.
///
/// # Safety
/// `arguments` points to as many pointers to values as the kernel has parameters.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaLaunchKernel(
    host: *const c_void,
    grid: dim3,
    block: dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: CUstream,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe { launch(host, Configuration { grid, block, shared, stream }, arguments) })
}

/// Returns the handle of a kernel for [`__cudaLaunchKernel`], as programs of CUDA 13 ask for it: its host
/// function.
///
/// # Safety
/// `kernel` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn __cudaGetKernel(
    kernel: *mut *const c_void,
    host: *const c_void,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe { give(kernel, host) })
}

/// Queues a kernel.
///
/// # Safety
/// As for [`cudaLaunchKernel`].
#[no_mangle]
pub(crate) unsafe extern "C" fn __cudaLaunchKernel(
    kernel: *const c_void,
    grid: dim3,
    block: dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: CUstream,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    unsafe { cudaLaunchKernel(kernel, grid, block, arguments, shared, stream) }
}

/// # Safety
/// As for [`cudaLaunchKernel`].
unsafe fn launch(
    host: *const c_void,
    how: Configuration,
    arguments: *mut *mut c_void,
) -> RuntimeResult {
    let (driver, function) = registration::function(host)?;
    let Configuration { grid, block, shared, stream } = how;
    let shared = c_uint::try_from(shared).map_err(|_| RuntimeError::INVALID_CONFIGURATION)?;
    // SAFETY: the function is one of the current context; the rest is the caller's promise.
    let queued = unsafe {
        driver.cuLaunchKernel(
            function,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            shared,
            stream,
            arguments,
            null_mut(),
        )
    };
    // Of these arguments only the sizes can have an invalid value.
    queued.map_err(|status| match status {
        RuntimeError::INVALID_VALUE => RuntimeError::INVALID_CONFIGURATION,
        status => status,
    })
}
