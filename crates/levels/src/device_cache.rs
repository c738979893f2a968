//! The device cache: one reserved range of device addresses, mapped from the start upwards.
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
    reserved: u64,
    range: Mutex<DeviceRange>,
}

impl DeviceCache {
    /// Reserves addresses for `bytes`. Maps nothing.
    pub fn reserve(device: &Arc<Device>, bytes: u64) -> Result<DeviceCache> {
        let range = DeviceRange::reserve(device, bytes)?;
        Ok(DeviceCache { base: range.base(), reserved: range.reserved(), range: Mutex::new(range) })
    }

    /// Bytes it will have when it is wholly mapped.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The device address of a byte.
    pub fn address(&self, offset: u64) -> u64 {
        self.base + offset
    }

    /// Maps up to `chunk` bytes more. Returns how many came; 0 when all is mapped.
    pub fn map_next(&self, chunk: u64) -> Result<u64> {
        self.range.lock().map_next(chunk)
    }
}
