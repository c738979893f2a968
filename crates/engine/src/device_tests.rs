//! An engine with a kind of device other than CUDA.

#![allow(clippy::unwrap_used, clippy::panic)] // A test stops at the first fault.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::compressed_tests;
use crate::place::Place;
use crate::Engine;
use catalog::level::LevelSpec;
use catalog::state::State;
use catalog::Level;
use config::Config;
use device::host::HostDevice;
use device::{ApplicationStream, Device, DeviceRange, Pointer, Stream};
use errors::Result;
use levels::store::Store;
use os::node_lock::NodeLock;
use os::precedence::Precedence;
use policy::capture::Capture;
use policy::register::NODE_LOCK_TIMEOUT;
use recovery::Process;
use trace::metrics::Stop;

const CHECKPOINT: usize = 200_000;
const VERSIONS: i32 = 30;

/// Bytes of a checkpoint whose flush several threads share.
const LARGE: usize = (40 << 20) + 4321;
const LARGE_VERSIONS: i32 = 5;

/// A job on the device, and device memory of its application.
struct Job {
    api: Arc<HostDevice>,
    engine: Engine,
    memory: DeviceRange,
    len: usize,
}

impl Job {
    fn start(scratch: &Path, map_fails: bool) -> Job {
        let text = format!(
            "mode = async\nscratch = {}\nrestore_order = reverse\ngpu_cache_size = 1M\n\
             gpu_chunk_size = 128K\nhost_cache_size = 2M\n",
            scratch.display()
        );
        Job::of(&text, CHECKPOINT, map_fails, Vec::new())
    }

    /// A job whose large flushes have so many threads, and which registers nothing but its rings.
    fn with_lanes(lanes: usize) -> Job {
        let text = "mode = async\nephemeral = true\ngpu_cache_size = 64M\n\
                    gpu_chunk_size = 64M\nhost_cache_size = 256M\npin = off\n";
        let job = Job::of(text, LARGE, false, Vec::new());
        job.engine.shared.host_side.flush_lanes.set(lanes).unwrap();
        job
    }

