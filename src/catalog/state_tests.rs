//! The catalog against a world of small tiers that really hold bytes.
//!
//! `World` does what the engine does, one step at a time, with plain vectors as memory. Random
//! histories show that no step breaks an invariant, that what is restored is what was captured, and
//! that whoever is told to wait does not wait for ever.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test stops at the first fault.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::entry::{FileCopy, FileTier, Id, Life, Part, Region, Stage, Tier, MANAGED, PARTS};
use super::state::*;
use crate::error::{Error, Kind};
use crate::platform::shared::SharedMemory;
use crate::policy::order::RestoreOrder;
use crate::policy::rounds::Fate;
use crate::tier::files::Place;
use crate::tier::ledger::{self, Ledger};
use crate::tier::space::{cut, side_by_side, Extent};

const GRANULE: u64 = 4;

/// A transfer that was begun and not ended.
enum Job {
    Flush(MoveJob),
    Fetch(MoveJob),
    Write(FileJob),
    Read(FileJob),
    Persist(PersistJob),
    Arrive(Arrival),
}

/// Bytes that the application has lent, and where in the host buffer they belong.
type Lent = Vec<(Vec<Extent>, Vec<u8>)>;

struct World {
    state: State,
    ledger: SharedMemory,
    device: Vec<u8>,
    host: Vec<u8>,
    scratch: HashMap<(String, i32), BTreeMap<i32, Vec<u8>>>,
    persistent: HashMap<(String, i32), BTreeMap<i32, Vec<u8>>>,
    jobs: Vec<Job>,
    /// What the application has lent.
    lent: HashMap<Id, Lent>,
    /// What each checkpoint was captured with.
    captured: HashMap<Id, BTreeMap<i32, Vec<u8>>>,
    /// What the application captured last under each version and has not cleaned up.
    expected: BTreeMap<i32, BTreeMap<i32, Vec<u8>>>,
    /// Versions that were cleaned up: they go as soon as they are persistent.
    cleaned: BTreeSet<i32>,
    /// Versions of which a file was removed because there were too many.
    pruned: BTreeSet<i32>,
    to_map: u64,
    ephemeral: bool,
    scratch_wanted: bool,
    fill: u8,
}

const NAME: &str = "wave";

#[derive(Clone, Copy, Debug)]
struct Job0 {
    device: u64,
    host: u64,
    scratch: bool,
    persistent: bool,
    ephemeral: bool,
    order: RestoreOrder,
}

fn failure() -> Error {
    Error::new(Kind::System, "injected")
}

impl World {
    fn new(job: Job0) -> World {
        let mut state = State::new(Shape {
            device: 0,
            host: job.host,
            scratch: job.scratch,
            persistent: job.persistent && job.scratch,
            ephemeral: job.ephemeral,
            order: job.order,
            device_granule: GRANULE,
            host_granule: GRANULE,
        });
        state.device_expected(job.device);
        let ledger = SharedMemory::create("ledger", 1 << 20).unwrap();
        if !job.ephemeral {
            state.note_to(Ledger::new(&ledger).unwrap());
        }
        World {
            state,
            ledger,
            device: vec![0; job.device as usize],
            host: vec![0; job.host as usize],
            scratch: HashMap::new(),
            persistent: HashMap::new(),
            jobs: Vec::new(),
            lent: HashMap::new(),
            captured: HashMap::new(),
            expected: BTreeMap::new(),
            cleaned: BTreeSet::new(),
            pruned: BTreeSet::new(),
            to_map: job.device,
            ephemeral: job.ephemeral,
            scratch_wanted: job.scratch,
            fill: 0,
        }
    }

    /// What goes on if the process is killed now: its host buffer, its files and its ledger.
    fn heir(&self, job: Job0) -> World {
        let mut heir = World::new(Job0 { device: 0, ..job });
        heir.host = self.host.clone();
        heir.scratch = self.scratch.clone();
        heir.persistent = self.persistent.clone();
        for (record, standing) in ledger::read(&self.ledger).unwrap() {
            heir.state.inherit(&record, standing).unwrap();
        }
        heir
    }

    /// Whether all of a version has left the device.
    fn left_the_device(&self, version: i32) -> bool {
        let file = (NAME.to_string(), version);
        let Some(id) = self.state.find(NAME, version) else { return false };
        let entry = self.state.entry(id).unwrap();
        entry.scratch == FileCopy::Present && self.scratch.contains_key(&file)
            || entry.parts.iter().all(|part| part.len == 0 || part.host.stage == Stage::Ready)
    }

    fn map(&mut self) {
        let chunk = self.to_map.min(12);
        self.to_map -= chunk;
        if chunk > 0 {
            self.state.device_grown(chunk);
        }
        if self.to_map == 0 {
            self.state.device_completed();
        }
    }

    /// Takes one checkpoint as the engine does. False: it was told that there is no room.
    fn capture(&mut self, version: i32, lens: [u64; 2]) -> bool {
        self.capture_from(version, lens, false)
    }

