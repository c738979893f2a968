//! The functions by which the checkpoint library accesses the log.

use std::ffi::{c_char, c_int, c_void};

use message_abi::log::{Bytes, Log, ProtectedRange, WrittenLog, INTERFACE};
use message_abi::reason;
use message_log_core::log::ChunkBytes;
use message_log_core::store::bytes::Result;
use message_log_core::store::targets::ProtectedRanges;

use super::{begin_reading, read_log, write_log, Packaged};
use crate::entry;
use crate::refuse;

static LOG: Log = Log {
    write: write_object,
    forget: forget_object,
    chunk: chunk_object,
    begin: begin_object,
    place: place_object,
    read: read_object,
};

/// The log as an object in checkpoints. Not in the header: only the checkpoint library calls it, and
/// finds it by name. Null for another version of the interface.
#[allow(non_snake_case)] // C's name.
#[no_mangle]
pub(super) extern "C" fn VELOC_Part_log(interface: c_int) -> *const Log {
    message_abi::give(&LOG, interface, INTERFACE)
}

/// # Safety
/// `count` regions, room for the result, and `room` bytes for a reason.
unsafe extern "C" fn write_object(
    regions: *const ProtectedRange,
    count: usize,
    written: *mut WrittenLog,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: by the caller's promise.
    let regions = unsafe { all(regions, count) };
    let made = match entry::has_no_parts() {
        true => Ok(None),
        false => {
            entry::with(|state| write_log(state, ProtectedRanges(regions))).and_then(|made| made)
        }
    };
    let (made, code) = match made {
        Ok(None) => (WrittenLog::nothing(), 0),
        Ok(Some(packaged)) => {
            let chunks = packaged.chunks.len();
            let buffer = Box::new(packaged);
            let (bytes, len) = (buffer.bytes.as_ptr().cast(), buffer.bytes.len());
            (WrittenLog { buffer: Box::into_raw(buffer).cast(), bytes, len, chunks }, 0)
        }
        Err(text) => {
            // SAFETY: by the caller's promise.
            (WrittenLog::nothing(), unsafe { status(Err(text), reason, room) })
        }
    };
    // SAFETY: by the caller's promise.
    unsafe { written.write(made) };
    code
}

/// # Safety
/// The result of `write_object`, once.
unsafe extern "C" fn forget_object(buffer: *mut c_void) {
    if !buffer.is_null() {
        // SAFETY: by the caller's promise, `write_object` made it.
        drop(unsafe { Box::from_raw(buffer.cast::<Packaged>()) });
    }
}

/// # Safety
/// The result of `write_object`, with more than `nth` chunks; a range to write, and `room` bytes for a
/// reason.
unsafe extern "C" fn chunk_object(
    buffer: *mut c_void,
    nth: usize,
    at: *mut Bytes,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: by the caller's promise, `write_object` made it.
    let packaged = unsafe { &*buffer.cast::<Packaged>() };
    let found = packaged.chunks.get(nth).map(ChunkBytes::bytes).ok_or_else(|| {
        format!("there are {} chunks of the log, and chunk {nth} is wanted", packaged.chunks.len())
    });
    let found = found.map(|bytes| {
        let found = Bytes { bytes: bytes.as_ptr().cast(), len: bytes.len() };
        // SAFETY: by the caller's promise.
        unsafe { at.write(found) };
    });
    // SAFETY: by the caller's promise.
    unsafe { status(found, reason, room) }
}

/// # Safety
/// `len` bytes, a number to write, and `room` bytes for a reason.
unsafe extern "C" fn begin_object(
    bytes: *const c_void,
    len: usize,
    chunks: *mut usize,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: by the caller's promise.
    let bytes = unsafe { all(bytes.cast::<u8>(), len) };
    let begun = entry::with(|state| begin_reading(state, bytes)).and_then(|begun| begun);
    // SAFETY: by the caller's promise.
    let begun = begun.map(|count| unsafe { chunks.write(count) });
    // SAFETY: as above.
    unsafe { status(begun, reason, room) }
}

/// # Safety
/// An address to write, and `room` bytes for a reason. The previous chunk was read.
unsafe extern "C" fn place_object(
    len: usize,
    into: *mut *mut c_void,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    let placed = entry::with(|state| match &mut state.store.incoming {
        Some(incoming) => incoming.place(len),
        None => Err("no log of messages is being read".into()),
    });
    let placed = placed.and_then(|placed| placed);
    // SAFETY: by the caller's promise.
    let placed = placed.map(|at| unsafe { into.write(at.cast()) });
    // SAFETY: as above.
    unsafe { status(placed, reason, room) }
}

/// # Safety
/// `len` bytes, `count` regions, and `room` bytes for a reason.
unsafe extern "C" fn read_object(
    bytes: *const c_void,
    len: usize,
    regions: *const ProtectedRange,
    count: usize,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: by the caller's promise.
    let (bytes, regions) = unsafe { (all(bytes.cast::<u8>(), len), all(regions, count)) };
    let read =
        entry::with(|state| read_log(state, bytes, ProtectedRanges(regions))).and_then(|read| read);
    // SAFETY: by the caller's promise.
    unsafe { status(read, reason, room) }
}

/// Returns a status, and writes the reason of a failure.
///
/// # Safety
/// There is room for `room` bytes.
unsafe fn status(done: Result<()>, reason: *mut c_char, room: usize) -> c_int {
    let said = match &done {
        Ok(()) => Ok(()),
        Err(text) => {
            refuse::keep(text);
            Err(text.as_str())
        }
    };
    // SAFETY: by the caller's promise.
    unsafe { reason::say(said, reason, room) }
}

/// # Safety
/// `first` points to `count` values, for as long as they are used.
unsafe fn all<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: by the caller's promise.
        count => unsafe { std::slice::from_raw_parts(first, count) },
    }
}

/// Why a checkpoint is taken without the log, if so.
#[cfg(test)]
pub(crate) fn refusal() -> Option<String> {
    let mut written = WrittenLog::nothing();
    let done = reason::told(|text, room| {
        // SAFETY: no regions, and results of ours.
        unsafe { write_object(std::ptr::null(), 0, &mut written, text, room) }
    });
    assert!(written.bytes.is_null());
    done.err()
}
