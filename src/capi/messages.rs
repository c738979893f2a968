//! What `libveloc-mpi.so` needs to give the log of messages to the engine, and to take it back. Not in
//! the header: that library is the only caller, and looks for the table by its name. Its functions
//! may be called from any thread, at any time.

use std::ffi::{c_char, c_int, c_void};

use super::boundary::guarded;
use crate::client::message_chunks;
use crate::error::Result;

/// The version of [`VELOC_Message_keeper`] and of what its functions do.
const INTERFACE: c_int = 1;

/// The functions. Those that return a status give 0 or -1, then with a reason in `room` bytes.
#[repr(C)]
#[derive(Debug)]
pub struct VELOC_Message_keeper {
    /// Whether a job is there that has a place for chunks: 1 or 0.
    is_there: extern "C" fn() -> c_int,
    /// Takes a copy of `len` bytes. Waits for room.
    take: unsafe extern "C" fn(
        number: c_int,
        bytes: *const c_void,
        len: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Copies a chunk of `len` bytes to where it is wanted.
    give: unsafe extern "C" fn(
        number: c_int,
        into: *mut c_void,
        len: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Forgets a chunk.
    forget: unsafe extern "C" fn(number: c_int, reason: *mut c_char, room: usize) -> c_int,
}

static KEEPER: VELOC_Message_keeper = VELOC_Message_keeper { is_there, take, give, forget };

/// The functions, or null for another version of the interface.
#[allow(non_snake_case)] // C's name.
#[no_mangle]
pub extern "C" fn VELOC_Message_store(interface: c_int) -> *const VELOC_Message_keeper {
    match interface {
        INTERFACE => &raw const KEEPER,
        _ => std::ptr::null(),
    }
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
unsafe extern "C" fn forget(number: c_int, reason: *mut c_char, room: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { said(reason, room, || message_chunks::forget(number)) }
}

/// Does something, and gives the reason if that fails.
///
/// # Safety
/// There is room for so many bytes.
unsafe fn said(reason: *mut c_char, room: usize, body: impl FnOnce() -> Result<()>) -> c_int {
    let mut text = String::new();
    // The caller reports it, if at all: the log goes on without the engine.
    let done = guarded("the log of messages", || {
        if let Err(error) = body() {
            text = error.to_string();
        }
        Ok(())
    });
    if done.is_err() {
        text = "the checkpoint library has failed".to_owned();
    }
    if text.is_empty() {
        return super::VELOC_SUCCESS;
    }
    let len = text.len().min(room.saturating_sub(1));
    if room > 0 {
        // SAFETY: by the caller's promise; the text and its NUL fit.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), reason, len);
            reason.add(len).write(0);
        }
    }
    super::VELOC_FAILURE
}
