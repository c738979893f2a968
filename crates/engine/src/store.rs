//! The memory of a level, to and from which the engine moves bytes. The catalog assigns the places; a store
//! only copies.
//!
//! The device cache and the host buffer have addresses, so that the device copies directly between them. A
//! level below the host buffer exchanges bytes with it by its own `read` and `write`.

use std::fmt::Debug;

use super::lane::Lane;
use super::shared::{DeviceSide, Shared};
use catalog::space::Extent;
use catalog::Level;
use device::WaitMode;
use errors::{Error, Kind, Result};
use levels::host_buffer::HostBuffer;
use trace::metrics::Stop;

/// Bytes of the host buffer after which its reader asks whether the engine stops: it is waited for then.
const ASK_EVERY: usize = 1 << 20;

/// Takes bytes piece by piece.
pub(crate) type Put<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// The memory of a level.
pub trait Store: Debug + Send + Sync {
    /// Passes the bytes of a place to `put`, piece by piece in order. The catalog keeps the place unchanged
    /// meanwhile; nothing is being read when this returns.
    ///
    /// # Errors
    /// The errors of the memory, and of `put`; the engine stops.
    fn read(&self, shared: &Shared, place: Extent, put: &mut Put<'_>) -> Result<()>;

    /// Copies bytes to a place of the same size, which the catalog has given the caller.
    ///
    /// # Errors
    /// The error of the memory. Nothing is being written any more.
    fn write(&self, shared: &Shared, place: Extent, bytes: &[u8]) -> Result<()>;
}

impl Store for HostBuffer {
    fn read(&self, shared: &Shared, place: Extent, put: &mut Put<'_>) -> Result<()> {
        // SAFETY: a complete copy, which does not change while it is read, within the mapping.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.address(place.offset), place.len as usize) };
        bytes.chunks(ASK_EVERY).try_for_each(|piece| {
            shared.go_on()?;
            put(piece)
        })
    }

    fn write(&self, _: &Shared, place: Extent, bytes: &[u8]) -> Result<()> {
        // SAFETY: the catalog has given the caller the place, which is within the mapping and of the same
        // size; the caller's bytes are elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(place.offset), bytes.len());
        }
        Ok(())
    }
}

impl Store for DeviceSide {
    fn read(&self, shared: &Shared, place: Extent, put: &mut Put<'_>) -> Result<()> {
        let from = shared.cache()?.address(place.offset);
        let _current = self.device.enter()?;
        let idle = self.to_files.lock().take();
        let mut lane = match idle {
            Some(lane) => lane,
            None => Lane::new(&self.device, WaitMode::Block)?,
        };
        // SAFETY: a complete copy, which does not change while it is read.
        unsafe { lane.read(shared, from, place.len, Some(&shared.gate), put) }?;
        *self.to_files.lock() = Some(lane);
        Ok(())
    }

    fn write(&self, shared: &Shared, place: Extent, bytes: &[u8]) -> Result<()> {
        let to = shared.cache()?.address(place.offset);
        let own = self.own.lock();
        let _current = self.device.enter()?;
        // SAFETY: the catalog has given the caller the place; the caller's bytes stay valid until the stream
        // was waited for.
        unsafe { own.lane.stream().copy_from_host(to, bytes.as_ptr(), bytes.len() as u64) }?;
        own.lane.stream().synchronize()
    }
}

impl Shared {
    /// The memory of a level, if the catalog says that it has bytes.
    pub fn store(&self, level: Level) -> Result<&dyn Store> {
        match level {
            Level::DEVICE => Ok(self.device_side()?),
            Level::HOST => Ok(self.host()?),
            lower => {
                let lower = self.lower.get(lower.index() - 2);
                let store =
                    lower.ok_or_else(|| Error::new(Kind::Internal, "there is no such level"))?;
                Ok(&**store)
            }
        }
    }
}

/// The name of a level in the metrics.
pub(crate) fn stop(level: Level) -> Stop {
    Stop::Memory(level.index() as u8)
}

#[cfg(test)]
#[cfg(not(feature = "model-check"))]
#[path = "store_tests.rs"]
mod tests;
