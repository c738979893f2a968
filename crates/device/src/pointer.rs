//! The kind of memory that a pointer points to, according to the driver.

use super::api::{MemoryInfo, MemoryKind, MemoryOwner};
use super::device::Device;
use errors::{Error, Result};

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

/// Refuses a range that reaches beyond the memory in `found`, up to `last`.
///
/// Memory that was mapped piecewise belongs to no context and may consist of several ranges: CUDA's
/// documentation says that the attributes describe the reserved range, which may be partly unmapped, but some
/// drivers report the part of one handle. Both are accepted.
fn check_end(device: &Device, found: &MemoryInfo, last: u64) -> Result<()> {
    let mut end = found.end();
    if found.len == 0 {
        return Ok(());
    }
    if found.owner == MemoryOwner::Nobody && !found.managed {
        // The end of a reserved range may not be mapped, and another range may begin right behind it.
        let is_mapped_before =
            |end: u64| -> Result<bool> { Ok(device.api().memory_at(end - 1)?.belongs_with(found)) };
        let past_the_end = || {
            Error::invalid(
                "they reach past the end of what is mapped at their addresses".to_owned(),
            )
        };
        while end < last {
            if !is_mapped_before(end)? {
                return Err(past_the_end());
            }
            let next = device.api().memory_at(end)?;
            if !next.belongs_with(found) || next.end() <= end {
                break;
            }
            end = next.end();
        }
        if end >= last && !is_mapped_before(last)? {
            return Err(past_the_end());
        }
    }
    if end >= last {
        return Ok(());
    }
    Err(Error::invalid(format!("they reach past the end of their allocation at {end:#x}")))
}

impl Pointer {
    /// Classifies `len` bytes at `address`. Device memory must belong to `device`, and contain all the
    /// bytes. Managed memory may belong to another context, whose queued work is waited for here.
    pub fn classify(device: &Device, address: u64, len: u64) -> Result<Pointer> {
        let _current = device.enter()?;
        let found = device.api().memory_at(address)?;
        let MemoryInfo { managed, ordinal, .. } = found;
        if found.kind != MemoryKind::Device && !managed {
            // Memory of `malloc` has no type, even where kernels can access it.
            let known = found.kind == MemoryKind::Host;
            return Ok(Pointer::Host { pinned: known || device.capabilities().pageable_access });
        }
        if ordinal != device.ordinal() && !managed {
            return Err(Error::invalid(format!(
                "the pointer {address:#x} belongs to device {ordinal}, but this job's checkpoints are \
                 kept on device {} ({})",
                device.ordinal(),
                device.name()
            )));
        }
        if found.owner == MemoryOwner::AnotherContext && !managed {
            return Err(Error::invalid(format!(
                "the pointer {address:#x} belongs to another context of device {ordinal} than the one \
                 this job's checkpoints are kept in"
            )));
        }
        if managed {
            device.shares(address, found.owner == MemoryOwner::AnotherContext)?;
        }
        if len > 0 {
            check_end(device, &found, address.saturating_add(len))
                .map_err(|error| error.within(format!("{len} bytes at {address:#x}")))?;
        }
        Ok(Pointer::Device { managed, ordinal })
    }
}
