//! The log of messages of `libveloc-mpi.so`, if the process has that: it goes with every checkpoint of
//! what is protected for any name, as regions of its own, and comes back with a restart. The two
//! libraries are not linked with each other; this one finds the other by a name.

use std::ffi::c_int;

use message_abi::log::{self, Bytes, Log, ProtectedRange, WrittenLog, CHUNKS};
use message_abi::{reason, TableLookup};

use super::regions::{Group, Protected};
use catalog::{Part, MESSAGES};
use engine::place::Place;
use errors::{Error, Result};

/// The message log of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageLog(&'static Log);

/// The message log as bytes, until the other library is told to forget them.
#[derive(Debug)]
pub(crate) struct Packed(WrittenLog, MessageLog);

impl Packed {
    /// The bytes of the log, without its chunks.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the other library has said that so many bytes are there until it is told to forget
        // them, and they are not null (see `write`).
        unsafe { std::slice::from_raw_parts(self.0.bytes.cast(), self.0.len) }
    }

    /// How many chunks the log has beside these bytes, each as a region of its own.
    pub(crate) fn chunks(&self) -> usize {
        self.0.chunks
    }

    /// Where a chunk is.
    pub(crate) fn chunk(&self, nth: usize) -> Result<Place> {
        let mut found = Bytes::nowhere();
        told(|reason, room| {
            // SAFETY: what `write` gave; the other places are the function's meanwhile.
            unsafe { (self.1 .0.chunk)(self.0.buffer, nth, &mut found, reason, room) }
        })?;
        Ok(Place::plain(chunk_id(nth), found.bytes.cast(), found.len))
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        // SAFETY: what `write` gave, once.
        unsafe { (self.1 .0.forget)(self.0.buffer) };
    }
}

/// The id of the region that has a chunk of the log.
fn chunk_id(nth: usize) -> i32 {
    // The other library has no more chunks.
    MESSAGES + 1 + nth.min(CHUNKS) as i32
}

/// Whether this is the id of a chunk of the log.
pub(crate) fn is_chunk(id: i32) -> bool {
    id > MESSAGES && id <= MESSAGES + CHUNKS as i32
}

/// Calls a function of the other library, which gives a reason if it fails.
fn told(call: impl FnOnce(*mut std::ffi::c_char, usize) -> c_int) -> Result<()> {
    reason::told(call).map_err(Error::invalid)
}

impl MessageLog {
    /// Finds the message log of this process, if it has one.
    pub(crate) fn find() -> Option<MessageLog> {
        match log::find() {
            TableLookup::Nothing => None,
            TableLookup::Other => {
                ::log::warn!(
                    "libveloc-mpi.so is of another version than this library: the log of messages is \
                     not in checkpoints"
                );
                None
            }
            TableLookup::Table(table) => Some(MessageLog(table)),
        }
    }

    /// The log, for a checkpoint of these regions; nothing if no message was ever logged.
    pub(crate) fn write(self, regions: &Group) -> Result<Option<Packed>> {
        let ranges = ranges(regions);
        let mut written = WrittenLog::nothing();
        told(|reason, room| {
            let (ranges, count) = (ranges.as_ptr(), ranges.len());
            // SAFETY: as many ranges as said; the other places are the function's meanwhile.
            unsafe { (self.0.write)(ranges, count, &mut written, reason, room) }
        })?;
        let is_there = !written.bytes.is_null();
        let packed = Packed(written, self);
        Ok(is_there.then_some(packed))
    }

    /// Begins to read a log from these bytes. Returns how many chunks are wanted: all or none.
    pub(crate) fn begin(self, bytes: &[u8]) -> Result<usize> {
        let mut chunks = 0;
        told(|reason, room| {
            let at = bytes.as_ptr().cast();
            // SAFETY: as many bytes as said; the other places are the function's meanwhile.
            unsafe { (self.0.begin)(at, bytes.len(), &mut chunks, reason, room) }
        })?;
        Ok(chunks)
    }

    /// Where the next chunk goes, which is the region `id` and has `len` bytes.
    pub(crate) fn place(self, id: i32, len: u64) -> Result<Place> {
        let mut into = std::ptr::null_mut();
        told(|reason, room| {
            // SAFETY: the places are the function's meanwhile.
            unsafe { (self.0.place)(len as usize, &mut into, reason, room) }
        })?;
        Ok(Place::plain(id, into.cast(), len as usize))
    }

    /// Restores the log from these bytes and the chunks that were placed, for memory as it is
    /// protected now, if there is no log yet.
    pub(crate) fn read(self, bytes: &[u8], regions: &Group) -> Result<()> {
        let ranges = ranges(regions);
        told(|reason, room| {
            let at = bytes.as_ptr().cast();
            // SAFETY: as many bytes and ranges as said; the reason is the function's meanwhile.
            unsafe {
                let (ranges, count) = (ranges.as_ptr(), ranges.len());
                (self.0.read)(at, bytes.len(), ranges, count, reason, room)
            }
        })
    }
}

/// Refuses the ids of a log.
pub(super) fn check_id(id: i32) -> Result<()> {
    if id != MESSAGES && !is_chunk(id) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "region {id}: the library uses the ids {MESSAGES} to {} itself, for the log of messages (libveloc-mpi.so); \
         take another",
        MESSAGES + CHUNKS as i32
    )))
}

/// The ranges of host memory among regions.
fn ranges(regions: &Group) -> Vec<ProtectedRange> {
    let range = |(id, region): (i32, &Protected)| match region {
        Protected::Memory(memory) if memory.part == Part::Host => {
            Some(ProtectedRange { id, address: memory.address, len: memory.len })
        }
        _ => None,
    };
    regions.iter().filter_map(range).collect()
}
