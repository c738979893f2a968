//! The log of messages as an object of checkpoints, which the checkpoint library writes with each and
//! reads with a restart.

use std::ffi::{c_char, c_int, c_void, CStr};

use crate::Found;

/// The function of `libveloc-mpi.so` that gives the table.
pub const NAME: &CStr = c"VELOC_Part_log";

/// The version of [`Log`] and of what its functions do.
pub const INTERFACE: c_int = 3;

/// The most chunks that go as regions of a checkpoint.
pub const CHUNKS: usize = 1 << 20;

/// A range of host memory that the application protects: an address of another process is found again
/// by its region and the place in it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The region's id.
    pub id: i32,
    /// Its first byte.
    pub address: u64,
    /// Its bytes.
    pub len: u64,
}

/// What the log was written as.
#[repr(C)]
#[derive(Debug)]
pub struct Written {
    /// What is to be given to [`Log::forget`].
    pub buffer: *mut c_void,
    /// The bytes; null: there is nothing to be written.
    pub bytes: *const c_void,
    /// Their number.
    pub len: usize,
    /// How many chunks go beside them, each as a region of its own.
    pub chunks: usize,
}

impl Written {
    /// Nothing.
    pub const fn nothing() -> Written {
        Written { buffer: std::ptr::null_mut(), bytes: std::ptr::null(), len: 0, chunks: 0 }
    }
}

/// Bytes of the log.
#[repr(C)]
#[derive(Debug)]
pub struct Bytes {
    /// The first.
    pub bytes: *const c_void,
    /// Their number.
    pub len: usize,
}

impl Bytes {
    /// None.
    pub const fn nowhere() -> Bytes {
        Bytes { bytes: std::ptr::null(), len: 0 }
    }
}

/// The functions. Each but two gives 0 or -1, then with a reason in `room` bytes ([`crate::reason`]).
#[repr(C)]
#[derive(Debug)]
pub struct Log {
    /// Writes the log for a checkpoint of so many regions.
    pub write: unsafe extern "C" fn(
        regions: *const Range,
        count: usize,
        written: *mut Written,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// What was written is in the checkpoint.
    pub forget: unsafe extern "C" fn(buffer: *mut c_void),
    /// Where a chunk is that goes beside the bytes. It stays there until all is forgotten.
    pub chunk: unsafe extern "C" fn(
        buffer: *mut c_void,
        nth: usize,
        at: *mut Bytes,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Begins to read: how many chunks are wanted, which is all or none.
    pub begin: unsafe extern "C" fn(
        bytes: *const c_void,
        len: usize,
        chunks: *mut usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Where the next chunk, which has so many bytes, is to be put.
    pub place: unsafe extern "C" fn(
        len: usize,
        into: *mut *mut c_void,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Takes the log from the bytes and from the chunks that were placed, for memory as it is
    /// protected now.
    pub read: unsafe extern "C" fn(
        bytes: *const c_void,
        len: usize,
        regions: *const Range,
        count: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
}

/// The table of this process.
pub fn find() -> Found<Log> {
    // SAFETY: that is how `libveloc-mpi.so` declares it, which is never unloaded.
    unsafe { crate::find(NAME, INTERFACE) }
}
