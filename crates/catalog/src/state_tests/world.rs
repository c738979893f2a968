//! A world of small levels that hold real bytes, and a job in it: it does what the engine does, one step at a
//! time, with plain vectors as memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::entry::{FileCopy, PartState};
use crate::ledger::plain::Plain;
use crate::ledger::{self, Ledger};
use crate::level::LevelSpec;
use crate::space::{cut, Extent};
use crate::state::*;
use crate::{FileLevel, Id, Level, Region, PARTS};
use errors::{Error, ErrorKind};
use policy::order::RestoreOrder;

pub(super) const GRANULE: u64 = 4;
pub(super) const THIRD_GRANULE: u64 = 6;

/// An active transfer.
pub(super) enum Job {
    Flush(MoveJob),
    Fetch(MoveJob),
    Write(FileJob),
    Read(FileJob),
    Persist(PersistJob),
    Arrive(Arrival),
    /// A capture whose copies the device makes.
    Ordered(Arrival),
    /// A restore whose copies the device makes: what it reads, and what that has to be.
    Reading(Id, Source, Region, Vec<u8>),
}

/// How bytes are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// In the call.
    Now,
    /// Those for the host buffer behind it.
    Deferred,
    /// Those for the device cache behind it.
    Ordered,
}

/// The bytes of a deferred capture, and where they belong.
pub(super) type Deferred = Vec<(Level, Vec<Extent>, Vec<u8>)>;

pub(super) struct World {
    pub(super) state: State,
    pub(super) ledger: Plain,
    /// The bytes of each level of memory.
    pub(super) memory: Vec<Vec<u8>>,
    /// The level that compresses.
    pub(super) compressed: Option<Level>,
    /// Moves into it that are under way.
    pub(super) packing: HashMap<(Id, usize), super::compressed::Packing>,
    pub(super) scratch: HashMap<(String, i32), BTreeMap<i32, Vec<u8>>>,
    pub(super) persistent: HashMap<(String, i32), BTreeMap<i32, Vec<u8>>>,
    pub(super) jobs: Vec<Job>,
    /// Checkpoints whose deferred captures have failed.
    pub(super) never_came: BTreeSet<Id>,
    /// What the writer of a persistent file has read before it has left memory to others.
    pub(super) read_by_persist: HashMap<Id, BTreeMap<i32, Vec<u8>>>,
    /// The deferred captures.
    pub(super) deferred: HashMap<Id, Deferred>,
    /// The captured bytes of each checkpoint.
    pub(super) captured: HashMap<Id, BTreeMap<i32, Vec<u8>>>,
    /// The bytes last captured for each version that was not cleaned up.
    pub(super) expected: BTreeMap<i32, BTreeMap<i32, Vec<u8>>>,
    /// Versions that were cleaned up: they are dropped when they are persistent.
    pub(super) cleaned: BTreeSet<i32>,
    /// Versions with a file that was removed because there were too many.
    pub(super) pruned: BTreeSet<i32>,
    /// The hints for each version that were neither used nor cleaned up.
    pub(super) hinted: BTreeMap<i32, Vec<u64>>,
    pub(super) hints: u64,
    pub(super) to_map: u64,
    /// What the device cache has for good.
    first: u64,
    /// Whether the device has no memory to grow into.
    pub(super) card_is_full: bool,
    pub(super) ephemeral: bool,
    pub(super) scratch_wanted: bool,
    pub(super) fill: u8,
    hands_over: bool,
}

pub(super) const NAME: &str = "wave";

#[derive(Clone, Copy, Debug)]
pub(super) struct Job0 {
    pub(super) device: u64,
    /// By how much the device cache may grow.
    pub(super) growth: u64,
    pub(super) host: u64,
    pub(super) third: Option<Third>,
    pub(super) scratch: bool,
    pub(super) persistent: bool,
    pub(super) ephemeral: bool,
    pub(super) order: RestoreOrder,
    pub(super) beside: Option<u64>,
}

