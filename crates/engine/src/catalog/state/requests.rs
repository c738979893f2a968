//! What the catalog is asked for and what it answers: plain data.

use std::sync::Arc;

use crate::catalog::entry::{Id, Region, Tier};
use levels::files::Place;
use levels::space::Extent;
use os::error::Error;
use policy::order::RestoreOrder;

/// The tiers that a job has, and how it uses them.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Bytes the device cache will have when it is wholly mapped; 0: there is none.
    pub device: u64,
    /// Bytes of the host buffer; 0: there is none.
    pub host: u64,
    /// There is a scratch directory.
    pub scratch: bool,
    /// There is a persistent directory.
    pub persistent: bool,
    /// Files are written only if memory overflows.
    pub ephemeral: bool,
    /// In which order checkpoints will be read back.
    pub order: RestoreOrder,
    /// Allocation unit of the device cache in bytes.
    pub device_granule: u64,
    /// Allocation unit of the host buffer in bytes.
    pub host_granule: u64,
}

/// Why a reservation has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// For the device cache to be mapped further.
    Map,
    /// For a flush, so that the device cache can evict.
    DeviceRoom,
    /// For a write, so that the host buffer can evict.
    HostRoom,
}

/// The answer to a reservation.
#[derive(Debug)]
pub enum Reserve {
    /// Room was taken: where the run starts in its part, and where it lies in the tier.
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
    /// To a memory tier.
    Memory(Tier),
    /// Straight to a file: it is larger than the memory tiers.
    File,
}

/// Bytes in a memory tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The tier.
    pub tier: Tier,
    /// Where in it.
    pub extents: Arc<[Extent]>,
}

/// A copy between the device cache and the host buffer.
#[derive(Clone, Debug)]
pub struct MoveJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// Bytes to copy.
    pub len: u64,
    /// Where in the device cache.
    pub device: Arc<[Extent]>,
    /// Where in the host buffer.
    pub host: Arc<[Extent]>,
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

/// How a copy between the device cache and the host buffer ended.
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
pub struct FileJob {
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
pub struct PersistJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// The path that was routed, for a file-based checkpoint.
    pub routed: Option<Arc<str>>,
    /// Where it goes in an aggregated file, if it goes there.
    pub place: Option<Place>,
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
    /// Copies that left the device cache to make room.
    pub device_evictions: u64,
    /// Copies that left the host buffer to make room.
    pub host_evictions: u64,
    /// Consumed checkpoints of an ephemeral job that were given up to make room.
    pub discards: u64,
    /// Checkpoints of an ephemeral job that overflowed to a file.
    pub spills: u64,
    /// Parts fetched to the device cache ahead of their restore.
    pub fetches: u64,
    /// Restored device parts that were in the device cache when asked for.
    pub device_hits: u64,
    /// Restored device parts that were not.
    pub device_misses: u64,
}

/// Which workers have something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Flushes.
    pub flush: bool,
    /// Writes to scratch.
    pub write: bool,
    /// Copies to persistent.
    pub persist: bool,
    /// Fetches to the device cache.
    pub fetch: bool,
    /// Reads of files.
    pub read: bool,
    /// Bytes of what the application has lent.
    pub arrive: bool,
}
