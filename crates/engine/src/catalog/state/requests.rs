//! What the catalog is asked for and what it answers: plain data.

use std::sync::Arc;

use crate::catalog::entry::{Id, Level, Part, Region, MOST};
use levels::files::AggregatePart;
use levels::level::LevelSpec;
use levels::space::Extent;
use os::error::Error;
use policy::order::RestoreOrder;

/// The levels that a job has, and how it uses them.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The levels of memory, the fastest first. One of them is the staging level. A level of 0 bytes is as
    /// good as none.
    pub memory: Vec<LevelSpec>,
    /// There is a scratch directory.
    pub scratch: bool,
    /// There is a persistent directory.
    pub persistent: bool,
    /// Files are written only if memory overflows.
    pub ephemeral: bool,
    /// In which order checkpoints will be read back.
    pub order: RestoreOrder,
}

/// A worker that takes work from the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// Copies from a level to the one below.
    Flush(Level),
    /// Copies to a level from the one below.
    Fetch(Level),
    /// Writes scratch files.
    Write,
    /// Makes persistent copies.
    Persist,
    /// Reads files into the staging level.
    Read,
    /// Copies what the application has lent to the staging level.
    Arrive,
}

/// Why a reservation has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// For a level that grows to have more bytes.
    Growth,
    /// For a flush or a write, so that a level can evict.
    Room(Level),
}

/// The answer to a reservation.
#[derive(Debug)]
pub enum Reserve {
    /// Room was taken: where the run starts in its part, and where it lies in the level.
    Got {
        /// Offset within the part.
        base: u64,
        /// The room.
        extents: Vec<Extent>,
    },
    /// Room will come.
    Wait(WaitFor),
    /// Room cannot come.
    Never(Error),
}

/// Where a capture's bytes are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a level of memory.
    Memory(Level),
    /// Straight to a file: it is larger than the levels of memory.
    File,
}

/// Bytes in a level of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The level.
    pub level: Level,
    /// Where in it.
    pub extents: Arc<[Extent]>,
}

/// A copy of one part from one level of memory to another.
#[derive(Clone, Debug)]
pub struct MoveJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// The part.
    pub part: Part,
    /// Bytes to copy.
    pub len: u64,
    /// Where from.
    pub from: Source,
    /// Where to.
    pub to: Source,
}

/// A checkpoint whose bytes are to be brought from memory that the application has lent.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
}

/// How a copy between two levels of memory ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveEnd {
    /// All bytes are there.
    Done,
    /// It failed, and no byte is moving any more.
    Failed(Error),
    /// It failed, and cannot be waited for: the room it was to fill is never given to others.
    Stranded(Error),
}

/// A checkpoint to be written to its scratch file, or read from a file.
#[derive(Clone, Debug)]
pub(crate) struct FileJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// Its regions, ascending by id.
    pub regions: Arc<[Region]>,
    /// The memory of each part, indexed by [`Part`](crate::catalog::entry::Part); `None` where the part is empty.
    pub memory: [Option<Source>; 2],
}

/// A scratch file to be copied to the persistent directory, or a checkpoint that scratch could not
/// take to be written there.
#[derive(Clone, Debug)]
pub(crate) struct PersistJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// The path that was routed, for a file-based checkpoint.
    pub routed: Option<Arc<str>>,
    /// Where it goes in an aggregated file, if it goes there.
    pub place: Option<AggregatePart>,
    /// Its bytes in memory, if it has no scratch file.
    pub straight: Option<FileJob>,
}

/// What a finished file transfer must still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Keep,
    /// Remove the scratch file: the checkpoint was cleaned up meanwhile.
    Unlink,
    /// Say that the checkpoint goes to persistent without a scratch file.
    Say,
}

/// Where a part can be read from.
#[derive(Clone, Debug)]
pub enum Acquire {
    /// From memory. Give it back by [`State::release`](super::State::release).
    Memory(Source),
    /// A fetch of it is under way.
    Wait,
    /// From its file.
    File,
    /// Nowhere: an invariant was broken.
    Lost,
}

/// Events counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Checkpoints restored.
    pub restores: u64,
    /// Copies that left a level of memory to make room, by level.
    pub evictions: [u64; MOST],
    /// Consumed checkpoints of an ephemeral job that were given up to make room.
    pub discards: u64,
    /// Checkpoints of an ephemeral job that overflowed to a file.
    pub spills: u64,
    /// Parts fetched to a level from the one below ahead of their restore.
    pub fetches: u64,
    /// Restored parts of device memory that were in the first level when asked for.
    pub device_hits: u64,
    /// Those that were not.
    pub device_misses: u64,
}
