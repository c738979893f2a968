//! Lists the CUDA devices of this machine without creating a context, for tools.

use std::ffi::{c_char, c_int, c_uint, CStr};
use std::sync::Arc;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::driver::Driver;
use crate::api::{Capabilities, DeviceInfo};
use errors::Result;

/// The driver's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// There is no driver library; the loader's message.
    NoDriver(String),
    /// There is a driver but no device.
    NoDevice,
    /// There are devices, listed by ordinal.
    Devices {
        /// The driver's CUDA version, 12080 for 12.8.
        driver_version: i32,
        /// The driver is the software device, which is no GPU.
        software: bool,
        /// The devices.
        devices: Vec<DeviceInfo>,
    },
}

/// Loads the driver, which stays loaded, and lists the devices. For tools: the library itself never
/// loads the driver.
///
/// # Errors
/// The driver is unusable.
pub fn probe() -> Result<Probe> {
    // SAFETY: the driver's initialisers run in any program that uses it.
    let loaded = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) };
    match loaded {
        // Never unloaded: the driver may have started threads.
        Ok(library) => std::mem::forget(library),
        Err(error) => return Ok(Probe::NoDriver(error.to_string())),
    }
    let Some(driver) = Driver::get()? else { return Ok(Probe::NoDevice) };
    let mut count = 0;
    // SAFETY: the pointer is to a local.
    unsafe { driver.cuDeviceGetCount(&mut count) }?;
    let devices = (0..count).map(|ordinal| device_info(&driver, ordinal)).collect::<Result<_>>()?;
    Ok(Probe::Devices {
        driver_version: driver.version()?,
        software: driver.is_software(),
        devices,
    })
}

fn device_info(driver: &Arc<Driver>, ordinal: c_int) -> Result<DeviceInfo> {
    let (mut device, mut total) = (0, 0);
    // SAFETY: the pointer is to a local.
    unsafe { driver.cuDeviceGet(&mut device, ordinal) }?;
    // SAFETY: the pointer is to a local.
    unsafe { driver.cuDeviceTotalMem_v2(&mut total, device) }?;
    let (name, bus_id) = name_and_bus_id(driver, device)?;
    let capabilities = Capabilities::of(driver, device)?;
    let software = driver.is_software();
    Ok(DeviceInfo { ordinal, name, bus_id, total: total as u64, capabilities, software })
}

/// A device's name, and its PCI bus id as in sysfs.
pub(super) fn name_and_bus_id(driver: &Driver, device: CUdevice) -> Result<(String, String)> {
    let name = text(|buffer, len| {
        // SAFETY: the buffer has `len` bytes.
        unsafe { driver.cuDeviceGetName(buffer, len, device) }
    })?;
    let bus_id = text(|buffer, len| {
        // SAFETY: the buffer has `len` bytes.
        unsafe { driver.cuDeviceGetPCIBusId(buffer, len, device) }
    });
    Ok((name, bus_id.unwrap_or_default().to_lowercase()))
}

impl Capabilities {
    /// Queries the driver.
    pub(super) fn of(driver: &Driver, device: CUdevice) -> Result<Capabilities> {
        let has = |attribute: CUdevice_attribute| {
            let mut value: c_int = 0;
            // SAFETY: the pointer is to a local. An attribute that this driver does not know is an
            // error, which means that it does not have it.
            let asked =
                unsafe { driver.cuDeviceGetAttribute(&mut value, attribute as c_uint, device) };
            asked.is_ok() && value != 0
        };
        use CUdevice_attribute as A;
        Ok(Capabilities {
            virtual_memory: has(A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
            host_register: has(A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED),
            pageable_access: has(
                A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
            ),
            reaches_host: has(A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS),
            managed_beside_work: has(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
            driver_version: driver.version()?,
        })
    }
}

fn text(call: impl FnOnce(*mut c_char, c_int) -> Result<()>) -> Result<String> {
    let mut buffer = [0u8; 256];
    call(buffer.as_mut_ptr().cast(), buffer.len() as c_int - 1)?;
    Ok(CStr::from_bytes_until_nul(&buffer)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default())
}
