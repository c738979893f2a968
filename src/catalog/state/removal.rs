//! Steps that end a checkpoint's life.

use std::sync::Arc;

use super::State;
use crate::catalog::entry::{FileCopy, Id, Life};

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
                FileCopy::Wanted | FileCopy::Writing => entry.doomed = true,
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
        unlink
    }

    /// The scratch files that an ephemeral job has written, as name and version.
    pub fn spilled(&self) -> Vec<(Arc<str>, i32)> {
        self.spilled.iter().cloned().collect()
    }

    pub(super) fn discard(&mut self, id: Id, to_make_room: bool) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
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
            entry.life = Life::Dropped;
            entry.hints.clear();
        }
        if to_make_room {
            self.counts.discards += 1;
        }
        self.settle(id);
    }
}
