//! Copies the application's memory to memory outside of all levels.

use super::device_side::DeviceSide;
use super::place::Place;
use catalog::Part;
use device::{Pointer, PAGEABLE};
use errors::Result;

/// Copies host memory of the application to `bytes`.
fn copy(place: &Place, bytes: &mut [u8]) {
    let (from, len) = (place.address as *const u8, bytes.len());
    // SAFETY: the application passes at least as many bytes (the client has checked it) and does not use them
    // during the call; `bytes` are not shared.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
}

impl DeviceSide {
    /// Copies a region to `bytes`, whose length is the region's, and waits for the copy. Like a capture, it
    /// comes after all work that the application has queued before.
    ///
    /// # Errors
    /// The driver's error. Then `bytes` is empty if a copy may still be running.
    pub fn read_application(&self, place: &Place, bytes: &mut Vec<u8>) -> Result<()> {
        if place.kind == PAGEABLE {
            copy(place, bytes);
            return Ok(());
        }
        let side = self.attached()?;
        let own = self.own()?;
        let _current = side.device.enter()?;
        let _closed = self.after_application(&side.device, &own)?;
        let (stream, len) = (own.lane.stream(), bytes.len() as u64);
        let queued = match place.part {
            // Registered memory, which queued copies of the application may still use.
            Part::Host => Ok(()),
            // SAFETY: `bytes` stay valid until the stream was waited for, or for ever; the driver has
            // confirmed the device memory, where the application has as many bytes.
            Part::Device => unsafe { stream.copy_to_host(bytes.as_mut_ptr(), place.address, len) },
        };
        let waited = stream.synchronize();
        if waited.is_err() {
            std::mem::forget(std::mem::take(bytes));
        }
        queued.and(waited)?;
        if place.part == Part::Host {
            copy(place, bytes);
        }
        Ok(())
    }

    /// Copies `bytes`, as many as it has, to a region in device or managed memory, behind all work that the application
    /// has queued before, and waits for the copy.
    ///
    /// # Errors
    /// The driver's.
    pub fn write_application(&self, place: &Place, bytes: Vec<u8>) -> Result<()> {
        let own = self.own()?;
        let side = self.attached()?;
        let _current = side.device.enter()?;
        let _closed = self.after_application(&side.device, &own)?;
        let (stream, len) = (own.lane.stream(), bytes.len() as u64);
        // SAFETY: `bytes` stay valid until the stream was waited for, or for ever; the driver has confirmed the device
        // memory, which the application uses for nothing else during the call.
        let queued = unsafe {
            match place.kind {
                Pointer::Device { managed: false, .. } => {
                    stream.copy_from_host(place.address, bytes.as_ptr(), len)
                }
                _ => stream.copy_any(place.address, bytes.as_ptr() as u64, len),
            }
        };
        let waited = stream.synchronize();
        if waited.is_err() {
            std::mem::forget(bytes);
        }
        queued.and(waited)
    }
}
