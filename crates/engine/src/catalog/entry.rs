//! One checkpoint, its parts and the copies of them.

use std::sync::Arc;

use levels::files::Place;
use levels::ledger;
pub use levels::level::{FileTier, Tier};
pub use levels::region::{Id, Part, Region, MESSAGES, PARTS};
use levels::space::Extent;

/// How far a copy has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    #[default]
    Absent,
    /// Its room is taken and bytes are arriving.
    Filling,
    /// Complete.
    Ready,
}

/// A part's copy in a memory tier.
#[derive(Clone, Debug, Default)]
pub struct MemoryCopy {
    /// How far it has come.
    pub stage: Stage,
    /// Where its bytes are, in order.
    pub extents: Arc<[Extent]>,
    /// Transfers that read it right now.
    pub readers: u32,
}

/// The bytes of one part.
#[derive(Clone, Debug, Default)]
pub struct PartState {
    /// How many, the padding between separately captured runs included.
    pub len: u64,
    /// In the device cache.
    pub device: MemoryCopy,
    /// In the host buffer.
    pub host: MemoryCopy,
}

impl PartState {
    /// The copy in `tier`.
    pub fn copy(&self, tier: Tier) -> &MemoryCopy {
        match tier {
            Tier::Device => &self.device,
            Tier::Host => &self.host,
        }
    }

    /// The copy in `tier`.
    pub fn copy_mut(&mut self, tier: Tier) -> &mut MemoryCopy {
        match tier {
            Tier::Device => &mut self.device,
            Tier::Host => &mut self.host,
        }
    }
}

/// A checkpoint's copy in a file tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileCopy {
    /// There is none and none is wanted.
    #[default]
    Absent,
    /// To be written.
    Wanted,
    /// Being written.
    Writing,
    /// Complete and in its place.
    Present,
    /// Could not be written. The bytes stay where they are.
    Failed,
    /// Of scratch: could not be written, so that the checkpoint goes to persistent without it.
    Bypassed,
}

impl FileCopy {
    /// Whether it is still to be made.
    pub fn is_due(self) -> bool {
        matches!(self, FileCopy::Wanted | FileCopy::Writing | FileCopy::Failed)
    }
}

/// Where a checkpoint stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Between `VELOC_Checkpoint_begin` and `_end`: nobody else sees it.
    Building,
    /// Taken: it can be restored.
    Live,
    /// Replaced, cleaned up or given up: it goes as soon as no transfer uses it.
    Dropped,
}

/// From where a writer could read a whole checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readable {
    /// From the host buffer, at its full speed.
    FromHost,
    /// Partly from the device cache: slower, and needed only when flushes are stuck for room.
    FromDevice,
}

/// Membership in the state's work lists; see [`crate::catalog::state::State`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// In the flush list.
    pub flush: bool,
    /// In the write list, and from where it could be written.
    pub write: Option<Readable>,
    /// In the list of those that an ephemeral job may spill to files.
    pub spill: Option<Readable>,
    /// In the persist list.
    pub persist: bool,
    /// Its rank among the victims of the device cache.
    pub device_victim: Option<policy::evict::EvictionClass>,
    /// Its rank among the victims of the host buffer.
    pub host_victim: Option<policy::evict::EvictionClass>,
    /// Could be fetched from the host buffer to the device cache.
    pub to_device: bool,
    /// Could be fetched from a file to the host buffer.
    pub to_host: bool,
    /// A step on its way to its files has failed.
    pub failed: bool,
}

