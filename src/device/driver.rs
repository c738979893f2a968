//! The driver library: found at run time, one typed function pointer for each call.
//!
//! cudarc supplies types and constants, but not the calls: its loader panics on a missing library
//! or symbol, chooses the library by itself, and returns the status as a Rust enum, which a newer
//! driver's error code would make undefined behaviour. Here a status is a number (`loaded/`).

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUmemAccessDesc, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUstream,
};
pub use loaded::cuda::{CaptureMode, CONTEXT_IS_DESTROYED, DEINITIALIZED, INVALID_CONTEXT};
use loaded::cuda::{Failure, NO_DEVICE, SONAME};
use loaded::{cuda_driver, Awaited, Library};

use crate::error::{Error, Kind, Result};

/// A call was answered by `CUDA_ERROR_DEINITIALIZED`: the process ends, and the driver has ended before.
static ENDED: AtomicBool = AtomicBool::new(false);

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        if failure.status == DEINITIALIZED {
            ENDED.store(true, Ordering::Release);
        }
        Error::new(Kind::Driver(failure.status), failure.to_string())
    }
}

cuda_driver! {
    /// The driver library.
    pub struct Driver;
    pub(super) calls fail with Error;
    /// Initialises the driver.
    cuInit(flags: c_uint);
    /// The driver's CUDA version, 12080 for 12.8.
    cuDriverGetVersion(version: *mut c_int);
    /// How many devices there are.
    cuDeviceGetCount(count: *mut c_int);
    /// The device of this ordinal.
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    /// A device's name.
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    /// One attribute (`CUdevice_attribute` as a number).
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    /// A device's memory in bytes.
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    /// A device's bus id, as in sysfs.
    cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: CUdevice);
    /// Whether the primary context exists.
    cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
    /// Keeps the primary context alive.
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    /// Gives it back.
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    /// The calling thread's context.
    cuCtxGetCurrent(context: *mut CUcontext);
    /// Makes a context the calling thread's.
    cuCtxSetCurrent(context: CUcontext);
    /// The same, to be undone by a pop.
    cuCtxPushCurrent_v2(context: CUcontext);
    /// Undoes a push.
    cuCtxPopCurrent_v2(context: *mut CUcontext);
    /// What version of the interface a context has: an error for one that has ended.
    cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint);
    /// The device of the calling thread's context.
    cuCtxGetDevice(device: *mut CUdevice);
    /// Waits for everything queued in the calling thread's context, on every stream.
    cuCtxSynchronize();
    /// Free and total memory of the device in bytes.
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    /// Several attributes of a pointer at once.
    cuPointerGetAttributes(
        count: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, pointer: CUdeviceptr,
    );
    /// The unit of physical allocations in bytes.
    cuMemGetAllocationGranularity(
        bytes: *mut usize, prop: *const CUmemAllocationProp, option: c_uint,
    );
    /// Reserves an address range.
    cuMemAddressReserve(
        pointer: *mut CUdeviceptr, size: usize, alignment: usize, hint: CUdeviceptr,
        flags: c_ulonglong,
    );
    /// Gives an address range back.
    cuMemAddressFree(pointer: CUdeviceptr, size: usize);
    /// Makes physical memory.
    cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle, size: usize, prop: *const CUmemAllocationProp,
        flags: c_ulonglong,
    );
    /// Gives physical memory back, as soon as it is not mapped.
    cuMemRelease(handle: CUmemGenericAllocationHandle);
    /// Maps physical memory at an address.
    cuMemMap(
        pointer: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    );
    /// Unmaps it.
    cuMemUnmap(pointer: CUdeviceptr, size: usize);
    /// Lets devices use mapped memory.
    cuMemSetAccess(pointer: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize);
    /// Registers host memory.
    cuMemHostRegister_v2(pointer: *mut c_void, size: usize, flags: c_uint);
    /// Undoes a registration.
    cuMemHostUnregister(pointer: *mut c_void);
    /// Makes a stream.
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    /// Ends a stream.
    cuStreamDestroy_v2(stream: CUstream);
    /// Waits for a stream.
    cuStreamSynchronize(stream: CUstream);
    /// Lets a stream wait for an event.
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    /// The context of a stream.
    cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    /// Makes an event.
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    /// Puts an event into a stream.
    cuEventRecord(event: CUevent, stream: CUstream);
    /// Waits for an event.
    cuEventSynchronize(event: CUevent);
    /// Ends an event.
    cuEventDestroy_v2(event: CUevent);
    /// Copies between any two addresses.
    cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Copies within device memory.
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Copies from device to host memory.
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Copies from host to device memory.
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
}

impl Driver {
    /// The driver that the application has loaded, initialised. `Ok(None)` if it has loaded none:
    /// then it can have no device memory, and it need not pay for the driver's start. An error if
    /// the driver does not serve. Found once, it is kept for the life of the process.
    pub fn get() -> Result<Option<Arc<Driver>>> {
        static DRIVER: Awaited<Arc<Driver>, Error> = Awaited::new();
        Ok(DRIVER.look(SONAME, |library| Ok(Driver::start(library)?.map(Arc::new)))?.cloned())
    }

    fn start(library: Library) -> Result<Option<Driver>> {
        let driver = Driver::find(library).map_err(|name| {
            Error::new(Kind::System, format!("the CUDA driver library has no function {name}"))
        })?;
        // SAFETY: cuInit may be called at any time and more than once.
        match unsafe { driver.cuInit(0) } {
            Ok(()) => Ok(Some(driver)),
            Err(error) if error.kind() == Kind::Driver(NO_DEVICE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the driver has ended, as it does when the process ends: whatever does not work from then
    /// on is no failure, and what it had given is given back.
    pub fn has_ended() -> bool {
        ENDED.load(Ordering::Acquire)
    }

    /// Whether this is the software device of this project, which is no GPU.
    pub fn is_software(&self) -> bool {
        self.extras.is_software()
    }

    /// The driver's CUDA version, 12080 for 12.8.
    pub fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.cuDriverGetVersion(&mut version) }?;
        Ok(version)
    }

    /// What tells a context from an earlier one of the same handle, if the driver says so.
    ///
    /// # Safety
    /// `context` is a living context.
    pub(super) unsafe fn context_id(&self, context: CUcontext) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe { self.extras.context_id(context.cast()) }
    }

    /// The primary context that a stream belongs to by way of a green context.
    ///
    /// # Safety
    /// `stream` is a stream, or stands for one of the current context.
    pub(super) unsafe fn parent_of_green(&self, stream: CUstream) -> Option<CUcontext> {
        // SAFETY: the caller's promise.
        unsafe { self.extras.parent_of_green(stream.cast()) }.map(|context| context.cast())
    }

    /// Sets the calling thread's capture mode, and gives the one before.
    pub(super) fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        self.extras.exchange_capture_mode(mode)
    }

    /// Whether a stream's work is being captured into a graph.
    ///
    /// # Safety
    /// `stream` is a stream of the current context.
    pub(super) unsafe fn is_capturing(&self, stream: CUstream) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.extras.is_capturing(stream.cast()) }
    }
}
