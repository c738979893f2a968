//! Steps down the tiers: flush, write, persist.

use std::sync::Arc;

use super::lists::readable_from;
use super::Starved;
use super::{After, FileJob, MoveEnd, MoveJob, PersistJob, Source, State};
use crate::catalog::entry::{Entry, FileCopy, Id, Life, MemoryCopy, Part, Stage, PARTS};
use levels::space::Extent;
use os::error::Result;

impl State {
    /// The next flush from the device cache to the host buffer, oldest first. `None` while there
    /// is nothing to flush or no room for it.
    pub fn next_flush(&mut self) -> Option<MoveJob> {
        let &(consumed, id) = self.flush.first()?;
        let len = self.entries.get(&id)?.part(Part::Device).len;
        // What was consumed is not worth giving up anything else for.
        while !self.make_host_room(len, !consumed) {
            // Nor is what it replaces.
            if !self.let_go_of_oldest() {
                self.press(Starved::Flush);
                return None;
            }
        }
        self.starved[Starved::Flush as usize] = false;
        let host: Arc<[Extent]> = self.host.allocate(len)?.into();
        let entry = self.entries.get_mut(&id)?;
        let part = entry.part_mut(Part::Device);
        part.host = MemoryCopy { stage: Stage::Filling, extents: host.clone(), readers: 0 };
        part.device.readers += 1;
        let device = part.device.extents.clone();
        let (name, version) = (entry.name.clone(), entry.version);
        self.started(id, true);
        Some(MoveJob { id, name, version, len, device, host })
    }

    /// Ends a flush. One that did not succeed leaves the checkpoint in the device cache.
    pub fn flush_done(&mut self, id: Id, end: MoveEnd) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let part = entry.part_mut(Part::Device);
            part.device.readers -= 1;
            match end {
                MoveEnd::Done => part.host.stage = Stage::Ready,
                MoveEnd::Failed(error) => {
                    let extents = std::mem::take(&mut part.host).extents;
                    entry.flush_failed = true;
                    self.host.release(&extents);
                    self.has_failed(id, error);
                }
                MoveEnd::Stranded(error) => {
                    part.host = MemoryCopy::default();
                    entry.flush_failed = true;
                    entry.stranded = true;
                    self.has_failed(id, error);
                }
            }
        }
        self.ended(id, true);
    }

    /// The next checkpoint to be written to scratch.
    pub fn next_write(&mut self) -> Option<FileJob> {
        let now = self
            .writable(&self.write)
            .or_else(|| self.spill.first().copied().filter(|_| self.pressed()));
        let (_, id) = now?;
        let entry = self.entries.get_mut(&id)?;
        let job = read_by_writer(id, entry);
        entry.scratch = FileCopy::Writing;
        self.started(id, true);
        Some(job)
    }

    /// Whether a checkpoint whose temporary file is complete may take its place in scratch.
    pub fn still_wanted(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.life == Life::Live || entry.held)
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
                        self.spilled.insert((entry.name.clone(), entry.version));
                    }
                    unlink = entry.doomed;
                }
                Err(error) => bypassed = self.scratch_has_refused(job.id, error),
            }
        }
        self.ended(job.id, true);
        if bypassed {
            return After::Say;
        }
        if written {
            // If it was replaced meanwhile: its file is what is left of it from here on.
            self.let_go(job.id);
        }
        // Not while it waits for its persistent copy, nor if a newer one has taken its place.
        if unlink && self.find(&job.name, job.version).is_none() {
            After::Unlink
        } else {
            After::Keep
        }
    }

    /// The next scratch file to be copied to the persistent directory.
    pub fn next_persist(&mut self) -> Option<PersistJob> {
        let id = *self.persist.first()?;
        self.take_persist(id)
    }

    /// The copying of this checkpoint, if it could begin now: for who would wait for it.
    pub fn take_persist(&mut self, id: Id) -> Option<PersistJob> {
        let entry = self.entries.get_mut(&id).filter(|entry| entry.lists.persist)?;
        entry.persistent = FileCopy::Writing;
        let straight = (entry.scratch == FileCopy::Bypassed).then(|| read_by_writer(id, entry));
        let job = PersistJob {
            id,
            name: entry.name.clone(),
            version: entry.version,
            routed: entry.routed.clone(),
            place: entry.place,
            straight,
        };
        self.started(id, true);
        Some(job)
    }

    /// Whoever waits for the persistent copy of this checkpoint makes it, once it is known where to.
    /// [`State::take_claimed`] or [`State::give_claim_back`] follows.
    pub fn claim_persist(&mut self, id: Id) {
        self.set_claimed(id, true);
    }

    /// The persistent copy of a checkpoint that was claimed is for a worker to make after all.
    pub fn give_claim_back(&mut self, id: Id) {
        self.set_claimed(id, false);
    }

    /// The copying of a checkpoint that was claimed, if it could begin now. If not, a worker does it
    /// when it can.
    pub fn take_claimed(&mut self, id: Id) -> Option<PersistJob> {
        self.set_claimed(id, false);
        self.take_persist(id)
    }

    fn set_claimed(&mut self, id: Id, claimed: bool) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.claimed != claimed) {
            entry.claimed = claimed;
            self.reindex(id);
        }
    }

    /// A checkpoint was to be copied to persistent, and its file in scratch is not there any more. If memory
    /// has it, it is written again, and then copied: true, which ends that copying. Not unasked a second
    /// time, nor where only files have it: their directory may come back. Then false.
    pub fn is_written_again(&mut self, job: &PersistJob) -> bool {
        let entry = self.entries.get_mut(&job.id).filter(|entry| {
            let owns_file = entry.scratch == FileCopy::Present && entry.routed.is_none();
            entry.life == Life::Live && owns_file && entry.is_in_memory()
        });
        let Some(entry) = entry else { return false };
        // Until it is there, nobody may take memory for a copy of it.
        entry.scratch = FileCopy::Wanted;
        if std::mem::replace(&mut entry.written_again, true) {
            return false;
        }
        entry.persistent = FileCopy::Wanted;
        self.ended(job.id, true);
        true
    }

    /// Ends the making of a persistent copy.
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
                        self.discard(id, false);
                    }
                }
                Err(error) => {
                    entry.persistent = FileCopy::Failed;
                    if entry.scratch == FileCopy::Bypassed {
                        // Both are tried again.
                        entry.scratch = FileCopy::Failed;
                        if std::mem::take(&mut entry.extra) {
                            entry.persistent = FileCopy::Absent;
                        }
                    }
                    // The copy in scratch is the only one: it is not cleaned up after all.
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
            // As for a write.
            self.let_go(id);
        }
        after
    }
}

/// What a writer reads a checkpoint from. [`was_read`] follows.
fn read_by_writer(id: Id, entry: &mut Entry) -> FileJob {
    let mut memory = [None, None];
    for part in PARTS {
        let Some(tier) = readable_from(entry.part(part)) else {
            continue;
        };
        let copy = entry.part_mut(part).copy_mut(tier);
        copy.readers += 1;
        memory[part as usize] = Some(Source { tier, extents: copy.extents.clone() });
    }
    let (name, version, regions) = (entry.name.clone(), entry.version, entry.regions.clone());
    FileJob { id, name, version, regions, memory }
}

/// A writer reads it no more.
fn was_read(job: &FileJob, entry: &mut Entry) {
    for part in PARTS {
        if let Some(source) = &job.memory[part as usize] {
            entry.part_mut(part).copy_mut(source.tier).readers -= 1;
        }
    }
}
