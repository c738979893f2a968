//! Steps that end a checkpoint's life.

use std::sync::Arc;

use super::State;
use crate::entry::{FileCopy, Life};
use crate::{FileLevel, Id};
use policy::evict::EvictionClass;

/// How many checkpoints are remembered that were cleaned up: the agreement of the processes comes some checkpoints late.
const MOST_CLEANED: usize = 1024;

impl State {
    /// Removes a name's checkpoints from memory and scratch (`VELOC_Cleanup`). Those whose persistent copy
    /// has still to be made follow once it is. Returns the versions whose scratch files the caller must
    /// remove now.
    pub fn cleanup(&mut self, name: &str) -> Vec<i32> {
        let Some(versions) = self.names.get(name) else {
            return Vec::new();
        };
        let ids: Vec<(i32, Id)> = versions.live.iter().map(|(&v, &id)| (v, id)).collect();
        let mut unlink = Vec::new();
        for (version, id) in ids {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            match entry.persistent {
                FileCopy::Wanted | FileCopy::Writing => {
                    entry.doomed = true;
                    self.rekey(id, |entry| entry.hints.clear());
                    // The checkpoint that it has replaced is not needed either.
                    self.drop_replaced(id);
                    // The successor must know that the checkpoint is doomed.
                    self.reindex(id);
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
        self.forget_hints(name);
        unlink
    }

    /// A version's file is about to be removed from a level because there are too many. Returns false if it
    /// is in use and must stay. A checkpoint that is in no file afterwards is dropped; one beyond the limit of
    /// persistent files that is still in scratch leaves memory.
    pub fn forget_file(&mut self, name: &str, version: i32, level: FileLevel) -> bool {
        let Some(id) = self.find(name, version) else {
            return true;
        };
        let Some(entry) = self.entries.get_mut(&id) else {
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
        self.reindex(id);
        if level == FileLevel::Persistent {
            self.vacate(id);
        }
        true
    }

    /// Gives up the bytes in memory of a checkpoint that is in a file, unless somebody uses them or will.
    fn vacate(&mut self, id: Id) {
        for level in self.levels() {
            let Some(entry) = self.entries.get(&id) else { return };
            let class = entry.lists.victim[level.index()];
            let may_go = class.is_some_and(|class| class < EvictionClass::Discardable);
            if may_go && entry.hints.is_empty() {
                self.evict(id, level);
            }
        }
    }

    /// Another file has replaced one that was found: drops the knowledge of the old file, and its
    /// bytes in memory. This job's own checkpoints stay.
    pub fn forget_found(&mut self, name: &str, version: i32) {
        let found = self.find(name, version);
        let found = found.filter(|id| self.entries.get(id).is_some_and(|entry| entry.found));
        if let Some(id) = found {
            self.discard(id, false);
        }
    }

    /// The scratch files that an ephemeral job has written or is writing, by name and version.
    pub fn spilled(&self) -> Vec<(Arc<str>, i32)> {
        self.spilled.iter().cloned().collect()
    }

    /// Drops a checkpoint that was cleaned up. The agreement on what is in persistent may come to it later.
    pub(super) fn discard_cleaned(&mut self, id: Id) {
        let entry = self.entries.get(&id).filter(|entry| entry.persistent == FileCopy::Present);
        if let Some(entry) = entry {
            self.cleaned.insert((entry.name.clone(), entry.version), id);
            let oldest = self.cleaned.iter().min_by_key(|(_, id)| **id);
            let oldest = oldest.filter(|_| self.cleaned.len() > MOST_CLEANED);
            if let Some(oldest) = oldest.map(|(version, _)| version.clone()) {
                self.cleaned.remove(&oldest);
            }
        }
        self.discard(id, false);
    }

    pub(super) fn discard(&mut self, id: Id, to_make_room: bool) {
        if self.retire(id, Life::Dropped) && to_make_room {
            self.counts.discards += 1;
        }
    }

    /// Removes a checkpoint from the index of names. False: there is none.
    pub(super) fn retire(&mut self, id: Id, life: Life) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else {
            return false;
        };
        if entry.life == Life::Live {
            let name = entry.name.clone();
            let version = entry.version;
            if let Some(versions) = self.names.get_mut(&name) {
                if versions.live.get(&version) == Some(&id) {
                    versions.live.remove(&version);
                }
            }
        }
        self.delist(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.life = life;
        }
        self.leave_hints(id);
        self.free_or_reindex(id);
        true
    }
}
