//! Checkpoints that find no room, or are never ended.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::*;
use crate::Engine;
use catalog::state::Worker;
use config::Config;
use levels::host_buffer::HostBuffer;
use os::mapping::Mapping;
use os::shared::SharedMemory;
use recovery::Process;

/// If the system refuses a page, a write to it kills the process. Catches a capture that writes without
/// checking.
#[test]
fn what_the_system_has_no_memory_for_goes_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("mode = async\nscratch = {}\n", directory.path().display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let memory = SharedMemory::create_refusing("veloc-test", 4 << 20).unwrap();
    let host = HostBuffer::over(Mapping::of(&memory).unwrap(), 1 << 20, false);
    let host = Some(host.may_be_refused());
    memory.refuse_from(1 << 20).unwrap();
    let engine =
        Engine::take_over(config, Process::single(0), &Vec::new(), host, &[], None).unwrap();
    let bytes = vec![7u8; 3 << 20];
    let mut open = engine.begin("x", 1).unwrap();
    let place = Place::plain(1, bytes.as_ptr(), bytes.len());
    engine.shared.capturing().capture(&mut open, &[place], Vec::new()).unwrap();
    engine.shared.capturing().commit(open).unwrap();
    let file = std::fs::read(directory.path().join("x-0-1.dat")).unwrap();
    assert!(file.ends_with(&bytes));
    // A checkpoint that fits in memory is not written to a file by the application.
    let mut open = engine.begin("x", 2).unwrap();
    engine
        .shared
        .capturing()
        .capture(&mut open, &[Place { len: 1 << 19, ..place }], Vec::new())
        .unwrap();
    assert!(open.spool.is_none());
    engine.shared.capturing().commit(open).unwrap();
    engine.drain().unwrap();
}

/// Catches a part of an aggregated file that is read from scratch although the application waits with the
/// bytes in its memory; one that is written from memory that may have changed; and a claim that is never
/// returned, so that the copy is never made.
#[test]
fn a_part_is_written_from_what_the_application_has() {
    let directory = tempfile::tempdir().unwrap();
    let folder = |name: &str| directory.path().join(name);
    let text = format!(
        "mode = sync\nscratch = {}\npersistent = {}\nmeta = {}\naggregated = true\n",
        folder("scratch").display(),
        folder("persistent").display(),
        folder("meta").display()
    );
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let engine = Engine::start(config, Process::single(0), None).unwrap();
    let contents = [(2, vec![1u8; 5000]), (7, Vec::new()), (9, vec![2; 70_000])];
    let plain = |(id, bytes): &(i32, Vec<u8>)| Place::plain(*id, bytes.as_ptr(), bytes.len());
    let places: Vec<Place> = contents.iter().map(plain).collect();
    for (version, from_memory) in [(1, true), (2, false)] {
        let mut open = engine.begin("x", version).unwrap();
        open.decide_to_persist(Some(false));
        let id = open.id;
        engine.shared.capturing().capture(&mut open, &places, Vec::new()).unwrap();
        engine.shared.capturing().commit(open).unwrap();
        let scratch = folder("scratch").join(format!("x-0-{version}.dat"));
        let written = std::fs::read(&scratch).unwrap();
        let len = written.len();
        // Different from the application's bytes.
        std::fs::write(&scratch, vec![0; len]).unwrap();
        let place = format::aggregate::AggregatePart {
            offset: 0,
            ranks: 1,
            identity: format::identity::Identity { run: 1, generation: 0 },
            attempt: version as u64,
        };
        let claim = engine.shared.capturing().claim(id);
        engine.shared.catalog.step(|state| state.captures().want_persistent(id, Some(place)));
        claim.copy(from_memory.then_some(&places[..])).unwrap();
        let part = folder("persistent").join(format!("x-agg-{version}.dat"));
        let expected = if from_memory { written } else { vec![0; len] };
        assert!(std::fs::read(part).unwrap() == expected, "version {version}");
    }
}

