//! The memory of a level. The catalog gives out its room, and a store moves bytes into and out of it: it keeps no
//! account of its own, so that what the catalog frees is free.
//!
//! The device cache and the host buffer have addresses, so that the device copies directly between them. A
//! level below the host buffer exchanges bytes with it by its own `read` and `write`.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use crate::host_buffer::HostBuffer;
use catalog::space::{cut, join, Extent};
use catalog::state::StoreResult;
use errors::Result;

/// Bytes of the host buffer that are passed at a time.
pub const PIECE: usize = 1 << 20;

/// Takes bytes piece by piece.
pub type Put<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Asks the catalog for so many bytes of room more. `None`: the level is full.
pub type More<'a> = dyn FnMut(u64) -> Option<Arc<[Extent]>> + 'a;

/// Asked between pieces: an error ends the copy.
pub type GoOn<'a> = dyn Fn() -> Result<()> + Sync + 'a;

/// The memory of a level.
pub trait Store: Debug + Send + Sync {
    /// Passes the bytes in `range` of a copy to `put`, piece by piece in order. The catalog keeps the copy
    /// unchanged meanwhile; nothing is being read when this returns.
    ///
    /// # Errors
    /// The errors of the memory, and of `put`.
    fn read(&self, copy: &[Extent], range: Range<u64>, put: &mut Put<'_>) -> Result<()>;

    /// Appends bytes to the copy in `room`. If the level is full, nothing more is written, and the bytes that follow are
    /// only counted: all of them are given, so that the last answer says how much room they need.
    ///
    /// # Errors
    /// The error of the memory. Nothing is being written any more.
    fn write(&self, room: &mut Room<'_>, bytes: &[u8]) -> Result<StoreResult>;

    /// Appends the first `len` bytes of a copy in the host buffer to the copy in `room`. Those who can do more with
    /// the host buffer's addresses than with pieces, do it.
    ///
    /// # Errors
    /// The errors of the memory, and of `go_on`. Nothing is being written any more.
    fn write_from(
        &self,
        room: &mut Room<'_>,
        host: &HostBuffer,
        from: &[Extent],
        len: u64,
        go_on: &GoOn<'_>,
    ) -> Result<StoreResult> {
        write_pieces(self, room, host, from, len, go_on)
    }

    /// Reads the first `len` bytes of a copy to the host buffer, in the same way.
    ///
    /// # Errors
    /// The errors of the memory, and of `go_on`. Nothing is being read any more.
    fn read_to(
        &self,
        copy: &[Extent],
        host: &HostBuffer,
        to: &[Extent],
        len: u64,
        go_on: &GoOn<'_>,
    ) -> Result<()> {
        read_pieces(self, copy, host, to, len, go_on)
    }
}

/// [`Store::write_from`] by pieces.
pub(crate) fn write_pieces(
    store: &(impl Store + ?Sized),
    room: &mut Room<'_>,
    host: &HostBuffer,
    from: &[Extent],
    len: u64,
    go_on: &GoOn<'_>,
) -> Result<StoreResult> {
    let mut stored = StoreResult::In(0);
    host.read(from, 0..len, &mut |piece| {
        go_on()?;
        stored = store.write(room, piece)?;
        Ok(())
    })?;
    Ok(stored)
}

/// [`Store::read_to`] by pieces.
pub(crate) fn read_pieces(
    store: &(impl Store + ?Sized),
    copy: &[Extent],
    host: &HostBuffer,
    to: &[Extent],
    len: u64,
    go_on: &GoOn<'_>,
) -> Result<()> {
    let mut full = |_| None;
    let mut room = Room::new(to, &mut full);
    store.read(copy, 0..len, &mut |piece| {
        go_on()?;
        host.write(&mut room, piece).map(drop)
    })
}

/// The room of a copy that is being written.
pub struct Room<'a> {
    extents: Vec<Extent>,
    /// Bytes that were put, or would have been.
    used: u64,
    is_full: bool,
    more: &'a mut More<'a>,
}

impl Debug for Room<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("extents", &self.extents).field("used", &self.used).finish()
    }
}

impl<'a> Room<'a> {
    /// Room that begins with `extents`, none of which is used.
    pub fn new(extents: &[Extent], more: &'a mut More<'a>) -> Self {
        Room { extents: extents.to_vec(), used: 0, is_full: false, more }
    }

    /// What there is of it.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Uses the next `len` bytes of it for `write`, which is given each place with its part of them.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn put(
        &mut self,
        len: u64,
        mut write: impl FnMut(Extent, Range<usize>) -> Result<()>,
    ) -> Result<StoreResult> {
        let start = self.used;
        self.used += len;
        let has: u64 = self.extents.iter().map(|extent| extent.len).sum();
        let lacks = self.used.saturating_sub(has);
        if lacks > 0 && !self.is_full {
            match (self.more)(lacks) {
                Some(more) => join(&mut self.extents, &more),
                None => self.is_full = true,
            }
        }
        if self.is_full {
            return Ok(StoreResult::Full(self.used));
        }
        let mut done = 0;
        for place in cut(&self.extents, start, len) {
            let next = done + place.len as usize;
            write(place, done..next)?;
            done = next;
        }
        Ok(StoreResult::In(self.used))
    }
}

impl Store for HostBuffer {
    fn read(&self, copy: &[Extent], range: Range<u64>, put: &mut Put<'_>) -> Result<()> {
        cut(copy, range.start, range.end - range.start).try_for_each(|place| {
            // SAFETY: a complete copy, which does not change while it is read, within the mapping.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.address(place.offset), place.len as usize)
            };
            bytes.chunks(PIECE).try_for_each(&mut *put)
        })
    }

    fn write(&self, room: &mut Room<'_>, bytes: &[u8]) -> Result<StoreResult> {
        room.put(bytes.len() as u64, |place, range| {
            let from = &bytes[range];
            // SAFETY: the catalog has given the caller the place, which is within the mapping and of the same
            // size; the caller's bytes are elsewhere.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    from.as_ptr(),
                    self.address(place.offset),
                    from.len(),
                );
            }
            Ok(())
        })
    }
}