    fn of(text: &str, len: usize, map_fails: bool, lower: Vec<(LevelSpec, Box<dyn Store>)>) -> Job {
        let api = Arc::<HostDevice>::default();
        let device = || Device::new(HostDevice::info(), api.clone());
        let mut memory = DeviceRange::reserve(&Arc::new(device()), len as u64).unwrap();
        memory.map_next(len as u64).unwrap();
        if map_fails {
            api.fail("map", 2);
        }
        let (config, _) = Config::from_text(text, |_| None).unwrap();
        let engine = Engine::start_with(config, Process::single(0), Some(device()), lower).unwrap();
        Job { api, engine, memory, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped host memory, which nothing else uses between calls.
        unsafe { std::slice::from_raw_parts_mut(self.memory.base() as *mut u8, self.len) }
    }

    fn place(&self) -> Place {
        let device = &self.engine.shared.device_side.attached().unwrap().device;
        let (address, len) = (self.memory.base(), self.len as u64);
        let kind = Pointer::classify(device, address, len).unwrap();
        Place {
            id: 1,
            address,
            len,
            kind,
            part: catalog::Part::Device,
            capture: Capture::Copy,
            decoded: None,
        }
    }

    fn checkpoint(&mut self, version: i32) -> Result<()> {
        self.bytes().iter_mut().enumerate().for_each(|(at, byte)| *byte = content(version, at));
        let mut open = self.engine.begin("x", version).unwrap();
        let captured =
            self.engine.shared.capturing().capture(&mut open, &[self.place()], Vec::new());
        // A copy that is still active gets wrong bytes.
        self.bytes().fill(255);
        captured?;
        self.engine.shared.capturing().commit(open)
    }

    fn restore(&mut self, version: i32) -> Result<()> {
        let place = self.place();
        let restoring =
            self.engine.shared.restores().begin_restore("x", version, |_| place.part)?;
        let recovered = self.engine.shared.restores().recover(&restoring, &[place], false);
        self.engine.shared.restores().end_restore(restoring, recovered.is_ok());
        recovered?;
        let wrong =
            self.bytes().iter().enumerate().find(|(at, byte)| **byte != content(version, *at));
        assert_eq!(wrong, None, "version {version}");
        Ok(())
    }

    /// Takes a checkpoint, or restores one, in the order of the stream; what that writes is not looked at.
    fn in_order(&mut self, version: i32, restores: bool) {
        let shared = &self.engine.shared;
        let mut places = [self.place()];
        if restores {
            let place = places[0];
            let restoring = shared.restores().begin_restore("x", version, |_| place.part).unwrap();
            let in_order = self.engine.orders();
            shared.restores().recover(&restoring, &places, in_order).unwrap();
            shared.restores().end_restore(restoring, true);
            return;
        }
        let mut open = self.engine.begin("x", version).unwrap();
        self.engine.order_captures(&mut places);
        shared.capturing().capture(&mut open, &places, Vec::new()).unwrap();
        shared.capturing().commit(open).unwrap();
    }

    fn moved(&self, from: Stop, to: Stop) -> u64 {
        self.engine.shared.telemetry.metrics.hop((from, to)).amount()
    }

    /// Ends the job, and checks that the device has nothing left of it.
    fn end(self) {
        let Job { api, engine, memory, .. } = self;
        engine.finish().unwrap();
        drop(memory);
        assert_eq!(api.in_use(), [0; 4]);
    }
}

fn content(version: i32, at: usize) -> u8 {
    (version as usize * 31 + at % 241) as u8
}

/// Catches an end of the job that waits for ever for a stream that stands still, a version that exists though its copy was
/// given up, and room that is free though the device may still use it.
#[test]
fn ordered_copies_that_do_not_end_are_given_up_by_name() {
    let text = "mode = async\nephemeral = true\ngpu_cache_size = 1M\nhost_cache_size = 0\nstream_ordered = true\n";
    let mut job = Job::of(text, CHECKPOINT, false, Vec::new());
    let device = job.engine.shared.device_side.attached().unwrap().device.clone();
    let stream = Stream::new(&device).unwrap();
    // SAFETY: it outlives the job.
    let given = unsafe { ApplicationStream::new(&device, stream.raw()) }.unwrap();
    job.engine.device_side().set_stream(Some(given));
    job.in_order(1, false);
    job.engine.await_ordered();
    let api = job.api.clone();
    let held = api.hold();
    job.in_order(1, true);
    job.in_order(2, false);
    job.engine.shared.give_up_ordered(Duration::ZERO);
    let catalog = &job.engine.shared.catalog;
    let error = catalog.step(State::take_failure).unwrap().to_string();
    assert!(
        error.contains("version 1: restoring") && error.contains("VELOC_Set_stream"),
        "{error}"
    );
    assert_eq!(catalog.read(|state| state.checkpoints().find("x", 2)), None);
    catalog.step(|state| state.removal().withdraw("x", 1));
    let used = catalog.read(|state| state.levels().used(Level::DEVICE));
    assert!(used >= 2 * CHECKPOINT as u64, "{used} bytes are kept");
    assert_eq!(catalog.read(State::check), Ok(()));
    drop(held);
    drop(stream);
    drop(device);
    job.end();
}

/// Catches a copy that is not waited for, goes elsewhere, or uses CUDA; a cache that is not mapped, and
/// resources that are not released at the end.
#[test]
fn checkpoints_of_another_kind_of_device_come_back() {
    let scratch = tempfile::tempdir().unwrap();
    let mut job = Job::start(scratch.path(), false);
    for version in 0..VERSIONS {
        job.checkpoint(version).unwrap();
    }
    job.engine.drain().unwrap();
    assert!(job.moved(Stop::Application, Stop::DEVICE) > 0);
    assert!(job.moved(Stop::DEVICE, Stop::HOST) > 0);
    for version in (0..VERSIONS).rev() {
        job.restore(version).unwrap();
        while version == VERSIONS / 2 && job.moved(Stop::HOST, Stop::DEVICE) == 0 {
            std::thread::yield_now();
        }
    }
    assert!(job.moved(Stop::DEVICE, Stop::Application) > 0);
    job.end();
}

/// Catches copies between the device and a level without addresses that are made by addresses.
#[test]
fn what_the_host_buffer_cannot_hold_goes_below_it() {
    let text = "mode = async\nephemeral = true\ngpu_cache_size = 1M\ngpu_chunk_size = 128K\n\
                host_cache_size = 128K\nrestore_order = reverse\n";
    let mut job = Job::of(text, CHECKPOINT, false, vec![compressed_tests::level(8 << 20)]);
    for version in 0..VERSIONS {
        job.checkpoint(version).unwrap();
    }
    let lower = Stop::Memory(2);
    assert!(job.moved(Stop::DEVICE, lower) > 0);
    for version in (0..VERSIONS).rev() {
        job.restore(version).unwrap();
        while version == VERSIONS / 2 && job.moved(lower, Stop::DEVICE) == 0 {
            std::thread::yield_now();
        }
    }
    job.end();
}

/// Catches a failed copy that is not reported, and one after which a checkpoint is missing, has wrong bytes,
/// or cannot be taken again.
#[test]
fn a_copy_that_fails_is_the_error_of_the_call() {
    let scratch = tempfile::tempdir().unwrap();
    let mut job = Job::start(scratch.path(), false);
    job.checkpoint(0).unwrap();
    job.engine.drain().unwrap();
    let heard = |done: Result<()>| {
        let error = done.unwrap_err().to_string();
        assert!(error.contains("copy failed: as the test wants it"), "{error}");
        error
    };
    job.api.fail("copy", 0);
    heard(job.checkpoint(1));
    job.checkpoint(1).unwrap();
    job.engine.drain().unwrap();
    // The first copy belongs to the capture.
    job.api.fail("copy", 1);
    job.checkpoint(2).unwrap();
    let error = heard(job.engine.drain());
    assert!(error.contains("flushing to the host buffer"), "{error}");
    job.engine.drain().unwrap();
    job.api.fail("copy", 0);
    heard(job.restore(2));
    for version in (0..3).rev() {
        job.restore(version).unwrap();
    }
    job.end();
}

/// Catches a capture that waits for memory that is never mapped, and bytes in unmapped memory.
#[test]
fn a_cache_that_is_mapped_in_part_serves() {
    let scratch = tempfile::tempdir().unwrap();
    let mut job = Job::start(scratch.path(), true);
    for version in 0..VERSIONS {
        job.checkpoint(version).unwrap();
    }
    for version in (0..VERSIONS).rev() {
        job.restore(version).unwrap();
    }
    job.end();
}

/// Catches a cache that is mapped in more calls than it takes, and one that has nothing where it could have a part.
#[test]
fn a_cache_that_fits_is_mapped_in_one_piece() {
    let mapped = |job: &Job| job.engine.shared.device_side.cache().unwrap().mapped();
    let text = "mode = async\nephemeral = true\nhost_cache_size = 1M\ngpu_cache_size = ";
    let job = Job::of(&format!("{text}1G\n"), CHECKPOINT, false, Vec::new());
    while mapped(&job) < 1 << 30 {
        std::thread::yield_now();
    }
    assert_eq!(job.api.in_use()[1], 2, "it, and the application's memory");
    job.end();
    // The application leaves less than that.
    let job = Job::of(&format!("{text}256M\n"), (4 << 30) - (200 << 20), false, Vec::new());
    while mapped(&job) < 128 << 20 {
        std::thread::yield_now();
    }
    job.end();
}

/// Catches a registration beside another process's mapping, and one that waits although nobody maps any more.
#[test]
fn nothing_is_registered_while_another_process_maps() {
    let all = Precedence::open().unwrap();
    // Other jobs on this node look whether it is claimed.
    let claim = loop {
        if let Ok(claim) = all.claim() {
            break claim;
        }
        std::thread::yield_now();
    };
    let since = Instant::now();
    let text = "mode = async\nephemeral = true\nhost_cache_size = 8M\ngpu_cache_size = 1M\n";
    let mut job = Job::of(text, CHECKPOINT, false, Vec::new());
    job.checkpoint(0).unwrap();
    let shared = job.engine.shared.clone();
    let registered = || shared.host_side.host().unwrap().registrations().bytes();
    while shared.host_side.host().unwrap().touched_bytes() < 8 << 20 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(registered() == 0 || since.elapsed() >= NODE_LOCK_TIMEOUT);
    drop(claim);
    while registered() < 8 << 20 {
        std::thread::yield_now();
    }
    assert!(shared.telemetry.metrics.node_lock.nanoseconds() > 0, "it has waited");
    drop(shared);
    job.end();
}

/// Catches a registration that does not wait for another process's, and one beside which another process can register.
#[test]
fn one_process_of_the_node_registers_at_a_time() {
    let mut lock = NodeLock::open().unwrap();
    // Other jobs on this node register, too, and may be stopped while they do.
    let mut take = |at_most| lock.acquire(at_most, &|| false).is_ok();
    while !take(NODE_LOCK_TIMEOUT) {}
    let since = Instant::now();
    let text = "mode = async\nephemeral = true\nhost_cache_size = 8M\ngpu_cache_size = 1M\n";
    let job = Job::of(text, CHECKPOINT, false, Vec::new());
    let shared = job.engine.shared.clone();
    let registered = || shared.host_side.host().unwrap().registrations().bytes();
    while shared.host_side.host().unwrap().touched_bytes() < 8 << 20 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(100));
    // Later, a job registers without the lock.
    let in_time = || since.elapsed() < NODE_LOCK_TIMEOUT;
    assert!(registered() == 0 || !in_time());
    let before = job.api.in_use();
    let held = job.api.hold();
    lock.release();
    // A machine that is late has registered all by now.
    while job.api.in_use()[2] == before[2] && in_time() {
        std::thread::yield_now();
    }
    assert!(lock.acquire(Duration::from_millis(100), &|| false).is_err() || !in_time());
    drop(held);
    while registered() < 8 << 20 {
        std::thread::yield_now();
    }
    drop(shared);
    job.end();
}

