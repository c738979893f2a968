//! The driver library: found at run time, one typed function pointer for each call.
//!
//! cudarc supplies types and constants, but not the calls: its loader panics on a missing library
//! or symbol, chooses the library by itself, and returns the status as a Rust enum, which a newer
//! driver's error code would make undefined behaviour. Here a status is a number.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void, CStr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUmemAccessDesc, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUstream,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::{Error, Kind, Result};

/// A driver's status: 0 is success (`CUresult`).
pub type Status = u32;

/// `CUDA_ERROR_INVALID_CONTEXT`.
pub const INVALID_CONTEXT: Status = 201;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Status = 100;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> Status,)*
        }

        impl Functions {
            /// Looks every function up; names the first that is missing.
            fn find(library: &Library) -> Result<Self> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: the type is the one that the driver's header gives this symbol.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($type),*) -> Status>(
                                concat!(stringify!($name), "\0").as_bytes(),
                            )
                        };
                        *symbol.map_err(|_| missing(stringify!($name)))?
                    },)*
                })
            }
        }

        #[allow(non_snake_case, clippy::too_many_arguments)]
        impl Driver {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// As the driver's reference says of this call; pointers must be valid for it.
                pub(super) unsafe fn $name(&self, $($arg: $type),*) -> Result<()> {
                    // SAFETY: the caller's promise; the pointer was found under this very name.
                    self.check(stringify!($name), unsafe { (self.functions.$name)($($arg),*) })
                }
            )*
        }
    };
}

functions! {
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

/// How strictly the driver guards graph captures against a thread's calls
/// (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureMode(c_uint);

impl CaptureMode {
    /// The thread's calls have nothing to do with any capture.
    pub const RELAXED: CaptureMode = CaptureMode(2);
}

type ExchangeCaptureMode = unsafe extern "C" fn(*mut c_uint) -> Status;
type IsCapturing = unsafe extern "C" fn(CUstream, *mut c_uint) -> Status;
type NameOf = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;

/// The driver library.
pub struct Driver {
    functions: Functions,
    error_name: Option<NameOf>,
    // Graph capture; a driver without it captures nothing.
    exchange_capture_mode: Option<ExchangeCaptureMode>,
    is_capturing: Option<IsCapturing>,
    software: bool,
    // Keeps the code that the functions point to. Never closed: the driver has threads of its own.
    _library: Library,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("software", &self.software).finish_non_exhaustive()
    }
}

/// How many libraries this process has loaded since its start.
fn libraries_loaded() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        loaded: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid record, and the pointer is the one given below.
        unsafe { *loaded.cast::<u64>() = (*info).dlpi_adds };
        1 // The counter is the same in every record.
    }
    let mut loaded = 0u64;
    // SAFETY: the callback keeps to its types, and the pointer is to a local.
    unsafe { libc::dl_iterate_phdr(Some(first), std::ptr::from_mut(&mut loaded).cast()) };
    loaded
}

fn missing(symbol: &str) -> Error {
    Error::new(Kind::System, format!("the CUDA driver library has no function {symbol}"))
}

impl Driver {
    /// The driver that the application has loaded, initialised. `Ok(None)` if it has loaded none:
    /// then it can have no device memory, and it need not pay for the driver's start. An error if
    /// the driver does not serve. Found once, it is kept for the life of the process.
    pub fn get() -> Result<Option<Arc<Driver>>> {
        static DRIVER: OnceLock<Arc<Driver>> = OnceLock::new();
        static FAILED: OnceLock<Error> = OnceLock::new();
        static LOOKED_AT: AtomicU64 = AtomicU64::new(u64::MAX);
        if let Some(driver) = DRIVER.get() {
            return Ok(Some(driver.clone()));
        }
        if let Some(error) = FAILED.get() {
            return Err(error.clone());
        }
        // Looking costs a walk through the library path: only when a library was loaded since.
        let loaded = libraries_loaded();
        if LOOKED_AT.swap(loaded, Ordering::Relaxed) == loaded {
            return Ok(None);
        }
        let found = Driver::load().map_err(|error| FAILED.get_or_init(|| error).clone())?;
        let found = found.map(Arc::new);
        Ok(found.map(|driver| DRIVER.get_or_init(|| driver).clone()))
    }

    fn load() -> Result<Option<Driver>> {
        // Whichever path the application's driver came from, this is its soname.
        // SAFETY: nothing is loaded, so no constructor runs.
        let found = unsafe {
            Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD)
        };
        let Ok(library) = found else { return Ok(None) };
        let functions = Functions::find(&library)?;
        // SAFETY: the type is the header's.
        let error_name = unsafe { library.get::<NameOf>(b"cuGetErrorName\0") }.ok().map(|s| *s);
        let exchange_capture_mode = {
            // SAFETY: the type is the header's.
            unsafe { library.get::<ExchangeCaptureMode>(b"cuThreadExchangeStreamCaptureMode\0") }
                .ok()
                .map(|symbol| *symbol)
        };
        // SAFETY: the type is the header's.
        let is_capturing =
            unsafe { library.get::<IsCapturing>(b"cuStreamIsCapturing\0") }.ok().map(|s| *s);
        // SAFETY: only the symbol's presence is asked for.
        let software =
            unsafe { library.get::<unsafe extern "C" fn()>(b"softcuda_is_software\0") }.is_ok();
        let driver = Driver {
            functions,
            error_name,
            exchange_capture_mode,
            is_capturing,
            software,
            _library: library,
        };
        // SAFETY: cuInit may be called at any time and more than once.
        match unsafe { driver.cuInit(0) } {
            Ok(()) => Ok(Some(driver)),
            Err(error) if error.kind() == Kind::Driver(NO_DEVICE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether this is the software device of this project, which is no GPU.
    pub fn is_software(&self) -> bool {
        self.software
    }

    /// The driver's CUDA version, 12080 for 12.8.
    pub fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.cuDriverGetVersion(&mut version) }?;
        Ok(version)
    }

    /// Sets the calling thread's capture mode, and gives the one before.
    pub(super) fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        let mut mode = mode.0;
        if let Some(exchange) = self.exchange_capture_mode {
            // SAFETY: the pointer is to a local. A failure leaves the mode as it is.
            let _ = unsafe { exchange(&mut mode) };
        }
        CaptureMode(mode)
    }

    /// Whether a stream's work is being captured into a graph.
    ///
    /// # Safety
    /// `stream` is a stream of the current context.
    pub(super) unsafe fn is_capturing(&self, stream: CUstream) -> bool {
        let mut state: c_uint = 0;
        // SAFETY: the pointer is to a local; the rest is the caller's promise.
        self.is_capturing.is_some_and(|ask| unsafe { ask(stream, &mut state) } == 0 && state != 0)
    }

    fn check(&self, call: &str, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let mut text: *const c_char = std::ptr::null();
        let name = match self.error_name {
            // SAFETY: the driver writes a pointer to a constant string, or NULL.
            Some(name_of) if unsafe { name_of(status, &mut text) } == 0 && !text.is_null() => {
                // SAFETY: checked for NULL; the driver's strings end with NUL and stay.
                unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
            }
            _ => "unknown error".to_owned(),
        };
        Err(Error::new(Kind::Driver(status), format!("{call} failed: {name} ({status})")))
    }
}
