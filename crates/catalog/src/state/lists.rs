//! The work lists as functions of the entries, and the only place that changes them.

use super::State;
use crate::entry::{Entry, FileCopy, Life, Lists, Readable};
use crate::{Id, Level, Part};
use policy::evict::{self, EvictionClass, ResidentCopy};
use std::collections::BTreeSet;

fn put<T: Ord>(set: &mut BTreeSet<T>, key: T, now: bool, wanted: bool) {
    match (now, wanted) {
        (false, true) => drop(set.insert(key)),
        (true, false) => drop(set.remove(&key)),
        _ => {}
    }
}

fn put_ranked<R: Ord + Copy>(
    set: &mut BTreeSet<(R, Id)>,
    id: Id,
    now: Option<R>,
    wanted: Option<R>,
) {
    if now != wanted {
        if let Some(rank) = now {
            set.remove(&(rank, id));
        }
        if let Some(rank) = wanted {
            set.insert((rank, id));
        }
    }
}

/// Whether the part is complete somewhere, or will be.
pub(super) fn has_bytes(entry: &Entry, part: Part) -> bool {
    entry.arriving[part as usize] || entry.in_file() || entry.part(part).is_in_memory()
}

impl State {
    /// Removes an entry from all lists.
    pub(super) fn delist(&mut self, id: Id) {
        if let Some(entry) = self.checkpoints.entries.get_mut(&id) {
            let now = std::mem::take(&mut entry.lists);
            self.relist(id, now, Lists::default());
        }
    }

    /// Changes the sort keys of some lists (when the entry was consumed, and when it is read), and removes it
    /// from those lists. [`reindex`](Self::reindex) follows.
    pub(super) fn rekey(&mut self, id: Id, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.checkpoints.entries.get_mut(&id) else {
            return;
        };
        let now = entry.lists;
        let nowhere = Lists::default();
        let unsorted =
            Lists { flush: nowhere.flush, fetch: nowhere.fetch, read: nowhere.read, ..now };
        if now != unsorted {
            entry.lists = unsorted;
            self.relist(id, now, unsorted);
        }
        // Even if it stays in its lists: checkpoints read later may be evicted for those read sooner.
        self.work.changes += 1;
        if let Some(entry) = self.checkpoints.entries.get_mut(&id) {
            change(entry);
        }
    }

    /// Updates the lists for an entry.
    pub(super) fn reindex(&mut self, id: Id) {
        self.note(id);
        let Some(entry) = self.checkpoints.entries.get(&id) else {
            return;
        };
        let wanted = lists_of(self, id, entry);
        let now = entry.lists;
        if now != wanted {
            self.relist(id, now, wanted);
            self.work.changes += 1;
            if let Some(entry) = self.checkpoints.entries.get_mut(&id) {
                entry.lists = wanted;
            }
        }
    }

    pub(super) fn relist(&mut self, id: Id, now: Lists, wanted: Lists) {
        let Some(entry) = self.checkpoints.entries.get(&id) else {
            return;
        };
        let consumed = entry.consumed.is_some();
        for (i, level) in self.levels.levels.iter_mut().enumerate() {
            put(&mut level.flush, (consumed, id), now.flush[i], wanted.flush[i]);
            put_ranked(&mut level.victims, id, now.victim[i], wanted.victim[i]);
            if let Some(&hint) = entry.hints.first() {
                put(&mut level.hinted, (hint, id), now.fetch[i], wanted.fetch[i]);
            }
        }
        if let Some(&hint) = entry.hints.first() {
            put(&mut self.ahead.hinted, (hint, id), now.read, wanted.read);
        }
        put(&mut self.work.persist, id, now.persist, wanted.persist);
        put(&mut self.failures.failed, id, now.failed, wanted.failed);
        put_ranked(&mut self.work.write, id, now.write, wanted.write);
        put_ranked(&mut self.work.spill, id, now.spill, wanted.spill);
        self.successor.exposed += usize::from(wanted.exposed);
        self.successor.exposed -= usize::from(now.exposed);
        if (now.fetch, now.read) == (wanted.fetch, wanted.read) {
            return;
        }
        if let Some(versions) = self.checkpoints.names.get_mut(&entry.name) {
            for (i, fetch) in versions.fetch.iter_mut().enumerate() {
                put(fetch, entry.version, now.fetch[i], wanted.fetch[i]);
            }
            put(&mut versions.read, entry.version, now.read, wanted.read);
        }
    }
}

