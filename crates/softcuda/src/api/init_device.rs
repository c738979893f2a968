//! Initialisation, devices and error texts.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;

use super::entry::{enter, give, give_text, CallNeeds};
use crate::abi::{CUdevice, CUuuid, ResultCode};
use crate::config::{self, Pageable};
use crate::kernels::SHARED_MEMORY;
use crate::registry;
use crate::status::{describe, DriverResult, ErrorCode};

const VERSION: c_int = 12080;
const NAME: &str = "softcuda (software stand-in, not a GPU)";

/// Initialises the driver; harmless when repeated.
#[no_mangle]
pub extern "C" fn cuInit(flags: c_uint) -> ResultCode {
    enter("cuInit", CallNeeds::Nothing, |_| {
        if flags != 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        registry::initialise()
    })
}

/// The version of the interface, which is that of CUDA 12.8.
///
/// # Safety
/// `version` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> ResultCode {
    enter("cuDriverGetVersion", CallNeeds::Nothing, |_| {
        // SAFETY: the caller vouches for `version`.
        unsafe { give(version, VERSION) }
    })
}

/// The number of devices.
///
/// # Safety
/// `count` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> ResultCode {
    enter("cuDeviceGetCount", CallNeeds::Driver, |call| {
        // SAFETY: the caller vouches for `count`.
        unsafe { give(count, call.driver()?.devices as c_int) }
    })
}

/// The device of this number.
///
/// # Safety
/// `device` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> ResultCode {
    enter("cuDeviceGet", CallNeeds::Driver, |call| {
        call.driver()?.device(ordinal)?;
        // SAFETY: the caller vouches for `device`.
        unsafe { give(device, ordinal) }
    })
}

/// The device's name, which says that it is not a GPU.
///
/// # Safety
/// `name` must be null or have room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetName(
    name: *mut c_char,
    size: c_int,
    device: CUdevice,
) -> ResultCode {
    enter("cuDeviceGetName", CallNeeds::Driver, |call| {
        call.driver()?.device(device)?;
        let size = usize::try_from(size).map_err(|_| ErrorCode::INVALID_VALUE)?;
        // SAFETY: the caller vouches for `name`.
        unsafe { give_text(name, size, NAME) }
    })
}

/// One property of the device.
///
/// # Safety
/// `value` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: CUdevice,
) -> ResultCode {
    enter("cuDeviceGetAttribute", CallNeeds::Driver, |call| {
        let device = call.driver()?.device(device)?;
        // SAFETY: the caller vouches for `value`.
        unsafe { give(value, property(attribute, device)?) }
    })
}

/// The device's attributes: a data-centre device in all that concerns memory. Attributes not listed are 0.
fn property(attribute: c_int, device: usize) -> DriverResult<c_int> {
    if !(1..Attribute::CU_DEVICE_ATTRIBUTE_MAX as c_int).contains(&attribute) {
        return Err(ErrorCode::INVALID_VALUE);
    }
    let table = [
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, c_int::MAX),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, SHARED_MEMORY as c_int),
        (Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
        (Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1_000_000),
        (Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8),
        (Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0),
        (Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device as c_int + 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2),
        (Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
        (Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
            c_int::from(config::pageable() != Pageable::No),
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
            c_int::from(config::pageable() == Pageable::Ats),
        ),
    ];
    let found = table.iter().find(|(known, _)| *known as c_int == attribute);
    Ok(found.map_or(0, |(_, value)| *value))
}

/// The size of the device's memory.
///
/// # Safety
/// `bytes` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) -> ResultCode {
    enter("cuDeviceTotalMem_v2", CallNeeds::Driver, |call| {
        call.driver()?.device(device)?;
        // SAFETY: the caller vouches for `bytes`.
        unsafe { give(bytes, config::memory_bytes() as usize) }
    })
}

/// The device's place on the bus, as text.
///
/// # Safety
/// `text` must be null or have room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(
    text: *mut c_char,
    size: c_int,
    device: CUdevice,
) -> ResultCode {
    enter("cuDeviceGetPCIBusId", CallNeeds::Driver, |call| {
        let device = call.driver()?.device(device)?;
        let size = usize::try_from(size).map_err(|_| ErrorCode::INVALID_VALUE)?;
        // SAFETY: the caller vouches for `text`.
        unsafe { give_text(text, size, &format!("0000:{:02X}:00.0", device + 1)) }
    })
}

/// The device's identity, by the older name.
///
/// # Safety
/// `uuid` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) -> ResultCode {
    // SAFETY: the caller vouches for `uuid`.
    enter("cuDeviceGetUuid", CallNeeds::Driver, |call| unsafe {
        give(uuid, identity(call.driver()?.device(device)?))
    })
}

/// The device's identity: the same in every process.
///
/// # Safety
/// `uuid` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) -> ResultCode {
    // SAFETY: the caller vouches for `uuid`.
    enter("cuDeviceGetUuid_v2", CallNeeds::Driver, |call| unsafe {
        give(uuid, identity(call.driver()?.device(device)?))
    })
}

fn identity(device: usize) -> CUuuid {
    let mut bytes = *b"softcuda-device\0";
    bytes[15] = device as u8;
    CUuuid { bytes: bytes.map(|byte| byte as c_char) }
}

/// The name of a result code.
///
/// # Safety
/// `text` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuGetErrorName(code: ResultCode, text: *mut *const c_char) -> ResultCode {
    enter("cuGetErrorName", CallNeeds::Nothing, |_| {
        let name = describe(code).map_or(null(), |(name, _)| name.as_ptr());
        // SAFETY: the caller vouches for `text`.
        unsafe { give(text, name)? };
        if name.is_null() {
            Err(ErrorCode::INVALID_VALUE)
        } else {
            Ok(())
        }
    })
}

/// The meaning of a result code.
///
/// # Safety
/// `text` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuGetErrorString(
    code: ResultCode,
    text: *mut *const c_char,
) -> ResultCode {
    enter("cuGetErrorString", CallNeeds::Nothing, |_| {
        let meaning = describe(code).map_or(null(), |(_, meaning)| meaning.as_ptr());
        // SAFETY: the caller vouches for `text`.
        unsafe { give(text, meaning)? };
        if meaning.is_null() {
            Err(ErrorCode::INVALID_VALUE)
        } else {
            Ok(())
        }
    })
}
