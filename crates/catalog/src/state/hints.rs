//! Hints: which checkpoints the application will read, in which order. A hint names a version, not a
//! checkpoint: it waits if there is no such checkpoint yet, and applies to one that replaces another. It ends
//! with the restore that it announces, with `VELOC_Cleanup`, or with the job.

use std::sync::Arc;

use super::State;
use crate::entry::Entry;
use crate::Id;

impl State {
    /// Adds a hint: this version will be read after those hinted before. It need not exist yet.
    pub fn hint(&mut self, name: &str, version: i32) {
        let position = self.next_hint;
        self.next_hint += 1;
        let there = self.find(name, version);
        match there.filter(|id| self.entries.get(id).is_some_and(|entry| !entry.doomed)) {
            Some(id) => {
                self.rekey(id, |entry| {
                    entry.hints.push(position);
                    entry.consumed = None;
                });
                self.reindex(id);
            }
            // A checkpoint that was cleaned up will not be read.
            None => self.keep_hints(&self.interned(name), version, vec![position]),
        }
    }

    /// The first hinted checkpoint that does not exist, and the number of such ones.
    pub fn hinted_in_vain(&self) -> Option<(Arc<str>, i32, usize)> {
        let count = self.names.values().map(|versions| versions.hints.len()).sum();
        let firsts =
            self.names.iter().filter_map(|(name, of)| Some((name, of.hints.keys().next()?)));
        firsts.min().map(|(name, version)| (name.clone(), *version, count))
    }

    /// Stores the hints of a version that does not exist.
    pub(super) fn keep_hints(&mut self, name: &Arc<str>, version: i32, hints: Vec<u64>) {
        if !hints.is_empty() {
            let versions = self.names.entry(name.clone()).or_default();
            versions.hints.entry(version).or_default().extend(hints);
        }
    }

    /// Gives a new checkpoint the hints that wait for it. The caller updates the lists.
    pub(super) fn take_hints(&mut self, id: Id) {
        let Some(entry) = self.entries.get(&id).filter(|entry| !entry.doomed) else {
            return;
        };
        let goes_by_hints = goes_by_hints(entry);
        let versions = self.names.get_mut(&entry.name);
        let hints = versions.and_then(|versions| versions.hints.remove(&entry.version));
        if let Some(hints) = hints.filter(|_| goes_by_hints) {
            self.rekey(id, |entry| {
                entry.hints.extend(hints);
                entry.consumed = None;
            });
        }
    }

    /// Stores the hints of a checkpoint that is removed, and in no list any more, for the next one of its
    /// name and version.
    pub(super) fn leave_hints(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let hints = std::mem::take(&mut entry.hints);
        if goes_by_hints(entry) && !entry.doomed {
            let (name, version) = (entry.name.clone(), entry.version);
            self.keep_hints(&name, version, hints);
        }
    }

    /// The positions of the hints for a version, whether it exists or not.
    #[cfg(test)]
    pub(crate) fn hints_of(&self, name: &str, version: i32) -> Vec<u64> {
        let early = self.names.get(name).and_then(|versions| versions.hints.get(&version));
        let there = self.find(name, version).and_then(|id| self.entries.get(&id));
        let both = there.map(|entry| &entry.hints).into_iter().chain(early);
        both.flatten().copied().collect()
    }

    /// Removes all hints for a name.
    pub(super) fn forget_hints(&mut self, name: &str) {
        if let Some(versions) = self.names.get_mut(name) {
            versions.hints.clear();
        }
    }
}

/// Whether hints tell when a checkpoint is read, rather than a manager.
fn goes_by_hints(entry: &Entry) -> bool {
    !entry.is_managed()
}
