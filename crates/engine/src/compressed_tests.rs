//! Compressed host memory as a level below the host buffer: one row and one store.

#![allow(clippy::unwrap_used)] // A test stops at the first fault.

use crate::place::Place;
use crate::Engine;
use catalog::level::{self, LevelSpec, GRANULE};
use catalog::state::StoreResult;
use catalog::{Level, Part};
use config::Config;
use errors::Result;
use levels::compressed::CompressedMemory;
use levels::store::{Room, Store};
use proptest::prelude::*;
use recovery::Process;
use std::collections::BTreeMap;
use std::sync::Arc;

const COMPRESSED: Level = Level::new(2);
const LARGEST: usize = 200 << 10;

fn engine(capacity: u64) -> Engine {
    // One of the largest fits in the host buffer.
    let text = "mode = async\nephemeral = true\nhost_cache_size = 200K\nrestore_order = reverse\n";
    let (config, _) = Config::from_text(text, |_| None).unwrap();
    Engine::start_with(config, Process::single(0), None, vec![level(capacity)]).unwrap()
}

/// Row and store of compressed memory.
pub(super) fn level(capacity: u64) -> (LevelSpec, Box<dyn Store>) {
    (level::of_compressed(capacity), Box::new(CompressedMemory::reserve(capacity).unwrap()))
}

/// Bytes of which a quarter, a half, or all cannot be compressed.
fn content(seed: u32, len: usize, kind: u8) -> Vec<u8> {
    let hard = len / [4, 2, 1][usize::from(kind)];
    let mut state = seed | 1;
    let mut bytes = vec![seed as u8; len];
    for byte in &mut bytes[..hard] {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    bytes
}

/// The most room that the versions of a history take at once. While one is replaced, both are there.
fn most_room(steps: &[Step]) -> u64 {
    let (mut known, mut most) = (BTreeMap::new(), 0);
    for (step, seed) in steps.iter().zip(0..) {
        match *step {
            Step::Take(version, len, kind) => {
                let room = takes(&content(seed, len, kind));
                most = most.max(known.values().sum::<u64>() + room);
                known.insert(version, room);
            }
            Step::Cleanup => known.clear(),
            Step::Restore(_) | Step::Piece(..) => {}
        }
    }
    most
}

/// The room that bytes take, which the host buffer passes in pieces.
fn takes(bytes: &[u8]) -> u64 {
    let (memory, mut full) = (CompressedMemory::reserve(GRANULE).unwrap(), |_| None);
    let stored = memory.write(&mut Room::new(&[], &mut full), bytes).unwrap();
    let StoreResult::Full(needs) = stored else { panic!("no byte has room") };
    needs.next_multiple_of(GRANULE)
}

pub(super) fn take(engine: &Engine, version: i32, bytes: &[u8]) -> Result<()> {
    let mut open = engine.begin("x", version)?;
    let place = Place::plain(1, bytes.as_ptr(), bytes.len());
    let capturing = engine.shared.capturing();
    match capturing.capture(&mut open, &[place], Vec::new()) {
        Ok(()) => capturing.commit(open),
        Err(error) => {
            capturing.abort(open);
            Err(error)
        }
    }
}

pub(super) fn restored(engine: &Engine, version: i32, len: usize) -> Result<Vec<u8>> {
    let restores = engine.shared.restores();
    let restoring = restores.begin_restore("x", version, |_| Part::Host)?;
    let mut bytes = vec![0; len];
    let place = Place::plain(1, bytes.as_mut_ptr(), bytes.len());
    let recovered = restores.recover(&restoring, &[place], false);
    restores.end_restore(restoring, recovered.is_ok());
    recovered.map(|_| bytes)
}

/// Whether a version is there. Some of its bytes, read from a byte within it on, must be those of `bytes`.
fn has_piece(engine: &Engine, version: i32, bytes: &[u8], start: usize) -> bool {
    let start = start % bytes.len();
    let restores = engine.shared.restores();
    let Ok(restoring) = restores.begin_restore("x", version, |_| Part::Host) else { return false };
    let mut piece = vec![0; (bytes.len() - start).min(5000)];
    let region = restoring.regions[0];
    restores.read_piece(&restoring, &region, start as u64, &mut piece).unwrap();
    restores.end_restore(restoring, false);
    assert!(piece[..] == bytes[start..start + piece.len()], "version {version}");
    true
}

fn is_empty_after_a_clean_up(engine: &Engine) -> std::result::Result<(), TestCaseError> {
    engine.file_side().cleanup("x").unwrap();
    prop_assert!(engine.stop_workers());
    engine.shared.catalog.read(|state| {
        prop_assert_eq!(state.check(), Ok(()));
        let used = [Level::HOST, COMPRESSED].map(|level| state.levels().used(level));
        prop_assert_eq!(used, [0, 0]);
        Ok(())
    })
}

#[derive(Clone, Debug)]
enum Step {
    Take(i32, usize, u8),
    Restore(i32),
    Piece(i32, usize),
    Cleanup,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..12i32, 1..LARGEST, 0..3u8).prop_map(|(v, len, kind)| Step::Take(v, len, kind)),
        4 => (0..12i32).prop_map(Step::Restore),
        2 => (0..12i32, 0..LARGEST).prop_map(|(v, start)| Step::Piece(v, start)),
        1 => Just(Step::Cleanup),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Catches a capture that fails while there is room for what its bytes take, bytes that come back changed, and
    /// room that stays after a clean-up.
    #[test]
    fn nothing_fails_while_there_is_room(steps in prop::collection::vec(step(), 1..60)) {
        let engine = engine(most_room(&steps).max(GRANULE));
        let mut known: BTreeMap<i32, Arc<[u8]>> = BTreeMap::new();
        // What was read once may be discarded for others.
        let mut consumed: Vec<i32> = Vec::new();
        for (step, seed) in steps.into_iter().zip(0..) {
            match step {
                Step::Take(version, len, kind) => {
                    let bytes: Arc<[u8]> = content(seed, len, kind).into();
                    if let Err(error) = take(&engine, version, &bytes) {
                        return Err(TestCaseError::fail(format!("version {version}: {error}")));
                    }
                    known.insert(version, bytes);
                    consumed.retain(|other| *other != version);
                }
                Step::Restore(version) => {
                    let Some(bytes) = known.get(&version) else { continue };
                    match restored(&engine, version, bytes.len()) {
                        Ok(found) => prop_assert!(found[..] == bytes[..], "version {version}"),
                        Err(error) => prop_assert!(consumed.contains(&version), "{version}: {error}"),
                    }
                    consumed.push(version);
                }
                Step::Piece(version, start) => {
                    let Some(bytes) = known.get(&version) else { continue };
                    if !has_piece(&engine, version, bytes, start) {
                        prop_assert!(consumed.contains(&version), "version {version}");
                    }
                }
                Step::Cleanup => {
                    engine.file_side().cleanup("x").unwrap();
                    known.clear();
                    consumed.clear();
                }
            }
        }
        is_empty_after_a_clean_up(&engine)?;
    }
}

