//! Steps down the levels: flush, write, persist; also past scratch, where that cannot take a file.

use super::level::LevelState;
use super::lists::{goes_beside, is_discarded_above, writable};
use super::{After, FileJob, MoveEnd, MoveJob, PersistJob, Source, State, StoreResult};
use crate::entry::{Entry, FileCopy, Life, MemoryCopy, Stage};
use crate::space::{cut, join, Extent};
use crate::{Id, Level, Part, PARTS};
use errors::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The job of a writer that reads a checkpoint. [`was_read`] follows.
fn read_by_writer(id: Id, entry: &mut Entry, sources: [Option<Level>; 2]) -> FileJob {
    let memory = PARTS.map(|part| {
        let level = sources[part as usize]?;
        let copy = entry.part_mut(part).copy_mut(level);
        copy.readers += 1;
        Some(Source { level, extents: copy.extents.clone() })
    });
    let (name, version, regions) = (entry.name.clone(), entry.version, entry.regions.clone());
    FileJob { id, name, version, identity: entry.identity, regions, memory }
}

/// The writer does not read the checkpoint any more.
fn was_read(job: &FileJob, entry: &mut Entry) {
    for part in PARTS {
        if let Some(source) = &job.memory[part as usize] {
            entry.part_mut(part).copy_mut(source.level).readers -= 1;
        }
    }
}

/// Whether a failure depends on the file's location, so that another one may work.
pub fn is_of_the_file_system(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoRoom | ErrorKind::System)
}

/// Steps down the levels.
#[derive(Debug)]
pub struct Down<'a> {
    pub(super) state: &'a mut State,
}

