//! Steps of a restore.

use std::sync::Arc;

use super::{Acquire, Source, State};
use crate::entry::{FileCopy, Stage};
use crate::{FileLevel, Id, Level, Part, Region};
use format::identity::Identity;

impl State {
    /// The live checkpoint of this name and version.
    pub fn find(&self, name: &str, version: i32) -> Option<Id> {
        self.names.get(name)?.live.get(&version).copied()
    }

    /// The run that made a checkpoint.
    pub fn identity(&self, id: Id) -> Identity {
        self.entries.get(&id).map_or(Identity::UNKNOWN, |entry| entry.identity)
    }

    /// The last of the checkpoints that are known here which the run of a file of this `version` had taken before it: of an
    /// earlier generation, or of the same one with a lower number.
    pub fn taken_before(&self, name: &str, version: i32, identity: Identity) -> Option<Id> {
        let known = self.names.get(name)?.live.iter();
        let known = known.map(|(version, id)| (self.identity(*id), *version, *id));
        let order = |(identity, version, _): &(Identity, i32, Id)| (identity.generation, *version);
        let before = known.filter(|known| {
            identity.is_known()
                && known.0.run == identity.run
                && order(known) < (identity.generation, version)
        });
        before.max_by_key(order).map(|(.., id)| id)
    }

    /// The run that has taken the newest checkpoint of a name that is known here; 0: none, or not known.
    pub fn run_of(&self, name: &str) -> u64 {
        let newest = self.names.get(name).and_then(|known| known.live.values().max());
        newest.map_or(0, |id| self.identity(*id).run)
    }

    /// Whether a version's file in a level is still to be written.
    pub fn comes_to(&self, name: &str, version: i32, level: FileLevel) -> bool {
        let entry = self.find(name, version).and_then(|id| self.entries.get(&id));
        let copy = entry.map(|entry| match level {
            FileLevel::Scratch => entry.scratch,
            FileLevel::Persistent => entry.persistent,
        });
        matches!(copy, Some(FileCopy::Wanted | FileCopy::Writing))
    }

    /// Whether there is a live checkpoint of this name and version that this job has taken.
    pub fn has_taken(&self, name: &str, version: i32) -> bool {
        let entry = self.find(name, version).and_then(|id| self.entries.get(&id));
        entry.is_some_and(|entry| !entry.found)
    }

    /// The newest live version that is at most `bound`.
    pub fn newest(&self, name: &str, bound: i32) -> Option<i32> {
        self.names.get(name)?.live.range(..=bound).next_back().map(|(&version, _)| version)
    }

    /// The live version, at most `bound`, that this job has taken last.
    pub fn taken_last(&self, name: &str, bound: i32) -> Option<i32> {
        let live = self.names.get(name)?.live.range(..=bound);
        let taken = live.filter(|(_, id)| self.entries.get(id).is_some_and(|entry| !entry.found));
        taken.max_by_key(|(_, id)| **id).map(|(&version, _)| version)
    }

    /// Whether a restore may have to read its file, because memory does not have all of the
    /// checkpoint. An incomplete fetch from that file does not count.
    pub fn is_read_from_file(&self, id: Id) -> bool {
        let entry = self.entries.get(&id).filter(|entry| entry.in_file());
        entry.is_some_and(|entry| entry.regions.is_empty() || !entry.is_in_memory())
    }

    /// Whether a checkpoint's first region is a table of changes ([`format::delta`]), in an incremental job.
    pub fn has_table(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.is_incremental())
    }

    /// A checkpoint's regions, ascending by id.
    pub fn regions(&self, id: Id) -> Option<Arc<[Region]>> {
        self.entries.get(&id).map(|entry| entry.regions.clone())
    }

    /// Whether all bytes of the region are in the first level that captures device memory.
    pub fn on_device(&self, id: Id, region: i32) -> bool {
        let Some(entry) = self.entries.get(&id) else {
            return false;
        };
        entry.regions.iter().find(|r| r.id == region).is_some_and(|region| {
            region.part == Part::Device && entry.part(Part::Device).is_ready(self.top(Part::Device))
        })
    }

    /// Starts a restore: the checkpoint's copies stay where they are until [`State::end_restore`].
    pub fn begin_restore(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy += 1;
            entry.restoring += 1;
            // A managed checkpoint is read at its position, not in the order of versions.
            let expects = !entry.is_managed();
            self.reading = expects.then(|| (entry.name.clone(), i64::from(entry.version)));
            self.fetching = true;
            self.changes += 1;
            self.reindex(id);
        }
    }

    /// The source to read a part from, the nearest copy first.
    pub fn acquire(&mut self, id: Id, part: Part) -> Acquire {
        let top = self.top(part);
        let Some(entry) = self.entries.get_mut(&id) else {
            return Acquire::Lost;
        };
        let in_file = entry.in_file();
        let state = entry.part_mut(part);
        let Some(level) = state.first() else {
            return if in_file { Acquire::File } else { Acquire::Lost };
        };
        let copy = state.copy_mut(level);
        if copy.stage == Stage::Filling {
            return Acquire::Wait;
        }
        copy.readers += 1;
        let extents = copy.extents.clone();
        if part == Part::Device {
            match level == top {
                true => self.counts.device_hits += 1,
                false => self.counts.device_misses += 1,
            }
        }
        self.in_flight += 1;
        self.reindex(id);
        Acquire::Memory(Source { level, extents })
    }

    /// Ends a use of a source from [`State::acquire`].
    pub fn release(&mut self, id: Id, part: Part, level: Level) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let copy = entry.part_mut(part).copy_mut(level);
            copy.readers -= 1;
            self.in_flight -= 1;
            self.changes += 1;
            self.reindex(id);
        }
    }

    /// Ends a restore. After a successful one the checkpoint counts as consumed, unless a hint
    /// says that it will be read again.
    pub fn end_restore(&mut self, id: Id, success: bool) {
        self.has_restored(id, success);
        self.free_or_reindex(id);
    }

    /// Ends a restore, and sets where it will be read next ([`expect`](Self::expect)).
    pub fn end_restore_expecting(&mut self, id: Id, success: bool, next: Option<u64>) {
        self.has_restored(id, success);
        let expects = self.set_place(id, next);
        self.free_or_reindex(id);
        if expects {
            self.goes_by_places();
        }
    }

    fn has_restored(&mut self, id: Id, success: bool) {
        let consumed = self.next_consumed;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy -= 1;
            entry.restoring -= 1;
            if success {
                self.next_consumed += 1;
                self.counts.restores += 1;
                if let Some(versions) = self.names.get_mut(&entry.name) {
                    versions.last_read = Some(id);
                }
                self.rekey(id, |entry| {
                    if !entry.hints.is_empty() {
                        entry.hints.remove(0);
                    }
                    entry.consumed = entry.hints.is_empty().then_some(consumed);
                });
            }
        }
    }
}