    /// The same; with `lent`, what goes to the host buffer is brought there later.
    fn capture_from(&mut self, version: i32, lens: [u64; 2], lent: bool) -> bool {
        let id = self.state.open(NAME, version);
        let Ok(to) = self.state.destination(lens) else {
            self.state.abort(id);
            return false;
        };
        let mut arriving = [false; 2];
        let mut later: Lent = Vec::new();
        self.fill = self.fill.wrapping_add(1);
        let mut regions = Vec::new();
        let mut content = BTreeMap::new();
        for part in PARTS {
            let len = lens[part as usize];
            if len == 0 {
                continue;
            }
            let region = part as i32;
            let bytes: Vec<u8> =
                (0..len).map(|i| self.fill.wrapping_mul(31).wrapping_add(i as u8)).collect();
            let mut offset = 0;
            if let Destination::Memory(tier) = to[part as usize] {
                let mut turns = 0;
                let extents = loop {
                    match self.state.reserve(id, part, len, tier) {
                        Reserve::Got { base, extents } => {
                            offset = base;
                            break extents;
                        }
                        Reserve::Never(_) => {
                            self.state.abort(id);
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
                if lent && tier == Tier::Host {
                    arriving[part as usize] = true;
                    later.push((room, bytes.clone()));
                } else {
                    self.put(tier, &room, &bytes);
                }
            }
            regions.push(Region { id: region, size: len, part, offset });
            content.insert(region, bytes);
        }
        if to.contains(&Destination::File) {
            self.scratch.insert((NAME.into(), version), content.clone());
            self.state.commit_file(id, regions, None, true);
        } else {
            self.lent.insert(id, later);
            self.state.commit_lent(id, regions, arriving, true);
        }
        self.captured.insert(id, content.clone());
        self.expected.insert(version, content);
        self.cleaned.remove(&version);
        self.pruned.remove(&version);
        true
    }

    fn put(&mut self, tier: Tier, room: &[Extent], bytes: &[u8]) {
        let mut at = 0;
        for extent in room {
            let to = extent.offset as usize..(extent.offset + extent.len) as usize;
            self.memory(tier)[to].copy_from_slice(&bytes[at..at + extent.len as usize]);
            at += extent.len as usize;
        }
    }

    fn memory(&mut self, tier: Tier) -> &mut Vec<u8> {
        match tier {
            Tier::Device => &mut self.device,
            Tier::Host => &mut self.host,
        }
    }

    /// Lets every worker begin what it can: there is one of each kind, and it does one thing at a
    /// time.
    fn begin_jobs(&mut self) -> bool {
        let before = self.jobs.len();
        if !self.jobs.iter().any(|job| matches!(job, Job::Flush(_))) {
            self.jobs.extend(self.state.next_flush().map(Job::Flush));
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Write(_))) {
            self.jobs.extend(self.state.next_write().map(Job::Write));
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Persist(_))) {
            self.jobs.extend(self.state.next_persist().map(Job::Persist));
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Fetch(_))) {
            self.jobs.extend(self.state.next_fetch().map(Job::Fetch));
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Read(_))) {
            self.jobs.extend(self.state.next_read().map(Job::Read));
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Arrive(_))) {
            self.jobs.extend(self.state.next_arrival().map(Job::Arrive));
        }
        self.jobs.len() > before
    }

    fn end_job(&mut self, which: usize, fails: bool) {
        if self.jobs.is_empty() {
            return;
        }
        let which = which % self.jobs.len();
        let result = if fails { Err(failure()) } else { Ok(()) };
        let end = if fails { MoveEnd::Failed(failure()) } else { MoveEnd::Done };
        match self.jobs.remove(which) {
            Job::Flush(job) => {
                for (d, h, len) in side_by_side(&job.device, &job.host, job.len) {
                    let bytes = self.device[d as usize..(d + len) as usize].to_vec();
                    self.host[h as usize..(h + len) as usize].copy_from_slice(&bytes);
                }
                self.state.flush_done(job.id, end);
            }
            Job::Arrive(job) => {
                let lent = self.lent.remove(&job.id).unwrap();
                let was_there = self.state.find(NAME, job.version) == Some(job.id);
                if !fails {
                    for (room, bytes) in &lent {
                        self.put(Tier::Host, room, bytes);
                    }
                }
                self.state.arrived(job.id, end);
                if fails && was_there {
                    // It was reported that this checkpoint does not exist after all. What it was to
                    // replace may.
                    let older = self.state.find(NAME, job.version);
                    match older.map(|older| self.captured[&older].clone()) {
                        Some(older) => self.expected.insert(job.version, older),
                        None => self.expected.remove(&job.version),
                    };
                }
            }
            Job::Fetch(job) => {
                for (d, h, len) in side_by_side(&job.device, &job.host, job.len) {
                    let bytes = self.host[h as usize..(h + len) as usize].to_vec();
                    self.device[d as usize..(d + len) as usize].copy_from_slice(&bytes);
                }
                self.state.fetch_done(job.id, &end);
            }
            Job::Write(job) => {
                let content = self.content(&job);
                let file = (job.name.to_string(), job.version);
                if result.is_ok() && self.state.still_wanted(job.id) {
                    self.scratch.insert(file.clone(), content);
                }
                if self.state.write_done(&job, result) == After::Unlink {
                    self.scratch.remove(&file);
                }
            }
            Job::Persist(job) => {
                let file = (job.name.to_string(), job.version);
                let content = match &job.straight {
                    Some(source) => {
                        let wanted = self.state.still_wanted(job.id);
                        if wanted && result.is_ok() {
                            // It must not be nearer than what is newer.
                            self.scratch.remove(&file);
                        }
                        wanted.then(|| self.content(source))
                    }
                    None => self.scratch.get(&file).cloned(),
                };
                // Only the file of a checkpoint that was replaced may have gone meanwhile.
                assert!(content.is_some() || !self.state.still_wanted(job.id));
                let result = result.and_then(|()| content.ok_or_else(failure)).map(|content| {
                    self.persistent.insert(file.clone(), content);
                });
                if self.state.persist_done(&job, result) == After::Unlink {
                    self.scratch.remove(&file);
                }
            }
            Job::Read(job) => {
                let file = (job.name.to_string(), job.version);
                let content =
                    self.scratch.get(&file).or_else(|| self.persistent.get(&file)).cloned();
                // Its file may have been cleaned up or replaced meanwhile: then the reader fails.
                let same = content.as_ref().is_some_and(|content| {
                    job.regions.iter().all(|region| {
                        content.get(&region.id).is_some_and(|b| b.len() as u64 == region.size)
                    })
                });
                let result = if same { result } else { Err(failure()) };
                for region in job.regions.iter().filter(|_| result.is_ok()) {
                    let bytes = &content.as_ref().unwrap()[&region.id];
                    let source = job.memory[region.part as usize].clone().unwrap();
                    let mut at = 0;
                    for extent in cut(&source.extents, region.offset, region.size) {
                        let to = extent.offset as usize..(extent.offset + extent.len) as usize;
                        self.host[to].copy_from_slice(&bytes[at..at + extent.len as usize]);
                        at += extent.len as usize;
                    }
                }
                self.state.read_done(&job, &result);
            }
        }
    }

    /// What a writer reads of a checkpoint.
    fn content(&mut self, job: &FileJob) -> BTreeMap<i32, Vec<u8>> {
        let region = |region: &Region| {
            let source = job.memory[region.part as usize].clone().unwrap();
            (region.id, self.bytes(&source, region))
        };
        job.regions.iter().map(region).collect()
    }

    fn bytes(&mut self, source: &Source, region: &Region) -> Vec<u8> {
        let mut bytes = Vec::new();
        for extent in cut(&source.extents, region.offset, region.size) {
            let from = extent.offset as usize..(extent.offset + extent.len) as usize;
            bytes.extend_from_slice(&self.memory(source.tier)[from]);
        }
        bytes
    }

    fn everybody_works(&mut self) {
        self.map();
        self.begin_jobs();
        while !self.jobs.is_empty() {
            self.end_job(0, false);
        }
    }

    /// Restores a version. What the catalog still has must be what was captured.
    fn restore(&mut self, version: i32) {
        let Some(id) = self.state.find(NAME, version) else {
            if self.expected.contains_key(&version) && !self.cleaned.contains(&version) {
                // Only an ephemeral job without files may have given it up, and only if consumed.
                assert!(self.ephemeral && !self.scratch_wanted, "version {version} was lost");
                assert!(self.state.counts().discards > 0);
            }
            return;
        };
        self.state.begin_restore(id);
        // Workers go on meanwhile, and must leave it alone.
        self.begin_jobs();
        let regions = self.state.regions(id).unwrap();
        for region in regions.iter() {
            let found = self.read(id, region, version);
            assert_eq!(found, self.expected[&version][&region.id], "version {version}");
        }
        self.state.end_restore(id, true);
    }

    fn read(&mut self, id: Id, region: &Region, version: i32) -> Vec<u8> {
        loop {
            match self.state.acquire(id, region.part) {
                Acquire::Memory(source) => {
                    let bytes = self.bytes(&source, region);
                    self.state.check().unwrap();
                    self.state.release(id, region.part, source.tier);
                    return bytes;
                }
                Acquire::File => {
                    let file = (NAME.to_string(), version);
                    let content = self.scratch.get(&file).or_else(|| self.persistent.get(&file));
                    return content.unwrap()[&region.id].clone();
                }
                Acquire::Wait => {
                    // What it waits for may be in the queue of a worker that has others first.
                    let begun = !self.jobs.is_empty() || self.begin_jobs();
                    assert!(begun, "waiting for nobody");
                    self.end_job(0, false);
                }
                Acquire::Lost => panic!("version {version} is nowhere"),
            }
        }
    }

    fn prune(&mut self, version: i32, tier: FileTier) {
        if self.ephemeral || !self.state.forget_file(NAME, version, tier) {
            return;
        }
        let file = (NAME.to_string(), version);
        match tier {
            FileTier::Scratch => self.scratch.remove(&file),
            FileTier::Persistent => self.persistent.remove(&file),
        };
        self.pruned.insert(version);
        if self.state.find(NAME, version).is_none() {
            self.expected.remove(&version);
        }
    }

    fn live(&self) -> Vec<i32> {
        self.state.versions(NAME).into_iter().collect()
    }

    /// The file of a version in scratch is gone, by nobody's doing here.
    fn lose(&mut self, version: i32) {
        let is_read = |job: &Job| matches!(job, Job::Persist(job) if job.version == version);
        // A copy that is being made of it would have to fail.
        if self.jobs.iter().any(is_read) || !self.state.in_scratch_alone(NAME).contains(&version) {
            return;
        }
        self.scratch.remove(&(NAME.to_string(), version));
        let in_memory = self.state.is_in_memory(NAME, version);
        self.state.has_lost_file(NAME, version);
        if self.state.find(NAME, version).is_none() {
            self.expected.remove(&version);
        } else {
            assert!(in_memory);
        }
    }

    fn cleanup(&mut self) {
        for version in self.state.cleanup(NAME) {
            self.scratch.remove(&(NAME.to_string(), version));
        }
        self.cleaned.extend(self.expected.keys());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Map,
    Capture(i32, u64, u64, bool),
    Begin,
    End(usize, bool),
    Restore(i32),
    Hint(i32),
    Expect(i32, Option<u64>, bool),
    Start,
    Retry,
    Cleanup,
    Prune(i32, FileTier),
    Limit(u64),
    /// Its file in scratch is gone.
    Lose(i32),
    /// Those with these bits that could not be written are given up.
    GiveUp(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Map),
        6 => (0..12i32, 0..40u64, 0..16u64, prop::bool::weighted(0.3))
            .prop_map(|(v, d, h, lent)| Step::Capture(v, d, h, lent)),
        6 => Just(Step::Begin),
        6 => (0..8usize, prop::bool::weighted(0.1)).prop_map(|(j, f)| Step::End(j, f)),
        4 => (0..12i32).prop_map(Step::Restore),
        2 => (0..12i32).prop_map(Step::Hint),
        2 => (0..12i32, prop::option::of(0..20u64), any::<bool>())
            .prop_map(|(v, place, reads)| Step::Expect(v, place, reads)),
        1 => Just(Step::Start),
        1 => Just(Step::Retry),
        1 => (0..200u64).prop_map(|l| if l < 40 { Step::Limit(l) } else { Step::Begin }),
        1 => (0..12i32, any::<bool>()).prop_map(|(v, scratch)| {
            Step::Prune(v, if scratch { FileTier::Scratch } else { FileTier::Persistent })
        }),
        1 => (0..12i32).prop_map(Step::Lose),
        1 => (0..12i32).prop_map(Step::GiveUp),
        1 => prop::bool::weighted(0.2).prop_map(|c| if c { Step::Cleanup } else { Step::Begin }),
    ]
}

