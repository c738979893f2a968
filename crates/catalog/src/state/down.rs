//! Steps down the levels: flush, write, persist.

use super::{After, FileJob, MoveEnd, MoveJob, PersistJob, Source, State};
use crate::entry::{Entry, FileCopy, Life, MemoryCopy, Stage};
use crate::{Id, Level, Part, PARTS};
use errors::Result;

impl State {
    /// The next flush from a level to a lower one, oldest first. `None` if there is nothing to flush, or no
    /// room for it.
    pub fn next_flush(&mut self, from: Level) -> Option<MoveJob> {
        let &(consumed, id) = self.level(from).flush.first()?;
        let entry = self.entries.get(&id)?;
        let (part, to) = self.flush_of(entry, from)?;
        let len = entry.part(part).len;
        // A consumed checkpoint is not worth discarding others.
        while !self.make_room(to, len, !consumed) {
            // Nor is a held checkpoint, which was replaced.
            if to != self.staging || !self.drop_oldest_held() {
                self.flush_starves(from);
                return None;
            }
        }
        self.level_mut(from).starved = false;
        let job = self.begin_move(id, part, [from, to])?;
        self.level_mut(from).flushing += 1;
        self.started(id, true);
        Some(job)
    }

    /// How many checkpoints could be flushed from a level next.
    pub fn flushes_waiting(&self, from: Level) -> usize {
        self.level(from).flush.len()
    }

    /// Allocates the room of a copy from one level to another.
    pub(super) fn begin_move(
        &mut self,
        id: Id,
        part: Part,
        [from, to]: [Level; 2],
    ) -> Option<MoveJob> {
        let len = self.entries.get(&id)?.part(part).len;
        let extents = self.allocate(to, len)?;
        let entry = self.entries.get_mut(&id)?;
        let state = entry.part_mut(part);
        *state.copy_mut(to) = MemoryCopy::filling(extents.clone());
        let source = state.copy_mut(from);
        source.readers += 1;
        let from = Source { level: from, extents: source.extents.clone() };
        let to = Source { level: to, extents };
        let (name, version) = (entry.name.clone(), entry.version);
        Some(MoveJob { id, name, version, part, len, from, to })
    }

    /// Ends a copy between levels. If it failed, the part stays where it was; returns the error.
    pub(super) fn end_move(&mut self, job: &MoveJob, end: MoveEnd) -> Result<()> {
        let Some(entry) = self.entries.get_mut(&job.id) else { return Ok(()) };
        let state = entry.part_mut(job.part);
        state.copy_mut(job.from.level).readers -= 1;
        match end {
            MoveEnd::Done => {
                state.copy_mut(job.to.level).stage = Stage::Ready;
                Ok(())
            }
            MoveEnd::Failed(error) => {
                self.copy_failed(job.id, job.part, job.to.level);
                Err(error)
            }
            MoveEnd::Stranded(error) => {
                // The room is never reused.
                *state.copy_mut(job.to.level) = MemoryCopy::failed();
                entry.stranded = true;
                Err(error)
            }
        }
    }

    /// Ends a flush. If it failed, the checkpoint stays where it was.
    pub fn flush_done(&mut self, job: &MoveJob, end: MoveEnd) {
        if let Err(error) = self.end_move(job, end) {
            self.has_failed(job.id, error);
        }
        // If no other flush follows, an application that waits may need a spill.
        self.level_mut(job.from.level).flushing -= 1;
        self.changes += 1;
        self.ended(job.id, true);
    }

    /// The next checkpoint to be written to scratch.
    pub fn next_write(&mut self) -> Option<FileJob> {
        let now = self
            .writable(&self.write)
            .filter(|(_, id)| self.is_in_turn(*id))
            .or_else(|| self.spill.first().copied().filter(|_| self.pressed()));
        let (_, id) = now?;
        let sources = self.sources(id)?;
        let entry = self.entries.get_mut(&id)?;
        let job = read_by_writer(id, entry, sources);
        entry.scratch = FileCopy::Writing;
        if self.shape.ephemeral {
            self.spilled.insert((job.name.clone(), job.version));
        }
        self.started(id, true);
        Some(job)
    }

