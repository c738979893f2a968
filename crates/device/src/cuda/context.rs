//! Contexts of CUDA: which one the library uses, and making it current on a thread.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUdevice};

use super::driver::{CaptureMode, Driver};
use super::probe::name_and_bus_id;
use super::{ContextHandle, CudaDevice};
use crate::api::{Capabilities, DeviceInfo, Entered};
use crate::device::Device;
use errors::Result;

/// In [`Entered`], beside the thread's earlier capture mode: the context was pushed.
const PUSHED: u64 = 1 << 32;

/// The device whose context is current on the calling thread, else the first one whose primary
/// context exists. `None`: the application does not use a device yet.
pub(crate) fn current(driver: &Arc<Driver>) -> Result<Option<Device>> {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is to a local.
    unsafe { driver.cuCtxGetCurrent(&mut context) }?;
    if !context.is_null() {
        return device_with(driver, context).map(Some);
    }
    // With several devices, the application's first device memory will tell which one it uses.
    let [device] = active_devices(driver)?[..] else { return Ok(None) };
    with_primary_context(driver, device, |context| device_with(driver, context)).map(Some)
}

/// The device that `context` belongs to.
pub(super) fn device_with(driver: &Arc<Driver>, context: CUcontext) -> Result<Device> {
    within(driver, ContextHandle(context), || {
        let mut device: CUdevice = 0;
        // SAFETY: the pointer is to a local, and a context is current.
        unsafe { driver.cuCtxGetDevice(&mut device) }?;
        let capabilities = Capabilities::of(driver, device)?;
        let retained = retain_primary(driver, context, device)?;
        let mut total = 0;
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuDeviceTotalMem_v2(&mut total, device) }?;
        let (name, bus_id) = name_and_bus_id(driver, device)?;
        let api = CudaDevice {
            driver: driver.clone(),
            context: ContextHandle(context),
            // SAFETY: it is current.
            id: unsafe { driver.context_id(context) },
            device,
            retained,
        };
        let info = DeviceInfo {
            ordinal: device,
            name,
            bus_id,
            total: total as u64,
            capabilities,
            software: driver.is_software(),
        };
        Ok(Device::new(info, Arc::new(api)))
    })
}

/// Makes a context current on the calling thread, unless it `is_current`, to be undone by [`leave`]. The thread's calls do not
/// disturb a graph capture meanwhile.
pub(super) fn enter(driver: &Driver, context: ContextHandle, is_current: bool) -> Result<Entered> {
    let mut now = context.0;
    if !is_current {
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuCtxGetCurrent(&mut now) }?;
    }
    let mode = driver.exchange_capture_mode(CaptureMode::RELAXED);
    let pushed = now != context.0;
    if pushed {
        // SAFETY: the context is the application's or retained.
        if let Err(error) = unsafe { driver.cuCtxPushCurrent_v2(context.0) } {
            driver.exchange_capture_mode(mode);
            return Err(error);
        }
    }
    Ok(Entered(u64::from(mode.0) | if pushed { PUSHED } else { 0 }))
}

/// Undoes an [`enter`].
pub(super) fn leave(driver: &Driver, entered: Entered) {
    driver.exchange_capture_mode(CaptureMode(entered.0 as u32));
    if entered.0 & PUSHED != 0 {
        let mut popped: CUcontext = std::ptr::null_mut();
        // SAFETY: pushed in `enter` on this very thread.
        if let Err(error) = unsafe { driver.cuCtxPopCurrent_v2(&mut popped) } {
            log::debug!("{error}");
        }
    }
}

/// Runs `body` while a context is current.
pub(super) fn within<T>(
    driver: &Driver,
    context: ContextHandle,
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let entered = enter(driver, context, false)?;
    let done = body();
    leave(driver, entered);
    done
}

/// The devices whose primary contexts exist.
pub(super) fn active_devices(driver: &Driver) -> Result<Vec<CUdevice>> {
    let mut count = 0;
    // SAFETY: the pointer is to a local.
    unsafe { driver.cuDeviceGetCount(&mut count) }?;
    let mut found = Vec::new();
    for ordinal in 0..count {
        let (mut device, mut flags, mut active) = (0, 0, 0);
        // SAFETY: the pointers are to locals.
        unsafe { driver.cuDeviceGet(&mut device, ordinal) }?;
        // SAFETY: the pointers are to locals.
        unsafe { driver.cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) }?;
        if active != 0 {
            found.push(device);
        }
    }
    Ok(found)
}

/// Runs `body` in a device's existing primary context.
pub(super) fn with_primary_context<T>(
    driver: &Driver,
    device: CUdevice,
    body: impl FnOnce(CUcontext) -> Result<T>,
) -> Result<T> {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is to a local; given back below.
    unsafe { driver.cuDevicePrimaryCtxRetain(&mut context, device) }?;
    let done = within(driver, ContextHandle(context), || body(context));
    // SAFETY: retained above.
    unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) }?;
    done
}

/// Retains the device's primary context if `context` is it, because the application may reset it while
/// workers use it. Never creates one.
fn retain_primary(driver: &Driver, context: CUcontext, device: CUdevice) -> Result<bool> {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the pointers are to locals.
    unsafe { driver.cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) }?;
    if active == 0 {
        return Ok(false);
    }
    let mut primary: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is to a local; given back here or when the device is dropped.
    unsafe { driver.cuDevicePrimaryCtxRetain(&mut primary, device) }?;
    if primary == context {
        return Ok(true);
    }
    // SAFETY: retained above.
    unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) }?;
    Ok(false)
}