fn job() -> impl Strategy<Value = Job0> {
    let order = prop_oneof![
        Just(RestoreOrder::Reverse),
        Just(RestoreOrder::Same),
        Just(RestoreOrder::Random)
    ];
    (0..20u64, 0..30u64, any::<bool>(), any::<bool>(), any::<bool>(), order).prop_map(
        |(device, host, scratch, persistent, ephemeral, order)| Job0 {
            device: device * GRANULE,
            host: host * GRANULE,
            // A job that is not ephemeral must have scratch (the configuration says so).
            scratch: scratch || !ephemeral,
            persistent,
            ephemeral,
            order,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_loses_a_byte_or_waits_for_ever(
        job in job(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(job);
        for step in steps {
            match step {
                Step::Map => world.map(),
                Step::Capture(version, device, host, lent) => {
                    let device = if job.device == 0 { 0 } else { device };
                    if device + host > 0 {
                        world.capture_from(version, [device, host], lent);
                    }
                }
                Step::Begin => drop(world.begin_jobs()),
                Step::End(which, fails) => world.end_job(which, fails),
                Step::Restore(version) => world.restore(version),
                Step::Hint(version) => {
                    if let Some(id) = world.state.find(NAME, version) {
                        world.state.hint(id);
                    }
                }
                Step::Expect(version, place, reads) => {
                    if let Some(id) = world.state.find(NAME, version) {
                        world.state.expect(id, place, reads);
                    }
                }
                Step::Start => world.state.start_fetching(),
                Step::Retry => drop(world.state.retry()),
                Step::Cleanup => world.cleanup(),
                Step::Prune(version, tier) => world.prune(version, tier),
                Step::Limit(bytes) => world.state.limit_host(bytes),
                Step::Lose(version) => world.lose(version),
                Step::GiveUp(bits) => {
                    let was_there: Vec<i32> = world.live();
                    world.state.withdraw_unwritten(NAME, |version| version & bits != 0);
                    for version in was_there {
                        if world.state.find(NAME, version).is_none() {
                            prop_assert!(version & bits != 0);
                            world.expected.remove(&version);
                        }
                    }
                }
            }
            if let Err(broken) = world.state.check() {
                return Err(TestCaseError::fail(broken));
            }
        }
        if !job.ephemeral {
            // Should the process be killed now, its heir writes all that has left the device.
            let mut heir = world.heir(job);
            if let Err(broken) = heir.state.check() {
                return Err(TestCaseError::fail(broken));
            }
            for _ in 0..400 {
                heir.everybody_works();
            }
            prop_assert!(heir.state.drained(), "the heir leaves work undone");
            for (&version, content) in &world.expected {
                let removed = world.cleaned.contains(&version) || world.pruned.contains(&version);
                if !world.left_the_device(version) || removed {
                    continue;
                }
                let file = (NAME.to_string(), version);
                let nearest = heir.scratch.get(&file).or_else(|| heir.persistent.get(&file));
                prop_assert_eq!(nearest, Some(content), "version {}", version);
                if job.persistent {
                    prop_assert_eq!(heir.persistent.get(&file), Some(content), "{}", version);
                }
            }
        }
        // Everything comes to rest, and everything is still there.
        world.state.retry();
        for _ in 0..400 {
            world.everybody_works();
        }
        prop_assert!(world.state.drained(), "work is left that nobody can do");
        let versions: Vec<i32> = world.expected.keys().copied().collect();
        for version in versions {
            world.restore(version);
        }
    }
}

fn world(device: u64, host: u64, scratch: bool, ephemeral: bool) -> World {
    let job =
        Job0 { device, host, scratch, persistent: false, ephemeral, order: RestoreOrder::Reverse };
    let mut world = World::new(job);
    while world.to_map > 0 {
        world.map();
    }
    world
}

#[test]
fn eviction_is_first_in_first_out() {
    let mut world = world(40, 400, false, true);
    for version in 0..3 {
        assert!(world.capture(version, [10, 0]));
        world.everybody_works();
    }
    let on_device = |world: &World| -> Vec<i32> {
        (0..6)
            .filter(|&v| world.state.find(NAME, v).is_some_and(|id| world.state.on_device(id, 0)))
            .collect()
    };
    assert_eq!(on_device(&world), [0, 1, 2], "10 bytes take 12");
    assert!(world.capture(4, [10, 0]));
    assert_eq!(on_device(&world), [1, 2, 4]);
}

#[test]
fn nothing_is_evicted_before_the_device_cache_is_wholly_mapped() {
    let job = Job0 {
        device: 48,
        host: 400,
        scratch: false,
        persistent: false,
        ephemeral: true,
        order: RestoreOrder::Reverse,
    };
    let mut world = World::new(job);
    world.map();
    assert!(world.capture(0, [12, 0]));
    world.begin_jobs();
    world.end_job(0, false);
    let id = world.state.open(NAME, 1);
    assert!(matches!(
        world.state.reserve(id, Part::Device, 12, Tier::Device),
        Reserve::Wait(WaitFor::Map)
    ));
    assert_eq!(world.state.counts().device_evictions, 0);
}

#[test]
fn an_ephemeral_job_without_files_is_told_when_nothing_was_consumed() {
    let mut world = world(24, 24, false, true);
    let taken = (0..8).filter(|&v| world.capture(v, [12, 0])).count();
    assert_eq!(taken, 4, "two on the device, two in the host buffer");
    world.restore(0);
    assert!(world.capture(9, [12, 0]), "what was consumed makes room");
    assert_eq!(world.state.counts().discards, 1);
}

#[test]
fn an_ephemeral_job_overflows_to_scratch() {
    let mut world = world(24, 24, true, true);
    for version in 0..8 {
        assert!(world.capture(version, [12, 0]));
    }
    assert!(world.state.counts().spills > 0);
    for version in (0..8).rev() {
        world.restore(version);
    }
}

#[test]
fn a_reverse_pass_finds_its_checkpoints_fetched() {
    let mut world = world(48, 4000, false, true);
    for version in 0..40 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    for version in (0..40).rev() {
        world.restore(version);
        world.everybody_works();
    }
    let counts = world.state.counts();
    assert_eq!(counts.device_misses, 0, "{counts:?}");
    assert!(counts.fetches >= 36, "{counts:?}");
}

#[test]
fn hints_decide_in_which_order_is_fetched() {
    let mut world = world(24, 4000, false, true);
    for version in 0..10 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    for version in [5, 1] {
        let id = world.state.find(NAME, version).unwrap();
        world.state.hint(id);
    }
    world.state.start_fetching();
    world.everybody_works();
    world.everybody_works();
    for version in [5, 1] {
        let id = world.state.find(NAME, version).unwrap();
        assert!(world.state.on_device(id, 0), "version {version}");
    }
}

/// Catches a state that is kept behind one that is read later, and one that is kept although it will
/// not be read again.
#[test]
fn what_has_a_place_is_fetched_when_its_turn_comes() {
    let mut world = world(24, 4000, false, true);
    for version in 0..10 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    let first = world.state.reserve_hints(100);
    let find = |world: &World, version| world.state.find(NAME, version).unwrap();
    let on_device = |world: &World| -> Vec<i32> {
        (0..10).filter(|&version| world.state.on_device(find(world, version), 0)).collect()
    };
    // The order of taking has nothing to do with it.
    for version in [2, 7, 5, 3] {
        world.state.expect(find(&world, version), Some(first + 99 - version as u64), true);
    }
    for _ in 0..4 {
        world.everybody_works();
    }
    assert_eq!(on_device(&world), [5, 7]);
    world.restore(7);
    world.state.expect(find(&world, 7), None, true);
    for _ in 0..4 {
        world.everybody_works();
    }
    assert_eq!(on_device(&world), [3, 5]);
    world.state.check().unwrap();
}

/// Catches a file that comes to its place after its checkpoint was given up.
#[test]
fn what_was_withdrawn_is_waited_for_and_never_comes() {
    let mut world = world(0, 100, true, false);
    assert!(world.capture(3, [0, 20]));
    world.begin_jobs();
    world.state.withdraw(NAME, 3);
    assert_eq!(world.state.find(NAME, 3), None);
    assert!(!world.state.is_withdrawn(NAME) && world.state.is_withdrawn("other"));
    world.end_job(0, false);
    assert!(world.state.is_withdrawn(NAME));
    assert!(!world.scratch.contains_key(&(NAME.to_string(), 3)));
    world.state.check().unwrap();
}

#[test]
fn a_replaced_version_is_the_new_one_even_while_the_old_one_is_being_written() {
    let mut world = world(0, 100, true, false);
    assert!(world.capture(7, [0, 20]));
    world.begin_jobs();
    assert!(world.capture(7, [0, 8]));
    while !world.jobs.is_empty() || world.begin_jobs() {
        world.end_job(0, false);
    }
    assert_eq!(world.scratch[&(NAME.to_string(), 7)], world.expected[&7]);
    world.restore(7);
    world.state.check().unwrap();
}

#[test]
fn a_failed_write_keeps_the_bytes_and_is_reported_once() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture(1, [0, 20]));
    world.begin_jobs();
    world.end_job(0, true);
    assert_eq!(world.state.take_failure(), Some(failure()));
    assert_eq!(world.state.take_failure(), None);
    world.restore(1);
    assert!(world.state.retry());
    world.everybody_works();
    assert!(world.scratch.contains_key(&(NAME.to_string(), 1)));
}

/// Catches a run that ends by a failure that somebody else has heard of, and an application that is
/// not told of its own.
#[test]
fn who_manages_checkpoints_hears_of_their_failures() {
    let mut world = world(0, 40, true, false);
    let fails = |world: &mut World, version: i32, id: i32| {
        let new = world.state.open(NAME, version);
        let room = world.state.reserve(new, Part::Host, 8, Tier::Host);
        assert!(matches!(room, Reserve::Got { .. }), "{room:?}");
        let region = Region { id, size: 8, part: Part::Host, offset: 0 };
        world.state.commit(new, vec![region], false);
        let job = world.state.next_write().unwrap();
        world.state.write_done(&job, Err(Error::new(Kind::System, format!("refused {version}"))));
    };
    fails(&mut world, 1, MANAGED);
    assert!(world.state.take_failure().unwrap().to_string().contains("refused 1"));
    world.state.manage(true);
    fails(&mut world, 2, MANAGED);
    fails(&mut world, 3, MANAGED);
    fails(&mut world, 4, 7);
    // What keeps others out is named with its cause.
    let more = world.state.open(NAME, 5);
    let room = world.state.reserve(more, Part::Host, 12, Tier::Host);
    assert!(matches!(&room, Reserve::Never(e) if e.to_string().contains("refused 4")), "{room:?}");
    assert!(world.state.take_failure().unwrap().to_string().contains("refused 4"));
    assert_eq!(world.state.take_failure(), None);
    assert!(world.state.unwritten().unwrap().to_string().contains("version 4"));
    let setback = world.state.take_setback().unwrap();
    assert_eq!(setback.tier, Some(FileTier::Scratch));
    assert!(setback.cause.to_string().contains("refused 2"));
    assert_eq!(world.state.take_setback(), None);
    // What nobody needs gives way.
    world.state.withdraw_unwritten(NAME, |version| version == 2);
    assert!(matches!(world.state.reserve(more, Part::Host, 12, Tier::Host), Reserve::Got { .. }));
    world.state.manage(false);
    assert!(world.state.unwritten().unwrap().to_string().contains("version 1"));
    world.state.check().unwrap();
    // What has failed when nobody managed it, and is not needed any more, is nobody's.
    world.state.abort(more);
    fails(&mut world, 6, MANAGED);
    fails(&mut world, 6, MANAGED);
    world.state.withdraw(NAME, 6);
    assert_eq!(world.state.take_failure(), None);
}

#[test]
fn cleaning_up_waits_for_the_persistent_copy() {
    let job = Job0 {
        device: 0,
        host: 100,
        scratch: true,
        persistent: true,
        ephemeral: false,
        order: RestoreOrder::Reverse,
    };
    let mut world = World::new(job);
    assert!(world.capture(1, [0, 20]));
    assert!(world.state.cleanup(NAME).is_empty(), "it is not persistent yet");
    for _ in 0..4 {
        world.everybody_works();
    }
    let file = (NAME.to_string(), 1);
    assert!(world.persistent.contains_key(&file) && !world.scratch.contains_key(&file));
    assert_eq!(world.state.find(NAME, 1), None);
}

#[test]
fn a_late_write_does_not_remove_the_file_of_a_newer_checkpoint() {
    let mut world = world(24, 0, true, false);
    assert!(world.capture(5, [1, 0]));
    world.begin_jobs();
    world.cleanup();
    assert!(world.capture(5, [0, 1]), "straight to its file");
    world.end_job(0, false);
    world.restore(5);
}

#[test]
fn what_is_being_restored_is_not_evicted_for_the_next_fetch() {
    let mut world = world(24, 4000, false, true);
    for version in 0..10 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    world.restore(9);
    world.restore(8);
    world.everybody_works();
    world.everybody_works();
    let id = world.state.find(NAME, 7).unwrap();
    assert!(world.state.on_device(id, 0), "it was fetched");
    world.state.begin_restore(id);
    world.everybody_works();
    assert!(world.state.on_device(id, 0), "it was evicted before it could be read");
    world.state.end_restore(id, true);
}

#[test]
fn a_restored_checkpoint_stays_while_it_is_restored_again() {
    let mut world = world(12, 12, false, true);
    assert!(world.capture(0, [12, 0]));
    world.everybody_works();
    world.restore(0);
    assert!(world.capture(1, [12, 0]));
    let id = world.state.find(NAME, 0).unwrap();
    world.state.begin_restore(id);
    world.everybody_works();
    assert!(!matches!(world.state.acquire(id, Part::Device), Acquire::Lost));
}

#[test]
fn an_ephemeral_job_removes_the_file_of_a_version_that_was_replaced() {
    let mut world = world(0, 24, true, true);
    for version in [5, 6, 7] {
        assert!(world.capture(version, [0, 12]));
    }
    world.everybody_works();
    let spilled = world.state.spilled();
    assert!(!spilled.is_empty());
    for (_, version) in &spilled {
        assert!(world.capture(*version, [0, 12]));
    }
    assert!(spilled.iter().all(|file| world.state.spilled().contains(file)));
}

/// Catches a checkpoint that is written, restored or given up while its bytes are still to come.
#[test]
fn what_was_lent_is_there_once_it_has_arrived() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture_from(1, [0, 20], true));
    assert!(!world.state.drained() && !world.state.work().write);
    let id = world.state.find(NAME, 1).unwrap();
    world.state.begin_restore(id);
    assert!(matches!(world.state.acquire(id, Part::Host), Acquire::Wait));
    // Its room is taken, and room will come.
    let other = world.state.open(NAME, 2);
    let reserved = world.state.reserve(other, Part::Host, 24, Tier::Host);
    assert!(matches!(reserved, Reserve::Wait(WaitFor::HostRoom)));
    world.state.abort(other);
    world.state.end_restore(id, false);
    world.begin_jobs();
    world.end_job(0, false);
    world.restore(1);
    world.everybody_works();
    assert_eq!(world.scratch[&(NAME.to_string(), 1)], world.expected[&1]);
}

