//! Contexts: a thread without one gets the primary context of its device.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answer::{answer, give, RuntimeCode, RuntimeResult};
use crate::driver::{driver, CUcontext, CUdevice, RuntimeDriver};
use crate::registration;

/// The primary contexts that this library holds, by device.
static KEPT: Mutex<BTreeMap<CUdevice, usize>> = Mutex::new(BTreeMap::new());

thread_local! {
    static DEVICE: Cell<CUdevice> = const { Cell::new(0) };
}

/// What a mutex guards, also after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver, and the current context; if the thread has none, that of its device.
pub(crate) fn enter_with_context() -> RuntimeResult<(&'static RuntimeDriver, CUcontext)> {
    let driver = driver()?;
    let mut current = null_mut();
    // SAFETY: the pointer is to a local.
    unsafe { driver.cuCtxGetCurrent(&mut current)? };
    if current.is_null() {
        current = make_current(driver, DEVICE.get())?;
    }
    Ok((driver, current))
}

/// The driver, with a context current.
pub(crate) fn enter() -> RuntimeResult<&'static RuntimeDriver> {
    enter_with_context().map(|(driver, _)| driver)
}

/// Makes the primary context of `device` current, and holds it from the first time on.
fn make_current(driver: &RuntimeDriver, device: CUdevice) -> RuntimeResult<CUcontext> {
    let mut kept = lock(&KEPT);
    let context = match kept.get(&device) {
        Some(context) => std::ptr::with_exposed_provenance_mut(*context),
        None => {
            let mut context = null_mut();
            // SAFETY: the pointer is to a local.
            unsafe { driver.cuDevicePrimaryCtxRetain(&mut context, device)? };
            kept.insert(device, context.expose_provenance());
            context
        }
    };
    // SAFETY: it was retained, and not given back since.
    unsafe { driver.cuCtxSetCurrent(context)? };
    Ok(context)
}

/// Sets the thread's device.
#[no_mangle]
pub(crate) extern "C" fn cudaSetDevice(device: c_int) -> RuntimeCode {
    answer(|| {
        make_current(driver()?, device)?;
        DEVICE.set(device);
        Ok(())
    })
}

/// The thread's device.
///
/// # Safety
/// `device` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaGetDevice(device: *mut c_int) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe { driver().and_then(|_| give(device, DEVICE.get())) })
}

/// Ends the primary context of the thread's device with all that is in it. The next call that needs one makes
/// it again; other threads must not be using it.
#[no_mangle]
pub(crate) extern "C" fn cudaDeviceReset() -> RuntimeCode {
    answer(|| {
        let (driver, device) = (driver()?, DEVICE.get());
        let Some(context) = lock(&KEPT).remove(&device) else { return Ok(()) };
        registration::forget(context);
        // SAFETY: functions of a device; a thread may have no context.
        unsafe {
            driver.cuDevicePrimaryCtxReset_v2(device)?;
            driver.cuDevicePrimaryCtxRelease_v2(device)?;
            driver.cuCtxSetCurrent(null_mut())
        }
    })
}
