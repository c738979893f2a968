//! Scratch files for a message log beyond its memory limit. The function may be called from any thread
//! at any time.

use std::ffi::{c_char, c_int, CStr};

use crate::TableLookup;

/// The function of the checkpoint library that returns the table.
pub const NAME: &CStr = c"VELOC_Message_scratch";

/// The version of [`ScratchTable`] and of the behaviour of its function.
pub const INTERFACE: c_int = 1;

/// The table.
#[repr(C)]
#[derive(Debug)]
pub struct ScratchTable {
    /// Creates an unnamed file of `len` bytes in the job's scratch directory. Returns 0 and a descriptor
    /// owned by the caller, or -1 and a reason in `room` bytes ([`crate::reason`]).
    pub file: unsafe extern "C" fn(
        len: usize,
        descriptor: *mut c_int,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
}

/// The table in this process.
pub fn find() -> TableLookup<ScratchTable> {
    // SAFETY: that is how the checkpoint library declares it, which is never unloaded.
    unsafe { crate::find(NAME, INTERFACE) }
}
