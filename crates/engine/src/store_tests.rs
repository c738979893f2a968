//! A fifth level takes one row and one store.

#![allow(clippy::unwrap_used, clippy::panic)] // A test stops at the first fault.

use crate::compressed_tests::restored;
use crate::place::Place;
use crate::run::stop;
use crate::Engine;
use catalog::level::{self, LevelSpec};
use catalog::space::{cut, Extent};
use catalog::state::{Source, StoreResult};
use catalog::Level;
use config::Config;
use errors::{Error, ErrorKind, Result};
use levels::host_buffer::HostBuffer;
use levels::store::{GoOn, Put, Room, Store, PIECE};
use os::sync::Mutex;
use recovery::Process;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use trace::metrics::Stop;

const CHECKPOINT: usize = 1 << 20;

/// Memory that neither the processor nor a device can address, like a drive's. Bytes are stored inverted, so
/// that they are not confused with another level's.
#[derive(Debug)]
struct Drive {
    bytes: Mutex<Vec<u8>>,
    refuses: bool,
}

impl Store for Drive {
    fn read(&self, copy: &[Extent], range: Range<u64>, put: &mut Put<'_>) -> Result<()> {
        for place in cut(copy, range.start, range.end - range.start) {
            let from = place.offset as usize..(place.offset + place.len) as usize;
            let turned: Vec<u8> = self.bytes.lock()[from].iter().map(|byte| !byte).collect();
            turned.chunks(100_000).try_for_each(&mut *put)?;
        }
        Ok(())
    }

    fn write(&self, room: &mut Room<'_>, bytes: &[u8]) -> Result<StoreResult> {
        if self.refuses {
            return Err(Error::new(ErrorKind::System, "the drive is broken"));
        }
        room.put(bytes.len() as u64, |place, range| {
            let to = place.offset as usize..(place.offset + place.len) as usize;
            for (to, from) in self.bytes.lock()[to].iter_mut().zip(&bytes[range]) {
                *to = !from;
            }
            Ok(())
        })
    }
}

fn engine(refuses: bool, more: &str) -> Engine {
    let text = format!(
        "mode = async\nephemeral = true\nhost_cache_size = 3M\nrestore_order = reverse\n{more}"
    );
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let capacity = 16 << 20;
    let row = LevelSpec {
        name: "drive",
        key: "drive_size",
        granule: 4096,
        captures: [false, false],
        staging: false,
        ..LevelSpec::host(capacity, 1)
    };
    let bytes = Mutex::new(vec![0; capacity as usize]);
    let drive = Box::new(Drive { bytes, refuses });
    Engine::start_with(config, Process::single(0), None, vec![(row, drive)]).unwrap()
}

/// A drive whose first write stops before and behind its question whether to go on.
#[derive(Debug)]
struct Asking {
    drive: Drive,
    steps: Arc<Barrier>,
    is_first: AtomicBool,
}

impl Store for Asking {
    fn read(&self, copy: &[Extent], range: Range<u64>, put: &mut Put<'_>) -> Result<()> {
        self.drive.read(copy, range, put)
    }

    fn write(&self, room: &mut Room<'_>, bytes: &[u8]) -> Result<StoreResult> {
        self.drive.write(room, bytes)
    }

    fn write_from(
        &self,
        room: &mut Room<'_>,
        host: &HostBuffer,
        from: &[Extent],
        len: u64,
        go_on: &GoOn<'_>,
    ) -> Result<StoreResult> {
        if self.is_first.swap(false, Ordering::Relaxed) {
            self.steps.wait();
            self.steps.wait();
            let said = go_on();
            self.steps.wait();
            self.steps.wait();
            said?;
        }
        self.drive.write_from(room, host, from, len, go_on)
    }
}

/// What is being flushed is restored, and wanted once more as soon as the flush was told to end. Catches a flush that is
/// told as a failure of the drive.
#[test]
fn a_flush_in_vain_that_is_of_use_again_has_not_failed() {
    let text = "mode = async\nephemeral = true\nhost_cache_size = 3M\nrestore_order = reverse\n";
    let (config, _) = Config::from_text(text, |_| None).unwrap();
    let (capacity, steps) = (16 << 20, Arc::new(Barrier::new(2)));
    let drive = Drive { bytes: Mutex::new(vec![0; capacity as usize]), refuses: false };
    let store = Asking { drive, steps: steps.clone(), is_first: AtomicBool::new(true) };
    let row = level::of_drive(capacity, 4096);
    let lower: Vec<(LevelSpec, Box<dyn Store>)> = vec![(row, Box::new(store))];
    let engine = Engine::start_with(config, Process::single(0), None, lower).unwrap();
    take(&engine, 0).unwrap();
    steps.wait();
    let whole = vec![0; CHECKPOINT];
    assert!(restored(&engine, 0, CHECKPOINT).unwrap() == whole);
    steps.wait();
    steps.wait();
    engine.order().hint("x", 0);
    steps.wait();
    engine.drain().unwrap();
    for version in 1..6 {
        take(&engine, version).unwrap();
    }
    engine.drain().unwrap();
    assert!(restored(&engine, 0, CHECKPOINT).unwrap() == whole);
}

