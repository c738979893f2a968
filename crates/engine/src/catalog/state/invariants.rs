//! What is true after every step.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::lists::has_bytes;
use super::{State, Versions};
use crate::catalog::entry::{Entry, Id, Life, Stage, Tier, PARTS};
use levels::space::Extent;

impl State {
    /// Checks every invariant; used by the tests after each step.
    ///
    /// 1. Room: each byte of a tier is free or in exactly one copy.
    /// 2. Nothing is lost: every part of a live checkpoint is complete somewhere, or on its way
    ///    from memory that the application has lent.
    /// 3. The lists are what the entries say.
    /// 4. Names and entries name each other.
    /// 5. What was replaced is held for exactly one that is exposed.
    /// 6. Hints wait for what is not there, or is to go.
    /// 7. Nobody reads a copy that is not complete, and what is read is not a victim.
    pub fn check(&self) -> std::result::Result<(), String> {
        for (tier, space) in [(Tier::Device, &self.device), (Tier::Host, &self.host)] {
            let mut held: Vec<Extent> = Vec::new();
            for entry in self.entries.values() {
                for part in &entry.parts {
                    held.extend(part.copy(tier).extents.iter());
                }
            }
            held.sort_by_key(|extent| extent.offset);
            if held.windows(2).any(|pair| pair[0].offset + pair[0].len > pair[1].offset) {
                return Err(format!("{tier:?}: two copies overlap: {held:?}"));
            }
            let sum: u64 = held.iter().map(|extent| extent.len).sum();
            if sum + space.free() != space.capacity() {
                return Err(format!("{tier:?}: {sum} held + {} free", space.free()));
            }
        }
        let exposed = self.entries.values().filter(|entry| entry.exposed).count();
        if exposed != self.exposed {
            return Err(format!("{exposed} are exposed, not {}", self.exposed));
        }
        let holds = self.entries.values().filter(|entry| entry.exposed);
        let held_for: BTreeSet<Id> = holds.filter_map(|entry| entry.replaces).collect();
        let held = self.entries.iter().filter(|(_, entry)| entry.held).map(|(id, _)| *id);
        let held: BTreeSet<Id> = held.collect();
        if held != self.held || !held.is_subset(&held_for) {
            return Err(format!("{held:?} are held, not {:?} of {held_for:?}", self.held));
        }
        let mut fresh = Compared::default();
        for (&id, entry) in &self.entries {
            let expected = self.lists_of(entry);
            if entry.lists != expected {
                return Err(format!("{id}: in lists {:?}, not {expected:?}", entry.lists));
            }
            fresh.add(id, entry);
            if entry.life == Life::Live {
                if self.find(&entry.name, entry.version) != Some(id) {
                    return Err(format!("{id}: live, but not under its name"));
                }
                for part in PARTS {
                    if !has_bytes(entry, part) {
                        return Err(format!("{id}: {part:?} is nowhere: {entry:?}"));
                    }
                }
            }
            for copy in entry.parts.iter().flat_map(|part| [&part.device, &part.host]) {
                if copy.readers > 0 && copy.stage != Stage::Ready {
                    return Err(format!("{id}: a copy is read that is {:?}", copy.stage));
                }
            }
        }
        let kept = Compared {
            flush: self.flush.clone(),
            ranked: [
                self.write.iter().map(|&(rank, id)| (rank as u8, id)).collect(),
                self.spill.iter().map(|&(rank, id)| (rank as u8, id)).collect(),
                self.device_victims.iter().map(|&(rank, id)| (rank as u8, id)).collect(),
                self.host_victims.iter().map(|&(rank, id)| (rank as u8, id)).collect(),
            ],
            persist: self.persist.clone(),
            failed: self.failed.clone(),
            hinted: [self.hinted_to_device.clone(), self.hinted_to_host.clone()],
            versions: [
                self.versions_of(|versions| &versions.to_device),
                self.versions_of(|versions| &versions.to_host),
            ],
        };
        if kept != fresh {
            return Err(format!("the lists are {kept:?}, not {fresh:?}"));
        }
        for (name, versions) in &self.names {
            for (&version, hints) in &versions.hints {
                let there = self.find(name, version).and_then(|id| self.entries.get(&id));
                if hints.is_empty() || there.is_some_and(|entry| !entry.doomed) {
                    return Err(format!("{hints:?} wait for \"{name}\" version {version}"));
                }
            }
        }
        let live = self.entries.values().filter(|e| e.life == Life::Live).count();
        if live != self.live() {
            return Err(format!("{live} live entries, {} under names", self.live()));
        }
        Ok(())
    }
}

/// All lists, for comparing them as they are kept with what the entries say.
#[derive(Debug, Default, PartialEq)]
struct Compared {
    flush: BTreeSet<(bool, Id)>,
    ranked: [BTreeSet<(u8, Id)>; 4],
    persist: BTreeSet<Id>,
    failed: BTreeSet<Id>,
    hinted: [BTreeSet<(u64, Id)>; 2],
    versions: [BTreeSet<(Arc<str>, i32)>; 2],
}

impl Compared {
    fn add(&mut self, id: Id, entry: &Entry) {
        let lists = &entry.lists;
        if lists.flush {
            self.flush.insert((entry.consumed.is_some(), id));
        }
        let ranks = [
            lists.write.map(|rank| rank as u8),
            lists.spill.map(|rank| rank as u8),
            lists.device_victim.map(|rank| rank as u8),
            lists.host_victim.map(|rank| rank as u8),
        ];
        for (set, rank) in self.ranked.iter_mut().zip(ranks) {
            set.extend(rank.map(|rank| (rank, id)));
        }
        if lists.failed {
            self.failed.insert(id);
        }
        if lists.persist {
            self.persist.insert(id);
        }
        for (i, fetchable) in [lists.to_device, lists.to_host].into_iter().enumerate() {
            if fetchable {
                self.hinted[i].extend(entry.hints.first().map(|&hint| (hint, id)));
                self.versions[i].insert((entry.name.clone(), entry.version));
            }
        }
    }
}

impl State {
    fn versions_of(
        &self,
        which: impl Fn(&Versions) -> &BTreeSet<i32>,
    ) -> BTreeSet<(Arc<str>, i32)> {
        self.names
            .iter()
            .flat_map(|(name, versions)| which(versions).iter().map(|&v| (name.clone(), v)))
            .collect()
    }
}
