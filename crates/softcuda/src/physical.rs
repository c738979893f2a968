//! The devices' memory as a quantity, and physical handles that hold some.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::config;
use crate::status::{DriverResult, ErrorCode};

const NAME: &CStr = c"softcuda";

/// How much of each device's memory is in use.
#[derive(Debug)]
pub(crate) struct Meter {
    used: Vec<AtomicU64>,
}

impl Meter {
    /// A meter of so many devices.
    pub(crate) fn new(devices: usize) -> Arc<Self> {
        Arc::new(Self { used: (0..devices).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Bytes in use on `device`.
    pub(crate) fn used(&self, device: usize) -> u64 {
        self.used[device].load(Ordering::Relaxed)
    }

    /// Takes `bytes` of `device`, if it has so many left.
    pub(crate) fn charge(self: &Arc<Self>, device: usize, bytes: u64) -> DriverResult<Charge> {
        let limit = config::allowed_bytes();
        self.used[device]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|used| *used <= limit)
            })
            .map_err(|_| ErrorCode::OUT_OF_MEMORY)?;
        Ok(Charge { meter: Arc::clone(self), device, bytes })
    }
}

/// Device memory taken, given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    meter: Arc<Meter>,
    /// The device it was taken from.
    pub(crate) device: usize,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.used[self.device].fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A memory file of `size` bytes.
pub(crate) fn memory_file(size: u64) -> DriverResult<OwnedFd> {
    let length = libc::off_t::try_from(size).map_err(|_| ErrorCode::OUT_OF_MEMORY)?;
    // SAFETY: the name is a constant, terminated string.
    let file = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(ErrorCode::OUT_OF_MEMORY);
    }
    // SAFETY: the descriptor is open and nobody else has it.
    let owned = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: the descriptor is a memory file of this process.
    if unsafe { libc::ftruncate(file, length) } != 0 {
        return Err(ErrorCode::OUT_OF_MEMORY);
    }
    Ok(owned)
}

/// Physical memory that can be mapped at several places. It lives as long as
/// its handle or any mapping of it.
#[derive(Debug)]
pub(crate) struct PhysicalMemory {
    file: OwnedFd,
    /// Its size in bytes.
    pub(crate) size: u64,
    charge: Charge,
}

impl PhysicalMemory {
    /// Memory of `size` bytes that counts as `charge`.
    pub(crate) fn new(size: u64, charge: Charge) -> DriverResult<Self> {
        Ok(Self { file: memory_file(size)?, size, charge })
    }

    /// The device that holds it.
    pub(crate) fn device(&self) -> usize {
        self.charge.device
    }

    /// The memory as a file.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
