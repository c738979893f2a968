//! The driver's functions, found when the first device is opened, one typed pointer for each.
//!
//! cudarc supplies types and constants, but not the calls: it returns the status as a Rust enum, and
//! an error code that only a newer driver knows would be undefined behaviour. Here a status is a
//! number. The library's own table is not used: what is measured shares nothing with who measures.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void, CStr};
use std::sync::OnceLock;

use anyhow::{anyhow, Context as _, Result};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmemAccessDesc, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmodule, CUstream,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A driver's status: 0 is success (`CUresult`).
pub type Status = u32;

/// What the library is called; the second where only a toolkit's link is on the path.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// `CUDA_ERROR_NOT_INITIALIZED`: the driver was not loaded.
const NOT_INITIALISED: Status = 3;

struct Loaded {
    functions: Functions,
    library: Library,
}

static DRIVER: OnceLock<Loaded> = OnceLock::new();

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> Status,)*
        }

        impl Functions {
            /// Looks every function up; names the first that is missing.
            fn find(library: &Library) -> Result<Functions> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: the type is the one that the driver's header gives this symbol.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($type),*) -> Status>(
                                concat!(stringify!($name), "\0").as_bytes(),
                            )
                        };
                        *symbol.map_err(|_| {
                            anyhow!("the CUDA driver has no function {}", stringify!($name))
                        })?
                    },)*
                })
            }
        }

        $(
            /// As the driver's reference says.
            ///
            /// # Safety
            /// As the driver's reference says; pointers must be valid for the call.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe fn $name($($arg: $type),*) -> Status {
                match DRIVER.get() {
                    // SAFETY: the caller's promise; the pointer was found under this very name.
                    Some(driver) => unsafe { (driver.functions.$name)($($arg),*) },
                    None => NOT_INITIALISED,
                }
            }
        )*
    };
}

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetErrorString(status: Status, text: *mut *const c_char);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxSetCurrent(context: CUcontext);
    cuCtxSynchronize();
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint);
    cuMemFree_v2(address: CUdeviceptr);
    cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(address: *mut c_void);
    cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint);
    cuMemHostUnregister(address: *mut c_void);
    cuMemsetD8Async(address: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    cuMemPrefetchAsync(address: CUdeviceptr, bytes: usize, to: CUdevice, stream: CUstream);
    cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    cuMemGetAllocationGranularity(
        bytes: *mut usize, properties: *const CUmemAllocationProp, which: c_uint,
    );
    cuMemAddressReserve(
        address: *mut CUdeviceptr, bytes: usize, alignment: usize, wanted: CUdeviceptr,
        flags: c_ulonglong,
    );
    cuMemAddressFree(address: CUdeviceptr, bytes: usize);
    cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle, bytes: usize,
        properties: *const CUmemAllocationProp, flags: c_ulonglong,
    );
    cuMemRelease(handle: CUmemGenericAllocationHandle);
    cuMemMap(
        address: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    );
    cuMemUnmap(address: CUdeviceptr, bytes: usize);
    cuMemSetAccess(
        address: CUdeviceptr, bytes: usize, access: *const CUmemAccessDesc, count: usize,
    );
    cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream,
        arguments: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventSynchronize(event: CUevent);
}

/// Loads the driver, once.
///
/// # Errors
/// There is none, or it has not all that is needed.
pub fn load() -> Result<()> {
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let open = |name: &str| {
        // SAFETY: loading the driver runs no more than its constructors.
        unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.ok()
    };
    let library = NAMES.iter().find_map(|name| open(name)).context(
        "no CUDA driver was found (libcuda.so.1, or libcuda.so, in LD_LIBRARY_PATH and where the \
         system's loader looks); `cargo xtask veloc` brings a software device along, as `run.sh \
         --software` of a GPU bundle does",
    )?;
    let functions = Functions::find(&library)?;
    // Another thread may have been first; its copy is as good.
    let _ = DRIVER.set(Loaded { functions, library });
    Ok(())
}

/// A symbol of the driver that is not part of CUDA.
///
/// # Safety
/// `T` must be the type of the symbol.
pub unsafe fn extension<T: Copy>(name: &CStr) -> Option<T> {
    let driver = DRIVER.get()?;
    // SAFETY: the caller's promise. The library is never closed.
    let symbol = unsafe { driver.library.get::<T>(name.to_bytes_with_nul()) };
    symbol.ok().map(|symbol| *symbol)
}

/// An error for a status that is none of success, with what was tried.
pub fn checked(status: Status, what: impl FnOnce() -> String) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver writes a pointer to a constant string, or NULL.
    let asked = unsafe { cuGetErrorString(status, &mut text) };
    let what = what();
    if asked != 0 || text.is_null() {
        return Err(anyhow!("{what}: CUDA error {status}"));
    }
    // SAFETY: not NULL; the driver's strings end with NUL and stay.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Err(anyhow!("{what}: {text} (CUDA error {status})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_nobody_knows_is_an_error_like_any_other() {
        crate::software_device::run(|| {
            load().unwrap();
            let error = checked(4_000_000_000, || "a call".into()).unwrap_err().to_string();
            assert!(error.contains("a call: ") && error.contains("4000000000"), "{error}");
            let known = checked(2, || "a call".into()).unwrap_err().to_string();
            assert!(known.ends_with("(CUDA error 2)"), "{known}");
        });
    }
}
