//! The catalog's concurrency, model-checked: application and workers are threads whose interleavings shuttle
//! tries at random. A wait that never ends is a deadlock, which shuttle reports.
//!
//! Run with `cargo test --features model-check --lib model`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test stops at the first fault.

use std::collections::HashMap;
use std::sync::Arc;

use shuttle::sync::Mutex;
use shuttle::thread;

use crate::calls::Calls;
use crate::monitor::{Catalog, Worker};
use catalog::level::LevelSpec;
use catalog::space::{cut, side_by_side};
use catalog::state::*;
use catalog::{Id, Level, Part, Region};
use errors::{Error, ErrorKind};
use policy::order::RestoreOrder;

const ITERATIONS: usize = 3_000;
const LEN: u64 = 4;

struct Job {
    catalog: Catalog,
    /// The bytes of each level. Their locks are not the catalog's: copies run concurrently, as in the engine.
    memory: Vec<Mutex<Vec<u8>>>,
    /// Where in the host buffer the bytes of a deferred capture belong.
    deferred: Mutex<HashMap<Id, Vec<u64>>>,
    /// What the device has still to copy.
    device: Calls<(), Ordered>,
}

/// Copies that the device makes behind their call.
enum Ordered {
    Capture(Arrival),
    Restore(Id, i32, Source),
}

impl Job {
    fn new(device: u64, host: u64, scratch: bool, ephemeral: bool) -> Arc<Job> {
        Job::read_in(RestoreOrder::Reverse, device, host, scratch, ephemeral)
    }

    fn read_in(
        order: RestoreOrder,
        device: u64,
        host: u64,
        scratch: bool,
        ephemeral: bool,
    ) -> Arc<Job> {
        Job::of_levels(order, &[device, host], scratch, ephemeral)
    }

    /// A job with levels of these sizes: device cache, host buffer, and lower ones.
    fn of_levels(order: RestoreOrder, sizes: &[u64], scratch: bool, ephemeral: bool) -> Arc<Job> {
        let mut memory = vec![LevelSpec::device(0, LEN), LevelSpec::host(sizes[1], LEN)];
        memory.extend(sizes[2..].iter().map(|&capacity| LevelSpec {
            name: "lower level",
            captures: [false, false],
            staging: false,
            // Each copy takes more room there than its size.
            ..LevelSpec::host(capacity, LEN + 2)
        }));
        let mut state = State::new(Shape {
            memory,
            scratch,
            persistent: scratch && !ephemeral,
            ephemeral,
            order,
            beside: Some(0),
        });
        state.growth().expect_capacity(Level::DEVICE, sizes[0]);
        Arc::new(Job {
            catalog: Catalog::new(state),
            memory: sizes.iter().map(|&bytes| Mutex::new(vec![0; bytes as usize])).collect(),
            deferred: Mutex::new(HashMap::new()),
            device: Calls::default(),
        })
    }

    fn level(&self, level: Level) -> &Mutex<Vec<u8>> {
        &self.memory[level.index()]
    }

    fn map(&self, device: u64) {
        for _ in 0..device / LEN {
            self.catalog.step(|state| state.growth().grown(Level::DEVICE, LEN));
        }
        self.catalog.step(|state| state.growth().completed(Level::DEVICE));
    }

    fn grow(&self) {
        let wanted = |state: &mut State| {
            Some(state.levels().wanted(Level::DEVICE)).filter(|wanted| *wanted > 0)
        };
        let mut mapped = LEN;
        for turn in 0.. {
            if self.catalog.next(Worker::Grow, wanted).is_none() {
                return;
            }
            thread::yield_now();
            if turn % 2 == 0 {
                mapped += LEN;
                self.catalog.step(|state| state.growth().grown(Level::DEVICE, LEN));
            } else {
                self.catalog.step(|state| state.growth().refused(Level::DEVICE));
                thread::yield_now();
                self.catalog.step(|state| state.growth().ask_again(Level::DEVICE));
            }
            let last = mapped - LEN;
            if last > 0 && self.catalog.step(|state| state.growth().shrink(Level::DEVICE, last)) {
                self.level(Level::DEVICE).lock().unwrap()[last as usize..].fill(255);
                mapped = last;
            }
        }
    }