/// Catches a claim that is not returned, so that a wait for the copy lasts for ever.
#[test]
fn a_claim_that_is_not_used_is_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        format!("mode = sync\nscratch = {0}/s\npersistent = {0}/p\n", directory.path().display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let engine = Engine::start(config, Process::single(0), None).unwrap();
    let bytes = [7u8; 100];
    let mut open = engine.begin("x", 1).unwrap();
    open.decide_to_persist(Some(false));
    let id = open.id;
    engine
        .shared
        .capturing()
        .capture(&mut open, &[Place::plain(1, bytes.as_ptr(), bytes.len())], Vec::new())
        .unwrap();
    engine.shared.capturing().commit(open).unwrap();
    let settling = catch_unwind(AssertUnwindSafe(|| {
        let _claim = engine.shared.capturing().claim(id);
        engine.shared.catalog.step(|state| state.captures().want_persistent(id, None));
        panic!("as a fault of the library would");
    }));
    assert!(settling.is_err());
    engine.drain().unwrap();
    assert!(directory.path().join("p/x-0-1.dat").exists());
}

/// Catches a checkpoint that keeps its room although it can never be ended.
#[test]
fn a_checkpoint_that_is_dropped_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().join("s");
    let text = format!("mode = async\nscratch = {}\nhost_cache_size = 4M\n", scratch.display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let engine = Engine::start(config, Process::single(0), None).unwrap();
    let bytes = vec![7u8; 5 << 20];
    let place = |mib: usize| Place::plain(1, bytes.as_ptr(), mib << 20);
    // In the host buffer, and in a file that is larger.
    for mib in [3, 5] {
        let mut open = engine.begin("x", 1).unwrap();
        engine.shared.capturing().capture(&mut open, &[place(mib)], Vec::new()).unwrap();
        assert_eq!(open.spool.is_some(), mib == 5);
        drop(open);
        assert_eq!(
            engine
                .shared
                .catalog
                .read(|state| [Level::DEVICE, Level::HOST].map(|level| state.levels().used(level))),
            [0, 0]
        );
        assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0);
    }
}

/// Catches a checkpoint that is refused because memory became short while it waited for room, although a file
/// could take it.
#[test]
fn what_a_shrunken_host_buffer_cannot_take_goes_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        format!("mode = async\nscratch = {}\nhost_cache_size = 4M\n", directory.path().display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let engine = Engine::start(config, Process::single(0), None).unwrap();
    let bytes = vec![7u8; 3 << 20];
    let place = |len: usize| Place::plain(1, bytes.as_ptr(), len << 20);
    let mut first = engine.begin("x", 1).unwrap();
    let mut second = engine.begin("x", 2).unwrap();
    // The first one's file gets no name, so its room is not freed.
    let naming = engine.shared.file_side.naming.lock();
    engine.shared.capturing().capture(&mut first, &[place(2)], Vec::new()).unwrap();
    engine.shared.capturing().commit(first).unwrap();
    while engine.shared.catalog.read(|state| state.has_work(Worker::Write)) {
        std::thread::yield_now();
    }
    let before = engine.shared.catalog.read(State::changes);
    std::thread::scope(|scope| {
        let captured =
            scope.spawn(|| engine.shared.capturing().capture(&mut second, &[place(3)], Vec::new()));
        while engine.shared.catalog.read(State::changes) == before {
            std::thread::yield_now();
        }
        engine.shared.catalog.step(|state| state.growth().limit(Level::HOST, 0));
        drop(naming);
        captured.join().unwrap().unwrap();
    });
    assert!(second.spool.is_some());
    engine.shared.capturing().commit(second).unwrap();
}

/// A region is lent, another is copied in its call, and a third one has no room in memory. Catches a lent region whose bytes
/// are not in the file, as a capture that defers nothing has begun what an earlier one has deferred.
#[test]
fn what_was_lent_before_the_file_began_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        format!("mode = async\nscratch = {}\nhost_cache_size = 4M\n", directory.path().display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let engine = Engine::start(config, Process::single(0), None).unwrap();
    let regions: Vec<Vec<u8>> = (1..=3).map(|id| vec![id; 3 << 19]).collect();
    let mut open = engine.begin("x", 1).unwrap();
    for (bytes, id) in regions.iter().zip(1..) {
        let capture = if id == 1 { Capture::Lent } else { Capture::Copy };
        let place = Place { capture, ..Place::plain(id, bytes.as_ptr(), bytes.len()) };
        engine.shared.capturing().capture(&mut open, &[place], Vec::new()).unwrap();
    }
    assert!(open.spool.is_some());
    engine.shared.capturing().commit(open).unwrap();
    let file = std::fs::read(directory.path().join("x-0-1.dat")).unwrap();
    assert!(file.ends_with(&regions.concat()));
}
