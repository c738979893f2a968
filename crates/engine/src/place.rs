//! An application's region in memory.

use std::ops::Range;

use catalog::Part;
use device::{Pointer, PAGEABLE};
use errors::{Error, Result};
use format::delta;
use format::header::Size;
use os::access;
use policy::capture::Capture;

/// A region to be captured or restored, and its place in the application's memory.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The region's id.
    pub id: i32,
    /// The host or device address.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// The kind of memory.
    pub kind: Pointer,
    /// The part of a checkpoint that its bytes go to.
    pub part: Part,
    /// How its bytes get to the host buffer.
    pub capture: Capture,
    /// Its bytes when they are decoded; `None`: they are not encoded.
    pub decoded: Option<u64>,
}

impl Place {
    /// Plain host memory.
    pub fn plain(id: i32, address: *const u8, len: usize) -> Place {
        Place {
            id,
            address: address as u64,
            len: len as u64,
            kind: PAGEABLE,
            part: Part::Host,
            capture: Capture::Copy,
            decoded: None,
        }
    }

    /// Its bytes, stored and decoded.
    pub(super) fn stored(&self) -> Size {
        Size { stored: self.len, decoded: self.decoded }
    }

    /// Whether it belongs to the region that the place before it, with this id, began: what has changed since a base
    /// lies in many places, and is one region.
    pub(super) fn continues(&self, before: i32) -> bool {
        self.id == before && self.id == delta::REGION
    }

    /// The part of it that lies within these addresses, if any.
    pub(super) fn within(&self, range: Range<u64>) -> Option<Place> {
        let (start, end) =
            (self.address.max(range.start), (self.address + self.len).min(range.end));
        (start < end).then_some(Place { address: start, len: end - start, ..*self })
    }
}

/// Checks that host memory is still mapped: the application may have freed it.
///
/// # Errors
/// Some of the memory is not mapped; the error names the region.
pub fn check_mapped<'a>(places: impl Iterator<Item = &'a Place>) -> Result<()> {
    let of_host = |place: &&Place| !matches!(place.kind, Pointer::Device { .. });
    let places: Vec<&Place> = places.filter(of_host).collect();
    let ranges: Vec<(u64, u64)> = places.iter().map(|place| (place.address, place.len)).collect();
    let Some(bad) = access::find_unmapped(&ranges) else { return Ok(()) };
    let Place { id, address, len, .. } = places[bad];
    Err(Error::invalid(format!(
        "region {id}: some of the {len} bytes at {address:#x} are not mapped any more; was the memory freed?"
    )))
}

/// The ids and sizes of the regions in these places, in order.
pub(super) fn sizes(places: &[Place]) -> Vec<(i32, Size)> {
    let mut sizes: Vec<(i32, Size)> = Vec::with_capacity(places.len());
    for place in places {
        match sizes.last_mut().filter(|(id, _)| place.continues(*id)) {
            Some((_, size)) => size.stored += place.len,
            None => sizes.push((place.id, place.stored())),
        }
    }
    sizes
}

/// The part of a checkpoint that memory of a kind goes to, where nothing speaks against it.
pub fn part_of(kind: Pointer) -> Part {
    match kind {
        Pointer::Host { .. } => Part::Host,
        Pointer::Device { .. } => Part::Device,
    }
}