/// Catches bytes of a file that are not waited for, or in the wrong order, and copies that go on when the call has
/// failed: the application uses its memory then.
#[test]
fn a_file_comes_to_device_memory_whole_or_not_at_all() {
    const LEN: usize = (11 << 20) + 4321;
    let scratch = tempfile::tempdir().unwrap();
    let text = format!(
        "mode = async\nscratch = {}\ngpu_cache_size = 1M\nhost_cache_size = 1M\npin = off\n",
        scratch.path().display()
    );
    let mut job = Job::of(&text, LEN, false, Vec::new());
    for version in 0..2 {
        job.checkpoint(version).unwrap();
    }
    job.engine.drain().unwrap();
    job.restore(1).unwrap();
    for after in [0, 1, 5] {
        job.api.fail("copy", after);
        let error = job.restore(0).unwrap_err().to_string();
        assert!(error.contains("copy failed: as the test wants it"), "{error}");
        job.bytes().fill(9);
        std::thread::sleep(Duration::from_millis(5));
        assert!(job.bytes().iter().all(|byte| *byte == 9), "a copy has come later");
        job.restore(0).unwrap();
    }
    job.end();
}

/// A job whose cache begins with room for one checkpoint, and may grow to room for five.
fn growing(text: &str) -> Job {
    let text = format!(
        "mode = async\nephemeral = true\ngpu_cache_size = {text}\ngpu_chunk_size = 128K\n\
         host_cache_size = 64M\nrestore_order = reverse\n"
    );
    Job::of(&text, CHECKPOINT, false, Vec::new())
}