/// One more level of memory, which takes a row and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Third {
    /// With this many bytes, between the device cache and the host buffer.
    Between(u64),
    /// Below the host buffer.
    Below(u64),
    /// A drive below the host buffer.
    Drive(u64),
    /// Below the host buffer; it compresses.
    Compressed(u64),
    /// Between device and host buffer; it compresses.
    CompressedBetween(u64),
}

impl Job0 {
    fn levels(self) -> Vec<LevelSpec> {
        let device = LevelSpec::device(0, GRANULE);
        let host = LevelSpec::host(self.host, GRANULE);
        let third = |capacity| LevelSpec {
            name: "third level",
            key: "third_cache_size",
            capacity,
            granule: THIRD_GRANULE,
            captures: [false, false],
            grows: false,
            staging: false,
            drive: matches!(self.third, Some(Third::Drive(_))),
            compresses: matches!(
                self.third,
                Some(Third::Compressed(_) | Third::CompressedBetween(_))
            ),
        };
        match self.third {
            None => vec![device, host],
            Some(Third::Between(bytes) | Third::CompressedBetween(bytes)) => {
                vec![device, third(bytes), host]
            }
            Some(Third::Below(bytes) | Third::Drive(bytes) | Third::Compressed(bytes)) => {
                vec![device, host, third(bytes)]
            }
        }
    }
}

pub(super) fn failure() -> Error {
    Error::new(ErrorKind::System, "injected")
}

impl World {
    pub(super) fn new(job: Job0) -> World {
        let mut state = State::new(Shape {
            memory: job.levels(),
            scratch: job.scratch,
            persistent: job.persistent && job.scratch,
            ephemeral: job.ephemeral,
            order: job.order,
            beside: job.beside,
        });
        state.growth().expect_capacity(Level::DEVICE, job.device);
        let most = job.device + job.growth;
        if job.growth > 0 {
            state.growth().may_grow_to(Level::DEVICE, most);
        }
        let levels = job.levels().into_iter().enumerate();
        let sizes = levels.map(|(row, spec)| if row == 0 { most } else { spec.capacity });
        let ledger = Plain::of(1 << 20);
        if !job.ephemeral {
            state.handover().note_to(Ledger::new(ledger.words()).unwrap());
        }
        World {
            state,
            ledger,
            memory: sizes.map(|bytes| vec![0; bytes as usize]).collect(),
            compressed: match job.third {
                Some(Third::Compressed(_)) => Some(Level::new(2)),
                Some(Third::CompressedBetween(_)) => Some(Level::new(1)),
                _ => None,
            },
            packing: HashMap::new(),
            scratch: HashMap::new(),
            persistent: HashMap::new(),
            jobs: Vec::new(),
            never_came: BTreeSet::new(),
            read_by_persist: HashMap::new(),
            deferred: HashMap::new(),
            captured: HashMap::new(),
            expected: BTreeMap::new(),
            cleaned: BTreeSet::new(),
            pruned: BTreeSet::new(),
            hinted: BTreeMap::new(),
            hints: 0,
            to_map: job.device,
            first: job.device,
            card_is_full: false,
            ephemeral: job.ephemeral,
            scratch_wanted: job.scratch,
            fill: 0,
            hands_over: false,
        }
    }

    /// The world with a job that begins: all in the host buffer is for another job.
    pub(super) fn handing_over(mut self) -> World {
        self.hands_over = true;
        self.state.handover().hand_over_to(Ledger::new(self.ledger.words()).unwrap());
        self
    }

    /// The job that goes on with memory and ledger if the process is killed now.
    pub(super) fn heir(&self, job: Job0) -> World {
        let mut heir = World::new(job);
        heir.hands_over = true;
        heir.ledger.copy_from(&self.ledger);
        let (ledger, left) = Ledger::resume(heir.ledger.words()).unwrap();
        heir.state.handover().hand_over_to(ledger);
        let staging = self.state.levels().staging().index();
        heir.memory[staging] = self.memory[staging].clone();
        heir.scratch = self.scratch.clone();
        heir.persistent = self.persistent.clone();
        for (record, standing, slot) in left {
            heir.state.handover().take_over(&record, standing, Some(slot)).unwrap();
        }
        heir
    }

