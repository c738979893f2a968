//! What devices there are, and what they say of themselves.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::mem::MaybeUninit;

use crate::answer::{answer, give, RuntimeCode, RuntimeError, RuntimeResult};
use crate::driver::{driver, CUdevice, RuntimeDriver};

/// How much of `cudaDeviceProp` is written: all versions of it are longer.
const PROPERTIES: usize = 704;
/// Where it has numbers of four bytes, with the driver's attributes of the same meaning.
const NUMBERS: [(usize, c_uint); 10] = [
    (308, 10), // warpSize
    (320, 1),  // maxThreadsPerBlock
    (324, 2),  // maxThreadsDim
    (328, 3),
    (332, 4),
    (336, 5), // maxGridSize
    (340, 6),
    (344, 7),
    (360, 75), // major
    (364, 76), // minor
];
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`, which moved when CUDA 13 left fields before it out.
const MULTIPROCESSORS: c_uint = 16;
/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK`, a number of eight bytes.
const SHARED_MEMORY: c_uint = 8;

/// How many devices there are.
///
/// # Safety
/// `count` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe {
        give(count, 0)?;
        driver()?.cuDeviceGetCount(count)?;
        if *count == 0 {
            Err(RuntimeError::NO_DEVICE)
        } else {
            Ok(())
        }
    })
}

/// One property of a device. The runtime's numbers for them are the driver's.
///
/// # Safety
/// `value` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_uint,
    device: c_int,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe { driver()?.cuDeviceGetAttribute(value, attribute, device) })
}

/// The more common properties of a device; the others are 0.
///
/// # Safety
/// `properties` is null or as long as the program's header says.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaGetDeviceProperties(
    properties: *mut c_void,
    device: c_int,
) -> RuntimeCode {
    answer(|| {
        let found = self::properties(driver()?, device)?;
        // SAFETY: the caller's promise; that many bytes are in every version.
        unsafe { give(properties.cast(), found) }
    })
}

/// The same under the name that programs of CUDA 12 know.
///
/// # Safety
/// As for [`cudaGetDeviceProperties`].
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaGetDeviceProperties_v2(
    properties: *mut c_void,
    device: c_int,
) -> RuntimeCode {
    // SAFETY: the caller's promise.
    unsafe { cudaGetDeviceProperties(properties, device) }
}

fn properties(driver: &RuntimeDriver, device: c_int) -> RuntimeResult<[u8; PROPERTIES]> {
    let mut found = [0; PROPERTIES];
    let mut put = |at: usize, value: &[u8]| found[at..at + value.len()].copy_from_slice(value);
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuDeviceGetAttribute(&mut value, attribute, device)? };
        Ok::<c_int, RuntimeError>(value)
    };
    let (mut own, mut name, mut memory): (CUdevice, _, _) = (0, [0_u8; 256], 0_usize);
    // SAFETY: the pointers are to locals, and the name's length is that of the array.
    unsafe {
        driver.cuDeviceGet(&mut own, device)?;
        driver.cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, own)?;
        driver.cuDeviceTotalMem_v2(&mut memory, own)?;
    }
    put(0, &name);
    put(288, &memory.to_ne_bytes());
    put(296, &(attribute(SHARED_MEMORY)? as usize).to_ne_bytes());
    for (at, number) in NUMBERS {
        put(at, &attribute(number)?.to_ne_bytes());
    }
    let at = if release() < 13 { 388 } else { 384 };
    put(at, &attribute(MULTIPROCESSORS)?.to_ne_bytes());
    Ok(found)
}

/// The version of the driver's interface.
///
/// # Safety
/// `version` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaDriverGetVersion(version: *mut c_int) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe { driver()?.cuDriverGetVersion(version) })
}

/// The version of the runtime that is stood in for: 11000, 12000 or 13000.
///
/// # Safety
/// `version` is null or writable.
#[no_mangle]
pub(crate) unsafe extern "C" fn cudaRuntimeGetVersion(version: *mut c_int) -> RuntimeCode {
    // SAFETY: the caller's promise.
    answer(|| unsafe { give(version, release() * 1000) })
}

/// The release of CUDA that this library stands in for, by the name of its file.
fn release() -> c_int {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let own: *const c_void = cudaRuntimeGetVersion as *const c_void;
    // SAFETY: an address in code that is loaded, and a local; zeroed, it has a null path.
    let path = unsafe {
        libc::dladdr(own, info.as_mut_ptr());
        info.assume_init().dli_fname
    };
    if path.is_null() {
        return 0;
    }
    // SAFETY: the loader's own string.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    let release = path
        .rsplit_once("libcudart.so.")
        .and_then(|(_, behind)| behind.split('.').next()?.parse().ok());
    release.unwrap_or(0)
}
