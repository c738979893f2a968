//! Attributes of pointers.

use std::ffi::{c_int, c_uint, c_void};

use cudarc::driver::sys::CUpointer_attribute_enum as Attribute;

use super::entry::{enter, not_null, CallNeeds};
use crate::abi::{CUdeviceptr, ResultCode};
use crate::config::{self, Pageable};
use crate::memory::{PointerInfo, PointerKind};
use crate::status::{DriverResult, ErrorCode};

/// `CU_MEMORYTYPE_HOST`.
const MEMORY_HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
const MEMORY_DEVICE: u32 = 2;
/// `CU_DEVICE_INVALID`.
const NO_DEVICE: i32 = -2;

/// The value of an attribute, which also says how wide it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Byte(u8),
    Word(u32),
    Double(u64),
}

impl Value {
    /// # Safety
    /// `target` must be writable for the width of the value.
    unsafe fn store(self, target: *mut c_void) {
        // SAFETY: the caller vouches for the width; an unaligned target is
        // allowed for.
        unsafe {
            match self {
                Self::Byte(value) => target.cast::<u8>().write_unaligned(value),
                Self::Word(value) => target.cast::<u32>().write_unaligned(value),
                Self::Double(value) => target.cast::<u64>().write_unaligned(value),
            }
        }
    }
}

/// The attributes that are answered, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointerAttribute {
    Context,
    MemoryType,
    DevicePointer,
    HostPointer,
    BufferId,
    IsManaged,
    DeviceOrdinal,
    RangeStart,
    RangeSize,
    Mapped,
}

impl PointerAttribute {
    fn from_number(number: c_int) -> DriverResult<Self> {
        let table = [
            (Attribute::CU_POINTER_ATTRIBUTE_CONTEXT, Self::Context),
            (Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Self::MemoryType),
            (Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, Self::DevicePointer),
            (Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, Self::HostPointer),
            (Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID, Self::BufferId),
            (Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, Self::IsManaged),
            (Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, Self::DeviceOrdinal),
            (Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, Self::RangeStart),
            (Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, Self::RangeSize),
            (Attribute::CU_POINTER_ATTRIBUTE_MAPPED, Self::Mapped),
        ];
        table
            .iter()
            .find(|(known, _)| *known as c_int == number)
            .map(|(_, asked)| *asked)
            .ok_or(ErrorCode::NOT_SUPPORTED)
    }

    /// The value for a pointer the driver knows; `None` where it has none.
    fn of(self, address: u64, info: &PointerInfo) -> Option<Value> {
        let on_host = info.kind == PointerKind::Pinned;
        let managed = info.kind == PointerKind::Managed;
        let reserved = info.kind == PointerKind::Reserved;
        match self {
            Self::RangeStart => Some(Value::Double(info.range.start)),
            Self::RangeSize => Some(Value::Double(info.range.end - info.range.start)),
            Self::Mapped => Some(Value::Word(u32::from(!reserved))),
            _ if reserved => None,
            Self::Context => Some(Value::Double(info.context.unwrap_or(0))),
            Self::MemoryType => {
                Some(Value::Word(if on_host { MEMORY_HOST } else { MEMORY_DEVICE }))
            }
            Self::DevicePointer => Some(Value::Double(address)),
            Self::HostPointer => (on_host || managed).then_some(Value::Double(address)),
            Self::BufferId => Some(Value::Double(info.id)),
            Self::IsManaged => Some(Value::Byte(u8::from(managed))),
            Self::DeviceOrdinal => info.device.map(|device| Value::Word(device as u32)),
        }
    }

    /// The value for a pointer the driver does not know.
    fn of_unknown(self, address: u64) -> Value {
        match self {
            // As observed for memory of `malloc` that kernels can reach: its type is unknown, but
            // it has addresses.
            Self::DevicePointer | Self::HostPointer if config::pageable() != Pageable::No => {
                Value::Double(address)
            }
            Self::IsManaged => Value::Byte(0),
            Self::MemoryType | Self::Mapped => Value::Word(0),
            Self::DeviceOrdinal => Value::Word(NO_DEVICE as u32),
            _ => Value::Double(0),
        }
    }
}

/// One attribute of a pointer; an error for a pointer the driver does not
/// know, and on a thread without a context.
///
/// # Safety
/// `value` must be null or writable for the attribute's type.
#[no_mangle]
pub unsafe extern "C" fn cuPointerGetAttribute(
    value: *mut c_void,
    attribute: c_int,
    address: CUdeviceptr,
) -> ResultCode {
    enter("cuPointerGetAttribute", CallNeeds::Context, |call| {
        not_null(value)?;
        let asked = PointerAttribute::from_number(attribute)?;
        let info = call.driver()?.memory.describe(address).ok_or(ErrorCode::INVALID_VALUE)?;
        let found = asked.of(address, &info).ok_or(ErrorCode::INVALID_VALUE)?;
        // SAFETY: the caller vouches for `value`.
        unsafe { found.store(value) };
        Ok(())
    })
}

/// Several attributes of a pointer; for one the driver does not know they are zero, and no device. On a
/// thread without a context, that is so for every pointer.
///
/// # Safety
/// `attributes` and `values` must be null or hold `count` elements, and each
/// of the values must be null or writable for its attribute's type.
#[no_mangle]
pub unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    attributes: *mut c_int,
    values: *mut *mut c_void,
    address: CUdeviceptr,
) -> ResultCode {
    enter("cuPointerGetAttributes", CallNeeds::Context, |call| {
        not_null(attributes)?;
        not_null(values)?;
        let count = count as usize;
        // SAFETY: the caller vouches for both arrays.
        let (attributes, values) = unsafe {
            (
                std::slice::from_raw_parts(attributes, count),
                std::slice::from_raw_parts(values, count),
            )
        };
        let asked = attributes
            .iter()
            .map(|number| PointerAttribute::from_number(*number))
            .collect::<DriverResult<Vec<_>>>()?;
        let info = call.driver()?.memory.describe(address);
        for (asked, value) in asked.iter().zip(values) {
            not_null(*value)?;
            let known = info.as_ref().and_then(|info| asked.of(address, info));
            // SAFETY: the caller vouches for each value.
            unsafe { known.unwrap_or_else(|| asked.of_unknown(address)).store(*value) };
        }
        Ok(())
    })
}
