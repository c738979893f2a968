//! Steps up the levels: restores, fetches ahead of use, and reads of files. A hint names a version, not a checkpoint: it
//! waits if there is no such checkpoint yet, and applies to one that replaces another. It ends with the restore that it
//! announces, with `VELOC_Cleanup`, or with the job.

use super::ahead::{next_to_fetch, next_to_read};
use super::level::LevelState;
use super::{Acquire, FileJob, MoveEnd, MoveJob, Source, State};
use crate::entry::Life;
use crate::entry::{Entry, MemoryCopy, Stage};
use crate::{Id, Level, Part, PARTS};
use errors::Result;
use policy::evict::EvictionClass;
use policy::order::NextUse;

/// How many of the oldest victims a fetch compares to find the one that is used last.
const VICTIMS_COMPARED: usize = 64;

/// Whether hints tell when a checkpoint is read, rather than a manager.
fn goes_by_hints(entry: &Entry) -> bool {
    !entry.is_marked()
}

/// Steps up the levels.
#[derive(Debug)]
pub struct Up<'a> {
    pub(super) state: &'a mut State,
}

impl Up<'_> {
    /// Adds a hint: this version will be read after those hinted before. It need not exist yet.
    pub fn hint(&mut self, name: &str, version: i32) {
        let position = self.state.ahead.next_hint;
        self.state.ahead.next_hint += 1;
        let there = self.state.checkpoints.find(name, version);
        match there
            .filter(|id| self.state.checkpoints.entries.get(id).is_some_and(|entry| !entry.doomed))
        {
            Some(id) => {
                self.state.rekey(id, |entry| {
                    entry.hints.push(position);
                    entry.consumed = None;
                });
                self.state.reindex(id);
            }
            // A checkpoint that was cleaned up will not be read.
            None => self.state.checkpoints.keep_hints(
                &self.state.checkpoints.interned(name),
                version,
                vec![position],
            ),
        }
    }

    /// Gives a new checkpoint the hints that wait for it. The caller updates the lists.
    pub(super) fn take_hints(&mut self, id: Id) {
        let Some(entry) = self.state.checkpoints.entries.get(&id).filter(|entry| !entry.doomed)
        else {
            return;
        };
        let goes_by_hints = goes_by_hints(entry);
        let versions = self.state.checkpoints.names.get_mut(&entry.name);
        let hints = versions.and_then(|versions| versions.hints.remove(&entry.version));
        if let Some(hints) = hints.filter(|_| goes_by_hints) {
            self.state.rekey(id, |entry| {
                entry.hints.extend(hints);
                entry.consumed = None;
            });
        }
    }

    /// Stores the hints of a checkpoint that is removed, and in no list any more, for the next one of its
    /// name and version.
    pub(super) fn leave_hints(&mut self, id: Id) {
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return;
        };
        let hints = std::mem::take(&mut entry.hints);
        if goes_by_hints(entry) && !entry.doomed {
            let (name, version) = (entry.name.clone(), entry.version);
            self.state.checkpoints.keep_hints(&name, version, hints);
        }
    }

    /// Reserves `places` positions in the order of hints, and returns the first.
    pub fn reserve_hints(&mut self, places: u64) -> u64 {
        let first = self.state.ahead.next_hint;
        self.state.ahead.next_hint = first.saturating_add(places);
        first
    }

    /// Sets the only position in the order of hints at which a checkpoint will be read. `None`: it will not
    /// be read. If the application `reads`, fetching continues, only in the order of positions.
    pub fn expect(&mut self, id: Id, place: Option<u64>, reads: bool) {
        if !self.set_place(id, place) {
            return;
        }
        self.state.reindex(id);
        if reads {
            self.goes_by_places();
        }
    }

    /// Sets the position at which a checkpoint will be read. Returns whether it exists; if so, the caller
    /// updates the lists.
    pub(super) fn set_place(&mut self, id: Id, place: Option<u64>) -> bool {
        if self
            .state
            .checkpoints
            .entries
            .get(&id)
            .is_none_or(|entry| matches!(entry.life, Life::Held | Life::Dropped))
        {
            return false;
        }
        self.state.rekey(id, |entry| {
            entry.hints.clear();
            entry.hints.extend(place);
            if place.is_some() {
                entry.consumed = None;
            }
        });
        true
    }

    /// Fetching continues, only in the order of positions.
    pub(super) fn goes_by_places(&mut self) {
        self.state.ahead.reading = None;
        self.start_fetching();
    }

    /// Starts a restore: the checkpoint's copies stay where they are until [`Up::end_restore`].
    pub fn begin_restore(&mut self, id: Id) {
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.busy += 1;
            entry.restoring += 1;
            // A marked checkpoint is read at its position, not in the order of versions.
            let expects = !entry.is_marked();
            self.state.ahead.reading =
                expects.then(|| (entry.name.clone(), i64::from(entry.version)));
            self.state.ahead.fetching = true;
            self.state.work.changes += 1;
            self.state.reindex(id);
        }
    }

    /// The source to read a part from, the nearest copy first. It stays there until [`Up::release`], also behind the end of
    /// the restore.
    pub fn acquire(&mut self, id: Id, part: Part) -> Acquire {
        self.acquire_if(id, part, false)
    }

    /// The same for who reads behind the copies of a capture, which may still be on their way.
    pub fn acquire_behind(&mut self, id: Id, part: Part) -> Acquire {
        self.acquire_if(id, part, true)
    }

    fn acquire_if(&mut self, id: Id, part: Part, behind: bool) -> Acquire {
        let top = self.state.levels.top(part);
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return Acquire::Lost;
        };
        let (in_file, arriving) = (entry.in_file(), entry.arriving[part as usize]);
        let state = entry.part_mut(part);
        let Some(level) = state.first() else {
            return if in_file { Acquire::File } else { Acquire::Lost };
        };
        let copy = state.copy_mut(level);
        if copy.stage == Stage::Filling && !(behind && arriving) {
            return Acquire::Wait;
        }
        copy.readers += 1;
        let extents = copy.extents.clone();
        // It may be read longer than its restore lasts.
        entry.busy += 1;
        if part == Part::Device {
            match level == top {
                true => self.state.counts.device_hits += 1,
                false => self.state.counts.device_misses += 1,
            }
        }
        self.state.work.in_flight += 1;
        // What is being restored stays where it is, however many read it.
        if entry.restoring == 0 {
            self.state.reindex(id);
        }
        Acquire::Memory(Source { level, extents })
    }

    /// Ends a use of a source from [`Up::acquire`].
    pub fn release(&mut self, id: Id, part: Part, level: Level) {
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            let copy = entry.part_mut(part).copy_mut(level);
            copy.readers -= 1;
            entry.busy -= 1;
            self.state.work.in_flight -= 1;
            self.state.work.changes += 1;
            if entry.restoring == 0 {
                self.state.free_or_reindex(id);
            }
        }
    }

    /// Ends a restore. After a successful one the checkpoint counts as consumed, unless a hint
    /// says that it will be read again.
    pub fn end_restore(&mut self, id: Id, success: bool) {
        self.has_restored(id, success);
        self.state.free_or_reindex(id);
    }

    /// Ends a restore, and sets where it will be read next ([`expect`](Self::expect)).
    pub fn end_restore_expecting(&mut self, id: Id, success: bool, next: Option<u64>) {
        self.has_restored(id, success);
        let expects = self.set_place(id, next);
        self.state.free_or_reindex(id);
        if expects {
            self.goes_by_places();
        }
    }

    fn has_restored(&mut self, id: Id, success: bool) {
        let consumed = self.state.ahead.next_consumed;
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.busy -= 1;
            entry.restoring -= 1;
            if success {
                self.state.ahead.next_consumed += 1;
                self.state.counts.restores += 1;
                if let Some(versions) = self.state.checkpoints.names.get_mut(&entry.name) {
                    versions.last_read = Some(id);
                }
                self.state.rekey(id, |entry| {
                    if !entry.hints.is_empty() {
                        entry.hints.remove(0);
                    }
                    entry.consumed = entry.hints.is_empty().then_some(consumed);
                });
            }
        }
    }

    /// Enables fetching ahead.
    pub fn start_fetching(&mut self) {
        self.state.ahead.fetching = true;
        self.state.work.changes += 1;
    }

    /// The next fetch to a level from the one below.
    pub fn next_fetch(&mut self, to: Level) -> Option<MoveJob> {
        let (id, when) = next_to_fetch(self.state, to)?;
        let entry = self.state.checkpoints.entries.get(&id)?;
        let (part, from) = self.state.levels.fetch_of(entry, to)?;
        let part_state = entry.part(part);
        // What compresses takes less, or hardly more.
        let room = part_state.len.max(part_state.copy(to).needs);
        let discards = self.state.levels.level(from).spec.drive;
        if !self.make_room_for_fetch(room, when, to, discards) {
            return None;
        }
        let job = self.state.down().begin_move(id, part, [from, to], room)?;
        self.state.levels.level_mut(to).fetching += 1;
        self.state.started(id, false);
        Some(job)
    }

    /// Ends a fetch. If it failed, the checkpoint stays where it was.
    pub fn fetch_done(&mut self, job: &MoveJob, end: MoveEnd) {
        if self.state.down().end_move(job, end) == Ok(true) {
            self.state.counts.fetches += 1;
        }
        self.state.levels.level_mut(job.to.level).fetching -= 1;
        self.state.work.changes += 1;
        self.state.ended(job.id, false);
    }

    /// The next read of a file into the staging level.
    pub fn next_read(&mut self) -> Option<FileJob> {
        let (id, when) = next_to_read(self.state)?;
        let staging = self.state.levels.staging;
        let lens = PARTS
            .map(|part| self.state.checkpoints.entries.get(&id).map_or(0, |e| e.part(part).len));
        let rounded = lens.map(|len| self.state.levels.level(staging).space.rounded(len));
        if !self.make_room_for_fetch(rounded[0] + rounded[1], when, staging, false) {
            return None;
        }
        let mut memory = [None, None];
        for part in PARTS {
            if lens[part as usize] == 0 {
                continue;
            }
            let extents = self.state.levels.allocate(staging, lens[part as usize])?;
            *self.state.checkpoints.entries.get_mut(&id)?.part_mut(part).copy_mut(staging) =
                MemoryCopy::filling(extents.clone());
            memory[part as usize] = Some(Source { level: staging, extents });
        }
        self.state.started(id, false);
        let entry = self.state.checkpoints.entries.get(&id)?;
        Some(FileJob {
            id,
            name: entry.name.clone(),
            version: entry.version,
            identity: entry.identity,
            regions: entry.regions.clone(),
            memory,
        })
    }

    /// Ends a read of a file into the staging level.
    pub fn read_done(&mut self, job: &FileJob, result: &Result<()>) {
        for part in PARTS {
            let Some(Source { level, .. }) = job.memory[part as usize] else { continue };
            if result.is_err() {
                self.state.down().copy_failed(job.id, part, level);
            } else if let Some(entry) = self.state.checkpoints.entries.get_mut(&job.id) {
                entry.part_mut(part).copy_mut(level).stage = Stage::Ready;
            }
        }
        self.state.ended(job.id, false);
    }

    /// Makes room for something that will be used at `when`, by evicting only what is used later; if it `discards`,
    /// also what is nowhere else and may be discarded.
    pub(super) fn make_room_for_fetch(
        &mut self,
        len: u64,
        when: NextUse,
        level: Level,
        discards: bool,
    ) -> bool {
        loop {
            let LevelState { space, victims, complete, .. } = self.state.levels.level(level);
            if space.rounded(len) <= space.free() {
                return true;
            }
            if !complete {
                return false;
            }
            let discardable = (EvictionClass::Discardable, 0);
            let latest = [victims.range(..discardable), victims.range(discardable..)]
                .into_iter()
                .take(1 + usize::from(discards))
                .find_map(|of_class| {
                    of_class
                        .take(VICTIMS_COMPARED)
                        .filter_map(|&(_, id)| {
                            let entry = self.state.checkpoints.entries.get(&id)?;
                            Some((self.state.ahead.next_use(entry), id))
                        })
                        .filter(|(use_of_victim, _)| *use_of_victim > when)
                        .max_by_key(|&(use_of_victim, id)| (use_of_victim, std::cmp::Reverse(id)))
                });
            match latest {
                Some((_, id)) => self.state.eviction().evict(id, level),
                None => return false,
            }
        }
    }
}
