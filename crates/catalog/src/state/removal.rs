//! Steps that end a checkpoint's life. One whose version is taken again is dropped once the new one would survive this
//! process; until then, the bytes in its ledger record are held.

use super::State;
use crate::entry::{Entry, FileCopy, Life, Stage};
use crate::{FileLevel, Id, Level};
use policy::evict::EvictionClass;

/// How many checkpoints are remembered that were cleaned up: the agreement of the processes comes some checkpoints late.
const MOST_CLEANED: usize = 1024;

/// Whether the backend would write a checkpoint from the staging level, and there is no file of it.
fn is_worth_holding(entry: &Entry) -> bool {
    let in_memory = entry.noted.is_some_and(|(_, now)| now.in_host && !now.in_scratch);
    in_memory && !entry.doomed
}

/// Steps that end a checkpoint's life.
#[derive(Debug)]
pub struct RemovalSteps<'a> {
    pub(super) state: &'a mut State,
}

impl RemovalSteps<'_> {
    /// Drops a version everywhere, even if it has still to reach a file.
    pub fn withdraw(&mut self, name: &str, version: i32) {
        if let Some(id) = self.state.checkpoints.find(name, version) {
            self.state.spilled.remove(&(self.state.checkpoints.interned(name), version));
            self.discard(id, false);
        }
    }

    /// Drops a version of an ephemeral job without files, which will not be read any more.
    pub fn drop_version(&mut self, name: &str, version: i32) {
        if self.state.shape.ephemeral && !self.state.shape.scratch {
            self.withdraw(name, version);
        }
    }

    /// Removes a name's checkpoints from memory and scratch (`VELOC_Cleanup`). Those whose persistent copy
    /// has still to be made follow once it is. Returns the versions whose scratch files the caller must
    /// remove now.
    pub fn cleanup(&mut self, name: &str) -> Vec<i32> {
        let Some(versions) = self.state.checkpoints.names.get(name) else {
            return Vec::new();
        };
        let ids: Vec<(i32, Id)> = versions.live.iter().map(|(&v, &id)| (v, id)).collect();
        let mut unlink = Vec::new();
        for (version, id) in ids {
            let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
                continue;
            };
            match entry.persistent {
                FileCopy::Wanted | FileCopy::Writing => {
                    entry.doomed = true;
                    self.state.rekey(id, |entry| entry.hints.clear());
                    // The checkpoint that it has replaced is not needed either.
                    self.drop_replaced(id);
                    // The successor must know that the checkpoint is doomed.
                    self.state.reindex(id);
                }
                _ => {
                    // An active write removes its file itself.
                    entry.doomed = true;
                    if entry.scratch != FileCopy::Writing {
                        unlink.push(version);
                    }
                    self.discard_cleaned(id);
                }
            }
        }
        self.state.checkpoints.forget_hints(name);
        unlink
    }

    /// A version's file is about to be removed from a level because there are too many. Returns false if it
    /// is in use and must stay. A checkpoint that is in no file afterwards is dropped; one beyond the limit of
    /// persistent files that is still in scratch leaves memory.
    pub fn forget_file(&mut self, name: &str, version: i32, level: FileLevel) -> bool {
        let Some(id) = self.state.checkpoints.find(name, version) else {
            return true;
        };
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return true;
        };
        // Also if persisting has failed: then the scratch file is the only copy.
        let to_be_persisted = entry.persistent.is_due();
        let file = match level {
            // The persistent file replaces the one in scratch.
            FileLevel::Scratch if entry.scratch == FileCopy::Substituted => &mut entry.persistent,
            FileLevel::Scratch => &mut entry.scratch,
            FileLevel::Persistent => &mut entry.persistent,
        };
        match *file {
            FileCopy::Present => {}
            // The file may be this checkpoint's already: persistent copies get their names before the catalog
            // knows.
            FileCopy::Writing if level == FileLevel::Persistent => return false,
            // The file belongs to an older checkpoint of this version.
            _ => return true,
        }
        if entry.restoring > 0 || (level == FileLevel::Scratch && to_be_persisted) {
            return false;
        }
        *file = FileCopy::Absent;
        if !entry.in_file() {
            self.discard(id, false);
            return true;
        }
        self.state.reindex(id);
        if level == FileLevel::Persistent {
            self.vacate(id);
        }
        true
    }

    /// Gives up the bytes in memory of a checkpoint that is in a file, unless somebody uses them or will.
    fn vacate(&mut self, id: Id) {
        for level in self.state.levels.all() {
            let Some(entry) = self.state.checkpoints.entries.get(&id) else { return };
            let class = entry.lists.victim[level.index()];
            let may_go = class.is_some_and(|class| class < EvictionClass::Discardable);
            if may_go && entry.hints.is_empty() {
                self.state.eviction().evict(id, level);
            }
        }
    }

    /// Another file has replaced one that was found: drops the knowledge of the old file, and its
    /// bytes in memory. This job's own checkpoints stay.
    pub fn forget_found(&mut self, name: &str, version: i32) {
        let found = self.state.checkpoints.find(name, version);
        let found = found
            .filter(|id| self.state.checkpoints.entries.get(id).is_some_and(|entry| entry.found));
        if let Some(id) = found {
            self.discard(id, false);
        }
    }

    /// Drops a checkpoint that was cleaned up. The agreement on what is in persistent may come to it later.
    pub(super) fn discard_cleaned(&mut self, id: Id) {
        let entry = self
            .state
            .checkpoints
            .entries
            .get(&id)
            .filter(|entry| entry.persistent == FileCopy::Present);
        if let Some(entry) = entry {
            self.state.checkpoints.cleaned.insert((entry.name.clone(), entry.version), id);
            let oldest = self.state.checkpoints.cleaned.iter().min_by_key(|(_, id)| **id);
            let oldest = oldest.filter(|_| self.state.checkpoints.cleaned.len() > MOST_CLEANED);
            if let Some(oldest) = oldest.map(|(version, _)| version.clone()) {
                self.state.checkpoints.cleaned.remove(&oldest);
            }
        }
        self.discard(id, false);
    }

    pub(super) fn discard(&mut self, id: Id, to_make_room: bool) {
        if self.retire(id, Life::Dropped) && to_make_room {
            self.state.counts.discards += 1;
        }
    }

    /// Removes a checkpoint from the index of names. False: there is none.
    pub(super) fn retire(&mut self, id: Id, life: Life) -> bool {
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return false;
        };
        if entry.life == Life::Live {
            let name = entry.name.clone();
            let version = entry.version;
            if let Some(versions) = self.state.checkpoints.names.get_mut(&name) {
                if versions.live.get(&version) == Some(&id) {
                    versions.live.remove(&version);
                }
            }
        }
        self.state.delist(id);
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.life = life;
        }
        self.state.up().leave_hints(id);
        self.state.free_or_reindex(id);
        true
    }

    /// Replaces a checkpoint with a newer one of its name and version. Its file stays until the new one
    /// replaces it.
    pub(super) fn replace(&mut self, older: Id, newer: Id) {
        let exposed = self
            .state
            .checkpoints
            .entries
            .get(&newer)
            .is_some_and(|entry| entry.is_exposed(self.state.successor.hands_over));
        let held = match self.state.checkpoints.entries.get_mut(&older).filter(|_| exposed) {
            Some(entry) if is_worth_holding(entry) => Some(older),
            // The older one was not safe itself: what was held for it is held further.
            Some(entry) => entry.replaces.take(),
            None => None,
        };
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&newer) {
            entry.replaces = held;
        }
        if held == Some(older) {
            self.state.successor.held.insert(older);
            self.retire(older, Life::Held);
            self.keep_staged_copy(older);
        } else {
            self.discard(older, false);
        }
    }

    /// Drops the checkpoint that is held for this newer one.
    pub(super) fn drop_replaced(&mut self, newer: Id) {
        let older =
            self.state.checkpoints.entries.get_mut(&newer).and_then(|entry| entry.replaces.take());
        if let Some(older) = older {
            self.drop_held(older);
        }
    }

    /// Drops the oldest held checkpoint, as its room is needed and none is coming. False: none is held.
    pub(super) fn drop_oldest_held(&mut self) -> bool {
        let oldest = self.state.successor.held.first().copied();
        oldest.is_some_and(|id| self.drop_held(id))
    }

    /// Drops a held checkpoint. False: it is not held.
    pub(super) fn drop_held(&mut self, id: Id) -> bool {
        if !self.state.successor.held.remove(&id) {
            return false;
        }
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.life = Life::Dropped;
        }
        self.state.free_or_reindex(id);
        true
    }

    /// Undoes a replacement: the newer checkpoint does not exist after all.
    pub(super) fn undo_replace(&mut self, newer: Id) {
        let older =
            self.state.checkpoints.entries.get_mut(&newer).and_then(|entry| entry.replaces.take());
        self.discard(newer, false);
        let Some(older) = older.filter(|older| self.state.successor.held.remove(older)) else {
            return;
        };
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&older) {
            entry.life = Life::Live;
            let (name, version) = (entry.name.clone(), entry.version);
            self.state.checkpoints.names.entry(name).or_default().live.insert(version, older);
            self.state.work.changes += 1;
        }
        self.state.up().take_hints(older);
        self.state.reindex(older);
    }

    /// Frees copies outside the staging level, which are only for restores.
    fn keep_staged_copy(&mut self, id: Id) {
        let Some(entry) =
            self.state.checkpoints.entries.get_mut(&id).filter(|entry| !entry.stranded)
        else {
            return;
        };
        for part in &mut entry.parts {
            for (i, copy) in part.copies.iter_mut().enumerate() {
                let is_free = copy.stage == Stage::Ready && copy.readers == 0;
                if is_free && Level::new(i) != self.state.levels.staging {
                    self.state.levels.levels[i].space.release(&std::mem::take(copy).extents);
                    self.state.work.changes += 1;
                }
            }
        }
    }
}
