//! A range of device addresses that gets its memory piece by piece, and the registration of host
//! memory.

use std::ffi::c_void;
use std::sync::Mutex;

use anyhow::Result;
use cudarc::driver::sys;

use super::driver::{self, checked};
use super::{Address, Device};
use crate::size;

/// Reserved device addresses. Dropping it unmaps and frees everything.
#[derive(Debug)]
pub(crate) struct Range {
    address: Address,
    bytes: u64,
    granularity: u64,
    device: Device,
    pieces: Mutex<Vec<Piece>>,
}

#[derive(Debug)]
struct Piece {
    handle: sys::CUmemGenericAllocationHandle,
    offset: u64,
    bytes: u64,
}

fn properties(device: &Device) -> sys::CUmemAllocationProp {
    // SAFETY: a structure of numbers and addresses, for which 0 means "not asked for".
    let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location(device);
    properties
}

fn location(device: &Device) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.raw(),
    }
}

impl Range {
    /// Reserves at least `bytes` of addresses.
    pub(crate) fn reserve(device: &Device, bytes: u64) -> Result<Range> {
        let mut granularity = 0;
        let which =
            sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED as u32;
        // SAFETY: the function reads the properties and writes one number.
        let asked = unsafe {
            driver::cuMemGetAllocationGranularity(&mut granularity, &properties(device), which)
        };
        checked(asked, || "asking how device memory is mapped".into())?;
        let granularity = (granularity as u64).max(1);
        let bytes = bytes.next_multiple_of(granularity);
        let mut address = 0;
        // SAFETY: the function writes one address.
        let reserved =
            unsafe { driver::cuMemAddressReserve(&mut address, bytes as usize, 0, 0, 0) };
        checked(reserved, || format!("reserving {} of device addresses", size::show(bytes)))?;
        let pieces = Mutex::new(Vec::new());
        Ok(Range { address, bytes, granularity, device: device.clone(), pieces })
    }

    /// The first address.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Maps at most `bytes` behind what is mapped. Returns how many; 0: all are.
    pub(crate) fn map_next(&self, bytes: u64) -> Result<u64> {
        let mut pieces = self.pieces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let offset = pieces.last().map_or(0, |piece| piece.offset + piece.bytes);
        let bytes = bytes.next_multiple_of(self.granularity).min(self.bytes - offset);
        if bytes == 0 {
            return Ok(0);
        }
        let what = || format!("mapping {} of device memory", size::show(bytes));
        let mut handle = 0;
        // SAFETY: the function reads the properties and writes one handle.
        let made = unsafe {
            driver::cuMemCreate(&mut handle, bytes as usize, &properties(&self.device), 0)
        };
        checked(made, what)?;
        // SAFETY: the addresses are reserved and not mapped; the handle has as many bytes.
        let mapped =
            unsafe { driver::cuMemMap(self.address + offset, bytes as usize, 0, handle, 0) };
        if mapped != 0 {
            // SAFETY: made above and mapped nowhere. The mapping's failure is the one to report.
            let _ = unsafe { driver::cuMemRelease(handle) };
        }
        checked(mapped, what)?;
        pieces.push(Piece { handle, offset, bytes });
        let access = sys::CUmemAccessDesc {
            location: location(&self.device),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the addresses were mapped just now.
        let allowed =
            unsafe { driver::cuMemSetAccess(self.address + offset, bytes as usize, &access, 1) };
        checked(allowed, what)?;
        Ok(bytes)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        self.device.settle();
        let pieces = self.pieces.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: mapped and made in `map_next`, reserved in `reserve`, each once, and
        // no work uses them any more. Nothing can be done about an error.
        unsafe {
            for piece in pieces.drain(..) {
                let _ = driver::cuMemUnmap(self.address + piece.offset, piece.bytes as usize);
                let _ = driver::cuMemRelease(piece.handle);
            }
            let _ = driver::cuMemAddressFree(self.address, self.bytes as usize);
        }
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
