//! Steps of a capture, from taking room to the finished checkpoint. Of a deferred capture bytes are still being copied
//! from the application's memory when it is committed.

use super::{Arrival, Destination, MoveEnd, Reserve, State};
use crate::entry::{Entry, FileCopy, Life, Stage};
use crate::ledger::{Slot, Standing};
use crate::space::Extent;
use crate::{Id, Level, Part, Region, MOST, PARTS};
use errors::{Error, ErrorKind, Result};
use format::aggregate::AggregatePart;
use format::header::{self, Decoded};
use format::identity::Identity;
use std::sync::Arc;

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

/// Steps of a capture.
#[derive(Debug)]
pub struct CaptureSteps<'a> {
    pub(super) state: &'a mut State,
}

impl CaptureSteps<'_> {
    /// Takes room in the staging level for `len` more bytes of deferred device memory, if that needs no wait
    /// and discards nothing. `both` are the total sizes of the checkpoint's parts.
    pub fn reserve_for_deferred(
        &mut self,
        id: Id,
        len: u64,
        both: [u64; 2],
    ) -> Option<(u64, Vec<Extent>)> {
        let staging = self.state.levels.staging;
        let elsewhere = self
            .state
            .checkpoints
            .building_in(id, Part::Device)
            .is_some_and(|level| level != staging);
        if elsewhere
            || !self.state.levels.fits_staging(both)
            || !self.state.eviction().make_room(staging, len, false)
        {
            return None;
        }
        match self.reserve(id, Part::Device, len, staging) {
            Reserve::Got { base, extents } => Some((base, extents)),
            Reserve::Wait(_) | Reserve::Never(_) => None,
        }
    }

    /// Ends a checkpoint like [`CaptureSteps::commit`], but bytes of the parts in `arriving` have still to be copied: a
    /// worker finds it by [`next_arrival`](Self::next_arrival).
    pub fn commit_deferred(
        &mut self,
        id: Id,
        regions: Vec<Region>,
        arriving: [bool; 2],
        persist: bool,
    ) {
        if self.commit_arriving(id, regions, arriving, persist).is_some() {
            self.state.work.arrivals.push_back(id);
            self.state.work.changes += 1;
        }
    }

    /// The same where nothing is left to be done but to see the end of the copies. `None`: nothing is arriving.
    pub fn commit_arriving(
        &mut self,
        id: Id,
        regions: Vec<Region>,
        arriving: [bool; 2],
        persist: bool,
    ) -> Option<Arrival> {
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.arriving = arriving;
        }
        self.commit(id, regions, persist);
        let arrival = self.arrival(id).filter(|_| arriving.contains(&true))?;
        self.state.work.incomplete.insert(id);
        // The memory is read until the deferred capture ends, whatever becomes of the checkpoint.
        self.state.started(id, true);
        Some(arrival)
    }

    /// The next deferred capture to copy, oldest first.
    pub fn next_arrival(&mut self) -> Option<Arrival> {
        let id = self.state.work.arrivals.pop_front()?;
        self.arrival(id)
    }

    fn arrival(&self, id: Id) -> Option<Arrival> {
        let entry = self.state.checkpoints.entries.get(&id)?;
        Some(Arrival { id, name: entry.name.clone(), version: entry.version })
    }

    /// Ends a deferred capture. If it failed, the checkpoint does not exist.
    pub fn arrived(&mut self, id: Id, end: MoveEnd) {
        let mut lost = false;
        self.state.work.incomplete.remove(&id);
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            let arriving = std::mem::take(&mut entry.arriving);
            entry.carrier = 0;
            let live = entry.life == Life::Live;
            for part in PARTS.into_iter().filter(|&part| arriving[part as usize]) {
                // It is complete nowhere, so that this is the only one.
                let Some(level) = entry.part(part).first() else { continue };
                let memory = &mut self.state.levels.levels[level.index()];
                let copy = entry.part_mut(part).copy_mut(level);
                match end {
                    MoveEnd::Done => copy.stage = Stage::Ready,
                    MoveEnd::Failed(_) => memory.space.release(&std::mem::take(copy).extents),
                    MoveEnd::Stranded(_) => memory.strand(copy),
                }
            }
            if let MoveEnd::Failed(error) | MoveEnd::Stranded(error) = end {
                lost = true;
                if live {
                    self.state.has_failed(id, error);
                }
            }
        }
        if lost {
            self.state.removal().undo_replace(id);
        }
        self.state.ended(id, true);
    }

    /// It was decided that a checkpoint is not copied to persistent. If scratch could not take it, it goes
    /// there all the same.
    pub fn want_no_persistent(&mut self, id: Id) {
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else { return };
        if entry.persistent == FileCopy::Undecided {
            entry.persistent = FileCopy::Absent;
            if entry.scratch.is_bypassed() && entry.life == Life::Live {
                entry.persistent = FileCopy::Wanted;
                entry.scratch = FileCopy::Substituted;
            }
        }
        self.state.reindex(id);
    }

    /// Starts a checkpoint. It is not visible to others before [`CaptureSteps::commit`].
    pub fn open(&mut self, name: &str, version: i32) -> Id {
        let id = self.state.checkpoints.next_id;
        self.state.checkpoints.next_id += 1;
        let name = self.state.checkpoints.interned(name);
        let identity = self.state.checkpoints.next_identity(&name, version);
        if !self.state.checkpoints.cleaned.is_empty() {
            self.state.checkpoints.cleaned.remove(&(name.clone(), version));
        }
        // The application writes, so it does not read in the expected order any more.
        self.state.ahead.reading = None;
        self.state.ahead.fetching = false;
        self.state.checkpoints.entries.insert(id, Box::new(Entry::new(name, version, identity)));
        id
    }

    /// The files of an open checkpoint may replace those of a job with another number of processes.
    pub fn may_replace(&mut self, id: Id) {
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.may_replace = true;
        }
    }

    /// A checkpoint begins on other processes, and cannot here.
    pub fn pass_over(&mut self, name: &str, version: i32) {
        let name = self.state.checkpoints.interned(name);
        self.state.checkpoints.next_identity(&name, version);
    }

    /// Takes room for `len` more bytes of `part` in a level, evicting as the policy allows.
    pub fn reserve(&mut self, id: Id, part: Part, len: u64, level: Level) -> Reserve {
        let extents = match self.state.eviction().take_room(len, level) {
            Ok(extents) => extents,
            Err(other) => return other,
        };
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return Reserve::Never(Error::new(ErrorKind::Internal, "the checkpoint is not open"));
        };
        let state = entry.part_mut(part);
        let base = state.len;
        state.len += extents.iter().map(|extent| extent.len).sum::<u64>();
        let copy = state.copy_mut(level);
        copy.stage = Stage::Filling;
        copy.extents = copy.extents.iter().chain(&extents).copied().collect();
        Reserve::Got { base, extents }
    }

    /// Ends a checkpoint: it can be restored from now on, and replaces an older one of the same name and
    /// version. `regions` may be in any order. It is copied to persistent if that level exists and `persist`
    /// is set.
    pub fn commit(&mut self, id: Id, mut regions: Vec<Region>, persist: bool) {
        regions.sort_by_key(|region| region.id);
        let wanted = self.state.shape.scratch && !self.state.shape.ephemeral;
        let persistent = persist && self.state.shape.persistent && !self.state.shape.ephemeral;
        let regions = self.state.checkpoints.kept_once(regions);
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
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
        self.state.counts.checkpoints += 1;
        self.state.make_live(id);
    }

    /// Ends a checkpoint that was written directly to its scratch file, which has its name. `routed` is the
    /// path of a file-based checkpoint; `persist` as for [`CaptureSteps::commit`].
    pub fn commit_file(
        &mut self,
        id: Id,
        regions: Vec<Region>,
        routed: Option<Arc<str>>,
        persist: bool,
    ) {
        self.state
            .levels
            .release(self.state.checkpoints.entries.get_mut(&id).map(|entry| &mut **entry));
        self.state.work.changes += 1;
        let lasting =
            (self.state.shape.persistent || routed.is_some()) && !self.state.shape.ephemeral;
        let persistent = persist && lasting;
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return;
        };
        lay_out(entry, regions);
        entry.scratch = FileCopy::Present;
        if self.state.shape.ephemeral {
            self.state.spilled.insert((entry.name.clone(), entry.version));
        }
        if persistent {
            entry.persistent = FileCopy::Wanted;
        }
        entry.routed = routed;
        self.state.counts.checkpoints += 1;
        self.state.make_live(id);
    }

    /// Ends a checkpoint that was written directly to its persistent file, which has its name, because
    /// scratch could not take it. `routed` as for [`CaptureSteps::commit_file`]; `persist`: it belongs there in any
    /// case.
    pub fn commit_persistent(
        &mut self,
        id: Id,
        regions: Vec<Region>,
        routed: Option<Arc<str>>,
        persist: bool,
    ) {
        self.state
            .levels
            .release(self.state.checkpoints.entries.get_mut(&id).map(|entry| &mut **entry));
        self.state.work.changes += 1;
        let Some(entry) = self.state.checkpoints.entries.get_mut(&id) else {
            return;
        };
        lay_out(entry, regions);
        entry.scratch = if persist { FileCopy::Bypassed } else { FileCopy::Substituted };
        entry.persistent = FileCopy::Present;
        entry.routed = routed;
        self.state.counts.checkpoints += 1;
        self.state.make_live(id);
    }

    /// A checkpoint that was begun may have to be copied to persistent; this is decided later.
    pub fn await_place(&mut self, id: Id) {
        if let Some(entry) =
            self.state.checkpoints.entries.get_mut(&id).filter(|_| self.state.shape.persistent)
        {
            entry.persistent = FileCopy::Undecided;
            self.state.reindex(id);
        }
    }

    /// It was decided that a checkpoint is copied to persistent, to a file of its own or to its part of an
    /// aggregated one. Returns its name and version if it is there already because scratch could not take it.
    pub fn want_persistent(
        &mut self,
        id: Id,
        place: Option<AggregatePart>,
    ) -> Option<(Arc<str>, i32)> {
        let lasting = self.state.shape.persistent;
        let mut there = None;
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
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
            self.state.reindex(id);
        }
        there
    }

    /// A copy of this checkpoint may still be running and cannot be waited for: its room is never reused.
    pub fn strand(&mut self, id: Id) {
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.busy += 1;
            entry.stranded = true;
            self.state.reindex(id);
        }
    }

    /// Whether a copy of this checkpoint could not be waited for.
    pub fn is_stranded(&self, id: Id) -> bool {
        self.state.checkpoints.entries.get(&id).is_some_and(|entry| entry.stranded)
    }

    /// Aborts an open checkpoint, as if it had never been begun.
    pub fn abort(&mut self, id: Id) {
        self.state.removal().discard(id, false);
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
        let id = self.state.checkpoints.next_id;
        self.state.checkpoints.next_id += 1;
        let mut entry = Entry::new(self.state.checkpoints.interned(name), version, identity);
        match content {
            Content::Regions { header, mark } => {
                let region = |r: &header::RegionPosition| Region {
                    id: r.id,
                    size: r.size,
                    part: part_of(r.id),
                    offset: 0,
                    decoded: r.decoded,
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
        self.state.checkpoints.entries.insert(id, Box::new(entry));
        self.state.make_live(id);
        id
    }

    /// Notes which process copies the bytes of a checkpoint that is about to be committed, and its record.
    pub fn carried_by(&mut self, id: Id, process: u32, slot: Option<Slot>) {
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.carrier = process;
            entry.noted = slot.map(|slot| (slot, Standing::default()));
        }
    }

    /// Marks a region of an open checkpoint as its mark.
    pub fn mark(&mut self, id: Id, region: i32) {
        if let Some(entry) = self.state.checkpoints.entries.get_mut(&id) {
            entry.mark = Some(region);
        }
    }

    /// Checkpoints that are opened are of this run from now on.
    pub fn in_run(&mut self, run: u64) {
        self.state.checkpoints.run = run;
    }
}

impl State {
    /// Whether deferred captures are not complete yet.
    pub fn arriving(&self) -> bool {
        !self.work.incomplete.is_empty()
    }

    /// The destination of each part of a capture with `lens` bytes per part, in one checkpoint.
    pub fn destination(&self, lens: [u64; 2]) -> Result<[Destination; 2]> {
        let mut taken = [0u64; MOST];
        let mut place = |part: Part| {
            let len = lens[part as usize];
            let captures = |level: &Level| self.levels.level(*level).spec.captures[part as usize];
            self.levels.all().filter(captures).find(|&level| {
                let memory = self.levels.level(level);
                let taken = &mut taken[level.index()];
                let sum = taken.saturating_add(memory.space.rounded(len));
                let fits = sum <= memory.reach();
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
        let sizes = self
            .levels
            .levels
            .iter()
            .map(|level| format!("{} ({} bytes)", level.spec.key, level.reach()));
        let sizes: Vec<_> = sizes.collect();
        Err(Error::new(
            ErrorKind::NoRoom,
            format!(
                "a checkpoint of {} bytes is larger than {}, and there is no scratch to stream it to",
                lens[0].saturating_add(lens[1]),
                sizes.join(" and ")
            ),
        ))
    }

    pub(super) fn make_live(&mut self, id: Id) {
        let Some(entry) = self.checkpoints.entries.get_mut(&id) else {
            return;
        };
        entry.life = Life::Live;
        let (name, version) = (entry.name.clone(), entry.version);
        // Before the older record is removed, so that there is always a record of this version.
        self.note(id);
        let older = self.checkpoints.names.entry(name).or_default().live.insert(version, id);
        if let Some(older) = older {
            self.removal().replace(older, id);
        }
        self.up().take_hints(id);
        self.reindex(id);
    }
}
