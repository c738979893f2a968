//! What is true after every step.

use std::collections::BTreeSet;

use super::lists::has_bytes;
use super::State;
use crate::catalog::entry::{Life, Stage, Tier, PARTS};
use crate::tier::space::Extent;

impl State {
    /// Checks every invariant; used by the tests after each step.
    ///
    /// 1. Room: each byte of a tier is free or in exactly one copy.
    /// 2. Nothing is lost: every part of a live checkpoint is complete somewhere.
    /// 3. The lists are what the entries say.
    /// 4. Names and entries name each other.
    /// 5. Nobody reads a copy that is not complete, and what is read is not a victim.
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
        let mut flush = BTreeSet::new();
        for (&id, entry) in &self.entries {
            let expected = self.lists_of(entry);
            if entry.lists != expected {
                return Err(format!("{id}: in lists {:?}, not {expected:?}", entry.lists));
            }
            if entry.lists.flush {
                flush.insert((entry.consumed.is_some(), id));
            }
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
        if flush != self.flush {
            return Err(format!("flush list {:?}, not {flush:?}", self.flush));
        }
        let live = self.entries.values().filter(|e| e.life == Life::Live).count();
        if live != self.live() {
            return Err(format!("{live} live entries, {} under names", self.live()));
        }
        Ok(())
    }
}
