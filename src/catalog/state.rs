//! The catalog's state and its steps. Nothing here waits, and nothing here moves a byte.
//!
//! Which work there is to do is kept in lists (flush, write, spill, persist, victims, fetches).
//! Each list is a function of the entries; [`State::reindex`] is the only place that changes them,
//! and is called after every change of an entry. So finding the next piece of work costs the
//! logarithm of the number of checkpoints, whatever their number is.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::entry::{
    Entry, FileCopy, Id, Life, Lists, MemoryCopy, Part, PartState, Readable, Region, Stage, Tier,
    PARTS,
};
use crate::error::{Error, Kind, Result};
use crate::policy::evict::{self, Rank, Resident};
use crate::policy::order::{self, NextUse, RestoreOrder};
use crate::tier::space::{Extent, Space};

/// How many of the oldest victims a fetch ahead looks at to find the one that is used last.
const VICTIMS_LOOKED_AT: usize = 64;

/// The tiers that a job has, and how it uses them.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Bytes the device cache will have when it is wholly mapped; 0: there is none.
    pub device: u64,
    /// Bytes of the host buffer; 0: there is none.
    pub host: u64,
    /// There is a scratch directory.
    pub scratch: bool,
    /// There is a persistent directory.
    pub persistent: bool,
    /// Files are written only if memory overflows.
    pub ephemeral: bool,
    /// In which order checkpoints will be read back.
    pub order: RestoreOrder,
    /// Allocation unit of the device cache in bytes.
    pub device_granule: u64,
    /// Allocation unit of the host buffer in bytes.
    pub host_granule: u64,
}

/// Why a reservation has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// For the device cache to be mapped further.
    Map,
    /// For a flush, so that the device cache can evict.
    DeviceRoom,
    /// For a write, so that the host buffer can evict.
    HostRoom,
}

/// The answer to a reservation.
#[derive(Debug)]
pub enum Reserve {
    /// Room was taken: where the run starts in its part, and where it lies in the tier.
    Got {
        /// Offset within the part.
        base: u64,
        /// The room.
        extents: Vec<Extent>,
    },
    /// Room will come.
    Wait(WaitFor),
    /// Room cannot come.
    Never(Error),
}

/// Where a capture's bytes are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a memory tier.
    Memory(Tier),
    /// Straight to a file: it is larger than the memory tiers.
    File,
}

/// Bytes in a memory tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The tier.
    pub tier: Tier,
    /// Where in it.
    pub extents: Arc<[Extent]>,
}

/// A copy between the device cache and the host buffer.
#[derive(Clone, Debug)]
pub struct MoveJob {
    /// The checkpoint.
    pub id: Id,
    /// Bytes to copy.
    pub len: u64,
    /// Where in the device cache.
    pub device: Arc<[Extent]>,
    /// Where in the host buffer.
    pub host: Arc<[Extent]>,
}

/// A checkpoint to be written to its scratch file, or read from a file.
#[derive(Clone, Debug)]
pub struct FileJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// Its regions, ascending by id.
    pub regions: Arc<[Region]>,
    /// The memory of each part, indexed by [`Part`]; `None` where the part is empty.
    pub memory: [Option<Source>; 2],
}

/// A scratch file to be copied to the persistent directory.
#[derive(Clone, Debug)]
pub struct PersistJob {
    /// The checkpoint.
    pub id: Id,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: i32,
    /// The path that was routed, for a file-based checkpoint.
    pub routed: Option<Arc<str>>,
}

/// What a finished file transfer must still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Keep,
    /// Remove the scratch file: the checkpoint was cleaned up meanwhile.
    Unlink,
}

/// Where a part can be read from.
#[derive(Clone, Debug)]
pub enum Acquire {
    /// From memory. Give it back by [`State::release`].
    Memory(Source),
    /// A fetch of it is under way.
    Wait,
    /// From its file.
    File,
    /// Nowhere: an invariant was broken.
    Lost,
}

/// Events counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Checkpoints restored.
    pub restores: u64,
    /// Copies that left the device cache to make room.
    pub device_evictions: u64,
    /// Copies that left the host buffer to make room.
    pub host_evictions: u64,
    /// Consumed checkpoints of an ephemeral job that were given up to make room.
    pub discards: u64,
    /// Checkpoints of an ephemeral job that overflowed to a file.
    pub spills: u64,
    /// Parts fetched to the device cache ahead of their restore.
    pub fetches: u64,
    /// Restored device parts that were in the device cache when asked for.
    pub device_hits: u64,
    /// Restored device parts that were not.
    pub device_misses: u64,
}

#[derive(Debug, Default)]
struct Versions {
    live: BTreeMap<i32, Id>,
    to_device: BTreeSet<i32>,
    to_host: BTreeSet<i32>,
}

