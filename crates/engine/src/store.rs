//! The memory of a level, to and from which the engine moves bytes. The catalog assigns the places; a store
//! only copies.
//!
//! The device cache and the host buffer have addresses, so that the device copies directly between them. A
//! level below the host buffer exchanges bytes with it by its own `read` and `write`.

use std::fmt::Debug;

use catalog::space::Extent;
use errors::Result;
use levels::host_buffer::HostBuffer;

/// Bytes of the host buffer that are passed at a time.
pub(super) const PIECE: usize = 1 << 20;

/// Takes bytes piece by piece.
pub(crate) type Put<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// The memory of a level.
pub(crate) trait Store: Debug + Send + Sync {
    /// Passes the bytes of a place to `put`, piece by piece in order. The catalog keeps the place unchanged
    /// meanwhile; nothing is being read when this returns.
    ///
    /// # Errors
    /// The errors of the memory, and of `put`.
    fn read(&self, place: Extent, put: &mut Put<'_>) -> Result<()>;

    /// Copies bytes to a place of the same size, which the catalog has given the caller.
    ///
    /// # Errors
    /// The error of the memory. Nothing is being written any more.
    fn write(&self, place: Extent, bytes: &[u8]) -> Result<()>;
}

impl Store for HostBuffer {
    fn read(&self, place: Extent, put: &mut Put<'_>) -> Result<()> {
        // SAFETY: a complete copy, which does not change while it is read, within the mapping.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.address(place.offset), place.len as usize) };
        bytes.chunks(PIECE).try_for_each(put)
    }

    fn write(&self, place: Extent, bytes: &[u8]) -> Result<()> {
        // SAFETY: the catalog has given the caller the place, which is within the mapping and of the same
        // size; the caller's bytes are elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(place.offset), bytes.len());
        }
        Ok(())
    }
}
