//! One checkpoint, its parts and the copies of them.

use std::sync::Arc;

use format::aggregate::AggregatePart;
use format::identity::Identity;

use crate::ledger;
use crate::space::Extent;
use crate::{Id, Level, Part, Region, MOST};

/// The progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// There is no copy.
    #[default]
    Absent,
    /// Its room is allocated, and bytes are arriving.
    Filling,
    /// Complete.
    Ready,
    /// There is no copy: a copy to this level failed, and is not retried unless requested.
    Failed,
}

/// A part's copy in a level of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryCopy {
    /// Its progress.
    pub stage: Stage,
    /// Where its bytes are, in order.
    pub extents: Arc<[Extent]>,
    /// Transfers that read it right now.
    pub readers: u32,
    /// The room that it takes, where a store that compresses was too full for it; 0 if that is not known.
    pub needs: u64,
}

impl MemoryCopy {
    /// A copy whose bytes are not there yet.
    pub(crate) fn filling(extents: Arc<[Extent]>) -> Self {
        MemoryCopy { stage: Stage::Filling, extents, ..MemoryCopy::default() }
    }
}

/// The bytes of one part.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartState {
    /// How many, including the padding between separately captured runs.
    pub len: u64,
    /// Its copies in memory, by level.
    pub copies: [MemoryCopy; MOST],
}

impl PartState {
    /// The copy in a level.
    pub(crate) fn copy(&self, level: Level) -> &MemoryCopy {
        &self.copies[level.index()]
    }

    /// The copy in a level.
    pub(crate) fn copy_mut(&mut self, level: Level) -> &mut MemoryCopy {
        &mut self.copies[level.index()]
    }

    /// Whether a level has the complete part.
    pub(crate) fn is_ready(&self, level: Level) -> bool {
        self.copy(level).stage == Stage::Ready
    }

    /// Whether any level has the complete part, or the part is empty.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.len == 0 || self.copies.iter().any(|copy| copy.stage == Stage::Ready)
    }

    /// Whether a lower level has the complete part.
    pub(crate) fn is_backed(&self, level: Level) -> bool {
        self.copies[level.index() + 1..].iter().any(|copy| copy.stage == Stage::Ready)
    }

    /// Whether no level of `levels` has a copy of the part, complete or not, or failed to get one.
    pub(crate) fn is_absent(&self, mut levels: impl Iterator<Item = usize>) -> bool {
        levels.all(|level| self.copies[level].stage == Stage::Absent)
    }

    /// The first level in which the part has a copy.
    pub(crate) fn first(&self) -> Option<Level> {
        let holds = |copy: &MemoryCopy| matches!(copy.stage, Stage::Filling | Stage::Ready);
        self.copies.iter().position(holds).map(Level::new)
    }

    /// Whether the part is in a level, and a copy to a lower one has failed.
    pub(crate) fn flush_has_failed(&self) -> bool {
        let mut below = self.copies.iter().skip_while(|copy| copy.stage != Stage::Ready);
        below.any(|copy| copy.stage == Stage::Failed)
    }
}

/// A checkpoint's copy in a level of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FileCopy {
    /// There is no file, and none is needed.
    #[default]
    Absent,
    /// In persistent: whether a copy is needed is decided together with other processes. The
    /// backend of a killed process writes it, as a file of its own.
    Undecided,
    /// To be written.
    Wanted,
    /// Being written.
    Writing,
    /// Complete and in its place.
    Present,
    /// Could not be written. The bytes stay where they are.
    Failed,
    /// In scratch: could not be written, so the checkpoint goes to persistent without it.
    Bypassed,
    /// In scratch: as `Bypassed`, and other processes do not have their checkpoints in persistent.
    Substituted,
}

impl FileCopy {
    /// Whether the file has still to be written.
    pub(crate) fn is_due(self) -> bool {
        matches!(self, FileCopy::Wanted | FileCopy::Writing | FileCopy::Failed)
    }

    /// In scratch: whether the checkpoint goes to persistent without this file.
    pub(crate) fn is_bypassed(self) -> bool {
        matches!(self, FileCopy::Bypassed | FileCopy::Substituted)
    }
}

/// The lifecycle of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Between `VELOC_Checkpoint_begin` and `_end`: not visible to others.
    Building,
    /// Taken: it can be restored.
    Live,
    /// Replaced by a checkpoint that only this process can write so far, and kept until then: the
    /// backend of a killed process would write this one.
    Held,
    /// Replaced, cleaned up or aborted: freed as soon as no transfer uses it.
    Dropped,
}

/// Where a writer could read the whole checkpoint from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readable {
    /// From the staging level, or a level that never moves it there; at full speed.
    Staged,
    /// Partly from a level above: slower, and only needed when flushes find no room.
    Unstaged,
}

/// Membership in the state's work lists; see [`crate::state::State`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// Could be flushed from a level, by level.
    pub flush: [bool; MOST],
    /// Its rank among the victims of a level, by level.
    pub victim: [Option<policy::evict::EvictionClass>; MOST],
    /// Could be fetched to a level from the one below, by level.
    pub fetch: [bool; MOST],
    /// Could be read from a file to the staging level.
    pub read: bool,
    /// In the write list, and where it could be read from.
    pub write: Option<Readable>,
    /// In the list of checkpoints that an ephemeral job may spill to files.
    pub spill: Option<Readable>,
    /// In the persist list.
    pub persist: bool,
    /// A step towards its files has failed.
    pub failed: bool,
    /// It has still to reach a file and is not in the ledger: only this process can write it.
    pub exposed: bool,
}