/// Catches a loan that costs a checkpoint its life although the device cache has room.
#[test]
fn a_loan_discards_nothing_and_waits_for_nothing() {
    let mut world = world(48, 12, false, true);
    assert!(world.capture(0, [0, 12]));
    world.restore(0);
    let id = world.state.open(NAME, 1);
    assert_eq!(world.state.reserve_for_loan(id, 12, [12, 0]), None);
    assert!(matches!(world.state.reserve(id, Part::Device, 12, Tier::Device), Reserve::Got { .. }));
    assert_eq!(world.state.counts().discards, 0);
    world.state.abort(id);
    // In a job with files, what is in them makes room.
    let mut world = self::world(48, 12, true, false);
    assert!(world.capture(0, [0, 12]));
    world.everybody_works();
    let id = world.state.open(NAME, 1);
    assert_eq!(world.state.reserve_for_loan(id, 12, [12, 4]), None, "both parts do not fit");
    assert!(world.state.reserve_for_loan(id, 12, [12, 0]).is_some());
    world.state.check().unwrap();
}

/// Catches room that is given to others while bytes are on their way to it, and bytes of a failed
/// loan that are taken for a checkpoint's.
#[test]
fn a_loan_that_fails_or_is_replaced_leaves_nothing() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture_from(1, [0, 20], true));
    let id = world.state.find(NAME, 1).unwrap();
    world.state.begin_restore(id);
    world.begin_jobs();
    assert!(world.capture(1, [0, 16]));
    world.state.check().unwrap();
    assert_eq!(world.state.host_room().1, 4, "the old one's room is still being written to");
    world.end_job(0, true);
    assert!(matches!(world.state.acquire(id, Part::Host), Acquire::Lost));
    world.state.end_restore(id, false);
    assert_eq!(world.state.host_room().1, 24);
    assert_eq!(world.state.take_failure(), None, "nobody wants it any more");
    assert!(world.capture_from(2, [0, 20], true));
    world.begin_jobs();
    while !world.jobs.is_empty() {
        world.end_job(0, true);
    }
    assert!(world.state.take_failure().is_some());
    assert_eq!(world.state.find(NAME, 2), None);
    world.state.check().unwrap();
}

