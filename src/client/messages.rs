//! The log of messages of `libveloc-mpi.so`, if the process has that: it goes with every checkpoint of
//! what is protected for any name, as regions of its own, and comes back with a restart. The two
//! libraries are not linked with each other; this one finds the other by a name.

use std::ffi::{c_char, c_int, c_void};

use super::regions::{Group, Protected};
use super::{Client, Selection};
use crate::catalog::entry::{Part, MESSAGES};
use crate::engine::place::Place;
use crate::error::{Error, Result};

/// The function by which the other library gives its table.
const NAME: &std::ffi::CStr = c"VELOC_Part_log";

/// The version of the interface between the two.
const INTERFACE: c_int = 2;

/// The most chunks of a log that are regions of a checkpoint, as the other library has it, too.
const CHUNKS: usize = 1 << 20;

/// Bytes for the reason of a failure, the final NUL included.
const REASON: usize = 1024;

/// A range of host memory that is protected: an address of another process is found again by its
/// region and the place in it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Range {
    id: i32,
    address: u64,
    len: u64,
}

/// What the log was written as.
#[repr(C)]
#[derive(Debug)]
struct Buffer {
    buffer: *mut c_void,
    bytes: *const c_void,
    len: usize,
    chunks: usize,
}

/// Bytes of the other library's, if they are in memory.
#[repr(C)]
#[derive(Debug)]
struct Found {
    bytes: *const c_void,
    len: usize,
}

