//! Where the application has a region.

use crate::catalog::entry::Part;
use device::{Pointer, PAGEABLE};
use os::access;
use os::error::{Error, Result};

/// A region to be captured or restored: where the application has it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The region's id.
    pub id: i32,
    /// The address, of the host or of the device.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// What kind of memory it is.
    pub kind: Pointer,
    /// The application leaves it as it is until it is released.
    pub lent: bool,
}

impl Place {
    /// Plain host memory.
    pub fn plain(id: i32, address: *const u8, len: usize) -> Place {
        Place { id, address: address as u64, len: len as u64, kind: PAGEABLE, lent: false }
    }

    /// Whether host memory is still there to be copied: the application may have given it back.
    ///
    /// # Errors
    /// Some of it is not; the region is named.
    pub(super) fn check(&self) -> Result<()> {
        if self.part() == Part::Device || self.len == 0 || access::is_mapped(self.address, self.len)
        {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "region {}: of the {} bytes at {:#x} some are not mapped any more; was the memory freed?",
            self.id, self.len, self.address
        )))
    }

    /// The part of a checkpoint that its bytes go to.
    pub fn part(&self) -> Part {
        match self.kind {
            Pointer::Host { .. } => Part::Host,
            Pointer::Device { .. } => Part::Device,
        }
    }
}
