//! A range of device addresses that is reserved at once and mapped piece by piece.
//!
//! Reserving costs almost nothing, so the device cache has its addresses before its memory (HiPC'22,
//! section IV-A). A piece is unmapped only when all copies that used it were waited for: the driver does not
//! wait for them, which has caused illegal accesses in other projects.

use std::sync::Arc;

use super::api::MemoryHandle;
use super::device::Device;
use super::kinds;
use errors::Result;
use os::size;

struct MappedPiece {
    memory: MemoryHandle,
    offset: u64,
    len: u64,
}

/// The reserved range, of which the first `mapped` bytes are mapped.
pub struct DeviceRange {
    device: Arc<Device>,
    base: u64,
    reserved: u64,
    mapped: u64,
    pieces: Vec<MappedPiece>,
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

impl DeviceRange {
    /// Reserves addresses for `bytes`, rounded up to the device's granularity. Maps nothing.
    pub fn reserve(device: &Arc<Device>, bytes: u64) -> Result<DeviceRange> {
        let _current = device.enter()?;
        let granularity = granularity(device)?;
        let reserved = bytes.div_ceil(granularity).saturating_mul(granularity);
        let base = device.api().reserve(reserved).map_err(|error| {
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

    /// Bytes mapped.
    pub fn mapped(&self) -> u64 {
        self.mapped
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
        let api = self.device.api();
        let at = self.base + self.mapped;
        let context = || {
            let [len, mapped] = [len, self.mapped].map(size::show);
            format!("mapping {len} of the device cache, of which {mapped} are mapped")
        };
        let memory = api.create(len).map_err(|error| error.within(context()))?;
        let release = || {
            // SAFETY: made above, and not mapped when this is called.
            if let Err(error) = unsafe { api.release(memory) } {
                log::debug!("{error}");
            }
        };
        // SAFETY: fresh addresses inside the reserved range; sizes are multiples of the granule.
        if let Err(error) = unsafe { api.map(at, len, memory) } {
            release();
            return Err(error.within(context()));
        }
        // SAFETY: mapped above.
        if let Err(error) = unsafe { api.allow_access(at, len) } {
            // SAFETY: mapped above, and nobody knows of it yet.
            if let Err(error) = unsafe { api.unmap(at, len) } {
                log::debug!("{error}");
            }
            release();
            return Err(error.within(context()));
        }
        self.pieces.push(MappedPiece { memory, offset: self.mapped, len });
        self.mapped += len;
        Ok(len)
    }

    /// Where the piece that was mapped last begins, if there is one.
    pub fn last_piece(&self) -> Option<u64> {
        self.pieces.last().map(|piece| piece.offset)
    }

    /// Unmaps the piece that was mapped last. After an error the range is unchanged.
    ///
    /// # Safety
    /// Nothing uses the piece: all copies from and to it were waited for.
    pub unsafe fn unmap_last(&mut self) -> Result<()> {
        let Some(piece) = self.pieces.last() else { return Ok(()) };
        let api = self.device.api();
        // SAFETY: mapped in `map_next`; the caller's promise.
        unsafe { api.unmap(self.base + piece.offset, piece.len) }
            .map_err(|error| error.within(format!("unmapping {}", size::show(piece.len))))?;
        // SAFETY: made in `map_next`, and not mapped any more.
        if let Err(error) = unsafe { api.release(piece.memory) } {
            log::warn!("{} of device memory were not given back: {error}", size::show(piece.len));
        }
        self.mapped = piece.offset;
        self.pieces.pop();
        Ok(())
    }
}

impl Drop for DeviceRange {
    fn drop(&mut self) {
        // The application may have destroyed its context. This memory belongs to no context, so it is
        // released anyway.
        let _current = self.device.enter();
        let api = self.device.api();
        let failed = std::cell::Cell::new(None);
        let note = |result: Result<()>| {
            if let Err(error) = result {
                failed.set(Some(error));
            }
        };
        for piece in &self.pieces {
            // SAFETY: mapped in `map_next`, handle by handle; the engine has ended all transfers.
            note(unsafe { api.unmap(self.base + piece.offset, piece.len) });
            // SAFETY: made in `map_next` and released once.
            note(unsafe { api.release(piece.memory) });
        }
        // SAFETY: reserved in `reserve`, and nothing is mapped any more.
        note(unsafe { api.free_addresses(self.base, self.reserved) });
        if let Some(error) = failed.take().filter(|_| !kinds::has_ended()) {
            let mapped = size::show(self.mapped);
            log::warn!("up to {mapped} of device memory were not given back: {error}");
        }
    }
}

fn granularity(device: &Device) -> Result<u64> {
    Ok(device.api().granularity()?.max(1))
}
