//! Ephemeral jobs with a drive below the host buffer.

#![allow(clippy::unwrap_used, clippy::panic)] // A test stops at the first fault.

use crate::compressed_tests::{restored, take};
use crate::run::stop;
use crate::Engine;
use catalog::level::{self, LevelSpec};
use catalog::Level;
use config::Config;
use levels::drive::Drive;
use levels::store::Store;
use proptest::prelude::*;
use recovery::Process;
use std::collections::BTreeMap;
use std::sync::Arc;
use trace::metrics::Stop;

const DRIVE: Level = Level::new(2);
const CHECKPOINT: usize = 1 << 20;
const LARGEST: usize = 200 << 10;

/// A drive in a directory that is not in memory, by io_uring or by threads.
fn drive(bytes: u64, by_threads: bool) -> Drive {
    let folder =
        tempfile::tempdir_in(os::mounts::on_a_drive(env!("CARGO_MANIFEST_DIR").as_ref())).unwrap();
    let drive = Drive::open(folder.path(), bytes).unwrap();
    if by_threads {
        drive.without_rings()
    } else {
        drive
    }
}

fn engine(host: usize, drive: Drive, more: &str) -> Engine {
    let text = format!("mode = async\nephemeral = true\nhost_cache_size = {host}B\n{more}");
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let row = level::of_drive(drive.len(), drive.block());
    let lower: Vec<(LevelSpec, Box<dyn Store>)> = vec![(row, Box::new(drive))];
    Engine::start_with(config, Process::single(0), None, lower).unwrap()
}

/// Bytes that differ from one version, and one place, to the next.
fn content(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(seed | 1) >> 5) as u8 ^ seed as u8).collect()
}

fn moved(engine: &Engine, hop: (Stop, Stop)) -> u64 {
    engine.shared.telemetry.metrics.hop(hop).amount()
}

/// Three times what the host buffer has room for, back in reverse order. Catches a drive whose bytes are not the
/// checkpoint's, and that is not read ahead.
#[test]
fn a_job_of_three_times_the_host_buffer() {
    for by_threads in [false, true] {
        let engine = engine(4 * CHECKPOINT, drive(12 << 20, by_threads), "");
        for version in 0..12 {
            take(&engine, version, &content(version as u32, CHECKPOINT)).unwrap();
        }
        engine.drain().unwrap();
        let down = moved(&engine, (Stop::HOST, stop(DRIVE)));
        assert!(down >= 8 * CHECKPOINT as u64, "{down}");
        for version in (0..12).rev() {
            let bytes = restored(&engine, version, CHECKPOINT).unwrap();
            assert!(bytes == content(version as u32, CHECKPOINT), "version {version}");
        }
        let up = moved(&engine, (stop(DRIVE), Stop::HOST));
        assert!(up > 0, "nothing was fetched ahead");
        assert_eq!(engine.shared.catalog.read(|state| state.check()), Ok(()));
    }
}

/// Catches an error of the drive that is not told or names no version, one that takes other versions with it, and bytes
/// that are lost although the host buffer has them.
#[test]
fn a_version_on_a_broken_extent_is_named_and_the_next_is_fine() {
    for by_threads in [false, true] {
        let drive = drive(32 << 20, by_threads);
        drive.break_at(CHECKPOINT as u64 + 5000..CHECKPOINT as u64 + 5001);
        let engine = engine(4 * CHECKPOINT, drive, "");
        let mut told = Vec::new();
        for version in 0..12 {
            let bytes = content(version as u32, CHECKPOINT);
            // Failures in the background are told, each once.
            while let Err(error) = take(&engine, version, &bytes) {
                told.push(error.to_string());
                assert!(told.len() < 9, "{told:?}");
            }
        }
        told.extend(engine.drain().err().map(|error| error.to_string()));
        assert_eq!(told.len(), 1, "{told:?}");
        let words = ["checkpoint \"x\" version 1", "the drive /", "writing 1048576 bytes at"];
        assert!(words.iter().all(|word| told[0].contains(word)), "{told:?}");
        for version in (0..12).rev() {
            let bytes = restored(&engine, version, CHECKPOINT).unwrap();
            assert!(bytes == content(version as u32, CHECKPOINT), "version {version}");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Take(i32, usize),
    Restore(i32),
    Hint(i32),
    Cleanup,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..12i32, 1..LARGEST).prop_map(|(v, len)| Step::Take(v, len)),
        6 => (0..12i32).prop_map(Step::Restore),
        2 => (0..12i32).prop_map(Step::Hint),
        1 => Just(Step::Cleanup),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Catches bytes that come back changed, a version that is lost before it was read, and room that stays.
    #[test]
    fn any_history(
        steps in prop::collection::vec(step(), 1..60),
        by_threads: bool,
        order in prop_oneof![Just("reverse"), Just("same"), Just("random")],
    ) {
        // Room for all versions, twice, as one that is replaced is there until the new one is.
        let drive = drive(24 * LARGEST as u64, by_threads);
        let engine = engine(2 * LARGEST, drive, &format!("restore_order = {order}\n"));
        let mut known: BTreeMap<i32, Arc<[u8]>> = BTreeMap::new();
        // What was read once may be discarded for others.
        let mut consumed: Vec<i32> = Vec::new();
        for (step, seed) in steps.into_iter().zip(0..) {
            match step {
                Step::Take(version, len) => {
                    let bytes: Arc<[u8]> = content(seed, len).into();
                    if let Err(error) = take(&engine, version, &bytes) {
                        return Err(TestCaseError::fail(format!("version {version}: {error}")));
                    }
                    known.insert(version, bytes);
                    consumed.retain(|other| *other != version);
                }
                Step::Restore(version) => {
                    let Some(bytes) = known.get(&version) else { continue };
                    match restored(&engine, version, bytes.len()) {
                        Ok(found) => prop_assert!(found[..] == bytes[..], "version {}", version),
                        Err(error) => prop_assert!(consumed.contains(&version), "{}: {}", version, error),
                    }
                    consumed.push(version);
                }
                Step::Hint(version) => {
                    engine.order().hint("x", version);
                    engine.order().start_fetching();
                }
                Step::Cleanup => {
                    engine.file_side().cleanup("x").unwrap();
                    known.clear();
                    consumed.clear();
                }
            }
        }
        engine.file_side().cleanup("x").unwrap();
        prop_assert!(engine.stop_workers());
        engine.shared.catalog.read(|state| {
            prop_assert_eq!(state.check(), Ok(()));
            prop_assert_eq!([Level::HOST, DRIVE].map(|level| state.levels().used(level)), [0, 0]);
            Ok(())
        })?;
    }
}
