//! The requests to the catalog and its answers, as plain data.

use std::sync::Arc;

use crate::level::LevelSpec;
use crate::space::Extent;
use crate::{Id, Level, Part, Region, MOST};
use errors::Error;
use format::aggregate::AggregatePart;
use format::identity::Identity;
use policy::order::RestoreOrder;

/// The levels of a job, and how it uses them.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The levels of memory, the fastest first. One of them is the staging level. A level of 0 bytes is
    /// unused.
    pub memory: Vec<LevelSpec>,
    /// Whether there is a scratch directory.
    pub scratch: bool,
    /// Whether there is a persistent directory.
    pub persistent: bool,
    /// Whether files are written only if memory overflows.
    pub ephemeral: bool,
    /// The order in which checkpoints will be read.
    pub order: RestoreOrder,
    /// Whether persistent files are written from memory where it has the bytes, and from how many bytes on at
    /// the same time as the scratch file. `None`: they are copies of scratch files.
    pub beside: Option<u64>,
}

impl Shape {
    /// Whether consumed checkpoints may be lost: the job is ephemeral and has no files.
    pub(super) fn may_discard(&self) -> bool {
        self.ephemeral && !self.scratch
    }
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
    /// Copies deferred captures to the staging level.
    Arrive,
    /// Gives more memory to levels that grow when captures would wait.
    Grow,
}

/// The event that a reservation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// For a growing level to have more bytes.
    Growth,
    /// For a flush or a write, so that a level can evict.
    Room(Level),
}

/// The answer to a reservation.
#[derive(Debug)]
pub enum Reserve {
    /// Room was allocated.
    Got {
        /// The run's offset within the part.
        base: u64,
        /// The run's room in the level.
        extents: Vec<Extent>,
    },
    /// Room will become free.
    Wait(WaitFor),
    /// Room cannot become free.
    Never(Error),
}

/// The destination of a capture's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A level of memory.
    Memory(Level),
    /// A file directly: the checkpoint is larger than the levels of memory.
    File,
}

/// Bytes in a level of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The level.
    pub level: Level,
    /// The bytes' room there.
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
    /// The number of bytes to copy.
    pub len: u64,
    /// The source.
    pub from: Source,
    /// The destination.
    pub to: Source,
    /// The destination's name in messages.
    pub to_name: &'static str,
}

/// A deferred capture to copy from the application's memory.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
}

/// The result of a copy between two levels of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveEnd {
    /// All bytes have arrived.
    Done,
    /// The copy failed, and nothing is being copied any more.
    Failed(Error),
    /// The copy failed, and cannot be waited for: its room is never reused.
    Stranded(Error),
}

/// What became of bytes that a store has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreResult {
    /// It has them all, in the first so many bytes of their room.
    In(u64),
    /// There was no room: so many bytes are needed.
    Full(u64),
}

/// A checkpoint to be written to its scratch file, or read from a file.
#[derive(Clone, Debug)]
pub struct FileJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// The run that made it.
    pub identity: Identity,
    /// Its regions, ascending by id.
    pub regions: Arc<[Region]>,
    /// The memory of each part, indexed by [`Part`](crate::Part); `None` where the part is empty.
    pub memory: [Option<Source>; 2],
}

/// A checkpoint that is to have a file in the persistent directory.
#[derive(Clone, Debug)]
pub struct PersistJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// The run that made it.
    pub identity: Identity,
    /// The routed path of a file-based checkpoint.
    pub routed: Option<Arc<str>>,
    /// Its part of an aggregated file, if it belongs to one.
    pub place: Option<AggregatePart>,
    /// Its bytes in memory, if its file is written from there. Otherwise it is a copy of the scratch file.
    pub straight: Option<FileJob>,
}

/// The work that remains after a file transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Keep,
    /// Remove the scratch file: the checkpoint was cleaned up in the meantime.
    Unlink,
    /// Warn that the checkpoint goes to persistent without a scratch file.
    Warn,
}

/// Where a part can be read from.
#[derive(Clone, Debug)]
pub enum Acquire {
    /// From memory. [`Up::release`](super::Up::release) must follow.
    Memory(Source),
    /// The part is being fetched.
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
    /// Consumed checkpoints of an ephemeral job that were discarded to make room.
    pub discards: u64,
    /// Checkpoints of an ephemeral job that overflowed to a file.
    pub spills: u64,
    /// Parts fetched ahead of their restore to a level from the one below.
    pub fetches: u64,
    /// Restored parts of device memory that were in the first level at their restore.
    pub device_hits: u64,
    /// The other restored parts of device memory.
    pub device_misses: u64,
}