/// Everything the catalog knows.
#[derive(Debug)]
pub struct State {
    shape: Shape,
    entries: HashMap<Id, Entry>,
    names: HashMap<Arc<str>, Versions>,
    device: Space,
    /// The device cache will not grow any more.
    device_complete: bool,
    host: Space,
    /// Consumed checkpoints are flushed last, the others in the order they were taken.
    flush: BTreeSet<(bool, Id)>,
    write: BTreeSet<(Readable, Id)>,
    spill: BTreeSet<(Readable, Id)>,
    persist: BTreeSet<Id>,
    device_victims: BTreeSet<(Rank, Id)>,
    host_victims: BTreeSet<(Rank, Id)>,
    hinted_to_device: BTreeSet<(u64, Id)>,
    hinted_to_host: BTreeSet<(u64, Id)>,
    /// The name last read and the version read: where expectations start from.
    reading: Option<(Arc<str>, i64)>,
    /// Fetching ahead is wanted: the application reads, or has asked for it.
    fetching: bool,
    /// Something waits for room in the host buffer: ephemeral checkpoints may spill to files.
    pressure: bool,
    next_id: Id,
    next_hint: u64,
    next_consumed: u64,
    /// Transfers under way that can end a wait for room.
    in_flight: u32,
    /// Of those, flushes, writes and persists.
    draining: u32,
    failures: VecDeque<Error>,
    counts: Counts,
    /// Goes up with everything that could let somebody go on who waits.
    changes: u64,
}

impl State {
    /// An empty catalog for a job of this shape.
    pub fn new(shape: Shape) -> Self {
        let mut host = Space::new(shape.host_granule);
        host.grow(shape.host);
        State {
            device: Space::new(shape.device_granule),
            device_complete: shape.device == 0,
            host,
            shape,
            entries: HashMap::new(),
            names: HashMap::new(),
            flush: BTreeSet::new(),
            write: BTreeSet::new(),
            spill: BTreeSet::new(),
            persist: BTreeSet::new(),
            device_victims: BTreeSet::new(),
            host_victims: BTreeSet::new(),
            hinted_to_device: BTreeSet::new(),
            hinted_to_host: BTreeSet::new(),
            reading: None,
            fetching: false,
            pressure: false,
            next_id: 1,
            next_hint: 1,
            next_consumed: 1,
            in_flight: 0,
            draining: 0,
            failures: VecDeque::new(),
            counts: Counts::default(),
            changes: 0,
        }
    }

    /// A number that has changed if anything has that somebody may wait for.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    // ---- the device cache's growth -------------------------------------------------------

    /// A device cache of `bytes` is going to be mapped.
    pub fn device_expected(&mut self, bytes: u64) {
        self.shape.device = bytes;
        self.device_complete = bytes == 0;
    }

    /// The device cache was mapped by `bytes` further.
    pub fn device_grown(&mut self, bytes: u64) {
        self.device.grow(bytes);
        self.changes += 1;
    }

    /// The device cache will not grow any more. What it is short of its size is not waited for.
    pub fn device_completed(&mut self) {
        self.device_complete = true;
        self.shape.device = self.device.capacity();
        self.changes += 1;
        let ids: Vec<Id> = self.entries.keys().copied().collect();
        for id in ids {
            self.reindex(id);
        }
    }

    /// The host buffer must not grow beyond what it uses of its first `bytes` and what it holds
    /// behind them: memory is short.
    pub fn limit_host(&mut self, bytes: u64) {
        self.host.withdraw(bytes.next_multiple_of(self.shape.host_granule));
        self.shape.host = self.host.capacity();
        self.changes += 1;
        let ids: Vec<Id> = self.entries.keys().copied().collect();
        for id in ids {
            self.reindex(id);
        }
    }

