//! Copies between the application's memory and memory that is in no tier.

use super::copy::Way;
use super::place::Place;
use super::shared::Shared;
use crate::catalog::entry::Part;
use crate::device::PLAIN;
use crate::error::Result;

impl Shared {
    /// Copies a region to `bytes`, which are as many, or back, and waits for it. As a capture, it comes
    /// after everything that the application has queued before.
    ///
    /// # Errors
    /// The driver's. Then `bytes` is empty if a copy may still be running.
    pub fn copy_aside(&self, way: Way, place: &Place, bytes: &mut Vec<u8>) -> Result<()> {
        if place.kind == PLAIN {
            move_bytes(way, place, bytes);
            return Ok(());
        }
        let side = self.device_side()?;
        let own = side.own.lock();
        let _current = side.device.enter()?;
        let _closed = side.after_application(self, &own)?;
        let (stream, len) = (own.lane.stream(), bytes.len() as u64);
        let queued = match (place.part(), way) {
            // Memory that is registered, and that copies of the application's may still use.
            (Part::Host, _) => Ok(()),
            // SAFETY: `bytes` stay until the stream was waited for, or for ever; the driver has vouched for
            // the device's memory, of which the application has as many.
            (Part::Device, Way::In) => unsafe {
                stream.copy_to_host(bytes.as_mut_ptr(), place.address, len)
            },
            // SAFETY: as above.
            (Part::Device, Way::Out) => unsafe {
                stream.copy_from_host(place.address, bytes.as_ptr(), len)
            },
        };
        let waited = stream.synchronize();
        if waited.is_err() {
            std::mem::forget(std::mem::take(bytes));
        }
        queued.and(waited)?;
        if place.part() == Part::Host {
            move_bytes(way, place, bytes);
        }
        Ok(())
    }
}

/// Copies between host memory of the application and `bytes`.
fn move_bytes(way: Way, place: &Place, bytes: &mut [u8]) {
    let (application, own, len) = (place.address as *mut u8, bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the application gives at least as many bytes (the client has checked it) and does not use
    // them meanwhile; `bytes` are nobody else's.
    unsafe {
        match way {
            Way::In => std::ptr::copy_nonoverlapping(application, own, len),
            Way::Out => std::ptr::copy_nonoverlapping(own, application, len),
        }
    }
}
