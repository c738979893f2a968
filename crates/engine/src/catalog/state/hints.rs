//! Hints: which checkpoints the application will read, and in which order. A hint is about a name and a
//! version. It waits where there is no checkpoint of these yet, and goes over to the one that takes
//! another's place; it ends with the restore that it speaks of, with `VELOC_Cleanup`, or with the job.

use std::sync::Arc;

use super::State;
use crate::catalog::entry::{Entry, Id};

impl State {
    /// Adds a hint: this version will be read after those hinted before. It may still be to come.
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
            // What was cleaned up is not what will be read.
            None => self.keep_hints(&self.interned(name), version, vec![position]),
        }
    }

    /// The first of the checkpoints that were hinted and are not there, and how many there are.
    pub fn hinted_in_vain(&self) -> Option<(Arc<str>, i32, usize)> {
        let count = self.names.values().map(|versions| versions.hints.len()).sum();
        let firsts =
            self.names.iter().filter_map(|(name, of)| Some((name, of.hints.keys().next()?)));
        firsts.min().map(|(name, version)| (name.clone(), *version, count))
    }

    /// Hints of a version that is not there wait for it.
    pub(super) fn keep_hints(&mut self, name: &Arc<str>, version: i32, hints: Vec<u64>) {
        if !hints.is_empty() {
            let versions = self.names.entry(name.clone()).or_default();
            versions.hints.entry(version).or_default().extend(hints);
        }
    }

    /// A checkpoint that is there now has the hints that wait for it. The lists have to be brought in
    /// line.
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

    /// The hints of a checkpoint that goes, and is in none of the lists any more, wait for the next of
    /// its name and version.
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

    /// Positions of the hints that name a version, whether it is there or not.
    #[cfg(all(test, not(feature = "model-check")))]
    pub(in crate::catalog) fn hints_of(&self, name: &str, version: i32) -> Vec<u64> {
        let early = self.names.get(name).and_then(|versions| versions.hints.get(&version));
        let there = self.find(name, version).and_then(|id| self.entries.get(&id));
        let both = there.map(|entry| &entry.hints).into_iter().chain(early);
        both.flatten().copied().collect()
    }

    /// Nothing of a name will be read, unless it is hinted again.
    pub(super) fn forget_hints(&mut self, name: &str) {
        if let Some(versions) = self.names.get_mut(name) {
            versions.hints.clear();
        }
    }
}

/// Whether the application says when it is read, and nobody who manages it.
fn goes_by_hints(entry: &Entry) -> bool {
    !entry.is_managed()
}