    fn copy(&self, job: &MoveJob) {
        for (from, to, len) in side_by_side(&job.from.extents, &job.to.extents, job.len) {
            for i in 0..len {
                let byte = self.level(job.from.level).lock().unwrap()[(from + i) as usize];
                self.level(job.to.level).lock().unwrap()[(to + i) as usize] = byte;
            }
        }
    }

    /// A flusher; each flush in `fails` fails.
    fn flush(&self, fails: &[usize]) {
        self.flush_from(Level::DEVICE, fails);
    }

    fn flush_from(&self, level: Level, fails: &[usize]) {
        let mut count = 0;
        let next = |state: &mut State| state.down().next_flush(level);
        while let Some(job) = self.catalog.next(Worker::Flush(level), next) {
            self.copy(&job);
            let result = if fails.contains(&count) {
                MoveEnd::Failed(Error::new(ErrorKind::System, "injected"))
            } else {
                MoveEnd::Done
            };
            count += 1;
            self.catalog.step(|state| state.down().flush_done(&job, result));
        }
    }

    fn fetch(&self) {
        self.fetch_noting(Level::DEVICE, &Mutex::default());
    }

    fn write(&self) {
        while let Some(job) = self.catalog.next(Worker::Write, |state| state.down().next_write()) {
            thread::yield_now();
            self.catalog.step(|state| state.down().write_done(&job, Ok(())));
        }
    }

    fn persist(&self) {
        while let Some(mut job) =
            self.catalog.next(Worker::Persist, |state| state.down().next_persist())
        {
            thread::yield_now();
            self.catalog.step(|state| state.down().leave_memory(&mut job));
            let alone =
                self.catalog.wait_for_transfer(|state| state.checkpoints().is_alone(job.id));
            let Ok(alone) = alone else { return };
            assert!(!alone, "each write succeeds");
            self.catalog.step(|state| state.down().persist_done(&job, Ok(())));
        }
    }

    fn capture(&self, version: i32, part: Part, level: Level) -> Result<(), Error> {
        self.capture_from(version, part, level, false)
    }

    fn capture_from(
        &self,
        version: i32,
        part: Part,
        level: Level,
        deferred: bool,
    ) -> Result<(), Error> {
        let id = self.catalog.step(|state| state.captures().open("x", version));
        let reserved =
            self.catalog.wait(|state| match state.captures().reserve(id, part, LEN, level) {
                Reserve::Got { extents, .. } => Some(Ok(extents)),
                Reserve::Never(error) => Some(Err(error)),
                Reserve::Wait(_) => None,
            });
        let extents = match reserved.and_then(|inner| inner) {
            Ok(extents) => extents,
            Err(error) => {
                self.catalog.step(|state| state.captures().abort(id));
                return Err(error);
            }
        };
        let room: Vec<u64> =
            cut(&extents, 0, LEN).flat_map(|e| e.offset..e.offset + e.len).collect();
        let region = Region { id: 0, size: LEN, part, offset: 0, decoded: None };
        let mut arriving = [false; 2];
        if deferred {
            arriving[part as usize] = true;
            self.deferred.lock().unwrap().insert(id, room);
        } else {
            for at in room {
                self.level(level).lock().unwrap()[at as usize] = version as u8 + 1;
            }
        }
        if !deferred || level == Level::HOST {
            self.catalog
                .step(|state| state.captures().commit_deferred(id, vec![region], arriving, true));
            return Ok(());
        }
        let commit =
            |state: &mut State| state.captures().commit_arriving(id, vec![region], arriving, true);
        let arrival = self.catalog.step(commit).unwrap();
        self.device.add((), Ordered::Capture(arrival));
        Ok(())
    }