/// The functions of the other library.
#[repr(C)]
#[derive(Debug)]
struct Table {
    write: unsafe extern "C" fn(
        ranges: *const Range,
        count: usize,
        written: *mut Buffer,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    forget: unsafe extern "C" fn(buffer: *mut c_void),
    chunk: unsafe extern "C" fn(
        buffer: *mut c_void,
        nth: usize,
        reads: c_int,
        at: *mut Found,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    begin: unsafe extern "C" fn(
        bytes: *const c_void,
        len: usize,
        chunks: *mut usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    place: unsafe extern "C" fn(
        len: usize,
        into: *mut *mut c_void,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    read: unsafe extern "C" fn(
        bytes: *const c_void,
        len: usize,
        ranges: *const Range,
        count: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    leave: extern "C" fn(),
}

/// The log of this process.
#[derive(Clone, Copy, Debug)]
pub struct MessageLog(&'static Table);

/// What it was written as, until that is forgotten.
#[derive(Debug)]
pub struct Packed(Buffer, MessageLog);

impl Packed {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the other library has said that so many bytes are there until it is told to forget
        // them, and they are not null (see `write`).
        unsafe { std::slice::from_raw_parts(self.0.bytes.cast(), self.0.len) }
    }

    /// How many chunks go beside them, each as a region of its own.
    pub fn chunks(&self) -> usize {
        self.0.chunks
    }

    /// Where a chunk is, if it is in memory.
    pub fn here(&self, nth: usize) -> Result<Option<Place>> {
        let found = self.find(nth, 0)?;
        Ok((!found.bytes.is_null()).then(|| place_of(nth, &found)))
    }

    /// Where a chunk is until another one is asked for.
    pub fn read(&self, nth: usize) -> Result<Place> {
        self.find(nth, 1).map(|found| place_of(nth, &found))
    }

    fn find(&self, nth: usize, reads: c_int) -> Result<Found> {
        let mut found = Found { bytes: std::ptr::null(), len: 0 };
        told(|reason| {
            // SAFETY: what `write` gave; the other places are the function's meanwhile.
            unsafe { (self.1 .0.chunk)(self.0.buffer, nth, reads, &mut found, reason, REASON) }
        })?;
        Ok(found)
    }
}

fn place_of(nth: usize, found: &Found) -> Place {
    Place::plain(chunk_id(nth), found.bytes.cast(), found.len)
}

impl Drop for Packed {
    fn drop(&mut self) {
        // SAFETY: what `write` gave, once.
        unsafe { (self.1 .0.forget)(self.0.buffer) };
    }
}

/// The id of the region that has a chunk of the log.
fn chunk_id(nth: usize) -> i32 {
    // The other library has no more of them.
    MESSAGES + 1 + nth.min(CHUNKS) as i32
}

/// Whether this is the id of a chunk of the log.
pub fn is_chunk(id: i32) -> bool {
    id > MESSAGES && id <= MESSAGES + CHUNKS as i32
}

/// Calls a function of the other library, which gives a reason if it fails.
fn told(call: impl FnOnce(*mut c_char) -> c_int) -> Result<()> {
    let mut reason = [0; REASON];
    match call(reason.as_mut_ptr()) {
        0 => Ok(()),
        _ => Err(said(&reason)),
    }
}

impl MessageLog {
    /// That of this process, if it has one.
    pub fn find() -> Option<MessageLog> {
        // SAFETY: the name ends with its only null byte.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: the function of that name is declared like this in the other library.
        let function: extern "C" fn(c_int) -> *const Table = unsafe { std::mem::transmute(found) };
        let table = function(INTERFACE);
        if table.is_null() {
            log::warn!(
                "libveloc-mpi.so is of another version than this library: the log of messages is not \
                 in checkpoints"
            );
        }
        // SAFETY: null or a table that stays: that library is never unloaded.
        unsafe { table.as_ref() }.map(MessageLog)
    }

    /// The job ends: has the log take back what it has given to the engine ([`super::message_chunks`]).
    pub fn leave(self) {
        (self.0.leave)();
    }

    /// The log, for a checkpoint of these regions; nothing if no message was ever logged.
    pub fn write(self, regions: &Group) -> Result<Option<Packed>> {
        let ranges = ranges(regions);
        let mut written =
            Buffer { buffer: std::ptr::null_mut(), bytes: std::ptr::null(), len: 0, chunks: 0 };
        told(|reason| {
            let (ranges, count) = (ranges.as_ptr(), ranges.len());
            // SAFETY: as many ranges as said; the other places are the function's meanwhile.
            unsafe { (self.0.write)(ranges, count, &mut written, reason, REASON) }
        })?;
        let is_there = !written.bytes.is_null();
        let packed = Packed(written, self);
        Ok(is_there.then_some(packed))
    }

    /// Begins to read these bytes. How many of the chunks beside them are wanted: all or none.
    pub fn begin(self, bytes: &[u8]) -> Result<usize> {
        let mut chunks = 0;
        told(|reason| {
            let at = bytes.as_ptr().cast();
            // SAFETY: as many bytes as said; the other places are the function's meanwhile.
            unsafe { (self.0.begin)(at, bytes.len(), &mut chunks, reason, REASON) }
        })?;
        Ok(chunks)
    }

    /// Where the next chunk goes, which is the region of this id and has so many bytes.
    pub fn place(self, id: i32, len: u64) -> Result<Place> {
        let mut into = std::ptr::null_mut();
        told(|reason| {
            // SAFETY: the places are the function's meanwhile.
            unsafe { (self.0.place)(len as usize, &mut into, reason, REASON) }
        })?;
        Ok(Place::plain(id, into.cast(), len as usize))
    }

    /// Has the log go on from these bytes and the chunks that were placed, if there is none yet, for
    /// memory as it is protected now.
    pub fn read(self, bytes: &[u8], regions: &Group) -> Result<()> {
        let ranges = ranges(regions);
        told(|reason| {
            let at = bytes.as_ptr().cast();
            // SAFETY: as many bytes and ranges as said; the reason is the function's meanwhile.
            unsafe {
                let (ranges, count) = (ranges.as_ptr(), ranges.len());
                (self.0.read)(at, bytes.len(), ranges, count, reason, REASON)
            }
        })
    }
}

impl Client {
    /// The log, if it belongs to the regions that a call selects in checkpoints of this name: it goes
    /// with what is protected for any name.
    pub(super) fn messages_of(&self, name: &str, selection: &Selection) -> Option<MessageLog> {
        let is_of_all = !self.regions.has_own(name);
        self.messages.filter(|_| selection.has(MESSAGES) && is_of_all)
    }
}

/// The ranges of host memory among regions.
fn ranges(regions: &Group) -> Vec<Range> {
    let range = |(id, region): (i32, &Protected)| match region {
        Protected::Memory(memory) if memory.part == Part::Host => {
            Some(Range { id, address: memory.address, len: memory.len })
        }
        _ => None,
    };
    regions.iter().filter_map(range).collect()
}

/// A text of the other library's.
fn said(reason: &[c_char; REASON]) -> Error {
    let bytes: Vec<u8> = reason.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Error::invalid(String::from_utf8_lossy(&bytes))
}