impl Down<'_> {
    /// Writing a checkpoint to scratch has failed. Returns whether it goes to persistent instead: at once, or
    /// when the place there is known.
    pub(super) fn scratch_has_refused(&mut self, id: Id, error: Error) -> bool {
        let lasting = self.state.shape.persistent;
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else { return false };
        let live = entry.life == Life::Live;
        if live && lasting && is_of_the_file_system(&error) {
            entry.scratch = FileCopy::Bypassed;
            // Or has gone: the scratch file of before was removed.
            let goes_there =
                [FileCopy::Wanted, FileCopy::Undecided, FileCopy::Writing, FileCopy::Present];
            if !goes_there.contains(&entry.persistent) {
                entry.persistent = FileCopy::Wanted;
                entry.scratch = FileCopy::Substituted;
            }
            return true;
        }
        entry.scratch = FileCopy::Failed;
        if live {
            self.state.has_failed(id, error);
        }
        false
    }

    /// The next flush from a level to a lower one, oldest first. `None` if there is nothing to flush, or no
    /// room for it.
    pub fn next_flush(&mut self, from: Level) -> Option<MoveJob> {
        let &(consumed, id) = self.state.levels.level(from).flush.first()?;
        let entry = self.state.checkpoints.entries.get(&id)?;
        let (part, to) = self.state.levels.flush_of(entry, from)?;
        if self.state.levels.reads_first(from, to) {
            return None;
        }
        let room = self.state.levels.first_room(entry.part(part), to);
        // A consumed checkpoint is not worth discarding others.
        while !self.state.eviction().make_room(to, room, !consumed) {
            // Nor is a held checkpoint, which was replaced.
            if to != self.state.levels.staging || !self.state.removal().drop_oldest_held() {
                self.state.eviction().flush_starves(from);
                return None;
            }
        }
        self.state.levels.level_mut(from).starved = false;
        let job = self.begin_move(id, part, [from, to], room)?;
        self.state.levels.level_mut(from).flushing += 1;
        self.state.started(id, true);
        Some(job)
    }

    /// Allocates `room` for a copy from one level to another.
    pub(super) fn begin_move(
        &mut self,
        id: Id,
        part: Part,
        [from, to]: [Level; 2],
        room: u64,
    ) -> Option<MoveJob> {
        let extents = self.state.levels.allocate(to, room)?;
        let entry = self.state.checkpoints.entries.get_mut(&id)?;
        let state = entry.part_mut(part);
        let len = state.len;
        *state.copy_mut(to) = MemoryCopy::filling(extents.clone());
        let source = state.copy_mut(from);
        source.readers += 1;
        let from = Source { level: from, extents: source.extents.clone() };
        let to = Source { level: to, extents };
        let (name, version) = (entry.name.clone(), entry.version);
        let to_name = self.state.levels.name_of(to.level);
        Some(MoveJob { id, name, version, part, len, from, to, to_name })
    }

    /// More room for a copy to a store that compresses; a flush evicts for it what is elsewhere as well. `None`:
    /// the level is full. Others are discarded only for all that is needed, once that is known.
    pub fn more_room(&mut self, job: &MoveJob, bytes: u64) -> Option<Arc<[Extent]>> {
        let (from, to) = (job.from.level, job.to.level);
        let is_dropped = self.state.checkpoints.entries.get(&job.id)?.life == Life::Dropped;
        if is_dropped || from < to && !self.state.eviction().make_room(to, bytes, false) {
            return None;
        }
        let more = self.state.levels.allocate(to, bytes)?;
        let entry = self.state.checkpoints.entries.get_mut(&job.id)?;
        let copy = entry.part_mut(job.part).copy_mut(to);
        let mut all = copy.extents.to_vec();
        join(&mut all, &more);
        copy.extents = all.into();
        Some(more)
    }

    /// Frees the room that a store has not used. If the level was full, that is all of it, and the part stays where it
    /// was. The end of the copy follows in the same step.
    pub fn stored(&mut self, job: &MoveJob, stored: StoreResult) {
        let Some(entry) = self.state.checkpoints.entries.get_mut(&job.id) else { return };
        let copy = entry.part_mut(job.part).copy_mut(job.to.level);
        let LevelState { space, .. } = &mut self.state.levels.levels[job.to.level.index()];
        let used = match stored {
            StoreResult::In(bytes) => space.rounded(bytes),
            StoreResult::Full(needs) => {
                copy.stage = Stage::Absent;
                copy.needs = needs;
                0
            }
        };
        space.release(&cut(&copy.extents, used, u64::MAX).collect::<Vec<_>>());
        copy.extents = cut(&copy.extents, 0, used).collect();
    }

    /// Ends a copy between levels, and returns whether it was made. If it failed, the part stays where it was;
    /// returns the error.
    pub(super) fn end_move(&mut self, job: &MoveJob, end: MoveEnd) -> Result<bool> {
        let Some(entry) = self.state.checkpoints.entries.get_mut(&job.id) else { return Ok(false) };
        let state = entry.part_mut(job.part);
        state.copy_mut(job.from.level).readers -= 1;
        let copy = state.copy_mut(job.to.level);
        match end {
            MoveEnd::Done if copy.stage == Stage::Filling => {
                copy.stage = Stage::Ready;
                Ok(true)
            }
            // The level was full.
            MoveEnd::Done => Ok(false),
            MoveEnd::Failed(error) => {
                self.copy_failed(job.id, job.part, job.to.level);
                Err(error)
            }
            MoveEnd::Stranded(error) => {
                self.state.levels.levels[job.to.level.index()].strand(copy);
                copy.stage = Stage::Failed;
                entry.stranded = true;
                Err(error)
            }
        }
    }

    /// Ends a flush. If it failed or the level was full, the checkpoint stays where it was.
    pub fn flush_done(&mut self, job: &MoveJob, end: MoveEnd) {
        if let Err(error) = self.end_move(job, end) {
            self.state.has_failed(job.id, error);
        }
        // If no other flush follows, an application that waits may need a spill.
        self.state.levels.level_mut(job.from.level).flushing -= 1;
        self.state.work.changes += 1;
        self.state.ended(job.id, true);
    }

    /// The next checkpoint to be written to scratch.
    pub fn next_write(&mut self) -> Option<FileJob> {
        let now = writable(self.state, &self.state.work.write)
            .filter(|(_, id)| self.state.work.is_in_turn(*id))
            .or_else(|| {
                self.state.work.spill.first().copied().filter(|_| self.state.levels.pressed())
            });
        let (_, id) = now?;
        let sources = self.sources(id)?;
        let entry = self.state.checkpoints.entries.get_mut(&id)?;
        let job = read_by_writer(id, entry, sources);
        entry.scratch = FileCopy::Writing;
        if self.state.shape.ephemeral {
            self.state.spilled.insert((job.name.clone(), job.version));
        }
        self.state.started(id, true);
        Some(job)
    }

    /// Ends a write.
    pub fn write_done(&mut self, job: &FileJob, result: Result<()>) -> After {
        let (mut unlink, mut bypassed) = (false, false);
        let written = result.is_ok();
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&job.id) {
            was_read(job, entry);
            match result {
                Ok(()) => {
                    entry.scratch = FileCopy::Present;
                    if self.state.shape.ephemeral {
                        self.state.counts.spills += 1;
                    }
                    unlink = entry.doomed;
                }
                Err(error) => bypassed = self.scratch_has_refused(job.id, error),
            }
        }
        self.state.ended(job.id, true);
        if bypassed {
            return After::Warn;
        }
        if written {
            // If it was replaced in the meantime, its file is now its only copy.
            self.state.removal().drop_held(job.id);
        }
        // Not while it waits for its persistent copy, nor if a newer checkpoint has the file.
        if unlink && self.state.checkpoints.find(&job.name, job.version).is_none() {
            After::Unlink
        } else {
            After::Keep
        }
    }

    /// The next checkpoint that is to have a persistent file.
    pub fn next_persist(&mut self) -> Option<PersistJob> {
        let id = self
            .state
            .work
            .persist
            .first()
            .copied()
            .filter(|id| self.state.work.is_in_turn(*id))?;
        self.take_persist(id)
    }

    /// The copy of this checkpoint to persistent, if it can begin now, for a thread that would wait for it.
    pub fn take_persist(&mut self, id: Id) -> Option<PersistJob> {
        let sources = self.sources(id)?;
        let entry = self.state.checkpoints.entries.get(&id).filter(|entry| entry.lists.persist)?;
        let from_memory = match entry.scratch {
            // A writer keeps memory from being freed.
            FileCopy::Present => goes_beside(self.state, entry) && !self.state.levels.pressed(),
            _ => true,
        };
        let entry = self.state.checkpoints.entries.get_mut(&id)?;
        entry.persistent = FileCopy::Writing;
        let straight = from_memory.then(|| read_by_writer(id, entry, sources));
        let job = PersistJob {
            id,
            name: entry.name.clone(),
            version: entry.version,
            identity: entry.identity,
            routed: entry.routed.clone(),
            place: entry.place.as_deref().copied(),
            straight,
        };
        self.state.started(id, true);
        Some(job)
    }

    /// The writer of a persistent file does not read memory any more.
    pub fn leave_memory(&mut self, job: &mut PersistJob) {
        let Some(source) = job.straight.take() else { return };
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&job.id) {
            was_read(&source, entry);
            self.state.work.changes += 1;
        }
        self.state.reindex(job.id);
    }

    /// Claims the persistent copy of this checkpoint for the thread that waits for it, once its destination
    /// is known. [`Down::take_claimed`] or [`Down::give_claim_back`] follows.
    pub fn claim_persist(&mut self, id: Id) {
        self.state.work.claims.insert(id);
        self.state.reindex(id);
    }

    /// Leaves a claimed persistent copy to a worker.
    pub fn give_claim_back(&mut self, id: Id) {
        if self.state.work.claims.remove(&id) {
            self.state.reindex(id);
        }
    }

    /// The copy of a claimed checkpoint, if it can begin now. If not, a worker makes it when it can.
    pub fn take_claimed(&mut self, id: Id) -> Option<PersistJob> {
        self.give_claim_back(id);
        self.take_persist(id)
    }

    /// A checkpoint's scratch file is missing when it is copied to persistent. If memory has the checkpoint,
    /// it is written again; its memory must not be freed before.
    pub fn scratch_is_gone(&mut self, id: Id) {
        let entry = self.state.checkpoints.entries.get_mut(&id).filter(|entry| {
            let owns_file = entry.scratch == FileCopy::Present && entry.routed.is_none();
            entry.life == Life::Live && owns_file && entry.is_in_memory()
        });
        if let Some(entry) = entry {
            entry.scratch = FileCopy::Wanted;
            self.state.reindex(id);
        }
    }

    /// Ends a copy to persistent.
    pub fn persist_done(&mut self, job: &PersistJob, result: Result<()>) -> After {
        let written = result.is_ok();
        let mut after = After::Keep;
        let id = job.id;
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            if let Some(source) = &job.straight {
                was_read(source, entry);
            }
            match result {
                Ok(()) => {
                    entry.persistent = FileCopy::Present;
                    if entry.doomed && entry.life == Life::Live {
                        after = After::Unlink;
                        self.state.removal().discard_cleaned(id);
                    }
                }
                Err(error) => {
                    entry.persistent = FileCopy::Failed;
                    if entry.scratch.is_bypassed() {
                        // Both files are retried; persistent, if nothing else asks for it, only if
                        // scratch fails again.
                        if entry.scratch == FileCopy::Substituted {
                            entry.persistent = FileCopy::Absent;
                        }
                        entry.scratch = FileCopy::Failed;
                    }
                    // The scratch file is the only copy, so it is not cleaned up.
                    entry.doomed = false;
                    if entry.life == Life::Live {
                        self.state.up().take_hints(id);
                        self.state.has_failed(id, error);
                    }
                }
            }
        }
        self.state.ended(id, true);
        if written {
            // As in `write_done`: the file is now the only copy of a replaced checkpoint.
            self.state.removal().drop_held(id);
        }
        after
    }

    /// The level from which a writer reads each part.
    fn sources(&self, id: Id) -> Option<[Option<Level>; 2]> {
        let entry = self.state.checkpoints.entries.get(&id)?;
        Some(PARTS.map(|part| self.state.levels.readable_from(entry.part(part))))
    }

    /// A copy has failed: frees its room, if that can be used again.
    pub(super) fn copy_failed(&mut self, id: Id, part: Part, level: Level) {
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else { return };
        let copy = entry.part_mut(part).copy_mut(level);
        let memory = &mut self.state.levels.levels[level.index()];
        match memory.spec.drive {
            true => memory.strand(copy),
            false => memory.space.release(&std::mem::take(&mut copy.extents)),
        }
        copy.stage = Stage::Failed;
    }
}

impl MoveJob {
    /// Whether this is a flush that is of no use any more: it ends as if the level were full.
    pub fn is_in_vain(&self, state: &State) -> bool {
        let entry = state.checkpoints.entries.get(&self.id);
        let entry = entry.filter(|entry| entry.life != Life::Dropped);
        let is_flush = self.from.level < self.to.level;
        is_flush && entry.is_none_or(|entry| is_discarded_above(state, entry, self.to.level))
    }
}

impl State {
    /// Whether the writer of a persistent file is to go on from the scratch file, as others wait for the memory
    /// that it reads.
    pub fn is_to_leave_memory(&self, id: Id) -> bool {
        let there = |entry: &Entry| entry.life == Life::Live && entry.scratch == FileCopy::Present;
        self.levels.pressed() && self.checkpoints.entries.get(&id).is_some_and(|entry| there(entry))
    }
}
