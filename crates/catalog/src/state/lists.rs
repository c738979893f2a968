//! The work lists as functions of the entries, and the only place that changes them.

use std::collections::BTreeSet;

use super::State;
use crate::entry::{Entry, FileCopy, Life, Lists, PartState, Readable};
use crate::{Id, Level, Part, MOST};
use policy::evict::{self, EvictionClass, ResidentCopy};

impl State {
    /// Removes an entry from all lists.
    pub(super) fn delist(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let now = std::mem::take(&mut entry.lists);
            self.relist(id, now, Lists::default());
        }
    }

    /// Changes the sort keys of some lists (when the entry was consumed, and when it is read), and removes it
    /// from those lists. [`reindex`](Self::reindex) follows.
    pub(super) fn rekey(&mut self, id: Id, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(&id) else {
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
        self.changes += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            change(entry);
        }
    }

    /// Updates the lists for an entry.
    pub(super) fn reindex(&mut self, id: Id) {
        self.note(id);
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        let wanted = self.lists_of(id, entry);
        let now = entry.lists;
        if now != wanted {
            self.relist(id, now, wanted);
            self.changes += 1;
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.lists = wanted;
            }
        }
    }

    pub(super) fn relist(&mut self, id: Id, now: Lists, wanted: Lists) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        let consumed = entry.consumed.is_some();
        for (i, level) in self.levels.iter_mut().enumerate() {
            put(&mut level.flush, (consumed, id), now.flush[i], wanted.flush[i]);
            put_ranked(&mut level.victims, id, now.victim[i], wanted.victim[i]);
            if let Some(&hint) = entry.hints.first() {
                put(&mut level.hinted, (hint, id), now.fetch[i], wanted.fetch[i]);
            }
        }
        if let Some(&hint) = entry.hints.first() {
            put(&mut self.hinted, (hint, id), now.read, wanted.read);
        }
        put(&mut self.persist, id, now.persist, wanted.persist);
        put(&mut self.failed, id, now.failed, wanted.failed);
        put_ranked(&mut self.write, id, now.write, wanted.write);
        put_ranked(&mut self.spill, id, now.spill, wanted.spill);
        self.exposed += usize::from(wanted.exposed);
        self.exposed -= usize::from(now.exposed);
        if (now.fetch, now.read) == (wanted.fetch, wanted.read) {
            return;
        }
        if let Some(versions) = self.names.get_mut(&entry.name) {
            for (i, fetch) in versions.fetch.iter_mut().enumerate() {
                put(fetch, entry.version, now.fetch[i], wanted.fetch[i]);
            }
            put(&mut versions.read, entry.version, now.read, wanted.read);
        }
    }

    /// Where a writer could read the whole checkpoint from now, if it could.
    pub(super) fn readable(&self, entry: &Entry) -> Option<Readable> {
        let mut from = Readable::Staged;
        for part in entry.parts.iter().filter(|part| part.len > 0) {
            // A part that can never be in the staging level is always read elsewhere.
            let may_come = self.level(self.staging).fits(part.len) && !part.flush_has_failed();
            if self.readable_from(part)? < self.staging && may_come {
                from = Readable::Unstaged;
            }
        }
        Some(from)
    }

    /// The level from which a writer reads a part; `None` if it is empty or not in memory.
    pub(super) fn readable_from(&self, part: &PartState) -> Option<Level> {
        let above = self.staging.index();
        // A part below the staging level is not moved there to be written.
        let mut nearest = self.levels().skip(above).chain(self.levels().take(above));
        nearest.find(|&level| part.len > 0 && part.is_ready(level))
    }

    /// The next entry of a list for a writer: one in the staging level; one above it only if something waits
    /// for room.
    pub(super) fn writable(&self, list: &BTreeSet<(Readable, Id)>) -> Option<(Readable, Id)> {
        list.first().copied().filter(|(from, _)| *from != Readable::Unstaged || self.pressed())
    }

    /// The lists that an entry belongs to.
    pub(super) fn lists_of(&self, id: Id, entry: &Entry) -> Lists {
        if entry.life != Life::Live {
            return Lists::default();
        }
        let shape = &self.shape;
        let in_file = entry.in_file();
        let readable = self.readable(entry);
        let mut lists = Lists {
            write: readable.filter(|_| entry.scratch == FileCopy::Wanted),
            spill: readable.filter(|_| {
                shape.ephemeral
                    && shape.scratch
                    && entry.scratch == FileCopy::Absent
                    && entry.persistent != FileCopy::Present
            }),
            persist: entry.persistent == FileCopy::Wanted
                && self.can_be_persisted(entry)
                && !self.claims.contains(&id),
            read: in_file
                && entry.routed.is_none()
                && !entry.is_incremental()
                && self.could_be_read(entry),
            failed: entry.has_failed(),
            exposed: entry.is_exposed(self.hands_over),
            ..Lists::default()
        };
        for level in self.levels() {
            let i = level.index();
            lists.flush[i] = !in_file && self.flush_of(entry, level).is_some();
            lists.victim[i] = self.victim_rank(entry, level, in_file);
            lists.fetch[i] = self.fetch_of(entry, level).is_some();
        }
        lists
    }

    /// Whether the scratch file can be copied to persistent, or memory written there instead.
    pub(super) fn can_be_persisted(&self, entry: &Entry) -> bool {
        match entry.scratch {
            FileCopy::Present => true,
            FileCopy::Writing => {
                let bytes: u64 = entry.parts.iter().map(|part| part.len).sum();
                self.shape.beside.is_some_and(|least| bytes >= least) && self.goes_beside(entry)
            }
            scratch => scratch.is_bypassed() && self.readable(entry).is_some(),
        }
    }

    /// Whether an entry's persistent file may be written from memory although the entry has, or will
    /// have, a scratch file.
    pub(super) fn goes_beside(&self, entry: &Entry) -> bool {
        self.shape.beside.is_some()
            && entry.routed.is_none()
            && entry.place.is_none()
            && self.readable(entry) == Some(Readable::Staged)
    }

    /// Whether an entry is not in memory, and the staging level could hold all of it.
    fn could_be_read(&self, entry: &Entry) -> bool {
        let staging = self.level(self.staging);
        let total: u64 = entry.parts.iter().map(|part| staging.space.rounded(part.len)).sum();
        total > 0
            && total <= staging.spec.capacity
            && entry.parts.iter().all(|part| part.is_absent(0..MOST))
    }

    /// The rank of an entry's copies in a level among the victims, if they may be evicted.
    fn victim_rank(&self, entry: &Entry, level: Level, in_file: bool) -> Option<EvictionClass> {
        let mut copies = entry.parts.iter().filter(|part| part.is_ready(level)).peekable();
        copies.peek()?;
        let used = entry.parts.iter().any(|part| part.copy(level).readers > 0);
        let resident = ResidentCopy {
            backed: in_file || copies.all(|part| part.is_backed(level)),
            in_use: used || entry.restoring > 0 || entry.stranded,
            consumed: entry.consumed.is_some(),
        };
        evict::eviction_class(resident, self.shape.ephemeral && !self.shape.scratch)
    }
}

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
