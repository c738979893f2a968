//! Steps of a version that is taken again. The older checkpoint is dropped once the new one would survive
//! this process; until then, the bytes in its ledger record are held.

use super::State;
use crate::entry::{Entry, Life, Stage};
use crate::{Id, Level};

impl State {
    /// Replaces a checkpoint with a newer one of its name and version. Its file stays until the new one
    /// replaces it.
    pub(super) fn replace(&mut self, older: Id, newer: Id) {
        let exposed =
            self.entries.get(&newer).is_some_and(|entry| entry.is_exposed(self.hands_over));
        let held = match self.entries.get_mut(&older).filter(|_| exposed) {
            Some(entry) if is_worth_holding(entry) => Some(older),
            // The older one was not safe itself: what was held for it is held further.
            Some(entry) => entry.replaces.take(),
            None => None,
        };
        if let Some(entry) = self.entries.get_mut(&newer) {
            entry.replaces = held;
        }
        if held == Some(older) {
            self.held.insert(older);
            self.retire(older, Life::Held);
            self.keep_staged_copy(older);
        } else {
            self.discard(older, false);
        }
    }

    /// Drops the checkpoint that is held for this newer one.
    pub(super) fn drop_replaced(&mut self, newer: Id) {
        let older = self.entries.get_mut(&newer).and_then(|entry| entry.replaces.take());
        if let Some(older) = older {
            self.drop_held(older);
        }
    }

    /// Drops the oldest held checkpoint, as its room is needed and none is coming. False: none is held.
    pub(super) fn drop_oldest_held(&mut self) -> bool {
        let oldest = self.held.first().copied();
        oldest.is_some_and(|id| self.drop_held(id))
    }

    /// Drops a held checkpoint. False: it is not held.
    pub(super) fn drop_held(&mut self, id: Id) -> bool {
        if !self.held.remove(&id) {
            return false;
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.life = Life::Dropped;
        }
        self.free_or_reindex(id);
        true
    }

    /// Undoes a replacement: the newer checkpoint does not exist after all.
    pub(super) fn undo_replace(&mut self, newer: Id) {
        let older = self.entries.get_mut(&newer).and_then(|entry| entry.replaces.take());
        self.discard(newer, false);
        let Some(older) = older.filter(|older| self.held.remove(older)) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&older) {
            entry.life = Life::Live;
            let (name, version) = (entry.name.clone(), entry.version);
            self.names.entry(name).or_default().live.insert(version, older);
            self.changes += 1;
        }
        self.take_hints(older);
        self.reindex(older);
    }

    /// Frees copies outside the staging level, which are only for restores.
    fn keep_staged_copy(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| !entry.stranded) else {
            return;
        };
        for part in &mut entry.parts {
            for (i, copy) in part.copies.iter_mut().enumerate() {
                let is_free = copy.stage == Stage::Ready && copy.readers == 0;
                if is_free && Level::new(i) != self.staging {
                    self.levels[i].space.release(&std::mem::take(copy).extents);
                    self.changes += 1;
                }
            }
        }
    }
}

/// Whether the backend would write a checkpoint from the staging level, and there is no file of it.
fn is_worth_holding(entry: &Entry) -> bool {
    let in_memory = entry.noted.is_some_and(|(_, now)| now.in_host && !now.in_scratch);
    in_memory && !entry.doomed
}
