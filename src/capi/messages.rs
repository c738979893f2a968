//! Functions for `libveloc-mpi.so`. Not in the header: that library is the only caller, and looks
//! for the table by its name.

use std::ffi::{c_char, c_int};
use std::os::fd::IntoRawFd;

use message_abi::reason;
use message_abi::scratch::{ScratchTable, INTERFACE};

use super::boundary::guarded;
use client::message_files;

static SCRATCH: ScratchTable = ScratchTable { file };

/// The functions, or null for another version of the interface.
#[allow(non_snake_case)] // C's name.
#[no_mangle]
pub extern "C" fn VELOC_Message_scratch(interface: c_int) -> *const ScratchTable {
    message_abi::give(&SCRATCH, interface, INTERFACE)
}

/// # Safety
/// A number of the caller's, and `room` bytes for a reason.
unsafe extern "C" fn file(
    len: usize,
    descriptor: *mut c_int,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    // The caller reports what fails, if at all: the log goes on in memory.
    let made = guarded("the log of messages", || Ok(message_files::make(len)));
    let made = made.unwrap_or_else(Err).map(IntoRawFd::into_raw_fd);
    // SAFETY: by the caller's promise.
    let made = made.map(|made| unsafe { descriptor.write(made) });
    let failed = made.err().map(|error| error.to_string());
    // SAFETY: by the caller's promise.
    unsafe { reason::say(failed.as_deref().map_or(Ok(()), Err), reason, room) }
}
