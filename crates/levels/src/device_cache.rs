//! The device cache: one reserved range of device addresses, mapped from the start upwards, and unmapped from
//! the end.
//!
//! Which bytes hold which checkpoint is the catalog's business; how far the range is mapped is
//! told to it by the worker that maps.

use std::sync::Arc;

use device::{Device, DeviceRange};
use errors::Result;
use os::sync::Mutex;

/// The device cache's memory.
#[derive(Debug)]
pub struct DeviceCache {
    base: u64,
    first: u64,
    reserved: u64,
    range: Mutex<DeviceRange>,
}

impl DeviceCache {
    /// Reserves addresses for `most` bytes, of which it is to have `first` for good. Maps nothing.
    pub fn reserve(device: &Arc<Device>, first: u64, most: u64) -> Result<DeviceCache> {
        let range = DeviceRange::reserve(device, most)?;
        let (base, reserved) = (range.base(), range.reserved());
        // What is reserved is whole units of the device.
        let first = if first == most { reserved } else { first };
        Ok(DeviceCache { base, first, reserved, range: Mutex::new(range) })
    }

    /// Bytes it is to have for good.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The most bytes it can have.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The device address of a byte.
    pub fn address(&self, offset: u64) -> u64 {
        self.base + offset
    }

    /// Bytes mapped.
    pub fn mapped(&self) -> u64 {
        self.range.lock().mapped()
    }

    /// Maps up to `chunk` bytes more. Returns how many came; 0 when all is mapped.
    pub fn map_next(&self, chunk: u64) -> Result<u64> {
        self.range.lock().map_next(chunk)
    }

    /// Where the chunk that was mapped last begins, if there is one.
    pub fn last_chunk(&self) -> Option<u64> {
        self.range.lock().last_piece()
    }

    /// Unmaps the chunk that was mapped last.
    ///
    /// # Errors
    /// The device refuses; the chunk is there still.
    ///
    /// # Safety
    /// Nothing uses the chunk: all copies from and to it were waited for.
    pub unsafe fn unmap_last(&self) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.range.lock().unmap_last() }
    }
}