    // ---- capture -------------------------------------------------------------------------

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
        self.entries.insert(id, Entry::new(name, version));
        // The application writes: expectations of reads end here.
        self.reading = None;
        self.fetching = false;
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
    /// name and version. `regions` may be in any order.
    pub fn commit(&mut self, id: Id, mut regions: Vec<Region>) {
        regions.sort_by_key(|region| region.id);
        let wanted = self.shape.scratch && !self.shape.ephemeral;
        let persistent = self.shape.persistent && !self.shape.ephemeral;
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.regions = regions.into();
        for part in &mut entry.parts {
            for tier in [Tier::Device, Tier::Host] {
                let copy = part.copy_mut(tier);
                if copy.stage == Stage::Filling {
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

    /// Ends a checkpoint whose bytes went straight to its scratch file, which is in its place.
    /// `layout` are its regions as in the file; `routed` the path of a file-based checkpoint.
    pub fn commit_file(&mut self, id: Id, regions: Vec<Region>, routed: Option<Arc<str>>) {
        self.release_memory(id);
        let persistent = (self.shape.persistent || routed.is_some()) && !self.shape.ephemeral;
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        lay_out(entry, regions);
        entry.scratch = FileCopy::Present;
        entry.spilled = self.shape.ephemeral;
        entry.persistent = if persistent { FileCopy::Wanted } else { FileCopy::Absent };
        entry.routed = routed;
        self.counts.checkpoints += 1;
        self.enliven(id);
    }

    /// A copy of this checkpoint may still be running and cannot be waited for: its room is never
    /// given to others.
    pub fn strand(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy += 1;
        }
    }

    /// Gives a checkpoint under way up: as if it had never been begun.
    pub fn abort(&mut self, id: Id) {
        self.discard(id, false);
    }

    /// Makes a checkpoint known whose file was found on disk. `part_of` tells which regions are
    /// wanted in device memory; then, whether scratch and persistent have the file, and whether it
    /// is a file of the application's own.
    pub fn adopt(
        &mut self,
        name: &str,
        version: i32,
        regions: &[(i32, u64)],
        part_of: impl Fn(i32) -> Part,
        [in_scratch, in_persistent]: [bool; 2],
        routed: bool,
    ) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let mut entry = Entry::new(self.interned(name), version);
        let regions =
            regions.iter().map(|&(id, size)| Region { id, size, part: part_of(id), offset: 0 });
        lay_out(&mut entry, regions.collect());
        if in_scratch {
            entry.scratch = FileCopy::Present;
        }
        if in_persistent {
            entry.persistent = FileCopy::Present;
        }
        if routed {
            // Where it was routed from matters only for a copy still to be made.
            entry.routed = Some(Arc::from(""));
        }
        self.entries.insert(id, entry);
        self.enliven(id);
        id
    }

    fn enliven(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.life = Life::Live;
        let (name, version) = (entry.name.clone(), entry.version);
        let older = self.names.entry(name).or_default().live.insert(version, id);
        if let Some(older) = older {
            // The older one's file stays until the new one's takes its place.
            self.discard(older, false);
        }
        self.reindex(id);
    }

    // ---- flush ---------------------------------------------------------------------------

    /// The next flush from the device cache to the host buffer, oldest first. `None` while there
    /// is nothing to flush or no room for it.
    pub fn next_flush(&mut self) -> Option<MoveJob> {
        let &(consumed, id) = self.flush.first()?;
        let len = self.entries.get(&id)?.part(Part::Device).len;
        // What was consumed is not worth giving up anything else for.
        if !self.make_host_room(len, id, !consumed) {
            self.press();
            return None;
        }
        self.pressure = false;
        let host: Arc<[Extent]> = self.host.allocate(len)?.into();
        let entry = self.entries.get_mut(&id)?;
        let part = entry.part_mut(Part::Device);
        part.host = MemoryCopy { stage: Stage::Filling, extents: host.clone(), readers: 0 };
        part.device.readers += 1;
        let device = part.device.extents.clone();
        self.started(id, true);
        Some(MoveJob { id, len, device, host })
    }

    /// Ends a flush. A failed one leaves the checkpoint in the device cache.
    pub fn flush_done(&mut self, id: Id, result: Result<()>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let part = entry.part_mut(Part::Device);
            part.device.readers -= 1;
            match result {
                Ok(()) => part.host.stage = Stage::Ready,
                Err(error) => {
                    let extents = std::mem::take(&mut part.host).extents;
                    entry.flush_failed = true;
                    self.host.release(&extents);
                    self.failures.push_back(error);
                }
            }
        }
        self.ended(id, true);
    }

    // ---- files ---------------------------------------------------------------------------

    /// The next checkpoint to be written to scratch.
    pub fn next_write(&mut self) -> Option<FileJob> {
        let mut spilled = 0;
        let now = self.writable(&self.write).or_else(|| {
            spilled = 1;
            self.spill.first().copied().filter(|_| self.pressure)
        });
        let (_, id) = now?;
        let entry = self.entries.get_mut(&id)?;
        let mut memory = [None, None];
        for part in PARTS {
            let Some(tier) = readable_from(entry.part(part)) else {
                continue;
            };
            let copy = entry.part_mut(part).copy_mut(tier);
            copy.readers += 1;
            memory[part as usize] = Some(Source { tier, extents: copy.extents.clone() });
        }
        entry.scratch = FileCopy::Writing;
        let (name, version, regions) = (entry.name.clone(), entry.version, entry.regions.clone());
        self.counts.spills += spilled;
        self.started(id, true);
        Some(FileJob { id, name, version, regions, memory })
    }

    /// Whether a checkpoint whose temporary file is complete may take its place in scratch.
    pub fn still_wanted(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.life == Life::Live)
    }

    /// Ends a write.
    pub fn write_done(&mut self, job: &FileJob, result: Result<()>) -> After {
        let mut unlink = false;
        if let Some(entry) = self.entries.get_mut(&job.id) {
            for part in PARTS {
                if let Some(source) = &job.memory[part as usize] {
                    entry.part_mut(part).copy_mut(source.tier).readers -= 1;
                }
            }
            match result {
                Ok(()) => {
                    entry.scratch = FileCopy::Present;
                    entry.spilled = self.shape.ephemeral;
                    unlink = entry.doomed && entry.life == Life::Dropped;
                }
                Err(error) => {
                    entry.scratch = FileCopy::Failed;
                    if entry.life == Life::Live {
                        self.failures.push_back(error);
                    }
                }
            }
        }
        self.ended(job.id, true);
        // A newer checkpoint of the same name may have taken the place meanwhile.
        if unlink && self.find(&job.name, job.version).is_none() {
            After::Unlink
        } else {
            After::Keep
        }
    }

    /// The next scratch file to be copied to the persistent directory.
    pub fn next_persist(&mut self) -> Option<PersistJob> {
        let id = *self.persist.first()?;
        let entry = self.entries.get_mut(&id)?;
        entry.persistent = FileCopy::Writing;
        let job = PersistJob {
            id,
            name: entry.name.clone(),
            version: entry.version,
            routed: entry.routed.clone(),
        };
        self.started(id, true);
        Some(job)
    }

