//! A device and the context in which the library uses it.
//!
//! The library creates no context: it uses the one that is current on the calling thread, else a
//! device's primary context if that exists.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUdevice};

use super::driver::{CaptureMode, Driver};
use super::probe::name_and_bus_id;
use os::error::{Error, Kind, Result};

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const DEFAULT_STREAMS: [usize; 2] = [1, 2];

/// The range of driver errors about graph capture, from `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` to
/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`.
const CAPTURE_FIRST: u32 = 900;
const CAPTURE_LAST: u32 = 908;

/// What the device and its driver support, queried once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Virtual memory management: reserving address ranges and mapping them piecewise.
    pub virtual_memory: bool,
    /// Host memory can be registered.
    pub host_register: bool,
    /// The device accesses unregistered memory through the host's page tables, at nearly full speed;
    /// applications then let kernels write to it. Access by HMM does not count: on x86 the driver
    /// reports it for all memory, and hardly any program uses it.
    pub pageable_access: bool,
    /// The driver's CUDA version, 12080 for 12.8.
    pub driver_version: i32,
}

/// A device with its context.
#[derive(Debug)]
pub struct Device {
    pub(super) driver: Arc<Driver>,
    context: Context,
    /// The context's unique id, which a later context of the same handle does not have; if the driver
    /// has ids.
    id: Option<u64>,
    device: CUdevice,
    name: String,
    bus_id: String,
    total: u64,
    capabilities: Capabilities,
    retained: bool,
}

/// A context handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context(pub(super) CUcontext);
// SAFETY: contexts are reference counted by the driver and may be used from every thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Device {
    /// The device whose context is current on the calling thread, else the first one whose primary
    /// context exists. `None`: the application does not use a device yet.
    pub fn current(driver: &Arc<Driver>) -> Result<Option<Device>> {
        let mut context: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuCtxGetCurrent(&mut context) }?;
        if !context.is_null() {
            return Device::of(driver, context).map(Some);
        }
        // With several devices, the application's first device memory will tell which one it uses.
        let [device] = active_devices(driver)?[..] else { return Ok(None) };
        with_primary_context(driver, device, |context| Device::of(driver, context)).map(Some)
    }

    /// The device that `context` belongs to.
    pub(super) fn of(driver: &Arc<Driver>, context: CUcontext) -> Result<Device> {
        let _current = Current::enter(driver, Context(context))?;
        let mut device: CUdevice = 0;
        // SAFETY: the pointer is to a local, and a context is current.
        unsafe { driver.cuCtxGetDevice(&mut device) }?;
        let capabilities = Capabilities::of(driver, device)?;
        let retained = retain_primary(driver, context, device)?;
        let mut total = 0;
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuDeviceTotalMem_v2(&mut total, device) }?;
        let (name, bus_id) = name_and_bus_id(driver, device)?;
        Ok(Device {
            driver: driver.clone(),
            context: Context(context),
            // SAFETY: it is current.
            id: unsafe { driver.context_id(context) },
            device,
            name,
            bus_id,
            total: total as u64,
            capabilities,
            retained,
        })
    }

    /// Makes the context current on the calling thread for good, for worker threads. Their calls do not
    /// disturb a graph capture on another thread.
    pub fn bind(&self) -> Result<()> {
        self.driver.exchange_capture_mode(CaptureMode::RELAXED);
        // SAFETY: the context is the application's or retained.
        unsafe { self.driver.cuCtxSetCurrent(self.context.0) }
    }

    /// Makes the context current until the value is dropped, for the application's threads.
    pub fn enter(&self) -> Result<Current<'_>> {
        self.check_alive()?;
        Current::enter(&self.driver, self.context)
    }

    /// An error if the application has destroyed the context or reset the device. The context's objects
    /// are gone then: the driver may crash on their handles. A new primary context has the same handle.
    fn check_alive(&self) -> Result<()> {
        let mut version = 0;
        // SAFETY: the pointer is to a local. Other libraries ask by this call whether a context is one.
        unsafe { self.driver.cuCtxGetApiVersion(self.context.0, &mut version) }
            .map_err(|error| error.within("the context of this job's device is gone"))?;
        // SAFETY: the context exists.
        match (self.id, unsafe { self.driver.context_id(self.context.0) }) {
            (Some(before), Some(now)) if before != now => Err(Error::invalid(
                "the context of this job's device is gone: the device was reset",
            )),
            _ => Ok(()),
        }
    }

    /// Destroys an object of the context. If the context is gone, so is the object.
    pub(super) fn destroy_in_context(&self, end: impl FnOnce(&Driver) -> Result<()>) {
        let ended = self.enter().and_then(|_current| end(&self.driver));
        if let Err(error) = ended {
            log::debug!("{error}");
        }
    }

    /// Free device memory in bytes.
    pub fn free_memory(&self) -> Result<u64> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to locals.
        unsafe { self.driver.cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok(free as u64)
    }

    /// Waits for all work that is queued in the context, on every stream.
    ///
    /// # Errors
    /// A stream is being captured into a graph, which waiting would invalidate. For streams that
    /// synchronize with the default stream the driver tells in advance, for others by the call's
    /// failure.
    pub fn synchronize(&self) -> Result<()> {
        const CAPTURED: &str =
            "a stream is being captured into a graph, and to wait for all that is queued breaks the \
             capture: end it first, or give a stream that is not captured (VELOC_Set_stream)";
        let _current = self.enter()?;
        // SAFETY: both are default streams of the context, which is current.
        if DEFAULT_STREAMS.into_iter().any(|stream| unsafe {
            self.driver.is_capturing(std::ptr::without_provenance_mut(stream))
        }) {
            return Err(Error::invalid(CAPTURED));
        }
        // SAFETY: a context is current.
        unsafe { self.driver.cuCtxSynchronize() }.map_err(|error| match error.kind() {
            Kind::Driver(CAPTURE_FIRST..=CAPTURE_LAST) => error.within(CAPTURED),
            _ => error,
        })
    }

    /// Whether this is the device's context.
    pub(super) fn has_context(&self, context: CUcontext) -> bool {
        self.context.0 == context
    }

    /// The device's ordinal.
    pub fn ordinal(&self) -> i32 {
        self.device
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's PCI bus id, spelled as in sysfs; empty if the driver does not tell.
    pub fn bus_id(&self) -> &str {
        &self.bus_id
    }

    /// Total device memory in bytes.
    pub fn total_memory(&self) -> u64 {
        self.total
    }

    /// What the device and its driver support.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether this is the software device, which is no GPU.
    pub fn is_software(&self) -> bool {
        self.driver.is_software()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.retained {
            // SAFETY: retained once in `of`.
            if let Err(error) = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) } {
                log::debug!("{error}");
            }
        }
    }
}

/// A context that is current on this thread until the value is dropped.
#[derive(Debug)]
pub struct Current<'a> {
    driver: &'a Driver,
    pushed: bool,
    mode: CaptureMode,
    /// The context stack belongs to the thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl<'a> Current<'a> {
    fn enter(driver: &'a Driver, context: Context) -> Result<Current<'a>> {
        let mut now: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuCtxGetCurrent(&mut now) }?;
        let mode = driver.exchange_capture_mode(CaptureMode::RELAXED);
        let pushed = now != context.0;
        if pushed {
            // SAFETY: the context is the application's or retained.
            if let Err(error) = unsafe { driver.cuCtxPushCurrent_v2(context.0) } {
                driver.exchange_capture_mode(mode);
                return Err(error);
            }
        }
        Ok(Current { driver, pushed, mode, _not_send: std::marker::PhantomData })
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        self.driver.exchange_capture_mode(self.mode);
        if self.pushed {
            let mut popped: CUcontext = std::ptr::null_mut();
            // SAFETY: pushed in `enter` on this very thread.
            if let Err(error) = unsafe { self.driver.cuCtxPopCurrent_v2(&mut popped) } {
                log::debug!("{error}");
            }
        }
    }
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
    let done = Current::enter(driver, Context(context)).and_then(|_current| body(context));
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
    // SAFETY: the pointer is to a local; given back here or when the Device is dropped.
    unsafe { driver.cuDevicePrimaryCtxRetain(&mut primary, device) }?;
    if primary == context {
        return Ok(true);
    }
    // SAFETY: retained above.
    unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) }?;
    Ok(false)
}