    /// Where a version is in the host buffer and whether it was restored, if that has all of it.
    pub(super) fn kept(&self, version: i32) -> Option<([Vec<Extent>; 2], bool)> {
        let entry =
            self.state.checkpoints().entry(self.state.checkpoints().find(NAME, version)?)?;
        let staging = self.state.levels().staging();
        let all = entry.parts.iter().all(|part| part.len == 0 || part.is_ready(staging));
        let extents = |part: &PartState| part.copy(staging).extents.to_vec();
        let [first, second] = &entry.parts;
        (all && entry.can_be_kept())
            .then(|| ([extents(first), extents(second)], entry.consumed.is_some()))
    }

    /// The successor if the process is killed now, with its host buffer, files and ledger.
    pub(super) fn successor(&self, job: Job0) -> World {
        let mut successor = World::new(Job0 { device: 0, growth: 0, ..job });
        let staging = self.state.levels().staging().index();
        successor.memory[staging] = self.memory[staging].clone();
        successor.scratch = self.scratch.clone();
        successor.persistent = self.persistent.clone();
        for (record, standing, _) in ledger::read(self.ledger.words()).unwrap() {
            successor.state.handover().take_over(&record, standing, None).unwrap();
        }
        successor
    }

    /// Whether all of a version has left the device.
    pub(super) fn left_the_device(&self, version: i32) -> bool {
        let file = (NAME.to_string(), version);
        let Some(id) = self.state.checkpoints().find(NAME, version) else { return false };
        let entry = self.state.checkpoints().entry(id).unwrap();
        entry.scratch == FileCopy::Present && self.scratch.contains_key(&file)
            || entry
                .parts
                .iter()
                .all(|part| part.len == 0 || part.is_ready(self.state.levels().staging()))
    }

    pub(super) fn map(&mut self) {
        let chunk = self.to_map.min(12);
        self.to_map -= chunk;
        if chunk > 0 {
            self.state.growth().grown(Level::DEVICE, chunk);
        }
        if self.to_map == 0 {
            self.state.growth().completed(Level::DEVICE);
        }
    }

    /// The device cache grows by a chunk, if a capture wants that.
    pub(super) fn grow(&mut self) {
        if !self.state.has_work(Worker::Grow) {
            return;
        }
        let wanted = self.state.levels().wanted(Level::DEVICE);
        assert!(self.to_map == 0 && wanted > 0);
        let (capacity, most) =
            (self.state.levels().room(Level::DEVICE).0, self.memory[0].len() as u64);
        match self.card_is_full {
            true => self.state.growth().refused(Level::DEVICE),
            false => self.state.growth().grown(Level::DEVICE, (most - capacity).min(8)),
        }
    }

    /// The device cache gives back up to so many bytes, whose memory is lost.
    pub(super) fn shrink(&mut self, bytes: u64) -> bool {
        let capacity = self.state.levels().room(Level::DEVICE).0;
        let start = (capacity.saturating_sub(bytes) / GRANULE * GRANULE).max(self.first);
        let shrinks = self.to_map == 0 && self.state.growth().shrink(Level::DEVICE, start);
        assert_eq!(
            self.state.levels().room(Level::DEVICE).0,
            if shrinks { start } else { capacity }
        );
        if shrinks {
            self.memory[0][start as usize..].fill(0xEE);
        }
        shrinks
    }

    /// Takes one checkpoint as the engine does. False: there is no room.
    pub(super) fn capture(&mut self, version: i32, lens: [u64; 2]) -> bool {
        self.capture_from(version, lens, How::Now)
    }

