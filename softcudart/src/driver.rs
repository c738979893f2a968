//! The driver, `libcuda.so.1`: found at run time, as a program's own runtime finds it.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use loaded::cuda::SONAME;
use loaded::{cuda_driver, Library};

use crate::answer::{notice, Outcome, Status};

/// A device's number.
pub type CUdevice = c_int;
/// A context.
pub type CUcontext = *mut c_void;
/// A module of kernels.
pub type CUmodule = *mut c_void;
/// A kernel.
pub type CUfunction = *mut c_void;
/// A stream, which is the runtime's, too.
pub type CUstream = *mut c_void;
/// An event, which is the runtime's, too.
pub type CUevent = *mut c_void;
/// An address of device memory.
pub type CUdeviceptr = u64;
/// A function that a stream calls.
pub type CUhostFn = Option<unsafe extern "C" fn(*mut c_void)>;

cuda_driver! {
    /// The driver.
    pub struct Driver;
    pub calls fail with Status;
    /// Initialises the driver.
    cuInit(flags: c_uint);
    /// The version of the interface.
    cuDriverGetVersion(version: *mut c_int);
    /// How many devices there are.
    cuDeviceGetCount(count: *mut c_int);
    /// The device of this number.
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    /// Its name.
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    /// One of its properties.
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    /// Its memory in bytes.
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    /// Keeps its primary context.
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    /// Gives that back.
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    /// Ends it, whoever keeps it.
    cuDevicePrimaryCtxReset_v2(device: CUdevice);
    /// The thread's context.
    cuCtxGetCurrent(context: *mut CUcontext);
    /// Makes a context the thread's.
    cuCtxSetCurrent(context: CUcontext);
    /// Waits for all work of the thread's context.
    cuCtxSynchronize();
    /// Makes a module of PTX.
    cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    /// A kernel of a module.
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    /// Queues a kernel.
    cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    /// Queues a function of the program's.
    cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void);
    /// Free and total memory.
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    /// Device memory.
    cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    /// Managed memory.
    cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint);
    /// Frees either.
    cuMemFree_v2(address: CUdeviceptr);
    /// Page-locked memory.
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    /// Frees it.
    cuMemFreeHost(pointer: *mut c_void);
    /// Locks pages of the program's.
    cuMemHostRegister_v2(pointer: *mut c_void, size: usize, flags: c_uint);
    /// Unlocks them.
    cuMemHostUnregister(pointer: *mut c_void);
    /// Where the device has page-locked memory.
    cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
    /// Copies between any two addresses.
    cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize);
    /// Copies to a device.
    cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
    /// Copies from a device.
    cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize);
    /// Copies within devices.
    cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize);
    /// Copies between any two addresses, in a stream.
    cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Copies to a device, in a stream.
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    /// Copies from a device, in a stream.
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Copies within devices, in a stream.
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Fills memory.
    cuMemsetD8_v2(address: CUdeviceptr, value: u8, bytes: usize);
    /// Fills memory, in a stream.
    cuMemsetD8Async(address: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    /// Makes a stream.
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    /// Makes a stream of a priority.
    cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    /// Ends a stream.
    cuStreamDestroy_v2(stream: CUstream);
    /// Waits for a stream.
    cuStreamSynchronize(stream: CUstream);
    /// Whether a stream's work is done.
    cuStreamQuery(stream: CUstream);
    /// Has a stream wait for an event.
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    /// Makes an event.
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    /// Puts an event into a stream.
    cuEventRecord(event: CUevent, stream: CUstream);
    /// Whether the work before an event is done.
    cuEventQuery(event: CUevent);
    /// Waits for that.
    cuEventSynchronize(event: CUevent);
    /// Milliseconds between two events.
    cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    /// Ends an event.
    cuEventDestroy_v2(event: CUevent);
}

/// The driver, initialised; loaded by the first call that needs it, as constructors are too early.
pub(crate) fn driver() -> Outcome<&'static Driver> {
    static DRIVER: OnceLock<Outcome<Driver>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(|status| *status)
}

fn load() -> Outcome<Driver> {
    // SAFETY: the name ends with a null byte; the driver's own constructors are meant to run. The
    // handle is never closed.
    unsafe { libc::dlopen(SONAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let library = Library::find(SONAME).ok_or_else(|| {
        notice("there is no libcuda.so.1");
        Status::INSUFFICIENT_DRIVER
    })?;
    let driver = Driver::find(library).map_err(|name| {
        notice(&format!("libcuda.so.1 has no {name}"));
        Status::INSUFFICIENT_DRIVER
    })?;
    // SAFETY: a function of a number.
    unsafe { driver.cuInit(0)? };
    Ok(driver)
}
