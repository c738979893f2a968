//! Memory: on the device, managed, and pinned on the host; and the registration of host memory.

use std::ffi::c_void;

use anyhow::{ensure, Result};
use cudarc::driver::sys;
use device::Stream;
use os::size;

use super::driver::{self, checked};
use super::{Address, BenchDevice};

/// `CU_DEVICE_CPU`: the host, where a call takes a device.
const HOST: sys::CUdevice = -1;

/// Device memory, or managed memory, which the driver moves between device and host. Not initialised.
#[derive(Debug)]
pub(crate) struct CudaBuffer {
    address: Address,
    bytes: u64,
    device: BenchDevice,
}

impl CudaBuffer {
    pub(crate) fn new(device: &BenchDevice, bytes: u64) -> Result<CudaBuffer> {
        let mut address = 0;
        // SAFETY: the function writes one address.
        let allocated = unsafe { driver::cuMemAlloc_v2(&mut address, bytes as usize) };
        checked(allocated, || format!("allocating {} on the device", size::show(bytes)))?;
        Ok(CudaBuffer { address, bytes, device: device.clone() })
    }

    /// Allocates managed memory.
    pub(crate) fn managed(device: &BenchDevice, bytes: u64) -> Result<CudaBuffer> {
        let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        let mut address = 0;
        // SAFETY: the function writes one address.
        let allocated = unsafe { driver::cuMemAllocManaged(&mut address, bytes as usize, flags) };
        checked(allocated, || format!("allocating {} of managed memory", size::show(bytes)))?;
        Ok(CudaBuffer { address, bytes, device: device.clone() })
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Queues a memset of the whole buffer to 0.
    pub(crate) fn clear(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the range is the whole allocation, which `drop` frees only when it is unused.
        let queued = unsafe {
            driver::cuMemsetD8Async(self.address, 0, self.bytes as usize, stream.raw().cast())
        };
        checked(queued, || "clearing device memory".into())
    }

    /// Queues moving `bytes` bytes of managed memory from `at` on to the host. Their content is
    /// kept.
    pub(crate) fn to_host(&self, at: u64, bytes: u64, stream: &Stream) -> Result<()> {
        ensure!(
            at.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {at} of managed memory of {}",
            self.bytes
        );
        let (from, len, stream) = (self.address + at, bytes as usize, stream.raw().cast());
        // SAFETY: the range lies within the allocation, which outlives the move.
        let queued = unsafe { driver::cuMemPrefetchAsync(from, len, HOST, stream) };
        checked(queued, || format!("moving {} to the host", size::show(bytes)))
    }
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        self.device.settle();
        // SAFETY: allocated in `new` and freed only here, after all work that may use it. Nothing
        // can be done about an error.
        let _ = unsafe { driver::cuMemFree_v2(self.address) };
    }
}

/// Host memory that the driver has allocated and pinned in one call.
#[derive(Debug)]
pub(crate) struct Pinned {
    address: *mut u8,
    bytes: u64,
    device: BenchDevice,
}

// SAFETY: plain memory, reached through pointers only.
unsafe impl Send for Pinned {}
// SAFETY: as above; those who copy answer for what overlaps.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(device: &BenchDevice, bytes: u64) -> Result<Pinned> {
        let (mut address, flags) = (std::ptr::null_mut(), sys::CU_MEMHOSTALLOC_PORTABLE);
        // SAFETY: the function writes one address.
        let pinned = unsafe { driver::cuMemHostAlloc(&mut address, bytes as usize, flags) };
        checked(pinned, || format!("pinning {} of host memory", size::show(bytes)))?;
        Ok(Pinned { address: address.cast(), bytes, device: device.clone() })
    }

    /// The address of a byte; `offset` may be the size, for the address behind the last byte.
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        assert!(offset <= self.bytes, "offset {offset} of {}", self.bytes);
        // SAFETY: within the allocation, or just behind it.
        unsafe { self.address.add(offset as usize) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.device.settle();
        // SAFETY: allocated in `new` and freed only here, after all work that may use it. Nothing
        // can be done about an error.
        let _ = unsafe { driver::cuMemFreeHost(self.address.cast()) };
    }
}

/// Registers host memory with the driver.
///
/// # Safety
/// The memory must stay mapped until it is unregistered, and no copy may use it meanwhile.
pub(crate) unsafe fn register(address: *mut u8, bytes: u64) -> Result<()> {
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
    let address: *mut c_void = address.cast();
    // SAFETY: the caller's promise.
    let done = unsafe { driver::cuMemHostRegister_v2(address, bytes as usize, flags) };
    checked(done, || format!("registering {} of host memory", size::show(bytes)))
}

/// Ends a registration.
///
/// # Safety
/// The address must have been registered, and no copy may use the memory.
pub(crate) unsafe fn unregister(address: *mut u8) -> Result<()> {
    // SAFETY: the caller's promise.
    let done = unsafe { driver::cuMemHostUnregister(address.cast()) };
    checked(done, || "ending a registration".into())
}
