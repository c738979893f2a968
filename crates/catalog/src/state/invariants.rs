//! The invariants of the state.

use super::level::LevelState;
use super::lists::has_bytes;
use super::lists::lists_of;
use super::State;
use crate::entry::{Entry, Life, Readable, Stage};
use crate::space::Extent;
use crate::{Id, MOST, PARTS};
use policy::evict::EvictionClass;
use std::collections::BTreeSet;
use std::sync::Arc;

/// All lists, to compare the stored ones with newly computed ones.
#[derive(Debug, Default, PartialEq)]
struct Compared {
    flush: [BTreeSet<(bool, Id)>; MOST],
    victims: [BTreeSet<(u8, Id)>; MOST],
    fetch: [FetchLists; MOST],
    read: FetchLists,
    write: [BTreeSet<(u8, Id)>; 2],
    persist: BTreeSet<Id>,
    failed: BTreeSet<Id>,
}

/// Checkpoints that could be fetched: by hint, and by name and version.
type FetchLists = (BTreeSet<(u64, Id)>, BTreeSet<(Arc<str>, i32)>);

impl Compared {
    fn add(&mut self, id: Id, entry: &Entry) {
        let lists = &entry.lists;
        let ahead = |list: &mut FetchLists, wanted: bool| {
            if wanted {
                list.0.extend(entry.hints.first().map(|&hint| (hint, id)));
                list.1.insert((entry.name.clone(), entry.version));
            }
        };
        for i in 0..MOST {
            self.flush[i].extend(lists.flush[i].then_some((entry.consumed.is_some(), id)));
            self.victims[i].extend(lists.victim[i].map(|rank| (rank as u8, id)));
            ahead(&mut self.fetch[i], lists.fetch[i]);
        }
        ahead(&mut self.read, lists.read);
        for (set, from) in self.write.iter_mut().zip([lists.write, lists.spill]) {
            set.extend(from.map(|from| (from as u8, id)));
        }
        self.failed.extend(lists.failed.then_some(id));
        self.persist.extend(lists.persist.then_some(id));
    }
}

impl State {
    /// Checks every invariant; used by the tests after each step.
    ///
    /// 1. Room: each byte of a level is free, set aside, stranded or in exactly one copy.
    /// 2. No data is lost: every part of a live checkpoint is complete somewhere, or in a deferred capture.
    /// 3. The lists agree with the entries.
    /// 4. Names and entries refer to each other.
    /// 5. Each held checkpoint is held for exactly one exposed one.
    /// 6. Waiting hints are for checkpoints that do not exist, or are dropped.
    /// 7. Only complete copies are read, or those of a deferred capture; a copy that is read is not a victim, and is where
    ///    it was unless its room is stranded.
    pub fn check(&self) -> std::result::Result<(), String> {
        for level in self.levels.all() {
            let LevelState { spec, space, aside, stranded, .. } = self.levels.level(level);
            let copies = self.checkpoints.entries.values().flat_map(|entry| &entry.parts);
            let held = copies.flat_map(|part| part.copy(level).extents.iter().copied());
            let mut held: Vec<Extent> = held.collect();
            held.sort_by_key(|extent| extent.offset);
            if held.windows(2).any(|pair| pair[0].offset + pair[0].len > pair[1].offset) {
                return Err(format!("{}: two copies overlap: {held:?}", spec.name));
            }
            let sum: u64 = held.iter().map(|extent| extent.len).sum();
            if sum + aside + stranded + space.free() != space.capacity() {
                return Err(format!("{}: {sum} held + {} free", spec.name, space.free()));
            }
        }
        let exposed = self.checkpoints.entries.values().filter(|entry| entry.lists.exposed).count();
        if exposed != self.successor.exposed {
            return Err(format!("{exposed} are exposed, not {}", self.successor.exposed));
        }
        let holds = self
            .checkpoints
            .entries
            .values()
            .filter(|entry| entry.is_exposed(self.successor.hands_over));
        let held_for: BTreeSet<Id> = holds.filter_map(|entry| entry.replaces).collect();
        let held = self
            .checkpoints
            .entries
            .iter()
            .filter(|(_, entry)| entry.life == Life::Held)
            .map(|(id, _)| *id);
        let held: BTreeSet<Id> = held.collect();
        if held != self.successor.held || !held.is_subset(&held_for) {
            return Err(format!(
                "{held:?} are held, not {:?} of {held_for:?}",
                self.successor.held
            ));
        }
        let mut fresh = Compared::default();
        for (&id, entry) in &self.checkpoints.entries {
            let expected = lists_of(self, id, entry);
            if entry.lists != expected {
                return Err(format!("{id}: in lists {:?}, not {expected:?}", entry.lists));
            }
            fresh.add(id, entry);
            if entry.life == Life::Live {
                if self.checkpoints.find(&entry.name, entry.version) != Some(id) {
                    return Err(format!("{id}: live, but not under its name"));
                }
                for part in PARTS {
                    if !has_bytes(entry, part) {
                        return Err(format!("{id}: {part:?} is nowhere: {entry:?}"));
                    }
                }
            }
            for (part, arriving) in entry.parts.iter().zip(entry.arriving) {
                for copy in part.copies.iter().filter(|copy| copy.readers > 0) {
                    let is_there = copy.stage == Stage::Ready
                        || copy.stage == Stage::Filling && arriving
                        || copy.extents.is_empty();
                    if !is_there {
                        return Err(format!("{id}: a copy is read that is {:?}", copy.stage));
                    }
                }
            }
        }
        let ranks = |set: &BTreeSet<(EvictionClass, Id)>| {
            set.iter().map(|&(r, id)| (r as u8, id)).collect()
        };
        let readable = |set: &BTreeSet<(Readable, Id)>| {
            set.iter().map(|&(from, id)| (from as u8, id)).collect()
        };
        let mut kept = Compared {
            write: [readable(&self.work.write), readable(&self.work.spill)],
            persist: self.work.persist.clone(),
            failed: self.failures.failed.clone(),
            read: (
                self.ahead.hinted.clone(),
                self.checkpoints.versions_of(|versions| &versions.read),
            ),
            ..Compared::default()
        };
        for (i, level) in self.levels.levels.iter().enumerate() {
            kept.flush[i] = level.flush.clone();
            kept.victims[i] = ranks(&level.victims);
            let versions = self.checkpoints.versions_of(|versions| &versions.fetch[i]);
            kept.fetch[i] = (level.hinted.clone(), versions);
        }
        if kept != fresh {
            return Err(format!("the lists are {kept:?}, not {fresh:?}"));
        }
        for (name, versions) in &self.checkpoints.names {
            for (&version, hints) in &versions.hints {
                let there = self
                    .checkpoints
                    .find(name, version)
                    .and_then(|id| self.checkpoints.entries.get(&id));
                if hints.is_empty() || there.is_some_and(|entry| !entry.doomed) {
                    return Err(format!("{hints:?} wait for \"{name}\" version {version}"));
                }
            }
        }
        let live = self.checkpoints.entries.values().filter(|e| e.life == Life::Live).count();
        if live != self.checkpoints.live() {
            return Err(format!("{live} live entries, {} under names", self.checkpoints.live()));
        }
        Ok(())
    }
}
