//! Steps of a capture, from taking room to the finished checkpoint.

use std::sync::Arc;

use super::{Destination, Reserve, Source, State};
use crate::entry::{Entry, FileCopy, Life, Stage};
use crate::level::LevelSpec;
use crate::{FileLevel, Id, Level, Part, Region, MOST, PARTS};
use errors::{Error, Kind, Result};
use format::aggregate::AggregatePart;
use format::header::{self, Decoded};
use format::identity::Identity;
use policy::rounds::FileState;

/// The content of a file found on disk.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Regions of memory, possibly with a mark ([`format::mark`]).
    Regions {
        /// The file's header.
        header: &'a Decoded,
        /// The id of the mark.
        mark: Option<i32>,
    },
    /// A file of the application's own (`VELOC_Route_file`).
    Routed,
}

impl State {
    /// The destination of each part of a capture with `lens` bytes per part, in one checkpoint.
    pub fn destination(&self, lens: [u64; 2]) -> Result<[Destination; 2]> {
        let mut taken = [0u64; MOST];
        let mut place = |part: Part| {
            let len = lens[part as usize];
            let captures = |level: &Level| self.level(*level).spec.captures[part as usize];
            self.levels().filter(captures).find(|&level| {
                let memory = self.level(level);
                let taken = &mut taken[level.index()];
                let sum = taken.saturating_add(memory.space.rounded(len));
                let fits = sum <= memory.spec.capacity;
                *taken = if fits { sum } else { *taken };
                fits
            })
        };
        if let [Some(device), Some(host)] = PARTS.map(&mut place) {
            return Ok([Destination::Memory(device), Destination::Memory(host)]);
        }
        if self.shape.scratch {
            return Ok([Destination::File, Destination::File]);
        }
        let sizes = self.levels.iter().map(|level| {
            let LevelSpec { key, capacity, .. } = level.spec;
            format!("{key} ({capacity} bytes)")
        });
        let sizes: Vec<_> = sizes.collect();
        Err(Error::new(
            Kind::NoRoom,
            format!(
                "a checkpoint of {} bytes is larger than {}, and there is no scratch to stream it to",
                lens[0].saturating_add(lens[1]),
                sizes.join(" and ")
            ),
        ))
    }

    /// Starts a checkpoint. It is not visible to others before [`State::commit`].
    pub fn open(&mut self, name: &str, version: i32) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let name = self.interned(name);
        let identity = self.next_identity(&name, version);
        if !self.cleaned.is_empty() {
            self.cleaned.remove(&(name.clone(), version));
        }
        // The application writes, so it does not read in the expected order any more.
        self.reading = None;
        self.fetching = false;
        self.entries.insert(id, Box::new(Entry::new(name, version, identity)));
        id
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