    /// Restores from the device cache: the device reads it later.
    fn restore_in_order(&self, version: i32) {
        let id = self.catalog.read(|state| state.checkpoints().find("x", version)).unwrap();
        self.catalog.step(|state| state.up().begin_restore(id));
        let is_capture =
            |what: &Ordered| matches!(what, Ordered::Capture(arrival) if arrival.id == id);
        let is_queued = self.device.any(is_capture);
        let acquired = self.catalog.wait(|state| {
            let acquired = match is_queued {
                true => state.up().acquire_behind(id, Part::Device),
                false => state.up().acquire(id, Part::Device),
            };
            (!matches!(acquired, Acquire::Wait)).then_some(acquired)
        });
        match acquired.unwrap() {
            Acquire::Memory(source) if source.level == Level::DEVICE => {
                self.device.add((), Ordered::Restore(id, version, source));
            }
            Acquire::Memory(source) => {
                self.check(&source, version);
                self.catalog.step(|state| state.up().release(id, Part::Device, source.level));
            }
            other => panic!("{other:?}"),
        }
        self.catalog.step(|state| state.up().end_restore(id, true));
    }

    fn check(&self, source: &Source, version: i32) {
        for extent in cut(&source.extents, 0, LEN) {
            for at in extent.offset..extent.offset + extent.len {
                let byte = self.level(source.level).lock().unwrap()[at as usize];
                assert_eq!(byte, version as u8 + 1, "version {version}");
            }
        }
    }

    /// The device carries out ordered copies, and the worker sees their end.
    fn device(&self) {
        while let Some(()) = self.device.first() {
            // Nobody gives it up.
            match self.device.end().unwrap() {
                Ordered::Capture(job) => {
                    let room = self.deferred.lock().unwrap().remove(&job.id).unwrap();
                    for at in room {
                        self.level(Level::DEVICE).lock().unwrap()[at as usize] =
                            job.version as u8 + 1;
                    }
                    self.catalog.step(|state| state.captures().arrived(job.id, MoveEnd::Done));
                }
                Ordered::Restore(id, version, source) => {
                    self.check(&source, version);
                    self.catalog.step(|state| state.up().release(id, Part::Device, source.level));
                }
            }
        }
    }

    /// Copies deferred captures; each in `fails` fails.
    fn arrive(&self, fails: &[i32]) {
        while let Some(job) =
            self.catalog.next(Worker::Arrive, |state| state.captures().next_arrival())
        {
            let room = self.deferred.lock().unwrap().remove(&job.id).unwrap();
            let end = if fails.contains(&job.version) {
                MoveEnd::Failed(Error::new(ErrorKind::System, "injected"))
            } else {
                for at in room {
                    self.level(Level::HOST).lock().unwrap()[at as usize] = job.version as u8 + 1;
                }
                MoveEnd::Done
            };
            self.catalog.step(|state| state.captures().arrived(job.id, end));
        }
    }

    fn restore(&self, version: i32, part: Part) {
        let id =
            self.catalog.read(|state| state.checkpoints().find("x", version)).expect("it is live");
        self.catalog.step(|state| state.up().begin_restore(id));
        let acquired = self
            .catalog
            .wait(|state| match state.up().acquire(id, part) {
                Acquire::Wait => None,
                acquired => Some(acquired),
            })
            .unwrap();
        match acquired {
            Acquire::Memory(source) => {
                self.check(&source, version);
                self.catalog.step(|state| state.up().release(id, part, source.level));
            }
            Acquire::File => {}
            other => panic!("{other:?}"),
        }
        self.catalog.step(|state| state.up().end_restore(id, true));
    }

    /// Fetches to a level, and records which versions.
    fn fetch_noting(&self, level: Level, fetched: &Mutex<Vec<i32>>) {
        let next = |state: &mut State| state.up().next_fetch(level);
        while let Some(job) = self.catalog.next(Worker::Fetch(level), next) {
            fetched.lock().unwrap().push(job.version);
            self.copy(&job);
            self.catalog.step(|state| state.up().fetch_done(&job, MoveEnd::Done));
        }
    }

    fn finish(&self) {
        self.catalog.read(|state| state.check()).unwrap();
        self.catalog.stop();
    }
}

fn run(job: &Arc<Job>, worker: impl Fn(&Job) + Send + Sync + 'static) -> thread::JoinHandle<()> {
    let job = job.clone();
    thread::spawn(move || worker(&job))
}

fn there_and_back(job: &Job) {
    for version in 0..4 {
        job.capture(version, Part::Device, Level::DEVICE).unwrap();
    }
    for version in (0..4).rev() {
        job.restore(version, Part::Device);
    }
}