/// The lists that an entry belongs to.
pub(super) fn lists_of(state: &State, id: Id, entry: &Entry) -> Lists {
    if entry.life != Life::Live {
        return Lists::default();
    }
    let shape = &state.shape;
    let in_file = entry.in_file();
    let readable = state.levels.readable(entry);
    let mut lists = Lists {
        write: readable.filter(|_| entry.scratch == FileCopy::Wanted),
        spill: readable.filter(|_| {
            shape.ephemeral
                && shape.scratch
                && entry.scratch == FileCopy::Absent
                && entry.persistent != FileCopy::Present
        }),
        persist: entry.persistent == FileCopy::Wanted
            && can_be_persisted(state, entry)
            && !state.work.claims.contains(&id),
        read: in_file
            && entry.routed.is_none()
            && !entry.is_incremental()
            && state.levels.could_be_read(entry),
        failed: entry.has_failed(),
        exposed: entry.is_exposed(state.successor.hands_over),
        ..Lists::default()
    };
    for level in state.levels.all() {
        let i = level.index();
        let flushed_to = state.levels.flush_of(entry, level).map(|(_, to)| to);
        lists.flush[i] =
            !in_file && flushed_to.is_some_and(|to| !is_discarded_above(state, entry, to));
        lists.victim[i] = victim_rank(state, entry, level, in_file);
        lists.fetch[i] = state.levels.fetch_of(entry, level).is_some();
    }
    lists
}

/// Whether an entry is rather discarded than flushed to this level: to a drive, or to a level above one. There it would take
/// the room of what a fetch brings, which would discard it again.
pub(super) fn is_discarded_above(state: &State, entry: &Entry, level: Level) -> bool {
    entry.consumed.is_some()
        && state.shape.may_discard()
        && state.levels.all().any(|lower| lower >= level && state.levels.level(lower).spec.drive)
}

/// Whether the scratch file can be copied to persistent, or memory written there instead.
pub(super) fn can_be_persisted(state: &State, entry: &Entry) -> bool {
    match entry.scratch {
        FileCopy::Present => true,
        FileCopy::Writing => {
            let bytes: u64 = entry.parts.iter().map(|part| part.len).sum();
            state.shape.beside.is_some_and(|least| bytes >= least) && goes_beside(state, entry)
        }
        scratch => scratch.is_bypassed() && state.levels.readable(entry).is_some(),
    }
}

/// Whether an entry's persistent file may be written from memory although the entry has, or will
/// have, a scratch file.
pub(super) fn goes_beside(state: &State, entry: &Entry) -> bool {
    state.shape.beside.is_some()
        && entry.routed.is_none()
        && entry.place.is_none()
        && state.levels.readable(entry) == Some(Readable::Staged)
}

/// The rank of an entry's copies in a level among the victims, if they may be evicted.
pub(super) fn victim_rank(
    state: &State,
    entry: &Entry,
    level: Level,
    in_file: bool,
) -> Option<EvictionClass> {
    let mut copies = entry.parts.iter().filter(|part| part.is_ready(level)).peekable();
    copies.peek()?;
    let used = entry.parts.iter().any(|part| part.copy(level).readers > 0);
    let resident = ResidentCopy {
        backed: in_file || copies.all(|part| part.is_backed(level)),
        in_use: used || entry.restoring > 0 || entry.stranded,
        consumed: entry.consumed.is_some(),
    };
    evict::eviction_class(resident, state.shape.may_discard())
}

/// The next entry of a list for a writer: one in the staging level; one above it only if something waits
/// for room.
pub(super) fn writable(state: &State, list: &BTreeSet<(Readable, Id)>) -> Option<(Readable, Id)> {
    list.first().copied().filter(|(from, _)| *from != Readable::Unstaged || state.levels.pressed())
}