    /// The files of an open checkpoint may replace those of a job with another number of processes.
    pub fn may_replace(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.may_replace = true;
        }
    }

    /// A checkpoint begins on other processes, and cannot here.
    pub fn pass_over(&mut self, name: &str, version: i32) {
        let name = self.interned(name);
        self.next_identity(&name, version);
    }

    /// Takes room for `len` more bytes of `part` in a level, evicting as the policy allows.
    pub fn reserve(&mut self, id: Id, part: Part, len: u64, level: Level) -> Reserve {
        let extents = match self.take_room(len, level) {
            Ok(extents) => extents,
            Err(other) => return other,
        };
        let Some(entry) = self.entries.get_mut(&id) else {
            return Reserve::Never(Error::new(Kind::Internal, "the checkpoint is not open"));
        };
        let state = entry.part_mut(part);
        let base = state.len;
        state.len += extents.iter().map(|extent| extent.len).sum::<u64>();
        let copy = state.copy_mut(level);
        copy.stage = Stage::Filling;
        copy.extents = copy.extents.iter().chain(&extents).copied().collect();
        Reserve::Got { base, extents }
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

    /// Ends a checkpoint: it can be restored from now on, and replaces an older one of the same name and
    /// version. `regions` may be in any order. It is copied to persistent if that level exists and `persist`
    /// is set.
    pub fn commit(&mut self, id: Id, mut regions: Vec<Region>, persist: bool) {
        regions.sort_by_key(|region| region.id);
        let wanted = self.shape.scratch && !self.shape.ephemeral;
        let persistent = persist && self.shape.persistent && !self.shape.ephemeral;
        let regions = self.kept_once(regions);
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.regions = regions;
        for (part, arriving) in entry.parts.iter_mut().zip(entry.arriving) {
            for copy in &mut part.copies {
                if copy.stage == Stage::Filling && !arriving {
                    copy.stage = Stage::Ready;
                }
            }
        }
        if wanted {
            entry.scratch = FileCopy::Wanted;
        }
        if persistent {
            entry.persistent = FileCopy::Wanted;
        }
        self.counts.checkpoints += 1;
        self.make_live(id);
    }

    /// These regions, sharing the memory of the last checkpoint's if they are equal: most jobs have the same
    /// ones in all checkpoints.
    fn kept_once(&mut self, regions: Vec<Region>) -> Arc<[Region]> {
        if *self.last_regions != *regions {
            self.last_regions = regions.into();
        }
        self.last_regions.clone()
    }

    /// Ends a checkpoint that was written directly to its scratch file, which has its name. `routed` is the
    /// path of a file-based checkpoint; `persist` as for [`State::commit`].
    pub fn commit_file(
        &mut self,
        id: Id,
        regions: Vec<Region>,
        routed: Option<Arc<str>>,
        persist: bool,
    ) {
        self.release_memory(id);
        let lasting = (self.shape.persistent || routed.is_some()) && !self.shape.ephemeral;
        let persistent = persist && lasting;
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        lay_out(entry, regions);
        entry.scratch = FileCopy::Present;
        if self.shape.ephemeral {
            self.spilled.insert((entry.name.clone(), entry.version));
        }
        if persistent {
            entry.persistent = FileCopy::Wanted;
        }
        entry.routed = routed;
        self.counts.checkpoints += 1;
        self.make_live(id);
    }

    /// Ends a checkpoint that was written directly to its persistent file, which has its name, because
    /// scratch could not take it. `routed` as for [`State::commit_file`]; `persist`: it belongs there in any
    /// case.
    pub fn commit_persistent(
        &mut self,
        id: Id,
        regions: Vec<Region>,
        routed: Option<Arc<str>>,
        persist: bool,
    ) {
        self.release_memory(id);
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        lay_out(entry, regions);
        entry.scratch = if persist { FileCopy::Bypassed } else { FileCopy::Substituted };
        entry.persistent = FileCopy::Present;
        entry.routed = routed;
        self.counts.checkpoints += 1;
        self.make_live(id);
    }

    /// A checkpoint that was begun may have to be copied to persistent; this is decided later.
    pub fn await_place(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|_| self.shape.persistent) {
            entry.persistent = FileCopy::Undecided;
            self.reindex(id);
        }
    }

    /// It was decided that a checkpoint is copied to persistent, to a file of its own or to its part of an
    /// aggregated one. Returns its name and version if it is there already because scratch could not take it.
    pub fn want_persistent(
        &mut self,
        id: Id,
        place: Option<AggregatePart>,
    ) -> Option<(Arc<str>, i32)> {
        let lasting = self.shape.persistent;
        let mut there = None;
        if let Some(entry) = self.entries.get_mut(&id) {
            let has_file = !matches!(entry.scratch, FileCopy::Absent);
            if entry.scratch == FileCopy::Substituted {
                entry.scratch = FileCopy::Bypassed;
                if entry.persistent == FileCopy::Present {
                    there = Some((entry.name.clone(), entry.version));
                }
            }
            if entry.persistent == FileCopy::Undecided {
                entry.persistent = FileCopy::Absent;
            }
            if entry.persistent == FileCopy::Absent
                && entry.life == Life::Live
                && (lasting || entry.routed.is_some())
                && has_file
            {
                entry.persistent = FileCopy::Wanted;
                entry.place = place.map(Box::new);
                if entry.scratch == FileCopy::Failed {
                    // Only now it is known that it may go elsewhere.
                    entry.scratch = FileCopy::Bypassed;
                }
            }
            self.reindex(id);
        }
        there
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

    /// A copy of this checkpoint may still be running and cannot be waited for: its room is never reused.
    pub fn strand(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy += 1;
            entry.stranded = true;
            self.reindex(id);
        }
    }

    /// Aborts an open checkpoint, as if it had never been begun.
    pub fn abort(&mut self, id: Id) {
        self.discard(id, false);
    }

    /// Adds a checkpoint whose file was found on disk, made by this run. `part_of` tells which regions belong in
    /// device memory; the others, whether scratch and persistent have the file.
    pub fn adopt(
        &mut self,
        name: &str,
        (version, identity): (i32, Identity),
        content: Content<'_>,
        part_of: impl Fn(i32) -> Part,
        [in_scratch, in_persistent]: [bool; 2],
    ) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let mut entry = Entry::new(self.interned(name), version, identity);
        match content {
            Content::Regions { header, mark } => {
                let region = |r: &header::Region| Region {
                    id: r.id,
                    size: r.size,
                    part: part_of(r.id),
                    offset: 0,
                };
                lay_out(&mut entry, header.regions().iter().map(region).collect());
                entry.mark = mark;
            }
            // The routed path only matters for a copy that has still to be made.
            Content::Routed => entry.routed = Some(Arc::from("")),
        }
        entry.found = true;
        if in_scratch {
            entry.scratch = FileCopy::Present;
        }
        if in_persistent {
            entry.persistent = FileCopy::Present;
        }
        self.entries.insert(id, Box::new(entry));
        self.make_live(id);
        id
    }

    pub(super) fn make_live(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.life = Life::Live;
        let (name, version) = (entry.name.clone(), entry.version);
        // Before the older record is removed, so that there is always a record of this version.
        self.note(id);
        let older = self.names.entry(name).or_default().live.insert(version, id);
        if let Some(older) = older {
            self.replace(older, id);
        }
        self.take_hints(id);
        self.reindex(id);
    }
}

/// Assigns the regions of a checkpoint in a file their offsets in its parts.
fn lay_out(entry: &mut Entry, mut regions: Vec<Region>) {
    regions.sort_by_key(|region| region.id);
    for part in &mut entry.parts {
        part.len = 0;
    }
    for region in &mut regions {
        let part = entry.part_mut(region.part);
        region.offset = part.len;
        part.len += region.size;
    }
    entry.regions = regions.into();
}