/// One checkpoint.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// The run that made it.
    pub identity: Identity,
    /// Its files may replace those of a job with another number of processes.
    pub may_replace: bool,
    /// Its regions, ascending by id once it is live.
    pub regions: Arc<[Region]>,
    /// The id of its mark ([`format::mark`]), if it has one: then its manager decides which versions are
    /// removed, also after a crash, and no limit of versions applies.
    pub mark: Option<i32>,
    /// Its bytes by kind of memory, indexed by [`Part`].
    pub parts: [PartState; 2],
    /// The file in scratch.
    pub scratch: FileCopy,
    /// The file in persistent.
    pub persistent: FileCopy,
    /// For a file-based checkpoint, the path the application asked to have routed.
    pub routed: Option<Arc<str>>,
    /// Whether it was found on disk, from an earlier job.
    pub found: bool,
    /// Its part of an aggregated file, if it belongs to one: apart, as there may be 100,000 entries.
    pub place: Option<Box<AggregatePart>>,
    /// Its state in the lifecycle.
    pub life: Life,
    /// Whether bytes of a part are still being copied from the application's memory (a deferred capture), indexed by
    /// [`Part`].
    pub arriving: [bool; 2],
    /// The process that copies the bytes of a deferred capture, if one does: it also says in the ledger
    /// that they have arrived. 0: none.
    pub carrier: u32,
    /// Active transfers that use it.
    pub busy: u32,
    /// Open restores: its copies must stay where they are.
    pub restoring: u32,
    /// Whether a copy that uses it could not be waited for: its room is never reused.
    pub stranded: bool,
    /// When it was last restored, as a running number.
    pub consumed: Option<u64>,
    /// Positions of the hints that name it, the next one first.
    pub hints: Vec<u64>,
    /// Whether it is dropped, with its scratch file, as soon as it is persistent (`VELOC_Cleanup`).
    pub doomed: bool,
    /// The lists that contain it.
    pub lists: Lists,
    /// Its record in the ledger, and the record's content.
    pub noted: Option<(ledger::Slot, ledger::Standing)>,
    /// The older checkpoint of its name and version, which is held as long as this one is exposed.
    pub replaces: Option<Id>,
}

impl Entry {
    /// A checkpoint about to be captured.
    pub(crate) fn new(name: Arc<str>, version: i32, identity: Identity) -> Self {
        Entry {
            name,
            version,
            identity,
            may_replace: false,
            regions: Arc::from([]),
            mark: None,
            parts: Default::default(),
            scratch: FileCopy::Absent,
            persistent: FileCopy::Absent,
            routed: None,
            found: false,
            place: None,
            life: Life::Building,
            arriving: [false; 2],
            carrier: 0,
            busy: 0,
            restoring: 0,
            stranded: false,
            consumed: None,
            hints: Vec::new(),
            doomed: false,
            lists: Lists::default(),
            noted: None,
            replaces: None,
        }
    }

    /// The state of a part.
    pub(crate) fn part(&self, part: Part) -> &PartState {
        &self.parts[part as usize]
    }

    /// The state of a part.
    pub(crate) fn part_mut(&mut self, part: Part) -> &mut PartState {
        &mut self.parts[part as usize]
    }

    /// Whether the whole checkpoint can be read from a file.
    pub(crate) fn in_file(&self) -> bool {
        self.scratch == FileCopy::Present || self.persistent == FileCopy::Present
    }

    /// Whether its bytes in memory have still to reach a file.
    pub(crate) fn needs_memory(&self) -> bool {
        self.scratch.is_due()
            || self.scratch.is_bypassed()
                && (self.persistent.is_due() || self.persistent == FileCopy::Undecided)
    }

    /// Whether memory has the whole checkpoint.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.parts.iter().all(PartState::is_in_memory)
    }

    /// Whether a step towards its files has failed, and is not retried unless requested.
    pub(crate) fn has_failed(&self) -> bool {
        let files = [self.scratch, self.persistent];
        self.life == Life::Live && (self.flush_has_failed() || files.contains(&FileCopy::Failed))
    }

    /// Whether a copy to a lower level has failed.
    pub(crate) fn flush_has_failed(&self) -> bool {
        self.parts.iter().any(PartState::flush_has_failed)
    }

    /// Whether only this process's memory has the bytes that have still to reach a file, or, where the
    /// host buffer is `handed_over`, the next job.
    pub(crate) fn is_exposed(&self, handed_over: bool) -> bool {
        let due = self.needs_memory() || self.persistent.is_due();
        let awaited =
            handed_over && self.can_be_kept() && self.consumed.is_none() && !self.in_file();
        // What a carrier is copying may still fail.
        let is_noted = self.noted.is_some() && self.carrier == 0;
        self.life == Life::Live && (due || awaited) && !is_noted
    }

    /// Whether the next job may find it in the host buffer: it has bytes, and this job has taken it.
    pub(crate) fn can_be_kept(&self) -> bool {
        self.routed.is_none() && !self.found && self.parts.iter().any(|part| part.len > 0)
    }

    /// Whether it has a table of changes, which reading its file does not give: it is not read ahead.
    pub(crate) fn is_incremental(&self) -> bool {
        // A mark may have the same id.
        self.mark.is_none()
            && self.regions.first().is_some_and(|first| first.id == format::delta::REGION)
    }

    /// Whether it has a mark: who made it (`VELOC_Adjoint_run`) decides which versions of its name are kept.
    pub(crate) fn is_marked(&self) -> bool {
        self.mark.is_some()
    }

    /// The bytes of its regions.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.size).sum()
    }
}
