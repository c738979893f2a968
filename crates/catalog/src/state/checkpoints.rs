//! All checkpoints: by number, and by name and version.

use super::Source;
use crate::entry::FileCopy;
use crate::entry::{Entry, Life};
use crate::{FileLevel, Id, Level, Part, Region};
use crate::{MOST, PARTS};
use format::identity::Identity;
use policy::rounds::FileState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct NameVersions {
    pub(super) live: BTreeMap<i32, Id>,
    /// The checkpoint that was restored last.
    pub(super) last_read: Option<Id>,
    /// Versions that could be fetched to a level, by level.
    pub(super) fetch: [BTreeSet<i32>; MOST],
    /// Versions that could be read from a file.
    pub(super) read: BTreeSet<i32>,
    /// Positions of the hints for versions that do not exist.
    pub(super) hints: BTreeMap<i32, Vec<u64>>,
    pub(super) begun: BegunVersions,
}

/// The checkpoints of a name that this run has begun.
#[derive(Debug, Default)]
pub(super) struct BegunVersions {
    /// The version of the last one.
    pub(super) last: Option<i32>,
    /// How often one was not above the one before.
    pub(super) generation: u32,
}

/// All checkpoints, which are found by number, and by name and version.
#[derive(Debug)]
pub struct Checkpoints {
    /// The random number of the run, which all processes have; 0: not known.
    pub(super) run: u64,
    /// Boxed, in a tree: a growing table would move all entries while a capture waits.
    pub(super) entries: BTreeMap<Id, Box<Entry>>,
    /// In a tree, as there are few, and a hash takes longer than finding one of some.
    pub(super) names: BTreeMap<Arc<str>, NameVersions>,
    pub(super) next_id: Id,
    /// The last checkpoints that were cleaned up, are in persistent, and were not taken again.
    pub(super) cleaned: HashMap<(Arc<str>, i32), Id>,
    /// The regions of the last checkpoint that was taken into memory.
    pub(super) last_regions: Arc<[Region]>,
}

impl Checkpoints {
    pub(super) fn new() -> Self {
        Checkpoints {
            run: 0,
            entries: BTreeMap::new(),
            names: BTreeMap::new(),
            next_id: 1,
            cleaned: HashMap::new(),
            last_regions: Arc::from([]),
        }
    }