/// Catches limits that keep everything once a file could not be written: then there is room for
/// even less.
#[test]
fn what_other_processes_are_told_of_a_file() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture(1, [0, 4]));
    let first = world.state.find(NAME, 1).unwrap();
    assert_eq!(world.state.fate(first, FileTier::Scratch), Fate::Open);
    assert_eq!(world.state.key_in_scratch(first), None);
    world.begin_jobs();
    world.end_job(0, true);
    assert_eq!(world.state.fate(first, FileTier::Scratch), Fate::Missing, "it has failed");
    world.state.retry();
    world.everybody_works();
    assert_eq!(world.state.fate(first, FileTier::Scratch), Fate::There);
    assert_eq!(world.state.fate(first, FileTier::Persistent), Fate::There);
    assert_eq!(world.state.key_in_scratch(first), Some((NAME.into(), 1)));
    assert!(world.capture(1, [0, 4]));
    assert_eq!(world.state.fate(first, FileTier::Scratch), Fate::Missing, "it was replaced");
    let unknown = world.state.open(NAME, 2);
    assert_eq!(world.state.fate(unknown, FileTier::Scratch), Fate::Open);
    world.state.abort(unknown);
    assert_eq!(world.state.fate(unknown, FileTier::Scratch), Fate::Missing, "it was given up");
}

