//! The CUDA driver's attributes of an address.

use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUmem_range_attribute, CUpointer_attribute};

use super::context::{active_devices, current, device_with, with_primary_context};
use super::driver::{Driver, CONTEXT_IS_DESTROYED, INVALID_CONTEXT};
use super::ContextHandle;
use crate::api::{Advice, MemoryInfo, MemoryKind, MemoryOwner};
use crate::device::Device;
use errors::{Error, ErrorKind, Result};

/// `CU_MEMORYTYPE_HOST`.
const MEMORY_TYPE_HOST: c_uint = 1;
/// `CU_MEMORYTYPE_DEVICE`.
const MEMORY_TYPE_DEVICE: c_uint = 2;

/// The attributes of an address.
pub(super) struct Attributes {
    context: CUcontext,
    memory_type: c_uint,
    managed: c_uint,
    ordinal: c_int,
    start: u64,
    size: usize,
    mapped: c_uint,
}

impl Attributes {
    /// Queries the attributes. The calling thread needs a context (any), else the driver returns
    /// `CUDA_ERROR_INVALID_CONTEXT` for every address.
    pub(super) fn of(driver: &Driver, address: u64) -> Result<Attributes> {
        let mut found = Attributes {
            context: std::ptr::null_mut(),
            memory_type: 0,
            managed: 0,
            ordinal: -1,
            start: 0,
            size: 0,
            mapped: 0,
        };
        use CUpointer_attribute as A;
        let mut names = [
            A::CU_POINTER_ATTRIBUTE_CONTEXT,
            A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            A::CU_POINTER_ATTRIBUTE_IS_MANAGED,
            A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            A::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            A::CU_POINTER_ATTRIBUTE_MAPPED,
        ]
        .map(|name| name as c_uint);
        let mut data: [*mut c_void; 7] = [
            std::ptr::from_mut(&mut found.context).cast(),
            std::ptr::from_mut(&mut found.memory_type).cast(),
            std::ptr::from_mut(&mut found.managed).cast(),
            std::ptr::from_mut(&mut found.ordinal).cast(),
            std::ptr::from_mut(&mut found.start).cast(),
            std::ptr::from_mut(&mut found.size).cast(),
            std::ptr::from_mut(&mut found.mapped).cast(),
        ];
        // SAFETY: both arrays have seven elements of the right sizes, and the driver does not access the
        // address.
        unsafe {
            driver.cuPointerGetAttributes(7, names.as_mut_ptr(), data.as_mut_ptr(), address)
        }?;
        Ok(found)
    }

    /// The attributes for a library that uses this context.
    pub(super) fn seen_from(&self, context: CUcontext) -> MemoryInfo {
        MemoryInfo {
            owner: match self.context {
                none if none.is_null() => MemoryOwner::Nobody,
                owner if owner == context => MemoryOwner::ThisContext,
                _ => MemoryOwner::AnotherContext,
            },
            kind: match self.memory_type {
                0 => MemoryKind::Unknown,
                MEMORY_TYPE_HOST => MemoryKind::Host,
                MEMORY_TYPE_DEVICE => MemoryKind::Device,
                _ => MemoryKind::Other,
            },
            managed: self.managed != 0,
            ordinal: self.ordinal,
            start: self.start,
            len: self.size as u64,
            mapped: self.mapped != 0,
        }
    }

    /// The context that the memory belongs to.
    pub(super) fn owner(&self) -> Option<ContextHandle> {
        (!self.context.is_null()).then_some(ContextHandle(self.context))
    }

    /// Whether the driver knows the memory.
    fn is_known(&self) -> bool {
        self.memory_type != 0 || self.managed != 0
    }
}

/// What was advised about a range of managed memory. A context has to be current.
pub(super) fn advice(driver: &Driver, range: &Range<u64>) -> Result<Advice> {
    use CUmem_range_attribute as A;
    /// `CU_DEVICE_CPU`.
    const CPU: c_int = -1;
    let (mut read_mostly, mut preferred): (c_int, c_int) = (0, 0);
    let mut names =
        [A::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION]
            .map(|name| name as c_uint);
    let mut data: [*mut c_void; 2] =
        [&mut read_mostly, &mut preferred].map(|value| std::ptr::from_mut(value).cast());
    let mut sizes = [size_of::<c_int>(); 2];
    let bytes = (range.end - range.start) as usize;
    // SAFETY: the three arrays have two elements of the right sizes, and the driver does not access the range.
    unsafe {
        driver.cuMemRangeGetAttributes(
            data.as_mut_ptr(),
            sizes.as_mut_ptr(),
            names.as_mut_ptr(),
            data.len(),
            range.start,
            bytes,
        )
    }?;
    Ok(Advice { read_mostly: read_mostly != 0, prefers_host: preferred == CPU })
}

/// The device of the memory at `address`, if the driver knows the memory: for applications that
/// create their context after initialising the library.
pub(crate) fn device_of(driver: &Arc<Driver>, address: u64) -> Result<Option<Device>> {
    match Attributes::of(driver, address) {
        // The calling thread has no usable context.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Driver(INVALID_CONTEXT | CONTEXT_IS_DESTROYED)
            ) => {}
        found => return device_of_attributes(driver, address, &found?),
    }
    for device in active_devices(driver)? {
        let ask = |_| device_of_attributes(driver, address, &Attributes::of(driver, address)?);
        if let Some(found) = with_primary_context(driver, device, ask)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The device of the memory with these attributes.
fn device_of_attributes(
    driver: &Arc<Driver>,
    address: u64,
    found: &Attributes,
) -> Result<Option<Device>> {
    if !found.is_known() {
        return Ok(None);
    }
    if !found.context.is_null() {
        return device_with(driver, found.context).map(Some);
    }
    // Memory that is mapped piecewise or from a pool belongs to no context.
    let current = current(driver)?;
    if current.as_ref().is_some_and(|device| device.ordinal() == found.ordinal) {
        return Ok(current);
    }
    if active_devices(driver)?.contains(&found.ordinal) {
        let device = |context| device_with(driver, context);
        return with_primary_context(driver, found.ordinal, device).map(Some);
    }
    Err(Error::invalid(format!(
        "the pointer {address:#x} is known to device {}, of which no context is current",
        found.ordinal
    )))
}
