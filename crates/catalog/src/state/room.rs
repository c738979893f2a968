//! Room in the levels of memory: making it by eviction, and telling whether it can become free.

use super::level::LevelState;
use super::lists::has_bytes;
use super::{Reserve, State, WaitFor};
use crate::entry::{FileCopy, Stage};
use crate::space::Extent;
use crate::{Id, Level, PARTS};
use errors::{Error, ErrorKind};
use policy::evict::EvictionClass;
use policy::order::RestoreOrder;
use std::sync::Arc;

/// How many consumed checkpoints are looked at to find one that was passed.
const MOST_LOOKED_AT: usize = 16;

/// Steps that make room.
#[derive(Debug)]
pub(super) struct Eviction<'a> {
    pub(super) state: &'a mut State,
}

impl Eviction<'_> {
    /// The application waits for room in a level.
    fn starves(&mut self, level: Level) {
        if self.state.levels.starved.replace(level) != Some(level) {
            self.state.work.changes += 1;
        }
    }

    /// Asks for the memory that a capture of `len` bytes lacks in a level. Returns whether it may come.
    fn grows(&mut self, len: u64, level: Level) -> bool {
        let before = self.state.levels.wanted(level);
        let grows = self.state.levels.level_mut(level).ask_to_grow(len);
        if self.state.levels.wanted(level) > before {
            self.state.work.changes += 1;
        }
        grows
    }

    /// Flushes from a level wait for room.
    pub(super) fn flush_starves(&mut self, level: Level) {
        if !std::mem::replace(&mut self.state.levels.level_mut(level).starved, true) {
            self.state.work.changes += 1;
        }
    }

    pub(super) fn take_room(
        &mut self,
        len: u64,
        level: Level,
    ) -> std::result::Result<Vec<Extent>, Reserve> {
        self.reuse_passed(len, level);
        loop {
            let memory = self.state.levels.level_mut(level);
            if let Some(extents) = memory.space.allocate(len) {
                memory.wants_no_more();
                self.state.levels.starved = None;
                return Ok(extents);
            }
            if !memory.complete {
                return Err(Reserve::Wait(WaitFor::Growth));
            }
            let victim = memory.victims.first().copied();
            if let Some((_, id)) = victim.filter(|(rank, _)| *rank < EvictionClass::Discardable) {
                self.evict(id, level);
                continue;
            }
            let room_comes = room_can_come(self.state, level);
            if (room_comes || victim.is_none()) && self.grows(len, level) {
                return Err(Reserve::Wait(WaitFor::Growth));
            }
            self.starves(level);
            if room_comes {
                return Err(Reserve::Wait(WaitFor::Room(level)));
            }
            if level == self.state.levels.staging && self.state.removal().drop_oldest_held() {
                continue;
            }
            let Some((_, id)) = victim else {
                // Nothing waits any more.
                self.state.levels.starved = None;
                return Err(Reserve::Never(self.no_room(len, level)));
            };
            self.evict(id, level);
        }
    }

    /// With pages made by need and reads in reverse order, discards up to `len` bytes of consumed
    /// checkpoints that the order has passed (an earlier taken one of the name was read since):
    /// their room is used again before new pages are. Nothing else may be discarded before room is
    /// short (it may be read again). The order is that of taking: versions may be slot numbers.
    fn reuse_passed(&mut self, len: u64, level: Level) {
        let may_discard = self.state.shape.may_discard();
        let packs = self.state.levels.level(level).space.packs();
        if !packs || !may_discard || self.state.shape.order != RestoreOrder::Reverse {
            return;
        }
        // Most are of one name, which is looked up once.
        let mut known: Option<(&Arc<str>, Option<Id>)> = None;
        let mut is_passed = |id: &Id| {
            let entry = self.state.checkpoints.entries.get(id)?;
            let last_read = match known {
                Some((name, last_read)) if Arc::ptr_eq(name, &entry.name) => last_read,
                _ => self.state.checkpoints.names.get(&entry.name)?.last_read,
            };
            known = Some((&entry.name, last_read));
            (last_read? < *id).then(|| entry.parts.iter().map(|part| part.len).sum())
        };
        // The checkpoints taken last are passed first. Few others are behind them, if any.
        let victims =
            self.state.levels.level(level).victims.range((EvictionClass::Discardable, 0)..).rev();
        let mut left = self.state.levels.level(level).space.rounded(len);
        let mut passed: Vec<Id> = Vec::new();
        // Behind one that was not passed, none of its name was.
        let mut not_passed = 0;
        for (_, id) in victims.take(MOST_LOOKED_AT) {
            if left == 0 || not_passed == 2 * self.state.checkpoints.names.len() {
                break;
            }
            match is_passed(id) {
                Some(bytes) => {
                    left = left.saturating_sub(bytes);
                    passed.push(*id);
                }
                None => not_passed += 1,
            }
        }
        passed.into_iter().for_each(|id| self.evict(id, level));
    }

    fn no_room(&self, len: u64, level: Level) -> Error {
        let cause =
            self.state.failures.last_failure.as_ref().filter(|_| anything_failed(self.state));
        let why = if let Some(cause) = cause {
            format!("its checkpoints could not be flushed: {cause}")
        } else if self.state.shape.ephemeral && !self.state.shape.scratch {
            "nothing in it has been consumed yet, and an ephemeral job without scratch writes no files"
                .to_owned()
        } else {
            "nothing in it can be flushed or evicted".to_owned()
        };
        let LevelState { spec, space, .. } = self.state.levels.level(level);
        let fit = space.capacity() / space.rounded(len).max(1);
        // A level that captures nothing is there for what the others have no room for.
        let below = self.state.levels.levels.iter().find(|level| level.spec.captures == [false; 2]);
        let below = below.map(|LevelState { spec, space, .. }| {
            let (free, all) = (space.free(), space.capacity());
            format!(
                "; below it is the {} ({}, {all} bytes, {free} of them free)",
                spec.name, spec.key
            )
        });
        Error::new(
            ErrorKind::NoRoom,
            format!(
                "no room for {len} bytes in the {} ({}, {} bytes), in which {fit} of this size fit: {why}{}",
                spec.name,
                spec.key,
                space.capacity(),
                below.unwrap_or_default()
            ),
        )
    }

    /// Makes room in a level for `len` bytes by eviction. If that is not possible, returns false and evicts
    /// nothing.
    pub(super) fn make_room(&mut self, level: Level, len: u64, discard: bool) -> bool {
        let enough = could_make_room(self.state, level, len, discard);
        loop {
            let LevelState { space, victims, .. } = self.state.levels.level(level);
            match victims.first().copied() {
                _ if !enough || space.rounded(len) <= space.free() => return enough,
                Some((_, id)) => self.evict(id, level),
                None => return false,
            }
        }
    }

    pub(super) fn evict(&mut self, id: Id, level: Level) {
        self.state.delist(id);
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return;
        };
        let space = &mut self.state.levels.levels[level.index()].space;
        let mut bytes = 0;
        for part in &mut entry.parts {
            if !part.is_ready(level) {
                continue;
            }
            bytes += part.len;
            space.release(&std::mem::take(part.copy_mut(level)).extents);
            // The part need not be flushed any more.
            for copy in &mut part.copies[level.index()..] {
                if copy.stage == Stage::Failed {
                    copy.stage = Stage::Absent;
                }
            }
        }
        self.state.counts.evictions[level.index()] += 1;
        if let Some(told) = &self.state.evictions.0 {
            told(level, &entry.name, entry.version, bytes);
        }
        if PARTS.iter().all(|&part| has_bytes(entry, part)) {
            self.state.reindex(id);
        } else {
            self.state.removal().discard(id, true);
        }
    }
}