/// Catches a limit that removes the file of a version that was taken again, while that gets its
/// name in place of the old one.
#[test]
fn a_file_that_is_being_made_persistent_is_not_removed() {
    let mut world = World::new(Job0 {
        device: 0,
        host: 100,
        scratch: true,
        persistent: true,
        ephemeral: false,
        order: RestoreOrder::Reverse,
    });
    for _ in 0..2 {
        assert!(world.capture(1, [0, 4]));
        while world.state.next_write().is_some_and(|job| {
            world.state.write_done(&job, Ok(()));
            true
        }) {}
        let job = world.state.next_persist().unwrap();
        assert!(!world.state.forget_file(NAME, 1, FileTier::Persistent));
        world.state.persist_done(&job, Ok(()));
    }
    assert!(world.state.forget_file(NAME, 1, FileTier::Persistent));
}

/// A job with a checkpoint in the host buffer, and another one of its version in device memory alone;
/// what they were captured with.
fn taken_again(host: u64, persistent: bool) -> (Job0, World, [BTreeMap<i32, Vec<u8>>; 2]) {
    let job = Job0 {
        device: 40,
        host,
        scratch: true,
        persistent,
        ephemeral: false,
        order: RestoreOrder::Reverse,
    };
    let mut world = World::new(job);
    while world.to_map > 0 {
        world.map();
    }
    let contents = [0, 1].map(|time| {
        assert!(world.capture(1, [10, 0]));
        if time == 0 {
            assert!(world.begin_jobs());
            world.end_job(0, false);
        }
        world.state.check().unwrap();
        world.expected[&1].clone()
    });
    (job, world, contents)
}

