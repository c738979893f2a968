//! The work lists as functions of the entries, and the one place that changes them.

use std::collections::BTreeSet;

use super::State;
use crate::catalog::entry::{
    Entry, FileCopy, Id, Life, Lists, Part, PartState, Readable, Stage, Tier,
};
use policy::evict::{self, ResidentCopy};

impl State {
    /// Takes an entry off every list.
    pub(super) fn delist(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let now = std::mem::take(&mut entry.lists);
            self.relist(id, now, Lists::default());
        }
    }

    /// Changes what some lists are sorted by (when the entry was consumed, and when it is read), and takes
    /// it off those. They are brought in line afterwards, by [`reindex`](Self::reindex).
    pub(super) fn rekey(&mut self, id: Id, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let now = entry.lists;
        let unsorted = Lists { flush: false, to_device: false, to_host: false, ..now };
        if now != unsorted {
            entry.lists = unsorted;
            self.relist(id, now, unsorted);
        }
        // Also where it stays in its lists: what is read later gives way to what is read sooner.
        self.changes += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            change(entry);
        }
    }

    /// Brings the lists in line with the entry.
    pub(super) fn reindex(&mut self, id: Id) {
        self.note(id);
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        let wanted = self.lists_of(entry);
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
        put(&mut self.flush, (entry.consumed.is_some(), id), now.flush, wanted.flush);
        put(&mut self.persist, id, now.persist, wanted.persist);
        put(&mut self.failed, id, now.failed, wanted.failed);
        put_ranked(&mut self.write, id, now.write, wanted.write);
        put_ranked(&mut self.spill, id, now.spill, wanted.spill);
        put_ranked(&mut self.device_victims, id, now.device_victim, wanted.device_victim);
        put_ranked(&mut self.host_victims, id, now.host_victim, wanted.host_victim);
        if let Some(&hint) = entry.hints.first() {
            put(&mut self.hinted_to_device, (hint, id), now.to_device, wanted.to_device);
            put(&mut self.hinted_to_host, (hint, id), now.to_host, wanted.to_host);
        }
        if (now.to_device, now.to_host) == (wanted.to_device, wanted.to_host) {
            return;
        }
        if let Some(versions) = self.names.get_mut(&entry.name) {
            put(&mut versions.to_device, entry.version, now.to_device, wanted.to_device);
            put(&mut versions.to_host, entry.version, now.to_host, wanted.to_host);
        }
    }

    /// From where a writer could read the whole checkpoint now, if it could.
    pub(super) fn readable(&self, entry: &Entry) -> Option<Readable> {
        let mut from = Readable::FromHost;
        for part in entry.parts.iter().filter(|part| part.len > 0) {
            // What can never be in the host buffer is read from the device as a matter of course.
            let fits = self.host.rounded(part.len) <= self.shape.host;
            match readable_from(part)? {
                Tier::Device if fits && !entry.flush_failed => from = Readable::FromDevice,
                Tier::Device | Tier::Host => {}
            }
        }
        Some(from)
    }

    /// The next of a list that a writer should take: what the host buffer has; what only the
    /// device cache has when somebody is stuck for room.
    pub(super) fn writable(&self, list: &BTreeSet<(Readable, Id)>) -> Option<(Readable, Id)> {
        list.first().copied().filter(|(from, _)| *from != Readable::FromDevice || self.pressed())
    }

    /// The lists an entry belongs to.
    pub(super) fn lists_of(&self, entry: &Entry) -> Lists {
        if entry.life != Life::Live {
            return Lists::default();
        }
        let shape = &self.shape;
        let device = entry.part(Part::Device);
        let in_file = entry.in_file();
        let consumed = entry.consumed.is_some();
        let lowest_is_memory = shape.ephemeral && !shape.scratch;
        let kept = entry.restoring > 0 || entry.stranded;
        let readable = self.readable(entry);
        let fits_host = self.host.rounded(device.len) <= shape.host;
        let device_victim = (device.device.stage == Stage::Ready)
            .then(|| {
                evict::eviction_class(
                    ResidentCopy {
                        backed: device.host.stage == Stage::Ready || in_file,
                        in_use: kept || device.device.readers > 0,
                        consumed,
                    },
                    lowest_is_memory,
                )
            })
            .flatten();
        let in_host = |part: &PartState| part.host.stage == Stage::Ready;
        let host_victim = entry
            .parts
            .iter()
            .any(in_host)
            .then(|| {
                evict::eviction_class(
                    ResidentCopy {
                        backed: in_file,
                        in_use: kept || entry.parts.iter().any(|part| part.host.readers > 0),
                        consumed,
                    },
                    lowest_is_memory,
                )
            })
            .flatten();
        let total: u64 = entry.parts.iter().map(|part| self.host.rounded(part.len)).sum();
        Lists {
            flush: device.device.stage == Stage::Ready
                && device.host.stage == Stage::Absent
                && !in_file
                && !entry.flush_failed
                && fits_host
                && device.len > 0,
            write: readable.filter(|_| entry.scratch == FileCopy::Wanted),
            spill: readable.filter(|_| {
                shape.ephemeral
                    && shape.scratch
                    && entry.scratch == FileCopy::Absent
                    && entry.persistent != FileCopy::Present
            }),
            persist: entry.persistent == FileCopy::Wanted
                && !entry.claimed
                && match entry.scratch {
                    FileCopy::Present => true,
                    FileCopy::Bypassed => readable.is_some(),
                    _ => false,
                },
            device_victim,
            host_victim,
            to_device: device.len > 0
                && device.device.stage == Stage::Absent
                && device.host.stage == Stage::Ready
                && !entry.fetch_failed
                && self.device.rounded(device.len) <= shape.device,
            to_host: in_file
                && total > 0
                && total <= shape.host
                && !entry.fetch_failed
                && entry.routed.is_none()
                && entry.parts.iter().all(|part| {
                    part.device.stage == Stage::Absent && part.host.stage == Stage::Absent
                }),
            failed: entry.has_failed(),
        }
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

/// Where a writer reads a part from; `None` if it is empty or in no memory.
pub(super) fn readable_from(part: &PartState) -> Option<Tier> {
    if part.len == 0 {
        None
    } else if part.host.stage == Stage::Ready {
        Some(Tier::Host)
    } else if part.device.stage == Stage::Ready {
        Some(Tier::Device)
    } else {
        None
    }
}

/// The part is complete somewhere, or about to be.
pub(super) fn has_bytes(entry: &Entry, part: Part) -> bool {
    let state = entry.part(part);
    state.len == 0
        || entry.arriving[part as usize]
        || entry.in_file()
        || state.device.stage == Stage::Ready
        || state.host.stage == Stage::Ready
}
