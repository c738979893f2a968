//! The memory that a pointer points to, for the pointer attributes.

use std::ops::Range;

use crate::config;
use crate::memory::device::Use;
use crate::memory::{Allocations, DriverMemory, HostKind};
use crate::sync::lock;

/// The kind of memory that a known pointer points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointerKind {
    /// Plain or mapped device memory.
    Device,
    /// Reserved addresses with nothing mapped there.
    Reserved,
    /// Managed memory.
    Managed,
    /// Page-locked host memory.
    Pinned,
}

/// All that is known of a pointer.
#[derive(Debug, Clone)]
pub(crate) struct PointerInfo {
    pub(crate) kind: PointerKind,
    /// The allocation, mapping, registration or reservation it lies in.
    pub(crate) range: Range<u64>,
    /// The context that owns it; mapped memory belongs to none.
    pub(crate) context: Option<u64>,
    /// The device that owns it.
    pub(crate) device: Option<usize>,
    /// A number that no other memory has or had; 0 for a reservation.
    pub(crate) id: u64,
}

/// The range that mapped memory is said to lie in. By the driver's manual it is the range of the
/// reserved addresses ("not necessarily the address of the mapped region"); with some drivers it is
/// the range of one handle.
fn mapped_range(state: &Allocations, address: u64, mapped: Range<u64>) -> Range<u64> {
    let reserved = state.reserved.containing(address).map(|(range, ())| range);
    reserved.filter(|_| config::ranges_are_reservations()).unwrap_or(mapped)
}

impl DriverMemory {
    /// The memory that `address` points to, if it is known.
    pub(crate) fn describe(&self, address: u64) -> Option<PointerInfo> {
        let state = lock(&self.state);
        if let Some((range, found)) = state.device.containing(address) {
            let (context, range) = match found.used_as {
                Use::Plain { context, .. } => (Some(context), range),
                Use::Mapped { .. } => (None, mapped_range(&state, address, range)),
            };
            let device = Some(found.device());
            return Some(PointerInfo {
                kind: PointerKind::Device,
                range,
                context,
                device,
                id: found.id,
            });
        }
        if let Some((range, found)) = state.host.containing(address) {
            let kind = match found.kind {
                HostKind::Managed => PointerKind::Managed,
                HostKind::Allocated | HostKind::Registered => PointerKind::Pinned,
            };
            let (context, device) = (Some(found.context), Some(found.device));
            return Some(PointerInfo { kind, range, context, device, id: found.id });
        }
        let (range, ()) = state.reserved.containing(address)?;
        let kind = PointerKind::Reserved;
        Some(PointerInfo { kind, range, context: None, device: None, id: 0 })
    }
}