/// An ephemeral job that spills, with too little compressed memory. Nothing fails, whatever is dropped.
fn spilling(
    steps: Vec<Step>,
    capacity: u64,
    order: &str,
) -> std::result::Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "mode = async\nephemeral = true\nhost_cache_size = 200K\nrestore_order = {order}\nscratch = {}\n",
        folder.path().display()
    );
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let engine =
        Engine::start_with(config, Process::single(0), None, vec![level(capacity)]).unwrap();
    let mut known: BTreeMap<i32, Arc<[u8]>> = BTreeMap::new();
    for (step, seed) in steps.into_iter().zip(0..) {
        match step {
            Step::Take(version, len, kind) => {
                let bytes: Arc<[u8]> = content(seed, len, kind).into();
                if let Err(error) = take(&engine, version, &bytes) {
                    return Err(TestCaseError::fail(format!("version {version}: {error}")));
                }
                known.insert(version, bytes);
            }
            Step::Restore(version) => {
                let Some(bytes) = known.get(&version) else { continue };
                match restored(&engine, version, bytes.len()) {
                    Ok(found) => prop_assert!(found[..] == bytes[..], "version {version}"),
                    Err(error) => return Err(TestCaseError::fail(format!("{version}: {error}"))),
                }
                if seed % 5 == 0 {
                    engine.drain().unwrap();
                }
            }
            Step::Piece(version, start) => {
                if start % 3 == 0 {
                    engine.shared.catalog.step(|state| state.removal().withdraw("x", version));
                    known.remove(&version);
                    continue;
                }
                let Some(bytes) = known.get(&version) else { continue };
                prop_assert!(has_piece(&engine, version, bytes, start), "version {version}");
            }
            Step::Cleanup => {
                engine.file_side().cleanup("x").unwrap();
                known.clear();
            }
        }
    }
    engine.drain().unwrap();
    for (version, bytes) in &known {
        let found = restored(&engine, *version, bytes.len());
        prop_assert!(found.unwrap()[..] == bytes[..], "version {version}");
    }
    is_empty_after_a_clean_up(&engine)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Catches bytes that are lost on their way past a level that is too small, or room of theirs that stays.
    #[test]
    fn a_job_that_spills_loses_nothing(
        steps in prop::collection::vec(step(), 1..60),
        capacity in 1..(600u64 << 10),
        order in prop_oneof![Just("reverse"), Just("same"), Just("random")],
    ) {
        spilling(steps, capacity.next_multiple_of(GRANULE), order)?;
    }
}
