//! Where chunks of the log go that there is no memory for. The functions may be called from any thread,
//! at any time.

use std::ffi::{c_char, c_int, c_void, CStr};

use crate::Found;

/// The function of the checkpoint library that gives the table.
pub const NAME: &CStr = c"VELOC_Message_store";

/// The version of [`Store`] and of what its functions do.
pub const INTERFACE: c_int = 2;

/// The functions. Those that return a status give 0 or -1, then with a reason in `room` bytes
/// ([`crate::reason`]).
#[repr(C)]
#[derive(Debug)]
pub struct Store {
    /// Whether a job is there that has a place for chunks: 1 or 0.
    pub is_there: extern "C" fn() -> c_int,
    /// Takes a copy of `len` bytes. Waits for room.
    pub take: unsafe extern "C" fn(
        number: c_int,
        bytes: *const c_void,
        len: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Copies a chunk of `len` bytes to where it is wanted.
    pub give: unsafe extern "C" fn(
        number: c_int,
        into: *mut c_void,
        len: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// The job is about to end. Sees to it that a chunk can be given and forgotten all the same; -1: it
    /// cannot.
    pub leave: unsafe extern "C" fn(number: c_int, reason: *mut c_char, room: usize) -> c_int,
    /// Forgets a chunk.
    pub forget: unsafe extern "C" fn(number: c_int, reason: *mut c_char, room: usize) -> c_int,
}

/// The table of this process.
pub fn find() -> Found<Store> {
    // SAFETY: that is how the checkpoint library declares it, which is never unloaded.
    unsafe { crate::find(NAME, INTERFACE) }
}