/// Catches a version that nobody has any more, should the process be killed before what was taken
/// again has left the device; and one that keeps its room longer than that.
#[test]
fn what_is_taken_again_stays_until_the_new_one_is_safe() {
    let (job, mut world, [old, new]) = taken_again(400, false);
    let written_by_heir = |world: &World| {
        let mut heir = world.heir(job);
        heir.everybody_works();
        heir.everybody_works();
        heir.scratch.get(&(NAME.to_string(), 1)).cloned()
    };
    assert_eq!(written_by_heir(&world), Some(old));
    assert_eq!(world.state.used(), [12, 12], "one is in device memory, and one in the host's");
    let flush = world.state.next_flush().unwrap();
    world.jobs.push(Job::Flush(flush));
    world.end_job(0, false);
    world.state.check().unwrap();
    assert_eq!(world.state.used(), [12, 12]);
    assert_eq!(written_by_heir(&world), Some(new));
    world.everybody_works();
    world.restore(1);
}

/// Catches a new checkpoint that waits for ever for the room of the one that waits for it; and room
/// that is kept for a version that was cleaned up.
#[test]
fn what_is_taken_again_gives_its_room_up() {
    let (_, mut world, [_, new]) = taken_again(12, false);
    for _ in 0..2 {
        world.everybody_works();
    }
    assert!(world.state.drained());
    assert_eq!(world.scratch.get(&(NAME.to_string(), 1)), Some(&new));
    for persistent in [false, true] {
        let (_, mut world, _) = taken_again(400, persistent);
        world.cleanup();
        assert_eq!(world.state.used()[1], 0);
        world.state.check().unwrap();
    }
}

/// Catches a chain of versions taken again of which the first, which alone is safe, goes with the
/// second; and one whose write was under way, and that is written once more or never.
#[test]
fn what_is_taken_a_third_time_keeps_the_first() {
    let (job, mut world, [old, _]) = taken_again(400, false);
    let found = ledger::read(&world.ledger).unwrap();
    assert!(world.capture(1, [10, 0]));
    world.state.check().unwrap();
    assert_eq!(ledger::read(&world.ledger).unwrap(), found);
    let (_, mut other, _) = taken_again(400, false);
    assert!(other.state.next_write().is_none(), "what was replaced is not written");
    other.everybody_works();
    assert_eq!(other.state.used()[1], 12);
    let mut heir = world.heir(job);
    heir.everybody_works();
    assert_eq!(heir.scratch.get(&(NAME.to_string(), 1)), Some(&old));
}

/// Catches a version that is lost because what was lent to take it again could not be fetched.
#[test]
fn what_does_not_arrive_has_replaced_nothing() {
    let mut world = world(0, 400, true, false);
    assert!(world.capture(1, [0, 10]));
    let old = world.expected[&1].clone();
    assert!(world.capture_from(1, [0, 10], true));
    let arrival = world.state.next_arrival().unwrap();
    world.jobs.push(Job::Arrive(arrival));
    world.end_job(0, true);
    world.state.check().unwrap();
    assert_eq!(world.expected.get(&1), Some(&old));
    world.restore(1);
    world.everybody_works();
    assert_eq!(world.scratch.get(&(NAME.to_string(), 1)), Some(&old));
}

/// Catches bytes of an old file that are restored after it was rebuilt, because they were fetched
/// before.
#[test]
fn what_was_found_is_forgotten_with_its_file() {
    let mut world = world(0, 400, true, false);
    let id = world.state.adopt(NAME, 1, &[(0, 8)], |_| Part::Host, [true, false], false);
    world.state.begin_restore(id);
    world.state.forget_found(NAME, 1);
    world.state.check().unwrap();
    assert_eq!(world.state.find(NAME, 1), None);
    world.state.end_restore(id, false);
    assert!(world.state.entry(id).is_none());
    assert!(world.capture(2, [0, 8]));
    world.state.forget_found(NAME, 2);
    world.restore(2);
}

/// What is owed of a version: the size of its region, whether it goes to persistent, and where.
type Owed = BTreeMap<i32, (u64, bool, Option<Place>)>;

