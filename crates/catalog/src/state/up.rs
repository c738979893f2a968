//! Steps up the levels, ahead of use: fetches between levels of memory, and reads of files.

use std::collections::BTreeSet;

use super::level::Memory;
use super::{FileJob, MoveEnd, MoveJob, Source, State, Versions};
use crate::entry::{Entry, MemoryCopy, Stage};
use crate::{Id, Level, PARTS};
use errors::Result;
use policy::evict::EvictionClass;
use policy::order::{self, NextUse, RestoreOrder};

/// How many of the oldest victims a fetch compares to find the one that is used last.
const VICTIMS_COMPARED: usize = 64;

impl State {
    /// Enables fetching ahead.
    pub fn start_fetching(&mut self) {
        self.fetching = true;
        self.changes += 1;
    }

    /// The next fetch to a level from the one below.
    pub fn next_fetch(&mut self, to: Level) -> Option<MoveJob> {
        let (id, when) = self.next_to_fetch(to)?;
        let entry = self.entries.get(&id)?;
        let (part, from) = self.fetch_of(entry, to)?;
        let len = entry.part(part).len;
        if !self.make_room_for_fetch(len, when, to) {
            return None;
        }
        let job = self.begin_move(id, part, [from, to])?;
        self.started(id, false);
        Some(job)
    }

    /// Ends a fetch. If it failed, the checkpoint stays where it was.
    pub fn fetch_done(&mut self, job: &MoveJob, end: MoveEnd) {
        if self.end_move(job, end).is_ok() {
            self.counts.fetches += 1;
        }
        self.ended(job.id, false);
    }

    /// The next read of a file into the staging level.
    pub fn next_read(&mut self) -> Option<FileJob> {
        let (id, when) = self.next_to_read()?;
        let staging = self.staging;
        let lens = PARTS.map(|part| self.entries.get(&id).map_or(0, |e| e.part(part).len));
        let rounded = lens.map(|len| self.level(staging).space.rounded(len));
        if !self.make_room_for_fetch(rounded[0] + rounded[1], when, staging) {
            return None;
        }
        let mut memory = [None, None];
        for part in PARTS {
            if lens[part as usize] == 0 {
                continue;
            }
            let extents = self.allocate(staging, lens[part as usize])?;
            *self.entries.get_mut(&id)?.part_mut(part).copy_mut(staging) =
                MemoryCopy::filling(extents.clone());
            memory[part as usize] = Some(Source { level: staging, extents });
        }
        self.started(id, false);
        let entry = self.entries.get(&id)?;
        Some(FileJob {
            id,
            name: entry.name.clone(),
            version: entry.version,
            identity: entry.identity,
            regions: entry.regions.clone(),
            memory,
        })
    }

    /// Ends a read of a file into the staging level.
    pub fn read_done(&mut self, job: &FileJob, result: &Result<()>) {
        for part in PARTS {
            let Some(Source { level, .. }) = job.memory[part as usize] else { continue };
            if result.is_err() {
                self.copy_failed(job.id, part, level);
            } else if let Some(entry) = self.entries.get_mut(&job.id) {
                entry.part_mut(part).copy_mut(level).stage = Stage::Ready;
            }
        }
        self.ended(job.id, false);
    }

    /// The next checkpoint to fetch to a level, and when it will be used.
    pub(super) fn next_to_fetch(&self, level: Level) -> Option<(Id, NextUse)> {
        self.next_ahead(&self.level(level).hinted, |of| &of.fetch[level.index()])
    }

    /// The next checkpoint to read from a file, and when it will be used.
    pub(super) fn next_to_read(&self) -> Option<(Id, NextUse)> {
        self.next_ahead(&self.hinted, |of| &of.read)
    }

    /// The next of the checkpoints that could be fetched: hinted ones first, then those expected next of the
    /// name that the application reads.
    fn next_ahead(
        &self,
        hinted: &BTreeSet<(u64, Id)>,
        versions: impl Fn(&Versions) -> &BTreeSet<i32>,
    ) -> Option<(Id, NextUse)> {
        if !self.fetching {
            return None;
        }
        if let Some(&(position, id)) = hinted.first() {
            return Some((id, NextUse::Hinted(position)));
        }
        let (name, current) = self.reading.as_ref()?;
        let of = self.names.get(name)?;
        let set = versions(of);
        let bound = |v: i64| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        let version = match self.shape.order {
            RestoreOrder::Reverse if *current > i64::from(i32::MAX) => set.last(),
            RestoreOrder::Reverse => set.range(..bound(*current)).next_back(),
            RestoreOrder::Same => set.range(bound(*current + 1)..).next(),
            RestoreOrder::Random => None,
        }?;
        let id = *of.live.get(version)?;
        let distance = order::distance(self.shape.order, *current, i64::from(*version))?;
        Some((id, NextUse::Expected(distance)))
    }

    pub(super) fn next_use(&self, entry: &Entry) -> NextUse {
        if let Some(&position) = entry.hints.first() {
            return NextUse::Hinted(position);
        }
        match &self.reading {
            Some((name, current)) if *name == entry.name => {
                order::distance(self.shape.order, *current, i64::from(entry.version))
                    .map_or(NextUse::Never, NextUse::Expected)
            }
            _ => NextUse::Never,
        }
    }

    /// Makes room for something that will be used at `when`, by evicting only what is used later.
    pub(super) fn make_room_for_fetch(&mut self, len: u64, when: NextUse, level: Level) -> bool {
        loop {
            let Memory { space, victims, complete, .. } = self.level(level);
            if space.rounded(len) <= space.free() {
                return true;
            }
            if !complete {
                return false;
            }
            let latest = victims
                .iter()
                .take(VICTIMS_COMPARED)
                .filter(|(class, _)| *class != EvictionClass::Discardable)
                .filter_map(|&(_, id)| Some((self.next_use(self.entries.get(&id)?), id)))
                .filter(|(use_of_victim, _)| *use_of_victim > when)
                .max_by_key(|&(use_of_victim, id)| (use_of_victim, std::cmp::Reverse(id)));
            match latest {
                Some((_, id)) => self.evict(id, level),
                None => return false,
            }
        }
    }
}
