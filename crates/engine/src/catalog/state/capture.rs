//! Steps of a capture: from the room it needs to the checkpoint it becomes.

use std::sync::Arc;

use super::{Destination, Reserve, Source, State};
use crate::catalog::entry::{
    Entry, FileCopy, FileTier, Id, Life, Part, Region, Stage, Tier, PARTS,
};
use format::header::{self, Decoded};
use levels::files::Place;
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
        let [device, host] = lens;
        let (device_r, host_r) = (self.host.rounded(device), self.host.rounded(host));
        let device_fits = device > 0 && self.device.rounded(device) <= self.shape.device;
        let to_host = if device_fits { host_r } else { device_r.saturating_add(host_r) };
        if to_host <= self.shape.host {
            let device = if device_fits { Tier::Device } else { Tier::Host };
            return Ok([Destination::Memory(device), Destination::Memory(Tier::Host)]);
        }
        if self.shape.scratch {
            return Ok([Destination::File, Destination::File]);
        }
        Err(Error::new(
            Kind::NoRoom,
            format!(
                "a checkpoint of {} bytes is larger than gpu_cache_size ({} bytes) and \
                 host_cache_size ({} bytes), and there is no scratch to stream it to",
                device.saturating_add(host),
                self.shape.device,
                self.shape.host
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

    /// Takes room for `len` more bytes of `part` in `tier`, evicting as the policy allows.
    pub fn reserve(&mut self, id: Id, part: Part, len: u64, tier: Tier) -> Reserve {
        let extents = match self.take_room(len, tier) {
            Ok(extents) => extents,
            Err(other) => return other,
        };
        let Some(entry) = self.entries.get_mut(&id) else {
            return Reserve::Never(Error::new(Kind::Internal, "the checkpoint is not open"));
        };
        let state = entry.part_mut(part);
        let base = state.len;
        state.len += extents.iter().map(|extent| extent.len).sum::<u64>();
        let copy = state.copy_mut(tier);
        copy.stage = Stage::Filling;
        copy.extents = copy.extents.iter().chain(&extents).copied().collect();
        Reserve::Got { base, extents }
    }

    /// The tier in which `part` of a checkpoint under way already has bytes.
    pub fn building_in(&self, id: Id, part: Part) -> Option<Tier> {
        let part = self.entries.get(&id)?.part(part);
        [Tier::Device, Tier::Host].into_iter().find(|&tier| part.copy(tier).stage != Stage::Absent)
    }

    /// What a checkpoint under way holds in each tier, in bytes: device, host.
    pub fn building_bytes(&self, id: Id) -> [u64; 2] {
        let Some(entry) = self.entries.get(&id) else {
            return [0, 0];
        };
        [Tier::Device, Tier::Host].map(|tier| {
            PARTS.iter().flat_map(|&p| entry.part(p).copy(tier).extents.iter()).map(|e| e.len).sum()
        })
    }

    /// The memory that a checkpoint under way has filled, by part.
    pub fn building_sources(&self, id: Id) -> [Option<Source>; 2] {
        let Some(entry) = self.entries.get(&id) else {
            return [None, None];
        };
        PARTS.map(|part| {
            let tier = self.building_in(id, part)?;
            Some(Source { tier, extents: entry.part(part).copy(tier).extents.clone() })
        })
    }

    /// Ends a checkpoint: it can be restored from here on and replaces an older one of the same
    /// name and version. `regions` may be in any order. It is copied to persistent if there is that
    /// tier and `persist` says so.
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
            for tier in [Tier::Device, Tier::Host] {
                let copy = part.copy_mut(tier);
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
        self.enliven(id);
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
        entry.persistent = if persistent { FileCopy::Wanted } else { FileCopy::Absent };
        entry.routed = routed;
        self.counts.checkpoints += 1;
        self.enliven(id);
    }

    /// Ends a checkpoint whose bytes went straight to its persistent file, which is in its place,
    /// because scratch could not take it. `routed` as for [`State::commit_file`]; `persist`: it is to be
    /// there in any case.
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
        entry.scratch = FileCopy::Bypassed;
        entry.persistent = FileCopy::Present;
        entry.awaits_place = false;
        entry.extra = !persist;
        entry.routed = routed;
        self.counts.checkpoints += 1;
        self.enliven(id);
    }

    /// A checkpoint that was begun may have to be copied to persistent, once it is known where to.
    pub fn await_place(&mut self, id: Id) {
        let lasting = self.shape.persistent;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.awaits_place = lasting;
            self.reindex(id);
        }
    }

    /// A checkpoint is to be copied to persistent after all, to a file of its own or to its place in
    /// an aggregated one. Its name and version if it is there already because scratch could not take it.
    pub fn want_persistent(&mut self, id: Id, place: Option<Place>) -> Option<(Arc<str>, i32)> {
        let lasting = self.shape.persistent;
        let mut there = None;
        if let Some(entry) = self.entries.get_mut(&id) {
            let has_file = !matches!(entry.scratch, FileCopy::Absent);
            entry.awaits_place = false;
            if std::mem::take(&mut entry.extra) && entry.persistent == FileCopy::Present {
                there = Some((entry.name.clone(), entry.version));
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
                self.reindex(id);
            }
        }
        there
    }

    /// What becomes of a checkpoint's file in a tier.
    pub fn fate(&self, id: Id, tier: FileTier) -> FileState {
        let Some(entry) = self.entries.get(&id) else {
            return FileState::Missing;
        };
        let file = match tier {
            // What went past scratch counts there like what is in it: it stands in the way of nothing
            // that is older, and persistent has it.
            FileTier::Scratch if entry.scratch == FileCopy::Bypassed => match entry.persistent {
                FileCopy::Absent => FileCopy::Wanted,
                file => file,
            },
            FileTier::Scratch => entry.scratch,
            FileTier::Persistent => entry.persistent,
        };
        match (entry.life, file) {
            (Life::Building, _) => FileState::Pending,
            (Life::Live, FileCopy::Present | FileCopy::Absent) => FileState::Present,
            (Life::Live, FileCopy::Wanted | FileCopy::Writing) => FileState::Pending,
            // It may be tried again, but nobody waits: where there is no room, limits make some.
            (Life::Live, FileCopy::Failed | FileCopy::Bypassed) | (Life::Dropped, _) => {
                FileState::Missing
            }
        }
    }

    /// The name and version of a checkpoint whose file is in scratch.
    pub fn key_in_scratch(&self, id: Id) -> Option<(Arc<str>, i32)> {
        let entry = self.entries.get(&id)?;
        let there = entry.life == Life::Live && entry.scratch == FileCopy::Present;
        there.then(|| (entry.name.clone(), entry.version))
    }

    /// A copy of this checkpoint may still be running and cannot be waited for: its room is never
    /// given to others.
    pub fn strand(&mut self, id: Id) {
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
    pub fn adopt(
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
        self.enliven(id);
        id
    }

    pub(super) fn enliven(&mut self, id: Id) {
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
