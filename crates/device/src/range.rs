//! A range of device addresses that is reserved at once and mapped piece by piece.
//!
//! Reserving costs almost nothing, so the device cache has its addresses before its memory (HiPC'22,
//! section IV-A). Pieces are only mapped at fresh addresses, and unmapped only at the end: unmapping
//! beside running work has caused illegal accesses in other projects.

use std::sync::Arc;

use cudarc::driver::sys::{
    CUdeviceptr, CUmemAccessDesc, CUmemAccess_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation,
    CUmemLocationType,
};

use super::context::Device;
use super::driver::Driver;
use os::error::Result;
use os::size;

/// `CU_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
const RECOMMENDED: u32 = 1;

struct Piece {
    handle: CUmemGenericAllocationHandle,
    offset: u64,
    len: u64,
}

/// The reserved range, of which the first `mapped` bytes are mapped.
pub struct DeviceRange {
    device: Arc<Device>,
    base: CUdeviceptr,
    reserved: u64,
    mapped: u64,
    pieces: Vec<Piece>,
}

impl std::fmt::Debug for DeviceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceRange")
            .field("base", &self.base)
            .field("reserved", &self.reserved)
            .field("mapped", &self.mapped)
            .finish_non_exhaustive()
    }
}

fn properties(device: &Device) -> CUmemAllocationProp {
    // SAFETY: a plain C struct for which all zeros is the documented default.
    let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
    prop.location = CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.ordinal(),
    };
    prop
}

impl DeviceRange {
    /// Reserves addresses for `bytes`, rounded up to the device's granularity. Maps nothing.
    pub fn reserve(device: &Arc<Device>, bytes: u64) -> Result<DeviceRange> {
        let _current = device.enter()?;
        let granularity = granularity(device)?;
        let reserved = bytes.div_ceil(granularity).saturating_mul(granularity);
        let mut base: CUdeviceptr = 0;
        // SAFETY: the pointer is to a local.
        unsafe { device.driver.cuMemAddressReserve(&mut base, reserved as usize, 0, 0, 0) }
            .map_err(|error| {
                error.within(format!("reserving {} of device addresses", size::show(reserved)))
            })?;
        Ok(DeviceRange { device: device.clone(), base, reserved, mapped: 0, pieces: Vec::new() })
    }

    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes reserved.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Maps up to `chunk` more bytes, accessible to this device only. Returns how many; 0 if all is
    /// mapped. After an error the range is unchanged.
    pub fn map_next(&mut self, chunk: u64) -> Result<u64> {
        let granularity = granularity(&self.device)?;
        let left = self.reserved - self.mapped;
        let len = chunk.div_ceil(granularity).saturating_mul(granularity).min(left);
        if len == 0 {
            return Ok(0);
        }
        let driver = &self.device.driver;
        let prop = properties(&self.device);
        let at = self.base + self.mapped;
        let size = len as usize;
        let context = || {
            let [len, mapped] = [len, self.mapped].map(size::show);
            format!("mapping {len} of the device cache, of which {mapped} are mapped")
        };
        let mut handle = 0;
        // SAFETY: the pointers are to locals.
        unsafe { driver.cuMemCreate(&mut handle, size, &prop, 0) }
            .map_err(|error| error.within(context()))?;
        let release = || {
            // SAFETY: made above, and not mapped when this is called.
            if let Err(error) = unsafe { driver.cuMemRelease(handle) } {
                log::debug!("{error}");
            }
        };
        // SAFETY: fresh addresses inside the reserved range; sizes are multiples of the granule.
        if let Err(error) = unsafe { driver.cuMemMap(at, size, 0, handle, 0) } {
            release();
            return Err(error.within(context()));
        }
        let access = CUmemAccessDesc {
            location: prop.location,
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: mapped above; one descriptor.
        if let Err(error) = unsafe { driver.cuMemSetAccess(at, size, &access, 1) } {
            // SAFETY: mapped above, and nobody knows of it yet.
            if let Err(error) = unsafe { driver.cuMemUnmap(at, size) } {
                log::debug!("{error}");
            }
            release();
            return Err(error.within(context()));
        }
        self.pieces.push(Piece { handle, offset: self.mapped, len });
        self.mapped += len;
        Ok(len)
    }
}

impl Drop for DeviceRange {
    fn drop(&mut self) {
        // The application may have destroyed its context. This memory belongs to no context, so it is
        // released anyway.
        let _current = self.device.enter();
        let driver = &self.device.driver;
        let failed = std::cell::Cell::new(None);
        let note = |result: Result<()>| {
            if let Err(error) = result {
                failed.set(Some(error));
            }
        };
        for piece in &self.pieces {
            // SAFETY: mapped in `map_next`, handle by handle; the engine has ended all transfers.
            note(unsafe { driver.cuMemUnmap(self.base + piece.offset, piece.len as usize) });
            // SAFETY: made in `map_next` and released once.
            note(unsafe { driver.cuMemRelease(piece.handle) });
        }
        // SAFETY: reserved in `reserve`, and nothing is mapped any more.
        note(unsafe { driver.cuMemAddressFree(self.base, self.reserved as usize) });
        if let Some(error) = failed.take().filter(|_| !Driver::has_ended()) {
            let mapped = size::show(self.mapped);
            log::warn!("up to {mapped} of device memory were not given back: {error}");
        }
    }
}

fn granularity(device: &Device) -> Result<u64> {
    let prop = properties(device);
    let mut granularity = 0;
    // SAFETY: the pointers are to locals.
    unsafe { device.driver.cuMemGetAllocationGranularity(&mut granularity, &prop, RECOMMENDED) }?;
    Ok((granularity as u64).max(1))
}
