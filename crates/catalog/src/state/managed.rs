//! Steps for checkpoints whose versions are managed one by one: each is read at its position in the order,
//! and removed when its manager does not need it any more, regardless of limits.

use std::collections::BTreeSet;

use super::State;
use crate::entry::{Entry, FileCopy, Life};
use crate::{FileLevel, Id};

impl State {
    /// The live versions of a name, ascending.
    pub fn versions(&self, name: &str) -> BTreeSet<i32> {
        self.names.get(name).map(|of| of.live.keys().copied().collect()).unwrap_or_default()
    }

    /// Reserves `places` positions in the order of hints, and returns the first.
    pub fn reserve_hints(&mut self, places: u64) -> u64 {
        let first = self.next_hint;
        self.next_hint = first.saturating_add(places);
        first
    }

    /// Sets the only position in the order of hints at which a checkpoint will be read. `None`: it will not
    /// be read. If the application `reads`, fetching continues, only in the order of positions.
    pub fn expect(&mut self, id: Id, place: Option<u64>, reads: bool) {
        if !self.set_place(id, place) {
            return;
        }
        self.reindex(id);
        if reads {
            self.goes_by_places();
        }
    }

    /// Sets the position at which a checkpoint will be read. Returns whether it exists; if so, the caller
    /// updates the lists.
    pub(super) fn set_place(&mut self, id: Id, place: Option<u64>) -> bool {
        if self
            .entries
            .get(&id)
            .is_none_or(|entry| matches!(entry.life, Life::Held | Life::Dropped))
        {
            return false;
        }
        self.rekey(id, |entry| {
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
        self.reading = None;
        self.start_fetching();
    }

    /// Marks a region of an open checkpoint as its mark.
    pub fn mark(&mut self, id: Id, region: i32) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.mark = Some(region);
        }
    }

    /// The id of a checkpoint's mark, if it has one.
    pub fn mark_of(&self, id: Id) -> Option<i32> {
        self.entries.get(&id)?.mark
    }

    /// Whether a checkpoint is managed, so that no limit applies to it.
    pub fn is_managed(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.is_managed())
    }

    /// Whether a version's file has its name in a level, or has bypassed scratch to the next one.
    pub fn has_file(&self, name: &str, version: i32, level: FileLevel) -> bool {
        let entry = self.find(name, version).and_then(|id| self.entries.get(&id));
        entry.is_some_and(|entry| {
            FileCopy::Present
                == match level {
                    FileLevel::Scratch if !entry.scratch.is_bypassed() => entry.scratch,
                    FileLevel::Scratch | FileLevel::Persistent => entry.persistent,
                }
        })
    }

    /// Drops a version everywhere, even if it has still to reach a file.
    pub fn withdraw(&mut self, name: &str, version: i32) {
        if let Some(id) = self.find(name, version) {
            self.spilled.remove(&(self.interned(name), version));
            self.discard(id, false);
        }
    }

    /// Drops a version of an ephemeral job without files, which will not be read any more.
    pub fn drop_version(&mut self, name: &str, version: i32) {
        if self.shape.ephemeral && !self.shape.scratch {
            self.withdraw(name, version);
        }
    }

    /// Whether nothing of a dropped version is still being written.
    pub fn is_withdrawn(&self, name: &str) -> bool {
        let writes = |entry: &Entry| {
            *entry.name == *name
                && matches!(entry.life, Life::Held | Life::Dropped)
                && [entry.scratch, entry.persistent].contains(&FileCopy::Writing)
        };
        !self.entries.values().any(|entry| writes(entry))
    }
}