/// One checkpoint.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// Its regions, ascending by id once it is live.
    pub regions: Arc<[Region]>,
    /// The id of its mark ([`format::mark`]), if it has one: then no limit of versions applies to
    /// it, and whoever has taken it says which versions go, also after a crash.
    pub mark: Option<i32>,
    /// Its bytes by kind of memory, indexed by [`Part`].
    pub parts: [PartState; 2],
    /// The file in scratch.
    pub scratch: FileCopy,
    /// The file in persistent.
    pub persistent: FileCopy,
    /// For a file-based checkpoint, the path the application asked to have routed.
    pub routed: Option<Arc<str>>,
    /// It was found on disk: an earlier job has taken it.
    pub found: bool,
    /// Where it goes in an aggregated file, if it goes there.
    pub place: Option<Place>,
    /// It goes to persistent once it is known where, if that is decided: whoever goes on for this process
    /// before that copies it to a file of its own.
    pub awaits_place: bool,
    /// It goes to persistent only because scratch could not take it: other processes have none there.
    pub extra: bool,
    /// The application, which waits for its persistent copy, makes it: no worker does.
    pub claimed: bool,
    /// Where it stands in its life.
    pub life: Life,
    /// Parts with bytes that are still on their way from memory that the application has lent to
    /// the host buffer, indexed by [`Part`].
    pub arriving: [bool; 2],
    /// Transfers under way that name it.
    pub busy: u32,
    /// Restores that are open: its copies stay where they are.
    pub restoring: u32,
    /// A copy that uses it could not be waited for: its room is never given to others.
    pub stranded: bool,
    /// When it was last restored, as a running number.
    pub consumed: Option<u64>,
    /// Positions of the hints that name it, the next one first.
    pub hints: Vec<u64>,
    /// A flush that failed is not tried again until asked for.
    pub flush_failed: bool,
    /// A fetch that failed is not tried again ahead of a restore.
    pub fetch_failed: bool,
    /// To be dropped, with its scratch file, as soon as it is persistent (`VELOC_Cleanup`).
    pub doomed: bool,
    /// Its file in scratch was gone when it was to be copied, and is written once more: that is not
    /// tried again unasked.
    pub written_again: bool,
    /// The lists it stands in.
    pub lists: Lists,
    /// Its record in the ledger, and what that says.
    pub noted: Option<(ledger::Slot, ledger::Standing)>,
    /// It is still to reach a file, and has no record: only this process can write it.
    pub exposed: bool,
    /// The older one of its name and version that is held as long as this one is exposed.
    pub replaces: Option<Id>,
    /// It was replaced, and keeps its memory and its record for that time.
    pub held: bool,
}

impl Entry {
    /// A checkpoint about to be captured.
    pub fn new(name: Arc<str>, version: i32) -> Self {
        Entry {
            name,
            version,
            regions: Arc::from([]),
            mark: None,
            parts: Default::default(),
            scratch: FileCopy::Absent,
            persistent: FileCopy::Absent,
            routed: None,
            found: false,
            place: None,
            awaits_place: false,
            extra: false,
            claimed: false,
            life: Life::Building,
            arriving: [false; 2],
            busy: 0,
            restoring: 0,
            stranded: false,
            consumed: None,
            hints: Vec::new(),
            flush_failed: false,
            fetch_failed: false,
            doomed: false,
            written_again: false,
            lists: Lists::default(),
            noted: None,
            exposed: false,
            replaces: None,
            held: false,
        }
    }

    /// The state of a part.
    pub fn part(&self, part: Part) -> &PartState {
        &self.parts[part as usize]
    }

    /// The state of a part.
    pub fn part_mut(&mut self, part: Part) -> &mut PartState {
        &mut self.parts[part as usize]
    }

    /// The whole checkpoint can be read from a file.
    pub fn in_file(&self) -> bool {
        self.scratch == FileCopy::Present || self.persistent == FileCopy::Present
    }

    /// Its bytes in memory have still to reach a file.
    pub fn needs_memory(&self) -> bool {
        let straight = self.scratch == FileCopy::Bypassed;
        self.scratch.is_due() || straight && (self.persistent.is_due() || self.awaits_place)
    }

    /// Whether memory has all of it.
    pub fn is_in_memory(&self) -> bool {
        let is_ready = |copy: &MemoryCopy| copy.stage == Stage::Ready;
        self.parts
            .iter()
            .all(|part| part.len == 0 || is_ready(&part.device) || is_ready(&part.host))
    }

    /// A step on its way to its files has failed, and is not tried again until asked for.
    pub fn has_failed(&self) -> bool {
        let files = [self.scratch, self.persistent];
        self.life == Life::Live && (self.flush_failed || files.contains(&FileCopy::Failed))
    }

    /// Whether somebody above says which of its name's versions stay.
    pub fn is_managed(&self) -> bool {
        self.mark.is_some()
    }

    /// The bytes of its regions.
    pub fn bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.size).sum()
    }
}