    /// Takes one checkpoint.
    pub(super) fn capture_from(&mut self, version: i32, lens: [u64; 2], how: How) -> bool {
        let id = self.state.captures().open(NAME, version);
        let Ok(to) = self.state.destination(lens) else {
            self.state.captures().abort(id);
            return false;
        };
        let mut arriving = [false; 2];
        let mut later: Deferred = Vec::new();
        self.fill = self.fill.wrapping_add(1);
        let mut regions = Vec::new();
        let mut content = BTreeMap::new();
        for part in PARTS {
            let len = lens[part as usize];
            if len == 0 {
                continue;
            }
            let region = part as i32;
            // Every third one cannot be compressed.
            let step = if self.fill.is_multiple_of(3) { 7 } else { 1 };
            let byte =
                |i: u64| self.fill.wrapping_mul(31).wrapping_add((i as u8).wrapping_mul(step));
            let bytes: Vec<u8> = (0..len).map(byte).collect();
            let mut offset = 0;
            if let Destination::Memory(level) = to[part as usize] {
                let mut turns = 0;
                let extents = loop {
                    match self.state.captures().reserve(id, part, len, level) {
                        Reserve::Got { base, extents } => {
                            offset = base;
                            break extents;
                        }
                        Reserve::Never(_) => {
                            self.state.captures().abort(id);
                            return false;
                        }
                        Reserve::Wait(_) => {
                            turns += 1;
                            assert!(turns < 200, "told to wait for what never comes");
                            self.everybody_works();
                        }
                    }
                };
                let room: Vec<Extent> = cut(&extents, 0, len).collect();
                let is_later = match how {
                    How::Now => false,
                    How::Deferred => level == self.state.levels().staging(),
                    How::Ordered => level == Level::DEVICE,
                };
                if is_later {
                    arriving[part as usize] = true;
                    later.push((level, room, bytes.clone()));
                } else {
                    self.put(level, &room, &bytes);
                }
            }
            regions.push(Region { id: region, size: len, part, offset, decoded: None });
            content.insert(region, bytes);
        }
        if to.contains(&Destination::File) {
            self.scratch.insert((NAME.into(), version), content.clone());
            self.state.captures().commit_file(id, regions, None, true);
        } else {
            self.deferred.insert(id, later);
            if how == How::Ordered {
                let begun = self.state.captures().commit_arriving(id, regions, arriving, true);
                self.jobs.extend(begun.map(Job::Ordered));
            } else {
                self.state.captures().commit_deferred(id, regions, arriving, true);
            }
        }
        self.captured.insert(id, content.clone());
        self.expected.insert(version, content);
        self.cleaned.remove(&version);
        self.pruned.remove(&version);
        true
    }

    pub(super) fn put(&mut self, level: Level, room: &[Extent], bytes: &[u8]) {
        let mut at = 0;
        for extent in room {
            let to = extent.offset as usize..(extent.offset + extent.len) as usize;
            self.memory(level)[to].copy_from_slice(&bytes[at..at + extent.len as usize]);
            at += extent.len as usize;
        }
    }

    pub(super) fn memory(&mut self, level: Level) -> &mut Vec<u8> {
        &mut self.memory[level.index()]
    }

    /// Restores a version. The result must be what was captured.
    pub(super) fn restore(&mut self, version: i32) {
        self.restore_and(version, false, |state, id| state.up().end_restore(id, true));
    }

    /// Restores a version; what comes from the device cache is read later.
    pub(super) fn restore_in_order(&mut self, version: i32) {
        self.restore_and(version, true, |state, id| state.up().end_restore(id, true));
    }

