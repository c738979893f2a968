//! What names objects: numbers that look like addresses.

use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that names a new object. It looks like an address, as a driver's
/// handles do, but is none.
pub(crate) fn fresh_handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0x5c00_0000_0040);
    NEXT.fetch_add(0x40, Ordering::Relaxed)
}

/// A handle's number as the pointer that programs know it as.
pub(crate) fn as_pointer<T>(handle: u64) -> *mut T {
    without_provenance_mut(handle as usize)
}

/// The number of a handle.
pub(crate) fn as_handle<T>(pointer: *mut T) -> u64 {
    pointer.addr() as u64
}