    /// Whether a checkpoint whose temporary file is complete may be given its name in scratch.
    pub fn still_wanted(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| matches!(entry.life, Life::Live | Life::Held))
    }

    /// Ends a write.
    pub fn write_done(&mut self, job: &FileJob, result: Result<()>) -> After {
        let (mut unlink, mut bypassed) = (false, false);
        let written = result.is_ok();
        if let Some(entry) = self.entries.get_mut(&job.id) {
            was_read(job, entry);
            match result {
                Ok(()) => {
                    entry.scratch = FileCopy::Present;
                    if self.shape.ephemeral {
                        self.counts.spills += 1;
                    }
                    unlink = entry.doomed;
                }
                Err(error) => bypassed = self.scratch_has_refused(job.id, error),
            }
        }
        self.ended(job.id, true);
        if bypassed {
            return After::Warn;
        }
        if written {
            // If it was replaced in the meantime, its file is now its only copy.
            self.drop_held(job.id);
        }
        // Not while it waits for its persistent copy, nor if a newer checkpoint has the file.
        if unlink && self.find(&job.name, job.version).is_none() {
            After::Unlink
        } else {
            After::Keep
        }
    }

    /// The next checkpoint that is to have a persistent file.
    pub fn next_persist(&mut self) -> Option<PersistJob> {
        let id = self.persist.first().copied().filter(|id| self.is_in_turn(*id))?;
        self.take_persist(id)
    }

    /// The copy of this checkpoint to persistent, if it can begin now, for a thread that would wait for it.
    pub fn take_persist(&mut self, id: Id) -> Option<PersistJob> {
        let sources = self.sources(id)?;
        let entry = self.entries.get(&id).filter(|entry| entry.lists.persist)?;
        let from_memory = match entry.scratch {
            // A writer keeps memory from being freed.
            FileCopy::Present => self.goes_beside(entry) && !self.pressed(),
            _ => true,
        };
        let entry = self.entries.get_mut(&id)?;
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
        self.started(id, true);
        Some(job)
    }

    /// Whether the writer of a persistent file is to go on from the scratch file, as others wait for the memory
    /// that it reads.
    pub fn is_to_leave_memory(&self, id: Id) -> bool {
        let there = |entry: &Entry| entry.life == Life::Live && entry.scratch == FileCopy::Present;
        self.pressed() && self.entries.get(&id).is_some_and(|entry| there(entry))
    }

    /// The writer of a persistent file does not read memory any more.
    pub fn leave_memory(&mut self, job: &mut PersistJob) {
        let Some(source) = job.straight.take() else { return };
        if let Some(entry) = self.entries.get_mut(&job.id) {
            was_read(&source, entry);
            self.changes += 1;
        }
        self.reindex(job.id);
    }

    /// Whether the persistent file of a checkpoint takes the place of one in scratch, as there is none. `None`:
    /// that is still being written, and gets its name first.
    pub fn is_alone(&self, id: Id) -> Option<bool> {
        match self.entries.get(&id).map(|entry| entry.scratch) {
            Some(FileCopy::Writing) => None,
            scratch => Some(scratch != Some(FileCopy::Present)),
        }
    }

    /// Claims the persistent copy of this checkpoint for the thread that waits for it, once its destination
    /// is known. [`State::take_claimed`] or [`State::give_claim_back`] follows.
    pub fn claim_persist(&mut self, id: Id) {
        self.claims.insert(id);
        self.reindex(id);
    }

    /// Leaves a claimed persistent copy to a worker.
    pub fn give_claim_back(&mut self, id: Id) {
        if self.claims.remove(&id) {
            self.reindex(id);
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
        let entry = self.entries.get_mut(&id).filter(|entry| {
            let owns_file = entry.scratch == FileCopy::Present && entry.routed.is_none();
            entry.life == Life::Live && owns_file && entry.is_in_memory()
        });
        if let Some(entry) = entry {
            entry.scratch = FileCopy::Wanted;
            self.reindex(id);
        }
    }

    /// Ends a copy to persistent.
    pub fn persist_done(&mut self, job: &PersistJob, result: Result<()>) -> After {
        let written = result.is_ok();
        let mut after = After::Keep;
        let id = job.id;
        if let Some(entry) = self.entries.get_mut(&id) {
            if let Some(source) = &job.straight {
                was_read(source, entry);
            }
            match result {
                Ok(()) => {
                    entry.persistent = FileCopy::Present;
                    if entry.doomed && entry.life == Life::Live {
                        after = After::Unlink;
                        self.discard_cleaned(id);
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
                        self.take_hints(id);
                        self.has_failed(id, error);
                    }
                }
            }
        }
        self.ended(id, true);
        if written {
            // As in `write_done`: the file is now the only copy of a replaced checkpoint.
            self.drop_held(id);
        }
        after
    }

    /// The level from which a writer reads each part.
    fn sources(&self, id: Id) -> Option<[Option<Level>; 2]> {
        let entry = self.entries.get(&id)?;
        Some(PARTS.map(|part| self.readable_from(entry.part(part))))
    }
}

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