/// The bytes that the device cache has.
fn cache(job: &Job) -> u64 {
    let mapped = job.engine.shared.device_side.cache().unwrap().mapped();
    // The catalog hears of memory after it has come, and before it goes.
    assert!(job.engine.shared.catalog.read(|state| state.levels().room(Level::DEVICE).0) <= mapped);
    mapped
}

/// Catches a device cache that `veloc top` does not know, as it comes after the job's start.
#[test]
fn who_looks_at_a_job_sees_its_device_cache() {
    let job = growing("384K..1M");
    let seen = trace::live::processes().unwrap();
    let own = seen.into_iter().filter(|one| one.process == std::process::id());
    let levels = own.filter_map(|one| one.present).flat_map(|present| present.levels);
    let caches: Vec<_> = levels.filter(|level| level.name == "device cache").collect();
    assert!(caches.iter().any(|level| level.size == 1 << 20), "{caches:?}");
    job.end();
}

/// Waits until the job has been idle, and the device cache is as small as it was at first.
fn until_given_back(job: &Job) {
    while cache(job) > 256 << 10 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Catches a capture that waits for flushes although the device has memory, memory that an idle job keeps, bytes that
/// go with it, and a cache that grows once only.
#[test]
fn a_cache_grows_while_captures_would_wait_and_shrinks_when_idle() {
    let mut job = growing("256K..1M");
    for turn in 0..2 {
        let shared = job.engine.shared.clone();
        let closed = shared.device_side.gate.close();
        for version in 0..5 {
            // Nothing is flushed meanwhile.
            job.checkpoint(5 * turn + version).unwrap();
        }
        assert_eq!(cache(&job), 1 << 20);
        let maps = shared.telemetry.metrics.map.amount();
        assert_eq!(maps, (1 << 20) + turn as u64 * (768 << 10));
        drop(closed);
        job.engine.drain().unwrap();
        until_given_back(&job);
    }
    for version in (0..10).rev() {
        job.restore(version).unwrap();
    }
    job.end();
}

/// Catches a cache that takes the last memory of the card, a capture that waits for memory that does not come, and one
/// that is never asked for again.
#[test]
fn a_cache_does_not_grow_on_a_card_that_is_full() {
    let mut job = growing("256K..1M");
    let device = Arc::new(Device::new(HostDevice::info(), job.api.clone()));
    let mut others = DeviceRange::reserve(&device, 2 << 30).unwrap();
    others.map_next(2 << 30).unwrap();
    for version in 0..5 {
        job.checkpoint(version).unwrap();
    }
    assert_eq!(cache(&job), 256 << 10);
    job.engine.drain().unwrap();
    let shared = job.engine.shared.clone();
    let closed = shared.device_side.gate.close();
    job.checkpoint(5).unwrap();
    drop((others, device));
    // Nothing else ends its wait.
    job.checkpoint(6).unwrap();
    assert!(cache(&job) > 256 << 10);
    drop(closed);
    drop(shared);
    for version in (0..7).rev() {
        job.restore(version).unwrap();
    }
    job.end();
}

/// Catches a checkpoint that is refused by the first size, a size that the card does not have, and one that is taken
/// for that of another card.
#[test]
fn sizes_go_by_the_card() {
    let mut job = growing("0..1M");
    job.checkpoint(0).unwrap();
    assert!(job.moved(Stop::Application, Stop::DEVICE) > 0, "it began with nothing");
    job.restore(0).unwrap();
    job.end();
    let job = growing("256K..100G");
    assert_eq!(job.engine.shared.device_side.cache().unwrap().reserved(), 4 << 30);
    job.end();
    let text = "mode = async\nephemeral = true\ngpu_cache_size = 5G..8G\nhost_cache_size = 1M\n";
    let (config, _) = Config::from_text(text, |_| None).unwrap();
    let device = Device::new(HostDevice::info(), Arc::<HostDevice>::default());
    let started = Engine::start_with(config, Process::single(0), Some(device), Vec::new());
    let error = started.unwrap_err().to_string();
    assert!(error.contains("gpu_cache_size is 5 GiB..8 GiB, but device 0"), "{error}");
}

/// Catches shares that overlap, leave bytes out or go elsewhere; threads that do not help; a lane that copies while the gate is closed.
#[test]
fn threads_share_a_large_flush() {
    for lanes in [1, 4] {
        let mut job = Job::with_lanes(lanes);
        let rings = |job: &Job| job.api.in_use()[2];
        let shared = job.engine.shared.clone();
        let closed = shared.device_side.gate.close();
        job.checkpoint(0).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(rings(&job), 0);
        drop(closed);
        job.engine.drain().unwrap();
        assert_eq!(rings(&job), lanes);
        // From now on, a flush has pieces that belong to no share. The device need not know.
        let host = shared.host_side.host().unwrap();
        for chunk in
            (0..).step_by(3).take_while(|chunk| host.chunks().bytes(*chunk).end < host.len())
        {
            host.registrations().begin(chunk).unwrap().end(true);
        }
        drop(shared);
        for version in 1..LARGE_VERSIONS {
            job.checkpoint(version).unwrap();
        }
        job.engine.drain().unwrap();
        for version in (0..LARGE_VERSIONS).rev() {
            job.restore(version).unwrap();
        }
        // The device cache has the last one only.
        let from_host = [Stop::Application, Stop::DEVICE].map(|to| job.moved(Stop::HOST, to));
        assert!(from_host.iter().sum::<u64>() > (LARGE * 3) as u64, "{from_host:?}");
        job.end();
    }
}

/// Catches a helper's error that is not the flush's, room that is lost with it, and a lane that begins the next
/// flush with slices of the failed one.
#[test]
fn a_copy_that_fails_in_any_lane_ends_the_flush() {
    let mut job = Job::with_lanes(4);
    for version in 0..LARGE_VERSIONS {
        // Each time at another of the flush's 41 copies or more, behind those of the capture.
        job.api.fail("copy", 1 + 9 * version as u32);
        job.checkpoint(version).unwrap();
        let error = job.engine.drain().unwrap_err().to_string();
        assert!(error.contains("copy failed: as the test wants it"), "{error}");
        assert!(error.contains("flushing to the host buffer"), "{error}");
        job.engine.drain().unwrap();
        let each = (LARGE as u64).next_multiple_of(catalog::level::GRANULE);
        let used = job.engine.shared.catalog.read(|state| state.levels().used(Level::HOST));
        assert_eq!(used, (version as u64 + 1) * each);
    }
    for version in (0..LARGE_VERSIONS).rev() {
        job.restore(version).unwrap();
    }
    job.end();
}

/// Catches a restore that is overwritten by copies that the application has queued before it, from whichever level.
#[test]
fn restores_come_after_the_work_that_is_queued() {
    use device::{register, unregister, Stream};
    const LEN: usize = 150 << 10;
    let text = "mode = async\nephemeral = true\ngpu_cache_size = 1M\ngpu_chunk_size = 128K\n\
                host_cache_size = 200K\nrestore_order = random\n";
    let mut job = Job::of(text, CHECKPOINT, false, vec![compressed_tests::level(8 << 20)]);
    job.bytes().fill(9);
    let mut buffer = vec![0u8; LEN];
    let device = job.engine.shared.device_side.attached().unwrap().device.clone();
    let stream = Stream::new(&device).unwrap();
    // SAFETY: the buffer outlives its registration.
    unsafe { register(&device, buffer.as_mut_ptr(), LEN as u64) }.unwrap();
    let kind = Pointer::classify(&device, buffer.as_ptr() as u64, LEN as u64).unwrap();
    assert_eq!(kind, Pointer::Host { pinned: true });
    let place = Place { kind, ..Place::plain(1, buffer.as_ptr(), LEN) };
    for version in 0..2 {
        buffer.fill(version as u8 + 1);
        let mut open = job.engine.begin("x", version).unwrap();
        let shared = &job.engine.shared;
        shared.capturing().capture(&mut open, &[place], Vec::new()).unwrap();
        shared.capturing().commit(open).unwrap();
        job.engine.drain().unwrap();
    }
    let mut wrong = Vec::new();
    for version in [1, 0] {
        for _ in 0..200 {
            // SAFETY: both are valid until the stream was waited for.
            unsafe {
                stream.copy_to_host(buffer.as_mut_ptr(), job.memory.base(), 4096).unwrap();
            }
        }
        let restores = job.engine.shared.restores();
        let restoring = restores.begin_restore("x", version, |_| catalog::Part::Host).unwrap();
        restores.recover(&restoring, &[place], false).unwrap();
        restores.end_restore(restoring, true);
        stream.synchronize().unwrap();
        if buffer[0] != version as u8 + 1 {
            wrong.push((version, buffer[0]));
        }
    }
    let from = |level| job.moved(level, Stop::Application);
    let moved = [from(Stop::HOST), from(Stop::Memory(2))];
    // SAFETY: nothing uses them any more.
    unsafe { unregister(&device, buffer.as_mut_ptr()) }.unwrap();
    drop((stream, device));
    assert_eq!(moved, [LEN as u64; 2]);
    assert_eq!(wrong, [], "the queued copies came later");
    job.end();
}