fn end<const N: usize>(job: &Job, workers: [thread::JoinHandle<()>; N]) {
    job.finish();
    for worker in workers {
        worker.join().unwrap();
    }
}

/// A shot: forward with eviction, backward with fetches. Catches a lost wake-up, an eviction of a copy in
/// use, and a fetch into room that is still in use.
#[test]
fn a_shot_comes_to_its_end_and_restores_what_it_took() {
    shuttle::check_random(
        || {
            let job = Job::new(2 * LEN, 8 * LEN, false, true);
            let workers = [
                run(&job, |job| job.map(2 * LEN)),
                run(&job, |job| job.flush(&[])),
                run(&job, Job::fetch),
            ];
            there_and_back(&job);
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// A shot with one more level below a host buffer for two checkpoints, from which they return
/// through the host buffer. Catches a level whose worker is never woken, and room that is freed
/// below without waking anyone.
#[test]
fn one_more_level_is_one_more_row() {
    shuttle::check_random(
        || {
            let sizes = [LEN, 2 * LEN, 4 * (LEN + 2)];
            let job = Job::of_levels(RestoreOrder::Reverse, &sizes, false, true);
            let workers = [
                run(&job, |job| job.map(LEN)),
                run(&job, |job| job.flush(&[])),
                run(&job, |job| job.flush_from(Level::HOST, &[])),
                run(&job, Job::fetch),
                run(&job, |job| job.fetch_noting(Level::HOST, &Mutex::default())),
            ];
            there_and_back(&job);
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// A job that writes files, with a host buffer for two checkpoints. Catches a wait for room that no write
/// ends, and a drain that returns early or never.
#[test]
fn a_small_host_buffer_drains_to_files() {
    shuttle::check_random(
        || {
            let job = Job::new(0, 2 * LEN, true, false);
            let workers = [run(&job, Job::write), run(&job, Job::persist)];
            for version in 0..5 {
                job.capture(version % 3, Part::Host, Level::HOST).unwrap();
            }
            job.catalog.wait_drained().unwrap();
            job.catalog.read(|state| {
                for version in 0..3 {
                    let id = state.checkpoints().find("x", version).unwrap();
                    assert_eq!(state.checkpoints().persist_settled(id), Some(true));
                }
            });
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// An ephemeral job that overflows to scratch: flushes find no room, and the writer must notice.
#[test]
fn starving_flushes_wake_the_writer() {
    shuttle::check_random(
        || {
            let job = Job::new(LEN, LEN, true, true);
            let workers = [
                run(&job, |job| job.map(LEN)),
                run(&job, |job| job.flush(&[])),
                run(&job, Job::write),
            ];
            there_and_back(&job);
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// A flush that fails: the application gets an error that there is no room, or the checkpoint is flushed
/// later; no wait lasts for ever and nothing is lost.
#[test]
fn a_failed_flush_ends_the_wait_for_its_room() {
    shuttle::check_random(
        || {
            let job = Job::new(LEN, 4 * LEN, false, true);
            let workers = [run(&job, |job| job.map(LEN)), run(&job, |job| job.flush(&[0]))];
            job.capture(0, Part::Device, Level::DEVICE).unwrap();
            if job.capture(1, Part::Device, Level::DEVICE).is_err() {
                assert!(job.catalog.step(State::take_failure).is_some());
                assert!(job.catalog.step(State::retry));
                job.capture(1, Part::Device, Level::DEVICE).unwrap();
            }
            job.restore(0, Part::Device);
            job.restore(1, Part::Device);
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// Deferred captures end while they are restored, written, waited for and replaced. Catches a wait for bytes
/// that are there, and room that is reused too early.
#[test]
fn deferred_captures_end_while_others_wait_for_them() {
    shuttle::check_random(
        || {
            let job = Job::new(0, 3 * LEN, true, false);
            let workers =
                [run(&job, |job| job.arrive(&[3])), run(&job, Job::write), run(&job, Job::persist)];
            for version in 0..2 {
                job.capture_from(version, Part::Host, Level::HOST, true).unwrap();
                // No other step wakes the worker.
                job.catalog.wait(|state| (!state.arriving()).then_some(())).unwrap();
            }
            for version in [0, 1, 0, 2] {
                job.capture_from(version, Part::Host, Level::HOST, true).unwrap();
                job.restore(version, Part::Host);
            }
            job.capture_from(3, Part::Host, Level::HOST, true).unwrap();
            job.capture(1, Part::Host, Level::HOST).unwrap();
            job.catalog.wait_drained().unwrap();
            job.catalog.read(|state| {
                assert!(!state.arriving());
                assert_eq!(state.checkpoints().find("x", 3), None, "its bytes have not come");
                for version in 0..3 {
                    let id = state.checkpoints().find("x", version).unwrap();
                    assert_eq!(state.checkpoints().persist_settled(id), Some(true));
                }
            });
            assert!(job.catalog.step(State::take_failure).is_some());
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// Checkpoints and restores whose copies the device makes behind their calls, in a device cache for two, with eviction,
/// flushes, fetches, versions that are taken again and one that is dropped. Catches room and copies that are given away
/// before the device has used them, and a wait that the end of a copy does not end.
#[test]
fn ordered_copies_keep_their_room_until_they_are_made() {
    shuttle::check_random(
        || {
            let job = Job::new(2 * LEN, 8 * LEN, false, true);
            let workers = [
                run(&job, |job| job.map(2 * LEN)),
                run(&job, |job| job.flush(&[])),
                run(&job, Job::fetch),
                run(&job, Job::device),
            ];
            for version in 0..3 {
                job.capture_from(version, Part::Device, Level::DEVICE, true).unwrap();
            }
            job.restore_in_order(2);
            job.capture_from(2, Part::Device, Level::DEVICE, true).unwrap();
            for version in (0..3).rev() {
                job.restore_in_order(version);
            }
            job.catalog.step(|state| state.removal().withdraw("x", 1));
            job.capture_from(3, Part::Device, Level::DEVICE, true).unwrap();
            job.catalog.wait(|state| (!state.arriving()).then_some(())).unwrap();
            job.restore(3, Part::Device);
            job.device.stop();
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// Hints that are given before their checkpoints are taken, one of which existed before: the fetches come in
/// their order, and all hints are used. Catches hints that are lost or left over, and a fetch of a checkpoint
/// that is being taken again.
#[test]
fn early_hints_order_the_fetches() {
    shuttle::check_random(
        || {
            let job = Job::read_in(RestoreOrder::Random, 2 * LEN, 8 * LEN, false, true);
            let fetched = Arc::new(Mutex::new(Vec::new()));
            let noted = fetched.clone();
            let workers = [
                run(&job, |job| job.map(2 * LEN)),
                run(&job, |job| job.flush(&[])),
                run(&job, move |job| job.fetch_noting(Level::DEVICE, &noted)),
            ];
            let order = [2, 0, 3, 1];
            job.capture(0, Part::Device, Level::DEVICE).unwrap();
            job.catalog.step(|state| order.map(|version| state.up().hint("x", version)));
            for version in 0..4 {
                job.capture(version, Part::Device, Level::DEVICE).unwrap();
            }
            job.catalog.step(|state| state.up().start_fetching());
            // There is room for the first two together.
            let here = |state: &mut State, version| {
                state.checkpoints().find("x", version).is_some_and(|id| state.on_device(id, 0))
            };
            job.catalog.wait(|state| (here(state, 2) && here(state, 0)).then_some(())).unwrap();
            for version in order {
                job.restore(version, Part::Device);
            }
            let fetched = fetched.lock().unwrap().clone();
            let mut rest = order.iter();
            assert!(fetched.iter().all(|one| rest.any(|next| next == one)), "{fetched:?}");
            job.catalog
                .read(|state| assert_eq!(state.has_work(Worker::Fetch(Level::DEVICE)), false));
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// A worker that has failed ends every wait.
#[test]
fn a_dead_worker_keeps_nobody_waiting() {
    shuttle::check_random(
        || {
            let job = Job::new(LEN, 4 * LEN, false, true);
            let workers = [
                run(&job, |job| job.map(LEN)),
                run(&job, |job| {
                    job.catalog.fail(Error::new(ErrorKind::Internal, "the flusher died"))
                }),
            ];
            let taken: Vec<_> =
                (0..3).map(|v| job.capture(v, Part::Device, Level::DEVICE)).collect();
            assert!(taken.iter().any(Result::is_err));
            end(&job, workers);
        },
        ITERATIONS,
    );
}

impl Job {
    /// A flusher to a store that compresses in steps of two bytes: odd versions take six bytes, and others two.
    fn pack_from(&self, level: Level) {
        let next = |state: &mut State| state.down().next_flush(level);
        while let Some(job) = self.catalog.next(Worker::Flush(level), next) {
            let takes = if job.version % 2 == 1 { 6 } else { 2 };
            let mut has: u64 = job.to.extents.iter().map(|extent| extent.len).sum();
            let mut stored = StoreResult::In(takes);
            while has < takes {
                thread::yield_now();
                match self.catalog.step(|state| state.down().more_room(&job, 2)) {
                    Some(more) => has += more.iter().map(|extent| extent.len).sum::<u64>(),
                    None => {
                        stored = StoreResult::Full(takes);
                        break;
                    }
                }
            }
            self.catalog.step(|state| state.down().stored(&job, stored));
            thread::yield_now();
            self.catalog.step(|state| state.down().flush_done(&job, MoveEnd::Done));
        }
    }
}

/// A level that grows by a checkpoint when a capture would wait, is refused that every second time, and gives back
/// what it can. Catches a capture that waits for memory that nobody is asked for or that was refused, and bytes that
/// are read from memory that was given back.
#[test]
fn a_level_grows_and_shrinks_beside_its_users() {
    shuttle::check_random(
        || {
            let sizes = [3 * LEN, 8 * LEN];
            let job = Job::of_levels(RestoreOrder::Reverse, &sizes, false, true);
            job.catalog.step(|state| {
                state.growth().expect_capacity(Level::DEVICE, LEN);
                state.growth().may_grow_to(Level::DEVICE, 3 * LEN);
            });
            let workers = [
                run(&job, |job| {
                    job.map(LEN);
                    job.grow();
                }),
                run(&job, |job| job.flush(&[])),
                run(&job, Job::fetch),
            ];
            there_and_back(&job);
            end(&job, workers);
        },
        ITERATIONS,
    );
}

/// Catches a flush that was refused and is not tried again when there is room, and a wait that nobody ends.
#[test]
fn a_store_that_compresses_is_tried_again_when_there_is_room() {
    shuttle::check_random(
        || {
            let mut state = State::new(Shape {
                memory: vec![
                    LevelSpec::device(0, LEN),
                    LevelSpec::host(2 * LEN, LEN),
                    LevelSpec {
                        name: "lower level",
                        captures: [false, false],
                        staging: false,
                        compresses: true,
                        ..LevelSpec::host(8, 2)
                    },
                ],
                scratch: false,
                persistent: false,
                ephemeral: true,
                order: RestoreOrder::Random,
                beside: Some(0),
            });
            state.growth().expect_capacity(Level::DEVICE, 0);
            let job = Arc::new(Job {
                catalog: Catalog::new(state),
                memory: [0, 2 * LEN, 8].map(|bytes| Mutex::new(vec![0; bytes as usize])).into(),
                deferred: Mutex::new(HashMap::new()),
                device: Calls::default(),
            });
            let workers = [run(&job, |job| job.pack_from(Level::HOST))];
            for version in 0..4 {
                job.capture(version, Part::Host, Level::HOST).unwrap();
            }
            let other = run(&job, |job| {
                job.catalog.step(|state| state.removal().withdraw("x", 0));
            });
            other.join().unwrap();
            job.capture(4, Part::Host, Level::HOST).unwrap();
            let other = run(&job, |job| {
                job.catalog.step(|state| state.removal().withdraw("x", 1));
            });
            job.catalog.wait_drained().unwrap();
            other.join().unwrap();
            job.catalog.wait_drained().unwrap();
            let free = job.catalog.read(|state| state.levels().room(Level::new(2)).1);
            assert_eq!(free, 0, "2 and 3 are there");
            for worker in workers {
                job.catalog.stop();
                worker.join().unwrap();
            }
        },
        ITERATIONS,
    );
}