    /// Whether it is still undecided if a checkpoint is copied to persistent.
    pub fn is_undecided(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.persistent == FileCopy::Undecided)
    }

    /// Whether a checkpoint has its file only in persistent, because scratch could not take it.
    pub fn is_past_scratch(&self, id: Id) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| {
            entry.scratch.is_bypassed() && entry.persistent == FileCopy::Present
        })
    }

    /// Whether a checkpoint goes, or has gone, to persistent only because scratch could not take it. Other
    /// processes do not have it there.
    pub fn is_extra(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.scratch == FileCopy::Substituted)
    }

    /// The identity of the next checkpoint of a name. All processes begin the same ones in the same order: each one
    /// that is begun is counted, also where it does not begin here.
    pub(crate) fn next_identity(&mut self, name: &Arc<str>, version: i32) -> Identity {
        if self.run == 0 {
            return Identity::UNKNOWN;
        }
        let begun = &mut self.names.entry(name.clone()).or_default().begun;
        if begun.last.is_some_and(|last| version <= last) {
            begun.generation += 1;
        }
        begun.last = Some(version);
        Identity { run: self.run, generation: begun.generation }
    }

    /// The level in which `part` of an open checkpoint already has bytes.
    pub fn building_in(&self, id: Id, part: Part) -> Option<Level> {
        self.entries.get(&id)?.part(part).first()
    }

    /// The bytes of each part of an open checkpoint.
    pub fn building_bytes(&self, id: Id) -> [u64; 2] {
        self.entries.get(&id).map_or([0, 0], |entry| PARTS.map(|part| entry.part(part).len))
    }

    /// The memory that an open checkpoint has filled, by part.
    pub fn building_sources(&self, id: Id) -> [Option<Source>; 2] {
        let Some(entry) = self.entries.get(&id) else {
            return [None, None];
        };
        PARTS.map(|part| {
            let level = entry.part(part).first()?;
            Some(Source { level, extents: entry.part(part).copy(level).extents.clone() })
        })
    }

    /// These regions, sharing the memory of the last checkpoint's if they are equal: most jobs have the same
    /// ones in all checkpoints.
    pub(super) fn kept_once(&mut self, regions: Vec<Region>) -> Arc<[Region]> {
        if *self.last_regions != *regions {
            self.last_regions = regions.into();
        }
        self.last_regions.clone()
    }

    /// The state of a checkpoint's file in a level.
    pub fn file_state(&self, id: Id, level: FileLevel) -> FileState {
        if level == FileLevel::Persistent && self.cleaned.values().any(|cleaned| *cleaned == id) {
            return FileState::Present;
        }
        let Some(entry) = self.entries.get(&id) else {
            return FileState::Missing;
        };
        let file = match level {
            // A checkpoint that bypasses scratch counts as if its persistent file were there, so that older
            // versions can be removed.
            FileLevel::Scratch if entry.scratch.is_bypassed() => match entry.persistent {
                FileCopy::Absent | FileCopy::Undecided => FileCopy::Wanted,
                file => file,
            },
            FileLevel::Scratch => entry.scratch,
            FileLevel::Persistent => entry.persistent,
        };
        match (entry.life, file) {
            (Life::Building, _) => FileState::Pending,
            (Life::Live, FileCopy::Present | FileCopy::Absent | FileCopy::Undecided) => {
                FileState::Present
            }
            (Life::Live, FileCopy::Wanted | FileCopy::Writing) => FileState::Pending,
            // It may be retried, but nothing waits for it: limits make room if there is none.
            (Life::Live, FileCopy::Failed | FileCopy::Bypassed | FileCopy::Substituted)
            | (Life::Held | Life::Dropped, _) => FileState::Missing,
        }
    }

    /// The name and version of a checkpoint whose file is in scratch.
    pub fn key_in_scratch(&self, id: Id) -> Option<(Arc<str>, i32)> {
        let entry = self.entries.get(&id)?;
        let there = entry.life == Life::Live && entry.scratch == FileCopy::Present;
        there.then(|| (entry.name.clone(), entry.version))
    }

    /// Whether a checkpoint whose temporary file is complete may be given its name in scratch.
    pub fn still_wanted(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| matches!(entry.life, Life::Live | Life::Held))
    }

    /// Whether the persistent file of a checkpoint takes the place of one in scratch, as there is none. `None`:
    /// that is still being written, and gets its name first.
    pub fn is_alone(&self, id: Id) -> Option<bool> {
        match self.entries.get(&id).map(|entry| entry.scratch) {
            Some(FileCopy::Writing) => None,
            scratch => Some(scratch != Some(FileCopy::Present)),
        }
    }

    /// The first hinted checkpoint that does not exist, and the number of such ones.
    pub fn hinted_in_vain(&self) -> Option<(Arc<str>, i32, usize)> {
        let count = self.names.values().map(|versions| versions.hints.len()).sum();
        let firsts =
            self.names.iter().filter_map(|(name, of)| Some((name, of.hints.keys().next()?)));
        firsts.min().map(|(name, version)| (name.clone(), *version, count))
    }

    /// Stores the hints of a version that does not exist.
    pub(super) fn keep_hints(&mut self, name: &Arc<str>, version: i32, hints: Vec<u64>) {
        if !hints.is_empty() {
            let versions = self.names.entry(name.clone()).or_default();
            versions.hints.entry(version).or_default().extend(hints);
        }
    }

    /// The positions of the hints for a version, whether it exists or not.
    #[cfg(test)]
    pub(crate) fn hints_of(&self, name: &str, version: i32) -> Vec<u64> {
        let early = self.names.get(name).and_then(|versions| versions.hints.get(&version));
        let there = self.find(name, version).and_then(|id| self.entries.get(&id));
        let both = there.map(|entry| &entry.hints).into_iter().chain(early);
        both.flatten().copied().collect()
    }

    /// Removes all hints for a name.
    pub(super) fn forget_hints(&mut self, name: &str) {
        if let Some(versions) = self.names.get_mut(name) {
            versions.hints.clear();
        }
    }

    pub(super) fn versions_of(
        &self,
        which: impl Fn(&NameVersions) -> &BTreeSet<i32>,
    ) -> BTreeSet<(Arc<str>, i32)> {
        self.names
            .iter()
            .flat_map(|(name, versions)| which(versions).iter().map(|&v| (name.clone(), v)))
            .collect()
    }

    /// The live versions of a name, ascending.
    pub fn versions(&self, name: &str) -> BTreeSet<i32> {
        self.names.get(name).map(|of| of.live.keys().copied().collect()).unwrap_or_default()
    }

    /// The id of a checkpoint's mark, if it has one.
    pub fn mark_of(&self, id: Id) -> Option<i32> {
        self.entries.get(&id)?.mark
    }

    /// Whether a checkpoint has a mark, so that no limit applies to it.
    pub fn is_marked(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.is_marked())
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

    /// Whether nothing of a dropped version is still being written.
    pub fn is_withdrawn(&self, name: &str) -> bool {
        let writes = |entry: &Entry| {
            *entry.name == *name
                && matches!(entry.life, Life::Held | Life::Dropped)
                && [entry.scratch, entry.persistent].contains(&FileCopy::Writing)
        };
        !self.entries.values().any(|entry| writes(entry))
    }

    /// The random number of the run; 0: not known.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Whether this checkpoint's persistent copy is as it should be; `None` while one is needed or being
    /// made.
    pub fn persist_settled(&self, id: Id) -> Option<bool> {
        match self.entries.get(&id).map(|entry| entry.persistent) {
            Some(FileCopy::Wanted | FileCopy::Writing) => None,
            file => Some(file != Some(FileCopy::Failed)),
        }
    }

    /// Whether a checkpoint is in a file; `None` while a worker is to write it. What is decided together with other
    /// processes is not waited for: they may wait for this one.
    pub fn file_settled(&self, id: Id) -> Option<bool> {
        let Some(entry) = self.entries.get(&id) else { return Some(false) };
        let is_due =
            entry.scratch.is_due() || entry.scratch.is_bypassed() && entry.persistent.is_due();
        match entry.in_file() || entry.has_failed() || !is_due {
            true => Some(entry.in_file()),
            false => None,
        }
    }

    /// A checkpoint's entry, for reading.
    #[cfg(test)]
    pub(crate) fn entry(&self, id: Id) -> Option<&Entry> {
        self.entries.get(&id).map(|entry| &**entry)
    }

    /// The number of checkpoints that can be restored.
    pub fn live(&self) -> usize {
        self.names.values().map(|versions| versions.live.len()).sum()
    }

    pub(super) fn interned(&self, name: &str) -> Arc<str> {
        match self.names.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => Arc::from(name),
        }
    }

    /// The live checkpoint of this name and version.
    pub fn find(&self, name: &str, version: i32) -> Option<Id> {
        self.names.get(name)?.live.get(&version).copied()
    }

    /// The run that made a checkpoint.
    pub fn identity(&self, id: Id) -> Identity {
        self.entries.get(&id).map_or(Identity::UNKNOWN, |entry| entry.identity)
    }

    /// The last of the checkpoints that are known here which the run of a file of this `version` had taken before it: of an
    /// earlier generation, or of the same one with a lower number.
    pub fn taken_before(&self, name: &str, version: i32, identity: Identity) -> Option<Id> {
        let known = self.names.get(name)?.live.iter();
        let known = known.map(|(version, id)| (self.identity(*id), *version, *id));
        let order = |(identity, version, _): &(Identity, i32, Id)| (identity.generation, *version);
        let before = known.filter(|known| {
            identity.is_known()
                && known.0.run == identity.run
                && order(known) < (identity.generation, version)
        });
        before.max_by_key(order).map(|(.., id)| id)
    }

    /// The run that has taken the newest checkpoint of a name that is known here; 0: none, or not known.
    pub fn run_of(&self, name: &str) -> u64 {
        let newest = self.names.get(name).and_then(|known| known.live.values().max());
        newest.map_or(0, |id| self.identity(*id).run)
    }

    /// Whether a version's file in a level is still to be written.
    pub fn comes_to(&self, name: &str, version: i32, level: FileLevel) -> bool {
        let entry = self.find(name, version).and_then(|id| self.entries.get(&id));
        let copy = entry.map(|entry| match level {
            FileLevel::Scratch => entry.scratch,
            FileLevel::Persistent => entry.persistent,
        });
        matches!(copy, Some(FileCopy::Wanted | FileCopy::Writing))
    }

    /// Whether this job has taken a checkpoint.
    pub fn is_taken(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| !entry.found)
    }

    /// The newest live version that is at most `bound`.
    pub fn newest(&self, name: &str, bound: i32) -> Option<i32> {
        self.names.get(name)?.live.range(..=bound).next_back().map(|(&version, _)| version)
    }

    /// The live version, at most `bound`, that this job has taken last.
    pub fn taken_last(&self, name: &str, bound: i32) -> Option<i32> {
        let live = self.names.get(name)?.live.range(..=bound);
        let taken = live.filter(|(_, id)| self.entries.get(id).is_some_and(|entry| !entry.found));
        taken.max_by_key(|(_, id)| **id).map(|(&version, _)| version)
    }

    /// Whether a restore may have to read its file, because memory does not have all of the
    /// checkpoint. An incomplete fetch from that file does not count.
    pub fn is_read_from_file(&self, id: Id) -> bool {
        let entry = self.entries.get(&id).filter(|entry| entry.in_file());
        entry.is_some_and(|entry| entry.regions.is_empty() || !entry.is_in_memory())
    }

    /// Whether a checkpoint's first region is a table of changes ([`format::delta`]), in an incremental job.
    pub fn has_table(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.is_incremental())
    }

    /// A checkpoint's regions, ascending by id.
    pub fn regions(&self, id: Id) -> Option<Arc<[Region]>> {
        self.entries.get(&id).map(|entry| entry.regions.clone())
    }
}