    /// Restores a version, and calls `end` at the end.
    pub(super) fn restore_and(
        &mut self,
        version: i32,
        in_order: bool,
        end: impl FnOnce(&mut State, Id),
    ) {
        let Some(id) = self.state.checkpoints().find(NAME, version) else {
            if self.expected.contains_key(&version) && !self.cleaned.contains(&version) {
                // Only an ephemeral job without files may have discarded it, and only if consumed.
                assert!(self.ephemeral && !self.scratch_wanted, "version {version} was lost");
                assert!(self.state.counts().discards > 0);
            }
            return;
        };
        let doomed = self.state.checkpoints().entry(id).unwrap().doomed;
        self.state.up().begin_restore(id);
        // Workers continue, and must not touch it.
        self.begin_jobs();
        let regions = self.state.checkpoints().regions(id).unwrap();
        for region in regions.iter() {
            let expected = self.expected[&version][&region.id].clone();
            if let Some(found) = self.read(id, region, version, in_order.then_some(&expected)) {
                assert_eq!(found, expected, "version {version}");
            }
        }
        end(&mut self.state, id);
        let hints = self.hinted.get_mut(&version).filter(|hints| !hints.is_empty());
        if let (Some(hints), false) = (hints, doomed) {
            hints.remove(0);
        }
    }

    /// Hints a version, whether it exists or not.
    pub(super) fn hint(&mut self, version: i32) {
        self.state.up().hint(NAME, version);
        self.hints += 1;
        self.hinted.entry(version).or_default().push(self.hints);
    }

    /// The bytes of a region. `None`: they are in the device cache, and the device compares them with `later`.
    pub(super) fn read(
        &mut self,
        id: Id,
        region: &Region,
        version: i32,
        later: Option<&Vec<u8>>,
    ) -> Option<Vec<u8>> {
        loop {
            let is_queued = |job: &Job| matches!(job, Job::Ordered(arrival) if arrival.id == id);
            let acquired = match later.is_some() && self.jobs.iter().any(is_queued) {
                true => self.state.up().acquire_behind(id, region.part),
                false => self.state.up().acquire(id, region.part),
            };
            match acquired {
                Acquire::Memory(source) if later.is_some() && source.level == Level::DEVICE => {
                    let expected = later.cloned().unwrap_or_default();
                    self.jobs.push(Job::Reading(id, source, *region, expected));
                    return None;
                }
                Acquire::Memory(source) => {
                    let bytes = self.bytes(&source, region);
                    self.state.check().unwrap();
                    self.state.up().release(id, region.part, source.level);
                    return Some(bytes);
                }
                Acquire::File => {
                    let file = (NAME.to_string(), version);
                    let content = self.scratch.get(&file).or_else(|| self.persistent.get(&file));
                    return Some(content.unwrap()[&region.id].clone());
                }
                Acquire::Wait => {
                    // The event that it waits for may be behind other work of a worker.
                    let begun = !self.jobs.is_empty() || self.begin_jobs();
                    assert!(begun, "waiting for nobody");
                    self.end_job(0, false);
                }
                Acquire::Lost => panic!("version {version} is nowhere"),
            }
        }
    }

    pub(super) fn prune(&mut self, version: i32, level: FileLevel) {
        if self.ephemeral || !self.state.removal().forget_file(NAME, version, level) {
            return;
        }
        let file = (NAME.to_string(), version);
        match level {
            FileLevel::Scratch => self.scratch.remove(&file),
            FileLevel::Persistent => self.persistent.remove(&file),
        };
        self.pruned.insert(version);
        if self.state.checkpoints().find(NAME, version).is_none() {
            self.expected.remove(&version);
        }
    }

    pub(super) fn cleanup(&mut self) {
        for version in self.state.removal().cleanup(NAME) {
            self.scratch.remove(&(NAME.to_string(), version));
        }
        self.cleaned.extend(self.expected.keys());
        self.hinted.clear();
    }
}

pub(super) fn world(device: u64, host: u64, scratch: bool, ephemeral: bool) -> World {
    let order = RestoreOrder::Reverse;
    let (persistent, beside) = (false, None);
    let (growth, third) = (0, None);
    let job = Job0 { device, growth, host, third, scratch, persistent, ephemeral, order, beside };
    mapped(job)
}

/// A world whose device cache has what it begins with.
pub(super) fn mapped(job: Job0) -> World {
    let mut world = World::new(job);
    while world.to_map > 0 {
        world.map();
    }
    world
}
