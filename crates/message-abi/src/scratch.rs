//! Files for what the log of messages has no memory for. The function may be called from any thread, at
//! any time.

use std::ffi::{c_char, c_int, CStr};

use crate::Found;

/// The function of the checkpoint library that gives the table.
pub const NAME: &CStr = c"VELOC_Message_scratch";

/// The version of [`Scratch`] and of what its function does.
pub const INTERFACE: c_int = 1;

/// The table.
#[repr(C)]
#[derive(Debug)]
pub struct Scratch {
    /// Makes a file without a name in the scratch directory of the job, with room for `len` bytes. Gives
    /// 0 and a descriptor that is the caller's, or -1 and a reason in `room` bytes ([`crate::reason`]).
    pub file: unsafe extern "C" fn(
        len: usize,
        descriptor: *mut c_int,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
}

/// The table of this process.
pub fn find() -> Found<Scratch> {
    // SAFETY: that is how the checkpoint library declares it, which is never unloaded.
    unsafe { crate::find(NAME, INTERFACE) }
}
