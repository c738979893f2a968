//! What `libveloc-mpi.so` needs to give the log of messages to the engine, and to take it back. Not in
//! the header: that library is the only caller, and looks for the table by its name. Its functions
//! may be called from any thread, at any time.

use std::ffi::{c_char, c_int, c_void};

use message_abi::reason;
use message_abi::store::{Store, INTERFACE};

use super::boundary::guarded;
use crate::client::message_chunks;
use crate::error::Result;

static STORE: Store = Store { is_there, take, give, leave, forget };

/// The functions, or null for another version of the interface.
#[allow(non_snake_case)] // C's name.
#[no_mangle]
pub extern "C" fn VELOC_Message_store(interface: c_int) -> *const Store {
    message_abi::give(&STORE, interface, INTERFACE)
}

extern "C" fn is_there() -> c_int {
    let there = guarded("the log of messages", || Ok(message_chunks::is_there()));
    there.map_or(0, c_int::from)
}

/// # Safety
/// `len` bytes that do not change meanwhile, and `room` bytes for a reason.
unsafe extern "C" fn take(
    number: c_int,
    bytes: *const c_void,
    len: usize,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast(), len) };
    // SAFETY: as above.
    unsafe { said(reason, room, || message_chunks::take(number, bytes)) }
}

/// # Safety
/// `len` bytes that are the function's meanwhile, and `room` bytes for a reason.
unsafe extern "C" fn give(
    number: c_int,
    into: *mut c_void,
    len: usize,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: by the caller's promise.
    let into = unsafe { std::slice::from_raw_parts_mut(into.cast(), len) };
    // SAFETY: as above.
    unsafe { said(reason, room, || message_chunks::give(number, into)) }
}

/// # Safety
/// `room` bytes for a reason.
unsafe extern "C" fn leave(number: c_int, reason: *mut c_char, room: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { said(reason, room, || message_chunks::leave(number)) }
}

/// # Safety
/// `room` bytes for a reason.
unsafe extern "C" fn forget(number: c_int, reason: *mut c_char, room: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { said(reason, room, || message_chunks::forget(number)) }
}

/// Does something, and gives the reason if that fails.
///
/// # Safety
/// There is room for so many bytes.
unsafe fn said(reason: *mut c_char, room: usize, body: impl FnOnce() -> Result<()>) -> c_int {
    let mut failed = None;
    // The caller reports it, if at all: the log goes on without the engine.
    let done = guarded("the log of messages", || {
        failed = body().err().map(|error| error.to_string());
        Ok(())
    });
    let why = match done {
        Ok(()) => failed.as_deref(),
        Err(_) => Some("the checkpoint library has failed"),
    };
    // SAFETY: by the caller's promise.
    unsafe { reason::say(why.map_or(Ok(()), Err), reason, room) }
}