fn take(engine: &Engine, version: i32) -> Result<()> {
    let bytes = vec![version as u8; CHECKPOINT];
    // Failures in the background are told, each once.
    let mut open =
        std::iter::repeat_with(|| engine.begin("x", version)).find_map(Result::ok).unwrap();
    let place = Place::plain(1, bytes.as_ptr(), bytes.len());
    engine.shared.capturing().capture(&mut open, &[place], Vec::new())?;
    engine.shared.capturing().commit(open)
}

/// Catches a job whose end waits for the whole of a file that its successor will write.
#[test]
fn what_is_being_written_ends_with_the_engine() {
    let text = "mode = async\nephemeral = true\nhost_cache_size = 64M\n";
    let (config, _) = Config::from_text(text, |_| None).unwrap();
    let engine = Engine::start(config, Process::single(0), None).unwrap();
    let shared = &engine.shared;
    let (mut passed, whole) = (0, Extent { offset: 0, len: 64 << 20 });
    let read = |stops: bool, passed: &mut usize| {
        let source = Source { level: Level::HOST, extents: [whole].into() };
        shared.read_copy(&source, 0..whole.len, |piece| {
            *passed += piece.len();
            if stops {
                shared.stop();
            }
            Ok(())
        })
    };
    read(false, &mut passed).unwrap();
    assert_eq!(passed as u64, whole.len);
    passed = 0;
    assert!(read(true, &mut passed).is_err());
    assert_eq!(passed, PIECE);
}

/// Catches a thread that waits for another one, which has ended without a word, and is left behind.
#[test]
fn all_threads_end_whatever_is_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let text = format!(
        "mode = async\nscratch = {at}/s\npersistent = {at}/p\nhost_cache_size = 64M\nsync_files = none\n"
    );
    for version in 0..8 {
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::single(0), None).unwrap();
        let bytes = vec![version as u8; 48 << 20];
        let mut open = engine.begin("x", version).unwrap();
        let place = Place::plain(1, bytes.as_ptr(), bytes.len());
        engine.shared.capturing().capture(&mut open, &[place], Vec::new()).unwrap();
        engine.shared.capturing().commit(open).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3 * version as u64));
        assert!(engine.stop_workers(), "a thread is left behind");
    }
}

/// Catches a level whose bytes are not the checkpoint's, or are not found, or that does not make room above.
#[test]
fn checkpoints_overflow_to_one_more_level_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let timeline = folder.path().join("timeline");
    let engine = engine(false, &format!("trace = {}\n", timeline.display()));
    for version in 0..10 {
        take(&engine, version).unwrap();
    }
    for version in (0..10).rev() {
        let restoring =
            engine.shared.restores().begin_restore("x", version, |_| catalog::Part::Host).unwrap();
        let mut bytes = vec![99; CHECKPOINT];
        let place = Place::plain(1, bytes.as_mut_ptr(), bytes.len());
        engine.shared.restores().recover(&restoring, &[place], false).unwrap();
        engine.shared.restores().end_restore(restoring, true);
        assert!(bytes.iter().all(|&byte| byte == version as u8), "version {version}");
    }
    let drive = stop(Level::new(2));
    let moved = |hop| engine.shared.telemetry.metrics.hop(hop).amount();
    assert!(moved((Stop::HOST, drive)) >= 7 * CHECKPOINT as u64);
    assert!(moved((drive, Stop::HOST)) + moved((drive, Stop::Application)) > 0);
    assert_eq!(engine.shared.catalog.read(|state| state.check()), Ok(()));
    drop(engine);
    let text = std::fs::read(timeline).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
    let used = events.iter().filter(|event| event["name"] == "lower used");
    let most = used.filter_map(|event| event["args"]["bytes"].as_u64()).max();
    assert!(most >= Some(7 * CHECKPOINT as u64), "{most:?} bytes of the level in the timeline");
}

/// Catches a job with files whose checkpoints a kill would lose, as they are below the host buffer alone.
#[test]
fn a_job_with_files_has_no_level_below_the_host_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("mode = async\nscratch = {}\n", folder.path().display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let lower = vec![crate::compressed_tests::level(1 << 20)];
    let refused = Engine::start_with(config, Process::single(0), None, lower).unwrap_err();
    assert!(
        refused.to_string().contains("compressed_cache_size is for a job with ephemeral"),
        "{refused}"
    );
}

/// Catches a failure below that is not reported, and a checkpoint that is lost by it.
#[test]
fn a_level_that_fails_is_named_and_nothing_is_lost() {
    let engine = engine(true, "");
    let taken: Vec<_> = (0..5).map(|version| take(&engine, version)).collect();
    let error = taken.iter().find_map(|taken| taken.as_ref().err()).unwrap().to_string();
    assert!(error.contains("host buffer") && error.contains("the drive is broken"), "{error}");
    for (version, taken) in taken.iter().enumerate().filter(|(_, taken)| taken.is_ok()) {
        engine
            .shared
            .restores()
            .can_restore("x", version as i32)
            .unwrap_or_else(|e| panic!("{taken:?}, then {e}"));
    }
}
