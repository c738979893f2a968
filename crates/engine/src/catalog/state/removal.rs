//! Steps that end a checkpoint's life.

use std::sync::Arc;

use super::State;
use crate::catalog::entry::{FileCopy, FileLevel, Id, Life};

impl State {
    /// Removes a name's checkpoints from memory and scratch (`VELOC_Cleanup`). Those whose
    /// persistent copy is still to be made go once it is. Returns the versions whose scratch files
    /// the caller must remove now.
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
                    // Nobody wants the one that it has replaced any more, either.
                    self.let_go_of_replaced(id);
                    // Whoever goes on for this process must know it, too.
                    self.reindex(id);
                }
                _ => {
                    // A write under way removes its file itself.
                    entry.doomed = true;
                    if entry.scratch != FileCopy::Writing {
                        unlink.push(version);
                    }
                    self.discard(id, false);
                }
            }
        }
        self.forget_hints(name);
        unlink
    }

    /// A version's file is about to be removed from a level because there are too many. False: it is
    /// still in use, and must stay. A checkpoint that is in no file after that is gone.
    pub(crate) fn forget_file(&mut self, name: &str, version: i32, level: FileLevel) -> bool {
        let Some(id) = self.find(name, version) else {
            return true;
        };
        let Some(entry) = self.entries.get_mut(&id) else {
            return true;
        };
        // Or has failed to be: then this is the only copy.
        let to_be_persisted = entry.persistent.is_due();
        let file = match level {
            // It stands for the one in scratch.
            FileLevel::Scratch if entry.scratch == FileCopy::Substituted => &mut entry.persistent,
            FileLevel::Scratch => &mut entry.scratch,
            FileLevel::Persistent => &mut entry.persistent,
        };
        match *file {
            FileCopy::Present => {}
            // The file that is there may be this one already: persistent copies get their names
            // before it is known here.
            FileCopy::Writing if level == FileLevel::Persistent => return false,
            // The file is that of an older checkpoint of this version.
            _ => return true,
        }
        if entry.restoring > 0 || (level == FileLevel::Scratch && to_be_persisted) {
            return false;
        }
        *file = FileCopy::Absent;
        if entry.in_file() {
            self.reindex(id);
        } else {
            self.discard(id, false);
        }
        true
    }

    /// Another file has taken the place of one that was found: what is known of that, and of it in
    /// memory, goes. What this job has taken stays.
    pub fn forget_found(&mut self, name: &str, version: i32) {
        let found = self.find(name, version);
        let found = found.filter(|id| self.entries.get(id).is_some_and(|entry| entry.found));
        if let Some(id) = found {
            self.discard(id, false);
        }
    }

    /// The scratch files that an ephemeral job has written, as name and version.
    pub fn spilled(&self) -> Vec<(Arc<str>, i32)> {
        self.spilled.iter().cloned().collect()
    }

    pub(super) fn discard(&mut self, id: Id, to_make_room: bool) {
        if self.retire(id, Life::Dropped) && to_make_room {
            self.counts.discards += 1;
        }
    }

    /// Nobody finds a checkpoint under its name any more. False: there is none.
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
