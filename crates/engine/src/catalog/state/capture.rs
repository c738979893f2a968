//! Steps of a capture: from the room it needs to the checkpoint it becomes.

use std::sync::Arc;

use super::{Destination, Reserve, Source, State};
use crate::catalog::entry::{
    Entry, FileCopy, FileLevel, Id, Level, Life, Part, Region, Stage, MOST, PARTS,
};
use format::header::{self, Decoded};
use levels::files::AggregatePart;
use levels::level::LevelSpec;
use os::error::{Error, Kind, Result};
use policy::rounds::FileState;

/// What was found on disk as a checkpoint.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Regions of memory, and which of them is its mark ([`format::mark`]), if one is.
    Regions {
        /// Its header.
        header: &'a Decoded,
        /// The mark's id.
        mark: Option<i32>,
    },
    /// A file of the application's own (`VELOC_Route_file`).
    Routed,
}

impl State {
    /// Where a capture goes that has so many bytes of each part, in one checkpoint.
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

    /// Starts a checkpoint. Nobody else sees it before [`State::commit`].
    pub fn open(&mut self, name: &str, version: i32) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let name = self.interned(name);
        // The application writes: expectations of reads end here.
        self.reading = None;
        self.fetching = false;
        self.entries.insert(id, Box::new(Entry::new(name, version)));
        id
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

    /// The level in which `part` of a checkpoint under way already has bytes.
    pub(crate) fn building_in(&self, id: Id, part: Part) -> Option<Level> {
        self.entries.get(&id)?.part(part).first()
    }

    /// What a checkpoint under way holds of each part, in bytes.
    pub(crate) fn building_bytes(&self, id: Id) -> [u64; 2] {
        self.entries.get(&id).map_or([0, 0], |entry| PARTS.map(|part| entry.part(part).len))
    }

    /// The memory that a checkpoint under way has filled, by part.
    pub(crate) fn building_sources(&self, id: Id) -> [Option<Source>; 2] {
        let Some(entry) = self.entries.get(&id) else {
            return [None, None];
        };
        PARTS.map(|part| {
            let level = entry.part(part).first()?;
            Some(Source { level, extents: entry.part(part).copy(level).extents.clone() })
        })
    }

    /// Ends a checkpoint: it can be restored from here on and replaces an older one of the same
    /// name and version. `regions` may be in any order. It is copied to persistent if there is that
    /// level and `persist` says so.
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

    /// These regions, in the memory of the last checkpoint's if they are the same: most jobs have
    /// the same ones in all their checkpoints.
    fn kept_once(&mut self, regions: Vec<Region>) -> Arc<[Region]> {
        if *self.last_regions != *regions {
            self.last_regions = regions.into();
        }
        self.last_regions.clone()
    }

    /// Ends a checkpoint whose bytes went straight to its scratch file, which is in its place.
    /// `routed` is the path of a file-based checkpoint; `persist` as for [`State::commit`].
    pub(crate) fn commit_file(
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

    /// Ends a checkpoint whose bytes went straight to its persistent file, which is in its place,
    /// because scratch could not take it. `routed` as for [`State::commit_file`]; `persist`: it is to be
    /// there in any case.
    pub(crate) fn commit_persistent(
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

    /// A checkpoint that was begun may have to be copied to persistent, once it is known where to.
    pub fn await_place(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|_| self.shape.persistent) {
            entry.persistent = FileCopy::Undecided;
            self.reindex(id);
        }
    }

    /// A checkpoint is to be copied to persistent after all, to a file of its own or to its place in
    /// an aggregated one. Its name and version if it is there already because scratch could not take it.
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
                entry.place = place;
                if entry.scratch == FileCopy::Failed {
                    // It is known only now that there is another place for it.
                    entry.scratch = FileCopy::Bypassed;
                }
            }
            self.reindex(id);
        }
        there
    }

    /// What becomes of a checkpoint's file in a level.
    pub fn file_state(&self, id: Id, level: FileLevel) -> FileState {
        let Some(entry) = self.entries.get(&id) else {
            return FileState::Missing;
        };
        let file = match level {
            // What went past scratch counts there like what is in it: it stands in the way of nothing
            // that is older, and persistent has it.
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
            // It may be tried again, but nobody waits: where there is no room, limits make some.
            (Life::Live, FileCopy::Failed | FileCopy::Bypassed | FileCopy::Substituted)
            | (Life::Held | Life::Dropped, _) => FileState::Missing,
        }
    }

    /// The name and version of a checkpoint whose file is in scratch.
    pub(crate) fn key_in_scratch(&self, id: Id) -> Option<(Arc<str>, i32)> {
        let entry = self.entries.get(&id)?;
        let there = entry.life == Life::Live && entry.scratch == FileCopy::Present;
        there.then(|| (entry.name.clone(), entry.version))
    }

    /// A copy of this checkpoint may still be running and cannot be waited for: its room is never
    /// given to others.
    pub(crate) fn strand(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy += 1;
            entry.stranded = true;
            self.reindex(id);
        }
    }

    /// Gives a checkpoint under way up: as if it had never been begun.
    pub fn abort(&mut self, id: Id) {
        self.discard(id, false);
    }

    /// Makes a checkpoint known whose file was found on disk. `part_of` tells which regions are
    /// wanted in device memory; then, whether scratch and persistent have the file.
    pub(crate) fn adopt(
        &mut self,
        name: &str,
        version: i32,
        content: Content<'_>,
        part_of: impl Fn(i32) -> Part,
        [in_scratch, in_persistent]: [bool; 2],
    ) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let mut entry = Entry::new(self.interned(name), version);
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
            // Where it was routed from matters only for a copy still to be made.
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
        // Before the older one's record goes: at no moment is there none of this version.
        self.note(id);
        let older = self.names.entry(name).or_default().live.insert(version, id);
        if let Some(older) = older {
            self.replace(older, id);
        }
        self.take_hints(id);
        self.reindex(id);
    }
}

/// Gives the regions of a checkpoint that lies in a file their places in its parts.
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