    /// Ends the making of a persistent copy.
    pub fn persist_done(&mut self, id: Id, result: Result<()>) -> After {
        let mut after = After::Keep;
        if let Some(entry) = self.entries.get_mut(&id) {
            match result {
                Ok(()) => {
                    entry.persistent = FileCopy::Present;
                    if entry.doomed && entry.life == Life::Live {
                        after = After::Unlink;
                        self.discard(id, false);
                    }
                }
                Err(error) => {
                    entry.persistent = FileCopy::Failed;
                    // The copy in scratch is the only one: it is not cleaned up after all.
                    entry.doomed = false;
                    if entry.life == Life::Live {
                        self.failures.push_back(error);
                    }
                }
            }
        }
        self.ended(id, true);
        after
    }

    // ---- hints and fetches ---------------------------------------------------------------

    /// Adds a hint: this checkpoint will be read after those hinted before.
    pub fn hint(&mut self, id: Id) {
        let position = self.next_hint;
        self.next_hint += 1;
        self.delist(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.hints.push(position);
            entry.consumed = None;
        }
        self.reindex(id);
    }

    /// Fetching ahead may begin now.
    pub fn start_fetching(&mut self) {
        self.fetching = true;
        self.changes += 1;
    }

    /// The next fetch from the host buffer to the device cache.
    pub fn next_fetch(&mut self) -> Option<MoveJob> {
        let (id, when) = self.candidate(Tier::Device)?;
        let len = self.entries.get(&id)?.part(Part::Device).len;
        if !self.make_room_for_fetch(len, when, Tier::Device) {
            return None;
        }
        let device: Arc<[Extent]> = self.device.allocate(len)?.into();
        let entry = self.entries.get_mut(&id)?;
        let part = entry.part_mut(Part::Device);
        part.device = MemoryCopy { stage: Stage::Filling, extents: device.clone(), readers: 0 };
        part.host.readers += 1;
        let host = part.host.extents.clone();
        self.started(id, false);
        Some(MoveJob { id, len, device, host })
    }

