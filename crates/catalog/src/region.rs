//! The contents of a checkpoint: its regions, and the parts that its bytes travel in.

use format::header::Size;
use serde::{Deserialize, Serialize};

/// Names one capture. Larger is younger: the order of eviction and of flushes.
pub type Id = u64;

/// Bytes of one checkpoint that travel together, by the kind of memory they were captured from.
///
/// Device memory is captured into the device cache and flushed to the host buffer; host memory is
/// captured into the host buffer directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
    /// Captured from device or managed memory.
    Device = 0,
    /// Captured from host memory.
    Host = 1,
}

/// Both parts, for loops.
pub const PARTS: [Part; 2] = [Part::Device, Part::Host];

/// The id of the region with the log of messages (`libveloc-mpi.so`), in checkpoints of processes
/// that log some. Never an application's id.
pub const MESSAGES: i32 = i32::MIN + 1;

/// One protected region as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// The id of `VELOC_Mem_protect`.
    pub id: i32,
    /// Its bytes.
    pub size: u64,
    /// The part its bytes are in.
    pub part: Part,
    /// Where its bytes start in that part.
    pub offset: u64,
    /// Its bytes when it is decoded; `None`: it is not encoded.
    pub decoded: Option<u64>,
}

impl Region {
    /// Its bytes, stored and decoded.
    pub fn stored(&self) -> Size {
        Size { stored: self.size, decoded: self.decoded }
    }

    /// The bytes that memory for it has.
    pub fn len_in_memory(&self) -> u64 {
        self.decoded.unwrap_or(self.size)
    }
}
