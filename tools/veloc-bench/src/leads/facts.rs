//! Facts about the device that matter to checkpoints.

use anyhow::Result;
use cudarc::driver::sys::CUdevice_attribute;
use os::memory::locked_limit;
use os::size;
use serde::Serialize;

use super::Bench;

const ATTRIBUTES: [(&str, CUdevice_attribute); 12] = [
    ("multiprocessors", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    ("async_engines", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
    ("compute_capability_major", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    ("compute_capability_minor", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    ("managed_memory", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
    ("pageable_memory_access", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS),
    (
        "concurrent_managed_access",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    ),
    (
        "host_accesses_device_memory_directly",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    ),
    ("host_numa_id", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID),
    ("host_register_supported", CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED),
    (
        "pageable_access_uses_host_page_tables",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    ),
    (
        "virtual_memory_management",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    ),
];

/// The facts that were found.
#[derive(Debug, Serialize)]
pub(super) struct DeviceFacts {
    attributes: Vec<Attribute>,
    /// Free device memory in bytes.
    free: u64,
    /// Bytes of host memory that this process may lock; none without a limit.
    locked_limit: Option<u64>,
    /// The line in which the driver's kernel module names itself; the open module says that it is
    /// open.
    kernel_module: String,
}

#[derive(Debug, Serialize)]
struct Attribute {
    name: &'static str,
    /// `None` if the driver does not know the attribute.
    value: Option<i32>,
}

/// Asks the driver.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let ask = |(name, attribute)| Attribute { name, value: bench.device.attribute(attribute) };
    let module = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let point = DeviceFacts {
        attributes: ATTRIBUTES.map(ask).into(),
        free: bench.device.free_memory()?,
        locked_limit: locked_limit(),
        kernel_module: module.lines().next().unwrap_or_default().to_owned(),
    };
    for Attribute { name, value } in &point.attributes {
        println!("{name:<40} {}", value.map_or_else(|| "-".to_owned(), |value| value.to_string()));
    }
    println!("{:<40} {}", "free device memory", size::show(point.free));
    let limit = point.locked_limit.map_or_else(|| "none".to_owned(), size::show);
    println!("{:<40} {limit}", "limit of locked memory");
    println!("{:<40} {}", "kernel module", point.kernel_module);
    bench.keep(super::LeadPoint::Facts(point))
}