/// Whether a flush from a level has room, or can get it.
pub(super) fn flush_can_come(state: &State, from: Level) -> bool {
    state.levels.level(from).flush.first().is_some_and(|&(consumed, id)| {
        let next = state.checkpoints.entries.get(&id).and_then(|entry| {
            let (part, to) = state.levels.flush_of(entry, from)?;
            Some((to, state.levels.first_room(entry.part(part), to)))
        });
        next.is_some_and(|(to, room)| {
            could_make_room(state, to, room, !consumed)
                || to == state.levels.staging && !state.successor.held.is_empty()
                || room_can_come(state, to)
        })
    })
}

/// Whether anything may leave a level.
pub(super) fn room_can_come(state: &State, level: Level) -> bool {
    state.work.in_flight > 0
        || state.levels.level(level).aside > 0
        || flush_can_come(state, level)
        || !state.work.write.is_empty()
        // A checkpoint that bypasses scratch leaves memory for persistent.
        || !state.work.persist.is_empty()
        || (state.shape.scratch && !state.work.spill.is_empty())
}

/// Whether a failed step may keep room from being freed.
fn anything_failed(state: &State) -> bool {
    let mut failed =
        state.failures.failed.iter().filter_map(|id| state.checkpoints.entries.get(id));
    failed.any(|entry| entry.flush_has_failed() || entry.scratch == FileCopy::Failed)
}

/// Whether a level has room for `len` bytes, counting its victims.
pub(super) fn could_make_room(state: &State, level: Level, len: u64, discard: bool) -> bool {
    let LevelState { space, victims, .. } = state.levels.level(level);
    let mut free = space.free();
    let may_go = |(rank, _): &&(EvictionClass, Id)| discard || *rank < EvictionClass::Discardable;
    let mut victims = victims.iter().take_while(may_go);
    while free < space.rounded(len) {
        let entry = victims.next().and_then(|(_, id)| state.checkpoints.entries.get(id));
        let Some(entry) = entry else { return false };
        let copies = entry.parts.iter().filter(|part| part.is_ready(level));
        free += copies.flat_map(|part| part.copy(level).extents.iter()).map(|e| e.len).sum::<u64>();
    }
    true
}
