//! Devices of CUDA, by the driver that the application has loaded.

mod context;
mod driver;
mod memory;
mod probe;

use std::ffi::{c_void, CStr};
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUevent, CUfunction, CUmemAccessDesc, CUmemAccess_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmodule, CUstream,
};

pub(crate) use context::current;
pub use driver::says_ended;
pub(crate) use driver::{has_ended, Driver};
pub(crate) use memory::device_of;
pub use probe::{probe, Probe};

use crate::api::{
    Advice, CopyKind, DeviceApi, Entered, EventHandle, KernelHandle, MemoryHandle, MemoryInfo,
    StreamHandle, WaitMode,
};
use driver::CaptureMode;
use errors::{Error, ErrorKind, Result};
use memory::Attributes;

/// `CU_STREAM_LEGACY`.
const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;
const DEFAULT_STREAMS: [usize; 2] = [LEGACY, PER_THREAD];

/// The range of driver errors about graph capture, from `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` to
/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`.
const CAPTURE_FIRST: u32 = 900;
const CAPTURE_LAST: u32 = 908;

/// `CU_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
const RECOMMENDED: u32 = 1;
/// `CU_MEMHOSTREGISTER_PORTABLE`: for all contexts of the process.
const PORTABLE: u32 = 1;
/// `CU_STREAM_NON_BLOCKING`: does not synchronize with the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_BLOCKING_SYNC`: a thread that waits for the event sleeps.
const BLOCKING_SYNC: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`: cheaper; no event is used for timing.
const DISABLE_TIMING: u32 = 2;

/// A context handle.
#[derive(Clone, Copy, Debug)]
struct ContextHandle(CUcontext);
// SAFETY: contexts are reference counted by the driver and may be used from every thread.
unsafe impl Send for ContextHandle {}
// SAFETY: as above.
unsafe impl Sync for ContextHandle {}

/// A device with the context that the library uses.
#[derive(Debug)]
struct CudaDevice {
    driver: Arc<Driver>,
    context: ContextHandle,
    /// The context's unique id, which a later context of the same handle does not have; if the driver
    /// has ids.
    id: Option<u64>,
    device: CUdevice,
    /// The context is the primary one, which this keeps.
    retained: bool,
}

impl CudaDevice {
    /// The properties of the device memory that the library maps.
    fn properties(&self) -> CUmemAllocationProp {
        // SAFETY: a plain C struct for which all zeros is the documented default.
        let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.requestedHandleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
        prop.location = CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: self.device,
        };
        prop
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if self.retained {
            // SAFETY: retained once when it was made.
            if let Err(error) = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) } {
                log::debug!("{error}");
            }
        }
    }
}

/// What another device's context is waited for.
fn of_device(device: CUdevice) -> String {
    format!("waiting for device {device}, which may use managed memory")
}

fn raw_stream(stream: StreamHandle) -> CUstream {
    stream.0 as CUstream
}

fn raw_event(event: EventHandle) -> CUevent {
    event.0 as CUevent
}

impl CudaDevice {
    /// Whether the context exists, and is the one that it was.
    fn check_alive(&self) -> Result<()> {
        let mut version = 0;
        // SAFETY: the pointer is to a local. Other libraries ask by this call whether a context is one.
        unsafe { self.driver.cuCtxGetApiVersion(self.context.0, &mut version) }
            .map_err(|error| error.within("the context of this job's device is gone"))?;
        // SAFETY: the context exists.
        match (self.id, unsafe { self.driver.context_id(self.context.0) }) {
            // A new primary context has the same handle.
            (Some(before), Some(now)) if before != now => Err(Error::invalid(
                "the context of this job's device is gone: the device was reset",
            )),
            _ => Ok(()),
        }
    }
}

impl DeviceApi for CudaDevice {
    fn bind(&self) -> Result<()> {
        self.driver.exchange_capture_mode(CaptureMode::RELAXED);
        // SAFETY: the context is the application's or retained.
        unsafe { self.driver.cuCtxSetCurrent(self.context.0) }
    }

    fn enter(&self) -> Result<Entered> {
        // SAFETY: null stands for the current context.
        let now = self.id.and_then(|_| unsafe { self.driver.context_id(std::ptr::null_mut()) });
        let is_current = now.is_some() && now == self.id;
        if !is_current {
            self.check_alive()?;
        }
        context::enter(&self.driver, self.context, is_current)
    }

    fn leave(&self, entered: Entered) {
        context::leave(&self.driver, entered);
    }

    fn free_memory(&self) -> Result<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to locals.
        unsafe { self.driver.cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok(free as u64)
    }

    fn advice(&self, range: &Range<u64>) -> Result<Advice> {
        memory::advice(&self.driver, range)
    }

    fn synchronize_other_devices(&self) -> Result<()> {
        for device in context::active_devices(&self.driver)? {
            if device != self.device || !self.retained {
                let wait = |_| self.synchronize().map_err(|error| error.within(of_device(device)));
                context::with_primary_context(&self.driver, device, wait)?;
            }
        }
        Ok(())
    }

    fn synchronize_owner(&self, address: u64) -> Result<()> {
        let Some(owner) = Attributes::of(&self.driver, address)?.owner() else { return Ok(()) };
        let whose =
            || format!("waiting for the context that the memory at {address:#x} belongs to");
        context::within(&self.driver, owner, || self.synchronize())
            .map_err(|error| error.within(whose()))
    }

    fn synchronize(&self) -> Result<()> {
        const CAPTURED: &str =
            "a stream is being captured into a graph, and to wait for all that is queued breaks the \
             capture: end it first, or give a stream that is not captured (VELOC_Set_stream)";
        // SAFETY: both are default streams of the context, which is current.
        if DEFAULT_STREAMS.into_iter().any(|stream| unsafe {
            self.driver.is_capturing(std::ptr::without_provenance_mut(stream))
        }) {
            return Err(Error::invalid(CAPTURED));
        }
        // SAFETY: a context is current.
        unsafe { self.driver.cuCtxSynchronize() }.map_err(|error| match error.kind() {
            ErrorKind::Driver(CAPTURE_FIRST..=CAPTURE_LAST) => error.within(CAPTURED),
            _ => error,
        })
    }

    fn memory_at(&self, address: u64) -> Result<MemoryInfo> {
        Ok(Attributes::of(&self.driver, address)?.seen_from(self.context.0))
    }

    fn granularity(&self) -> Result<u64> {
        let (mut granularity, prop) = (0, self.properties());
        // SAFETY: the pointers are to locals.
        unsafe { self.driver.cuMemGetAllocationGranularity(&mut granularity, &prop, RECOMMENDED) }?;
        Ok(granularity as u64)
    }

    fn reserve(&self, len: u64) -> Result<u64> {
        let mut base = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.driver.cuMemAddressReserve(&mut base, len as usize, 0, 0, 0) }?;
        Ok(base)
    }

    unsafe fn free_addresses(&self, base: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuMemAddressFree(base, len as usize) }
    }

    fn create(&self, len: u64) -> Result<MemoryHandle> {
        let (mut handle, prop) = (0, self.properties());
        // SAFETY: the pointers are to locals.
        unsafe { self.driver.cuMemCreate(&mut handle, len as usize, &prop, 0) }?;
        Ok(MemoryHandle(handle))
    }

    unsafe fn release(&self, memory: MemoryHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuMemRelease(memory.0) }
    }

    unsafe fn map(&self, at: u64, len: u64, memory: MemoryHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuMemMap(at, len as usize, 0, memory.0, 0) }
    }

    unsafe fn allow_access(&self, at: u64, len: u64) -> Result<()> {
        let access = CUmemAccessDesc {
            location: self.properties().location,
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the caller's promise; one descriptor.
        unsafe { self.driver.cuMemSetAccess(at, len as usize, &access, 1) }
    }

    unsafe fn unmap(&self, at: u64, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuMemUnmap(at, len as usize) }
    }

    fn allocate(&self, len: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.driver.cuMemAlloc_v2(&mut address, len as usize) }?;
        Ok(address)
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuMemFree_v2(address) }
    }

    fn load_kernels(&self, code: &CStr, names: &[&CStr]) -> Result<Vec<KernelHandle>> {
        let mut module: CUmodule = std::ptr::null_mut();
        // SAFETY: the pointer is to a local, and the text ends; the driver keeps no reference to it.
        unsafe { self.driver.cuModuleLoadData(&mut module, code.as_ptr().cast()) }?;
        let find = |name: &&CStr| {
            let mut function: CUfunction = std::ptr::null_mut();
            // SAFETY: the pointer is to a local, and the module is never unloaded.
            unsafe { self.driver.cuModuleGetFunction(&mut function, module, name.as_ptr()) }
                .map_err(|error| error.within(format!("the kernel {}", name.to_string_lossy())))?;
            Ok(KernelHandle(function as usize))
        };
        names.iter().map(find).collect()
    }

    unsafe fn launch(
        &self,
        stream: StreamHandle,
        kernel: KernelHandle,
        blocks: u32,
        threads: u32,
        arguments: &[u64],
    ) -> Result<()> {
        let mut places: Vec<*mut c_void> =
            arguments.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast()).collect();
        let (stream, kernel) = (raw_stream(stream), kernel.0 as CUfunction);
        let (places, none) = (places.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the caller's promise; the driver reads the arguments before it returns.
        unsafe {
            let driver = &self.driver;
            driver.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, places, none)
        }
    }

    unsafe fn register(&self, start: *mut u8, len: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuMemHostRegister_v2(start.cast::<c_void>(), len as usize, PORTABLE) }
    }

    unsafe fn unregister(&self, start: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuMemHostUnregister(start.cast::<c_void>()) }
    }

    fn create_stream(&self) -> Result<StreamHandle> {
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: the pointer is to a local, and a context is current.
        unsafe { self.driver.cuStreamCreate(&mut raw, NON_BLOCKING) }?;
        Ok(StreamHandle(raw as usize))
    }

    unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuStreamDestroy_v2(raw_stream(stream)) }
    }

    unsafe fn synchronize_stream(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuStreamSynchronize(raw_stream(stream)) }
    }

    unsafe fn wait_for_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuStreamWaitEvent(raw_stream(stream), raw_event(event), 0) }
    }

    unsafe fn copy(
        &self,
        stream: StreamHandle,
        kind: CopyKind,
        to: u64,
        from: u64,
        len: u64,
    ) -> Result<()> {
        let (driver, len, stream) = (&self.driver, len as usize, raw_stream(stream));
        // SAFETY: the caller's promise.
        unsafe {
            match kind {
                CopyKind::OnDevice => driver.cuMemcpyDtoDAsync_v2(to, from, len, stream),
                CopyKind::ToHost => {
                    driver.cuMemcpyDtoHAsync_v2(to as *mut c_void, from, len, stream)
                }
                CopyKind::FromHost => {
                    driver.cuMemcpyHtoDAsync_v2(to, from as *const c_void, len, stream)
                }
                CopyKind::Any => driver.cuMemcpyAsync(to, from, len, stream),
            }
        }
    }

    unsafe fn has_stream(&self, stream: StreamHandle) -> Result<bool> {
        if stream.0 == PER_THREAD {
            return Err(Error::invalid(
                "the per-thread default stream is another one on each thread; give NULL, which \
                 stands for everything that is queued",
            ));
        }
        self.check_alive()?;
        if stream.0 == LEGACY {
            // Each context has one, and the driver refuses to tell its context during a capture.
            return Ok(true);
        }
        context::within(&self.driver, self.context, || {
            let mut context: CUcontext = std::ptr::null_mut();
            // SAFETY: the pointer is to a local; the rest is the caller's promise.
            unsafe { self.driver.cuStreamGetCtx(raw_stream(stream), &mut context) }
                .map_err(|error| error.within(format!("the stream {:#x}", stream.0)))?;
            // For a green context's stream, the reported context represents the green context. Work and
            // memory belong to the primary context, whose events can be recorded in the stream.
            // SAFETY: as above.
            let parent = unsafe { self.driver.primary_context_of(raw_stream(stream)) };
            Ok(context == self.context.0 || parent == Some(self.context.0))
        })
    }

    unsafe fn is_capturing(&self, stream: StreamHandle) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.driver.is_capturing(raw_stream(stream)) }
    }

    fn create_event(&self, waiting: WaitMode) -> Result<EventHandle> {
        let flags = match waiting {
            WaitMode::Spin => DISABLE_TIMING,
            WaitMode::Block => DISABLE_TIMING | BLOCKING_SYNC,
        };
        let mut raw: CUevent = std::ptr::null_mut();
        // SAFETY: the pointer is to a local, and a context is current.
        unsafe { self.driver.cuEventCreate(&mut raw, flags) }?;
        Ok(EventHandle(raw as usize))
    }

    unsafe fn destroy_event(&self, event: EventHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuEventDestroy_v2(raw_event(event)) }
    }

    unsafe fn record_event(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuEventRecord(raw_event(event), raw_stream(stream)) }
    }

    unsafe fn synchronize_event(&self, event: EventHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.cuEventSynchronize(raw_event(event)) }
    }
}