    /// Ends a fetch to the device cache. A failed one leaves the checkpoint where it was.
    pub fn fetch_done(&mut self, id: Id, result: &Result<()>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let part = entry.part_mut(Part::Device);
            part.host.readers -= 1;
            if result.is_ok() {
                part.device.stage = Stage::Ready;
                self.counts.fetches += 1;
            } else {
                let extents = std::mem::take(&mut part.device).extents;
                entry.fetch_failed = true;
                self.device.release(&extents);
            }
        }
        self.ended(id, false);
    }

    /// The next read of a file into the host buffer.
    pub fn next_read(&mut self) -> Option<FileJob> {
        let (id, when) = self.candidate(Tier::Host)?;
        let lens = PARTS.map(|part| self.entries.get(&id).map_or(0, |e| e.part(part).len));
        let rounded = lens.map(|len| self.host.rounded(len));
        if !self.make_room_for_fetch(rounded[0] + rounded[1], when, Tier::Host) {
            return None;
        }
        let mut memory = [None, None];
        for part in PARTS {
            if lens[part as usize] == 0 {
                continue;
            }
            let extents: Arc<[Extent]> = self.host.allocate(lens[part as usize])?.into();
            self.entries.get_mut(&id)?.part_mut(part).host =
                MemoryCopy { stage: Stage::Filling, extents: extents.clone(), readers: 0 };
            memory[part as usize] = Some(Source { tier: Tier::Host, extents });
        }
        self.started(id, false);
        let entry = self.entries.get(&id)?;
        Some(FileJob {
            id,
            name: entry.name.clone(),
            version: entry.version,
            regions: entry.regions.clone(),
            memory,
        })
    }

    /// Ends a read of a file into the host buffer.
    pub fn read_done(&mut self, job: &FileJob, result: &Result<()>) {
        if let Some(entry) = self.entries.get_mut(&job.id) {
            for part in PARTS {
                if job.memory[part as usize].is_none() {
                    continue;
                }
                if result.is_ok() {
                    entry.part_mut(part).host.stage = Stage::Ready;
                } else {
                    let extents = std::mem::take(&mut entry.part_mut(part).host).extents;
                    self.host.release(&extents);
                    entry.fetch_failed = true;
                }
            }
        }
        self.ended(job.id, false);
    }

    /// What to fetch next into `tier`, and when it will be used.
    fn candidate(&self, tier: Tier) -> Option<(Id, NextUse)> {
        if !self.fetching {
            return None;
        }
        let hinted = match tier {
            Tier::Device => self.hinted_to_device.first(),
            Tier::Host => self.hinted_to_host.first(),
        };
        if let Some(&(position, id)) = hinted {
            return Some((id, NextUse::Hinted(position)));
        }
        let (name, current) = self.reading.as_ref()?;
        let versions = self.names.get(name)?;
        let set = match tier {
            Tier::Device => &versions.to_device,
            Tier::Host => &versions.to_host,
        };
        let bound = |v: i64| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        let version = match self.shape.order {
            RestoreOrder::Reverse if *current > i64::from(i32::MAX) => set.last(),
            RestoreOrder::Reverse => set.range(..bound(*current)).next_back(),
            RestoreOrder::Same => set.range(bound(*current + 1)..).next(),
            RestoreOrder::Random => None,
        }?;
        let id = *versions.live.get(version)?;
        let distance = order::distance(self.shape.order, *current, i64::from(*version))?;
        Some((id, NextUse::Expected(distance)))
    }

    fn next_use(&self, entry: &Entry) -> NextUse {
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

    /// Room for something that will be used at `when`: only at the cost of what is used later.
    fn make_room_for_fetch(&mut self, len: u64, when: NextUse, tier: Tier) -> bool {
        loop {
            let (space, victims, complete) = match tier {
                Tier::Device => (&self.device, &self.device_victims, self.device_complete),
                Tier::Host => (&self.host, &self.host_victims, true),
            };
            if space.rounded(len) <= space.free() {
                return true;
            }
            if !complete {
                return false;
            }
            let latest = victims
                .iter()
                .take(VICTIMS_LOOKED_AT)
                .filter(|(rank, _)| *rank != Rank::Discardable)
                .filter_map(|&(_, id)| Some((self.next_use(self.entries.get(&id)?), id)))
                .filter(|(use_of_victim, _)| *use_of_victim > when)
                .max_by_key(|&(use_of_victim, id)| (use_of_victim, std::cmp::Reverse(id)));
            match latest {
                Some((_, id)) => self.evict(id, tier),
                None => return false,
            }
        }
    }

    // ---- restore -------------------------------------------------------------------------

    /// The live checkpoint of this name and version.
    pub fn find(&self, name: &str, version: i32) -> Option<Id> {
        self.names.get(name)?.live.get(&version).copied()
    }

    /// The newest live version that is not above `bound`.
    pub fn newest(&self, name: &str, bound: i32) -> Option<i32> {
        self.names.get(name)?.live.range(..=bound).next_back().map(|(&version, _)| version)
    }

    /// Its regions, ascending by id.
    pub fn regions(&self, id: Id) -> Option<Arc<[Region]>> {
        self.entries.get(&id).map(|entry| entry.regions.clone())
    }

    /// Whether the region's bytes are wholly in the device cache.
    pub fn on_device(&self, id: Id, region: i32) -> bool {
        let Some(entry) = self.entries.get(&id) else {
            return false;
        };
        entry.regions.iter().find(|r| r.id == region).is_some_and(|region| {
            region.part == Part::Device && entry.part(Part::Device).device.stage == Stage::Ready
        })
    }

    /// Starts a restore: the checkpoint stays whole until [`State::end_restore`].
    pub fn begin_restore(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy += 1;
            self.reading = Some((entry.name.clone(), i64::from(entry.version)));
            self.fetching = true;
            self.changes += 1;
        }
    }

    /// Where to read a part from, the nearest copy first.
    pub fn acquire(&mut self, id: Id, part: Part) -> Acquire {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Acquire::Lost;
        };
        let in_file = entry.in_file();
        let state = entry.part_mut(part);
        let tier = match (state.device.stage, state.host.stage) {
            (Stage::Ready, _) => Tier::Device,
            (Stage::Filling, _) => return Acquire::Wait,
            (Stage::Absent, Stage::Ready) => Tier::Host,
            (Stage::Absent, Stage::Filling) => return Acquire::Wait,
            (Stage::Absent, Stage::Absent) if in_file => return Acquire::File,
            (Stage::Absent, Stage::Absent) => return Acquire::Lost,
        };
        let copy = state.copy_mut(tier);
        copy.readers += 1;
        let extents = copy.extents.clone();
        if part == Part::Device {
            match tier {
                Tier::Device => self.counts.device_hits += 1,
                Tier::Host => self.counts.device_misses += 1,
            }
        }
        self.in_flight += 1;
        self.reindex(id);
        Acquire::Memory(Source { tier, extents })
    }

    /// Gives back what [`State::acquire`] gave.
    pub fn release(&mut self, id: Id, part: Part, tier: Tier) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let copy = entry.part_mut(part).copy_mut(tier);
            copy.readers -= 1;
            self.in_flight -= 1;
            self.changes += 1;
            self.reindex(id);
        }
    }

    /// Ends a restore. After a successful one the checkpoint counts as consumed, unless a hint
    /// says that it will be read again.
    pub fn end_restore(&mut self, id: Id, success: bool) {
        let consumed = self.next_consumed;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy -= 1;
            if success {
                self.next_consumed += 1;
                self.counts.restores += 1;
                self.delist(id);
                if let Some(entry) = self.entries.get_mut(&id) {
                    if !entry.hints.is_empty() {
                        entry.hints.remove(0);
                    }
                    entry.consumed = entry.hints.is_empty().then_some(consumed);
                }
            }
        }
        self.settle(id);
    }

    // ---- removal -------------------------------------------------------------------------

    /// Removes a name's checkpoints from memory and scratch (`VELOC_Cleanup`). Those whose
    /// persistent copy is still to be made go once it is. Returns the versions whose scratch files
    /// the caller must remove now.
    pub fn cleanup(&mut self, name: &str) -> Vec<i32> {
        let Some(versions) = self.names.get(name) else {
            return Vec::new();
        };
        let ids: Vec<(i32, Id)> = versions.live.iter().map(|(&v, &id)| (v, id)).collect();
        let mut unlink = Vec::new();
        for (version, id) in ids {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            match entry.persistent {
                FileCopy::Wanted | FileCopy::Writing => entry.doomed = true,
                _ => {
                    // A write under way removes its file itself.
                    entry.doomed = true;
                    if entry.scratch != FileCopy::Writing {
                        unlink.push(version);
                    }
                    self.discard(id, false);
                }
            }
        }
        unlink
    }

    /// The scratch files that an ephemeral job has spilled, as name and version.
    pub fn spilled(&self) -> Vec<(Arc<str>, i32)> {
        self.entries
            .values()
            .filter(|entry| entry.spilled)
            .map(|entry| (entry.name.clone(), entry.version))
            .collect()
    }

    fn discard(&mut self, id: Id, to_make_room: bool) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.life == Life::Live {
            let name = entry.name.clone();
            let version = entry.version;
            if let Some(versions) = self.names.get_mut(&name) {
                if versions.live.get(&version) == Some(&id) {
                    versions.live.remove(&version);
                }
            }
        }
        self.delist(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.life = Life::Dropped;
            entry.hints.clear();
        }
        if to_make_room {
            self.counts.discards += 1;
        }
        self.settle(id);
    }

    // ---- waiting and failing -------------------------------------------------------------

    /// Nothing is being flushed, written or persisted, and nothing that could be is left.
    pub fn drained(&self) -> bool {
        self.draining == 0
            && self.write.is_empty()
            && self.persist.is_empty()
            && !self.flush_can_come()
    }

    /// `Some` once no persistent copy of this checkpoint is wanted or being made.
    pub fn persist_settled(&self, id: Id) -> Option<()> {
        let file = self.entries.get(&id).map(|entry| entry.persistent);
        (!matches!(file, Some(FileCopy::Wanted | FileCopy::Writing))).then_some(())
    }

    /// Takes the oldest background failure that has not been reported.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failures.pop_front()
    }

    /// Puts what failed on the lists again. True if there was anything.
    pub fn retry(&mut self) -> bool {
        let failed: Vec<Id> = self
            .entries
            .iter()
            .filter(|(_, e)| {
                e.life == Life::Live
                    && (e.flush_failed
                        || e.scratch == FileCopy::Failed
                        || e.persistent == FileCopy::Failed)
            })
            .map(|(&id, _)| id)
            .collect();
        for &id in &failed {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.flush_failed = false;
                for file in [&mut entry.scratch, &mut entry.persistent] {
                    if *file == FileCopy::Failed {
                        *file = FileCopy::Wanted;
                    }
                }
            }
            self.reindex(id);
        }
        !failed.is_empty()
    }

    /// Something that failed stands in the way of making room.
    pub fn anything_failed(&self) -> bool {
        self.entries
            .values()
            .any(|e| e.life == Life::Live && (e.flush_failed || e.scratch == FileCopy::Failed))
    }

    /// Which workers have something to do.
    pub fn work(&self) -> Work {
        Work {
            flush: !self.flush.is_empty() && self.flush_can_come(),
            write: self.writable(&self.write).is_some()
                || (self.pressure && !self.spill.is_empty()),
            persist: !self.persist.is_empty(),
            fetch: self.candidate(Tier::Device).is_some(),
            read: self.candidate(Tier::Host).is_some(),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Room in the device cache: all that is mapped, and free, in bytes.
    pub fn device_room(&self) -> (u64, u64) {
        (self.device.capacity(), self.device.free())
    }

    /// Room in the host buffer: all, and free, in bytes.
    pub fn host_room(&self) -> (u64, u64) {
        (self.host.capacity(), self.host.free())
    }

    /// The device cache will not grow any more.
    pub fn device_is_complete(&self) -> bool {
        self.device_complete
    }

    /// Checkpoints that can be restored.
    pub fn live(&self) -> usize {
        self.names.values().map(|versions| versions.live.len()).sum()
    }

    // ---- room ----------------------------------------------------------------------------

    fn take_room(&mut self, len: u64, tier: Tier) -> std::result::Result<Vec<Extent>, Reserve> {
        loop {
            let space = match tier {
                Tier::Device => &mut self.device,
                Tier::Host => &mut self.host,
            };
            if let Some(extents) = space.allocate(len) {
                self.pressure = false;
                return Ok(extents);
            }
            if tier == Tier::Device && !self.device_complete {
                return Err(Reserve::Wait(WaitFor::Map));
            }
            let (victims, capacity) = match tier {
                Tier::Device => (&self.device_victims, self.device.capacity()),
                Tier::Host => (&self.host_victims, self.host.capacity()),
            };
            let victim = victims.first().copied();
            if let Some((_, id)) = victim.filter(|(rank, _)| *rank < Rank::Discardable) {
                self.evict(id, tier);
                continue;
            }
            self.press();
            let may_come = match tier {
                Tier::Device => self.device_room_can_come(),
                Tier::Host => self.host_room_can_come(),
            };
            if may_come {
                return Err(Reserve::Wait(match tier {
                    Tier::Device => WaitFor::DeviceRoom,
                    Tier::Host => WaitFor::HostRoom,
                }));
            }
            let Some((_, id)) = victim else {
                return Err(Reserve::Never(self.no_room(len, tier, capacity)));
            };
            self.evict(id, tier);
        }
    }

    fn no_room(&self, len: u64, tier: Tier, capacity: u64) -> Error {
        let (what, key) = match tier {
            Tier::Device => ("device cache", "gpu_cache_size"),
            Tier::Host => ("host buffer", "host_cache_size"),
        };
        let why = if self.anything_failed() {
            "what it holds could not be moved on (see the failure reported before)"
        } else if self.shape.ephemeral && !self.shape.scratch {
            "nothing in it has been consumed yet, and an ephemeral job without scratch writes no files"
        } else {
            "nothing in it can move on"
        };
        Error::new(
            Kind::NoRoom,
            format!("no room for {len} bytes in the {what} ({key}, {capacity} bytes): {why}"),
        )
    }

    /// Room in the host buffer for `len` bytes of `keep`, at the cost of others.
    fn make_host_room(&mut self, len: u64, keep: Id, discard: bool) -> bool {
        while self.host.rounded(len) > self.host.free() {
            match self.host_victims.iter().find(|(_, id)| *id != keep).copied() {
                Some((rank, id)) if discard || rank < Rank::Discardable => {
                    self.evict(id, Tier::Host);
                }
                _ => return false,
            }
        }
        true
    }

    fn flush_can_come(&self) -> bool {
        self.flush.first().is_some_and(|&(consumed, id)| {
            self.entries.get(&id).is_some_and(|entry| {
                self.host.rounded(entry.part(Part::Device).len) <= self.host.free()
                    || self.host_victims.iter().take(2).any(|&(rank, victim)| {
                        victim != id && (rank < Rank::Discardable || !consumed)
                    })
                    || self.host_room_can_come()
            })
        })
    }

    fn device_room_can_come(&self) -> bool {
        self.in_flight > 0
            || self.flush_can_come()
            || !self.write.is_empty()
            || (self.shape.scratch && !self.spill.is_empty())
    }

    fn host_room_can_come(&self) -> bool {
        self.in_flight > 0
            || !self.write.is_empty()
            || (self.shape.scratch && !self.spill.is_empty())
    }

    fn evict(&mut self, id: Id, tier: Tier) {
        self.delist(id);
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        for part in &mut entry.parts {
            let copy = part.copy_mut(tier);
            if copy.stage == Stage::Ready {
                let extents = std::mem::take(copy).extents;
                match tier {
                    Tier::Device => self.device.release(&extents),
                    Tier::Host => self.host.release(&extents),
                }
            }
        }
        match tier {
            Tier::Device => self.counts.device_evictions += 1,
            Tier::Host => self.counts.host_evictions += 1,
        }
        let whole = PARTS.iter().all(|&part| has_bytes(entry, part));
        if whole {
            self.reindex(id);
        } else {
            self.discard(id, true);
        }
    }

    // ---- bookkeeping ---------------------------------------------------------------------

    fn interned(&self, name: &str) -> Arc<str> {
        match self.names.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => Arc::from(name),
        }
    }

    /// Something waits for room in the host buffer.
    fn press(&mut self) {
        if !self.pressure {
            self.pressure = true;
            self.changes += 1;
        }
    }

    fn started(&mut self, id: Id, draining: bool) {
        self.in_flight += 1;
        self.draining += u32::from(draining);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy += 1;
        }
        self.reindex(id);
    }

    fn ended(&mut self, id: Id, draining: bool) {
        self.in_flight -= 1;
        self.draining -= u32::from(draining);
        self.changes += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy -= 1;
        }
        self.settle(id);
    }

    /// Frees a dropped entry that nothing uses any more; brings the lists up to date otherwise.
    fn settle(&mut self, id: Id) {
        match self.entries.get(&id) {
            Some(entry) if entry.life == Life::Dropped && entry.busy == 0 => {
                self.release_memory(id);
                self.entries.remove(&id);
                self.changes += 1;
            }
            Some(_) => self.reindex(id),
            None => {}
        }
    }

    fn release_memory(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        for part in &mut entry.parts {
            let device = std::mem::take(&mut part.device).extents;
            self.device.release(&device);
            let host = std::mem::take(&mut part.host).extents;
            self.host.release(&host);
            part.len = 0;
        }
    }

    /// Takes an entry off every list. Needed before a change of a key that the lists are sorted by.
    fn delist(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let now = std::mem::take(&mut entry.lists);
            self.relist(id, now, Lists::default());
        }
    }

    /// Brings the lists in line with the entry.
    fn reindex(&mut self, id: Id) {
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

    fn relist(&mut self, id: Id, now: Lists, wanted: Lists) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        put(&mut self.flush, (entry.consumed.is_some(), id), now.flush, wanted.flush);
        put(&mut self.persist, id, now.persist, wanted.persist);
        put_ranked(&mut self.write, id, now.write, wanted.write);
        put_ranked(&mut self.spill, id, now.spill, wanted.spill);
        put_ranked(&mut self.device_victims, id, now.device_victim, wanted.device_victim);
        put_ranked(&mut self.host_victims, id, now.host_victim, wanted.host_victim);
        if let Some(&hint) = entry.hints.first() {
            put(&mut self.hinted_to_device, (hint, id), now.to_device, wanted.to_device);
            put(&mut self.hinted_to_host, (hint, id), now.to_host, wanted.to_host);
        }
        if let Some(versions) = self.names.get_mut(&entry.name) {
            put(&mut versions.to_device, entry.version, now.to_device, wanted.to_device);
            put(&mut versions.to_host, entry.version, now.to_host, wanted.to_host);
        }
    }

    /// From where a writer could read the whole checkpoint now, if it could.
    fn readable(&self, entry: &Entry) -> Option<Readable> {
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
    fn writable(&self, list: &BTreeSet<(Readable, Id)>) -> Option<(Readable, Id)> {
        list.first().copied().filter(|(from, _)| *from == Readable::FromHost || self.pressure)
    }

    /// The lists an entry belongs to.
    fn lists_of(&self, entry: &Entry) -> Lists {
        if entry.life != Life::Live {
            return Lists::default();
        }
        let shape = &self.shape;
        let device = entry.part(Part::Device);
        let in_file = entry.in_file();
        let consumed = entry.consumed.is_some();
        let lowest_is_memory = shape.ephemeral && !shape.scratch;
        let readable = self.readable(entry);
        let fits_host = self.host.rounded(device.len) <= shape.host;
        let device_victim = (device.device.stage == Stage::Ready)
            .then(|| {
                evict::rank(
                    Resident {
                        backed: device.host.stage == Stage::Ready || in_file,
                        in_use: device.device.readers > 0,
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
                evict::rank(
                    Resident {
                        backed: in_file,
                        in_use: entry.parts.iter().any(|part| part.host.readers > 0),
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
            persist: entry.persistent == FileCopy::Wanted && entry.scratch == FileCopy::Present,
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
        }
    }

    // ---- invariants ----------------------------------------------------------------------

    /// Checks every invariant; used by the tests after each step.
    ///
    /// 1. Room: each byte of a tier is free or in exactly one copy.
    /// 2. Nothing is lost: every part of a live checkpoint is complete somewhere.
    /// 3. The lists are what the entries say.
    /// 4. Names and entries name each other.
    /// 5. Nobody reads a copy that is not complete, and what is read is not a victim.
    pub fn check(&self) -> std::result::Result<(), String> {
        for (tier, space) in [(Tier::Device, &self.device), (Tier::Host, &self.host)] {
            let mut held: Vec<Extent> = Vec::new();
            for entry in self.entries.values() {
                for part in &entry.parts {
                    held.extend(part.copy(tier).extents.iter());
                }
            }
            held.sort_by_key(|extent| extent.offset);
            if held.windows(2).any(|pair| pair[0].offset + pair[0].len > pair[1].offset) {
                return Err(format!("{tier:?}: two copies overlap: {held:?}"));
            }
            let sum: u64 = held.iter().map(|extent| extent.len).sum();
            if sum + space.free() != space.capacity() {
                return Err(format!("{tier:?}: {sum} held + {} free", space.free()));
            }
        }
        let mut flush = BTreeSet::new();
        for (&id, entry) in &self.entries {
            let expected = self.lists_of(entry);
            if entry.lists != expected {
                return Err(format!("{id}: in lists {:?}, not {expected:?}", entry.lists));
            }
            if entry.lists.flush {
                flush.insert((entry.consumed.is_some(), id));
            }
            if entry.life == Life::Live {
                if self.find(&entry.name, entry.version) != Some(id) {
                    return Err(format!("{id}: live, but not under its name"));
                }
                for part in PARTS {
                    if !has_bytes(entry, part) {
                        return Err(format!("{id}: {part:?} is nowhere: {entry:?}"));
                    }
                }
            }
            for copy in entry.parts.iter().flat_map(|part| [&part.device, &part.host]) {
                if copy.readers > 0 && copy.stage != Stage::Ready {
                    return Err(format!("{id}: a copy is read that is {:?}", copy.stage));
                }
            }
        }
        if flush != self.flush {
            return Err(format!("flush list {:?}, not {flush:?}", self.flush));
        }
        let live = self.entries.values().filter(|e| e.life == Life::Live).count();
        if live != self.live() {
            return Err(format!("{live} live entries, {} under names", self.live()));
        }
        Ok(())
    }
}

/// Which workers have something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Flushes.
    pub flush: bool,
    /// Writes to scratch.
    pub write: bool,
    /// Copies to persistent.
    pub persist: bool,
    /// Fetches to the device cache.
    pub fetch: bool,
    /// Reads of files.
    pub read: bool,
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
fn readable_from(part: &PartState) -> Option<Tier> {
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

/// The part is complete somewhere.
fn has_bytes(entry: &Entry, part: Part) -> bool {
    let state = entry.part(part);
    state.len == 0
        || entry.in_file()
        || state.device.stage == Stage::Ready
        || state.host.stage == Stage::Ready
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