/// A job that is killed after so many stores to its ledger: the ledger, and what was owed before the
/// first and after each step of the job, with the stores that the ledger had seen by then.
fn killed_after(stores: u64) -> (SharedMemory, Vec<(u64, Owed)>) {
    let place = |attempt| Some(Place { offset: 9, ranks: 4, job: 7, attempt });
    let memory = SharedMemory::create("ledger", 1 << 20).unwrap();
    let ledger = Ledger::new(&memory).unwrap();
    ledger.kill_after(stores);
    let mut state = a_state();
    state.note_to(ledger);
    let take = |state: &mut State, version: i32, size: u64, awaits: bool| {
        let id = state.open(NAME, version);
        if awaits {
            state.await_place(id);
        }
        assert!(matches!(state.reserve(id, Part::Host, size, Tier::Host), Reserve::Got { .. }));
        state.commit(id, vec![Region { id: 0, size, part: Part::Host, offset: 0 }], false);
        id
    };
    let mut ids = Vec::new();
    let mut steps = vec![(0, Owed::new())];
    for step in 0..9 {
        match step {
            0 => ids.push(take(&mut state, 1, 4, false)),
            1 => state.want_persistent(ids[0], place(1)),
            // Another one of that version, and one whose place comes later.
            2 => ids.push(take(&mut state, 1, 8, false)),
            3 => ids.push(take(&mut state, 2, 12, true)),
            4 => state.want_persistent(ids[2], place(2)),
            5 => state.want_persistent(ids[1], None),
            6 => {
                let job = state.next_write().unwrap();
                state.write_done(&job, Ok(()));
            }
            7 => drop(state.cleanup(NAME)),
            _ => {
                let job = state.next_persist().unwrap();
                state.persist_done(&job, Ok(()));
            }
        }
        let owed = |id: &Id| {
            let entry = state.entry(*id).filter(|entry| entry.life == Life::Live)?;
            let persist = entry.persistent.is_due() || entry.awaits_place;
            let due = entry.scratch.is_due() || persist;
            due.then(|| (entry.version, (entry.bytes(), persist, entry.place)))
        };
        steps.push((state.ledger_stores(), ids.iter().filter_map(owed).collect()));
    }
    (memory, steps)
}

fn a_state() -> State {
    State::new(Shape {
        device: 0,
        host: 400,
        scratch: true,
        persistent: true,
        ephemeral: false,
        order: RestoreOrder::Reverse,
        device_granule: GRANULE,
        host_granule: GRANULE,
    })
}

/// Whoever goes on finds of each version what was owed before a step of the job or after it, wherever
/// the job is killed. Catches two records of one checkpoint, the first of which keeps the other one's
/// will from being done, and a version that is replaced and is for a moment in none.
#[test]
fn the_ledger_of_any_moment_is_that_before_a_step_or_after_it() {
    let (_, steps) = killed_after(u64::MAX);
    let stores = steps.last().unwrap().0;
    assert!(stores > 20, "{stores}");
    for killed in 0..=stores {
        let (memory, _) = killed_after(killed);
        let mut heir = a_state();
        for (record, standing) in ledger::read(&memory).unwrap() {
            heir.inherit(&record, standing).unwrap();
        }
        let found = |version: i32| {
            let entry = heir.entry(heir.find(NAME, version)?).unwrap();
            Some((entry.bytes(), entry.persistent.is_due(), entry.place))
        };
        let step = steps.windows(2).find(|pair| pair[1].0 >= killed).unwrap();
        for version in [1, 2] {
            let either = [&step[0].1, &step[1].1].map(|owed| owed.get(&version).copied());
            let found = found(version);
            assert!(either.contains(&found), "{killed} stores: {found:?}, not one of {either:?}");
        }
    }
}

#[test]
fn many_failures_are_one_report() {
    let mut world = world(0, 400, true, false);
    for version in 0..5 {
        assert!(world.capture(version, [0, 12]));
        world.begin_jobs();
        world.end_job(0, true);
    }
    let report = world.state.take_failure().unwrap().to_string();
    assert!(report.contains("4 more"), "{report}");
    assert_eq!(world.state.take_failure(), None);
}

/// Catches memory for the regions of each checkpoint where they never change, and regions of
/// another checkpoint where they do.
#[test]
fn regions_that_stay_the_same_are_kept_once() {
    let mut state = World::new(Job0 {
        device: 0,
        host: 400,
        scratch: false,
        persistent: false,
        ephemeral: true,
        order: RestoreOrder::Reverse,
    })
    .state;
    let mut take = |version: i32, size: u64| {
        let id = state.open(NAME, version);
        assert!(matches!(state.reserve(id, Part::Host, 2 * size, Tier::Host), Reserve::Got { .. }));
        let region = |id: i32| Region { id, size, part: Part::Host, offset: size * id as u64 };
        state.commit(id, vec![region(1), region(0)], false);
        state.regions(id).unwrap()
    };
    let (first, second, other, third) = (take(0, 4), take(1, 4), take(2, 8), take(3, 4));
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!((other[0].size, third[0].size, third[1].id), (8, 4, 1));
    state.check().unwrap();
}

#[test]
fn a_hundred_thousand_versions_cost_no_more_each_than_a_few() {
    // Counts steps of the tree structures by what is evicted and fetched, not by a clock: the
    // lists must stay in line with the entries at this size, too.
    let mut world = world(0, 100_000 * GRANULE, false, true);
    for version in 0..100_000 {
        assert!(world.capture(version, [0, 4]));
    }
    assert_eq!(world.state.live(), 100_000);
    for version in (99_990..100_000).rev() {
        world.restore(version);
    }
    world.state.check().unwrap();
}

/// Catches an ephemeral job that writes all it takes to files, because a flush has once waited for room
/// that nobody needs any more.
#[test]
fn what_was_to_be_flushed_and_has_gone_needs_no_room() {
    let mut world = world(24, 12, true, true);
    assert!(world.capture(0, [0, 12]));
    assert!(world.capture(1, [12, 0]));
    assert!(world.state.next_flush().is_none(), "the host buffer is full");
    assert!(world.state.work().write, "room is made by writing");
    let id = world.state.find(NAME, 1).unwrap();
    world.state.abort(id);
    assert!(!world.state.work().write);
}
