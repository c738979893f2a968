//! What kind of memory a pointer points to, as far as the driver can tell.

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

/// Memory that no device knows of.
pub const PAGEABLE: Pointer = Pointer::Host { pinned: false };

/// A pointer's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// Host memory, or memory that the driver knows nothing of.
    Host {
        /// Work that the application has queued may still use it: it is registered, or the device
        /// goes by the host's page tables.
        pinned: bool,
    },
    /// Memory of a device, or managed memory.
    Device {
        /// Managed: host and device use it by turns.
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
    /// Where the range that the driver names ends.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size as u64)
    }

    /// Whether memory belongs with this, of the same device, as far as the driver tells.
    fn belongs_with(&self, other: &Attributes) -> bool {
        self.memory_type == other.memory_type
            && self.ordinal == other.ordinal
            && self.context == other.context
            && self.managed == other.managed
            && self.mapped == other.mapped
    }
}

impl Attributes {
    /// The driver knows the memory.
    fn is_known(&self) -> bool {
        self.memory_type != 0 || self.managed != 0
    }
}

/// Asks in the calling thread's context: without one the driver says nothing of any address
/// (`CUDA_ERROR_INVALID_CONTEXT`), be it the host's. With one it knows the memory of all contexts.
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
    // SAFETY: both arrays have seven elements, each value has the size of its attribute, and the
    // driver does not use the address it is asked about.
    unsafe { driver.cuPointerGetAttributes(7, names.as_mut_ptr(), data.as_mut_ptr(), address) }?;
    Ok(found)
}

/// Refuses bytes up to `last` that are not all of the memory that `found` tells of.
///
/// Memory that was mapped (`cuMemMap`; it belongs to no context) may lie in several ranges: the
/// attributes are documented as the reserved addresses', of which not all need be mapped, and drivers
/// were seen that give the part that one handle is mapped at. Either is accepted.
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
    /// Asks the driver about `len` bytes at `address`. Memory of a device must be of `device` and
    /// hold all the bytes.
    pub fn classify(device: &Device, address: u64, len: u64) -> Result<Pointer> {
        let found = {
            let _current = device.enter()?;
            attributes(&device.driver, address)?
        };
        let managed = found.managed != 0;
        if found.memory_type != MEMORY_TYPE_DEVICE && !managed {
            // Memory of `malloc` has no type, also where kernels reach it.
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

    /// The device that memory at `address` belongs to, if the driver knows the memory: for
    /// applications that make their context after they initialise the library.
    pub fn device_of(driver: &Arc<Driver>, address: u64) -> Result<Option<Device>> {
        match attributes(driver, address) {
            // The thread has no context that could be asked.
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

/// The device of memory that the driver says this of.
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
    // Memory that was mapped piecewise or comes from a pool belongs to no context.
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
