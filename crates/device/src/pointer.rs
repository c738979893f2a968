//! The kind of memory that a pointer points to, according to the driver.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUpointer_attribute};

use super::context::{active_devices, with_primary_context, Device};
use super::driver::{Driver, CONTEXT_IS_DESTROYED, INVALID_CONTEXT};
use os::error::{Error, Kind, Result};

/// `CU_MEMORYTYPE_HOST`.
const MEMORY_TYPE_HOST: c_uint = 1;
/// `CU_MEMORYTYPE_DEVICE`.
const MEMORY_TYPE_DEVICE: c_uint = 2;

/// Pageable host memory, unknown to the driver.
pub const PAGEABLE: Pointer = Pointer::Host { pinned: false };

/// A pointer's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// Host memory, or memory unknown to the driver.
    Host {
        /// Queued work of the application may use it: it is registered, or the device uses the host's
        /// page tables.
        pinned: bool,
    },
    /// Device memory or managed memory.
    Device {
        /// Managed memory, which host and device share.
        managed: bool,
        /// The device's ordinal.
        ordinal: i32,
    },
}

struct Attributes {
    context: CUcontext,
    memory_type: c_uint,
    managed: c_uint,
    ordinal: c_int,
    start: u64,
    size: usize,
    mapped: c_uint,
}

impl Attributes {
    /// The end of the range that the driver reports.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size as u64)
    }

    /// Whether memory at another address belongs to the same allocation, as far as the driver tells.
    fn belongs_with(&self, other: &Attributes) -> bool {
        self.memory_type == other.memory_type
            && self.ordinal == other.ordinal
            && self.context == other.context
            && self.managed == other.managed
            && self.mapped == other.mapped
    }
}

impl Attributes {
    /// Whether the driver knows the memory.
    fn is_known(&self) -> bool {
        self.memory_type != 0 || self.managed != 0
    }
}

/// Queries the attributes of an address. The calling thread needs a context (any), else the driver
/// returns `CUDA_ERROR_INVALID_CONTEXT` for every address.
fn attributes(driver: &Driver, address: u64) -> Result<Attributes> {
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
    unsafe { driver.cuPointerGetAttributes(7, names.as_mut_ptr(), data.as_mut_ptr(), address) }?;
    Ok(found)
}

/// Refuses a range that reaches beyond the memory in `found`, up to `last`.
///
/// Mapped memory (`cuMemMap`) belongs to no context and may consist of several ranges: the documentation
/// says that the attributes describe the reserved range, which may be partly unmapped, but some drivers
/// report the part of one handle. Both are accepted.
fn check_end(driver: &Driver, found: &Attributes, last: u64) -> Result<()> {
    let mut end = found.end();
    if found.size == 0 {
        return Ok(());
    }
    if found.context.is_null() && found.managed == 0 {
        while end < last {
            let next = attributes(driver, end)?;
            if !next.belongs_with(found) || next.end() <= end {
                break;
            }
            end = next.end();
        }
        if end >= last && !attributes(driver, last - 1)?.belongs_with(found) {
            return Err(Error::invalid(
                "they reach past the end of what is mapped at their addresses".to_owned(),
            ));
        }
    }
    if end >= last {
        return Ok(());
    }
    Err(Error::invalid(format!("they reach past the end of their allocation at {end:#x}")))
}

impl Pointer {
    /// Classifies `len` bytes at `address`. Device memory must belong to `device`, and contain all the
    /// bytes.
    pub fn classify(device: &Device, address: u64, len: u64) -> Result<Pointer> {
        let found = {
            let _current = device.enter()?;
            attributes(&device.driver, address)?
        };
        let managed = found.managed != 0;
        if found.memory_type != MEMORY_TYPE_DEVICE && !managed {
            // Memory of `malloc` has no type, even where kernels can access it.
            let known = found.memory_type == MEMORY_TYPE_HOST;
            return Ok(Pointer::Host { pinned: known || device.capabilities().pageable_access });
        }
        let foreign = !managed && !found.context.is_null() && !device.has_context(found.context);
        if found.ordinal != device.ordinal() && !managed {
            return Err(Error::invalid(format!(
                "the pointer {address:#x} belongs to device {}, but this job's checkpoints are \
                 kept on device {} ({})",
                found.ordinal,
                device.ordinal(),
                device.name()
            )));
        }
        if foreign {
            return Err(Error::invalid(format!(
                "the pointer {address:#x} belongs to another context of device {} than the one \
                 this job's checkpoints are kept in",
                found.ordinal
            )));
        }
        if len > 0 {
            check_end(&device.driver, &found, address.saturating_add(len))
                .map_err(|error| error.within(format!("{len} bytes at {address:#x}")))?;
        }
        Ok(Pointer::Device { managed, ordinal: found.ordinal })
    }

    /// The device of the memory at `address`, if the driver knows the memory: for applications that
    /// create their context after initialising the library.
    pub fn device_of(driver: &Arc<Driver>, address: u64) -> Result<Option<Device>> {
        match attributes(driver, address) {
            // The calling thread has no usable context.
            Err(error)
                if matches!(error.kind(), Kind::Driver(INVALID_CONTEXT | CONTEXT_IS_DESTROYED)) => {
            }
            found => return device_of_attributes(driver, address, &found?),
        }
        for device in active_devices(driver)? {
            let ask = |_| device_of_attributes(driver, address, &attributes(driver, address)?);
            if let Some(found) = with_primary_context(driver, device, ask)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
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
        return Device::of(driver, found.context).map(Some);
    }
    // Memory that is mapped piecewise or from a pool belongs to no context.
    let current = Device::current(driver)?;
    if current.as_ref().is_some_and(|device| device.ordinal() == found.ordinal) {
        return Ok(current);
    }
    if active_devices(driver)?.contains(&found.ordinal) {
        let device = |context| Device::of(driver, context);
        return with_primary_context(driver, found.ordinal, device).map(Some);
    }
    Err(Error::invalid(format!(
        "the pointer {address:#x} is known to device {}, of which no context is current",
        found.ordinal
    )))
}
