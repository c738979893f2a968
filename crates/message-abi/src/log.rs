//! The message log as an object in checkpoints: the checkpoint library writes it with each checkpoint
//! and reads it at a restart.

use std::ffi::{c_char, c_int, c_void, CStr};

use crate::TableLookup;

/// The function of `libveloc-mpi.so` that returns the table.
pub const NAME: &CStr = c"VELOC_Part_log";

/// The version of [`Log`] and of the behaviour of its functions.
pub const INTERFACE: c_int = 3;

/// The most chunks that are stored as regions of a checkpoint.
pub const CHUNKS: usize = 1 << 20;

/// A protected range of host memory: an address of another process is translated by its region and
/// offset.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedRange {
    /// The region's id.
    pub id: i32,
    /// Its first byte.
    pub address: u64,
    /// Its bytes.
    pub len: u64,
}

/// The serialized log.
#[repr(C)]
#[derive(Debug)]
pub struct WrittenLog {
    /// The argument for [`Log::forget`].
    pub buffer: *mut c_void,
    /// The bytes; null: there is nothing to write.
    pub bytes: *const c_void,
    /// Their number.
    pub len: usize,
    /// How many chunks are stored beside them, each as a region.
    pub chunks: usize,
}

impl WrittenLog {
    /// Nothing.
    pub const fn nothing() -> WrittenLog {
        WrittenLog { buffer: std::ptr::null_mut(), bytes: std::ptr::null(), len: 0, chunks: 0 }
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

/// The functions. All but two return 0 or -1, then with a reason in `room` bytes ([`crate::reason`]).
#[repr(C)]
#[derive(Debug)]
pub struct Log {
    /// Serializes the log for a checkpoint with these regions.
    pub write: unsafe extern "C" fn(
        regions: *const ProtectedRange,
        count: usize,
        written: *mut WrittenLog,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Releases what was serialized: it is in the checkpoint.
    pub forget: unsafe extern "C" fn(buffer: *mut c_void),
    /// Where a chunk beside the bytes is; valid until everything is released.
    pub chunk: unsafe extern "C" fn(
        buffer: *mut c_void,
        nth: usize,
        at: *mut Bytes,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Starts reading: returns how many chunks are wanted, all or none.
    pub begin: unsafe extern "C" fn(
        bytes: *const c_void,
        len: usize,
        chunks: *mut usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Where to put the next chunk, which has this many bytes.
    pub place: unsafe extern "C" fn(
        len: usize,
        into: *mut *mut c_void,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Reads the log from the bytes and the chunks, with the memory that is protected now.
    pub read: unsafe extern "C" fn(
        bytes: *const c_void,
        len: usize,
        regions: *const ProtectedRange,
        count: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
}

/// The table in this process.
pub fn find() -> TableLookup<Log> {
    // SAFETY: that is how `libveloc-mpi.so` declares it, which is never unloaded.
    unsafe { crate::find(NAME, INTERFACE) }
}
