//! Files of a checkpoint in scratch and in persistent that are written at the same time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test stops at the first fault.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::place::Place;
use crate::Engine;
use catalog::FileLevel;
use config::Config;
use format::proof;
use os::{attributes, times};
use recovery::Process;

/// A job of one process, and its folder.
struct Job {
    folder: tempfile::TempDir,
    engine: Engine,
}

impl Job {
    fn new(more: &str) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let text = format!("scratch = {at}/scratch\npersistent = {at}/persistent\n{more}");
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        Job { folder, engine: Engine::start(config, Process::single(0), None).unwrap() }
    }

    fn take(&self, version: i32, calls: &[&[(i32, &[u8])]]) -> errors::Result<()> {
        let mut open = self.engine.begin("x", version).unwrap();
        for regions in calls {
            let place = |(id, bytes): &(i32, &[u8])| Place::plain(*id, bytes.as_ptr(), bytes.len());
            let places: Vec<Place> = regions.iter().map(place).collect();
            self.engine.shared.capturing().capture(&mut open, &places, Vec::new())?;
        }
        self.engine.shared.capturing().commit(open)
    }

    fn paths(&self, version: i32) -> [PathBuf; 2] {
        ["scratch", "persistent"]
            .map(|level| self.folder.path().join(level).join(format!("x-0-{version}.dat")))
    }

    /// Both files are the same, and nothing else is in their folders.
    fn check(&self, version: i32, content: &[u8]) {
        let paths = self.paths(version);
        let [scratch, persistent] = paths.each_ref().map(|path| fs::read(path).unwrap());
        assert!(scratch == persistent, "version {version}: two contents");
        assert!(scratch.ends_with(content), "version {version}: another content");
        let [scratch, persistent] = paths.each_ref().map(|path| times::modified(path).unwrap());
        assert_eq!(scratch, persistent);
        let proofs = paths.each_ref().map(|path| proof_of(path));
        assert_eq!(proofs[0], proofs[1]);
        for path in &paths {
            let names = fs::read_dir(path.parent().unwrap()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let others: Vec<String> = names.filter(|name| !name.starts_with("x-0-")).collect();
            assert!(others.is_empty(), "{others:?}");
        }
    }
}

fn proof_of(path: &Path) -> Option<Vec<u8>> {
    attributes::get(&File::open(path).unwrap(), proof::NAME, path).unwrap()
}

fn content(version: i32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 11)) as u8 ^ version as u8).collect()
}

/// Catches two files that differ, a persistent file that has another age or proof than a copy has, and what is
/// left of a file that was not needed.
#[test]
fn both_files_are_the_same_whoever_writes_them() {
    for mode in ["mode = sync\n", "mode = async\nhost_cache_size = 16M\n"] {
        for sync in ["none", "full"] {
            let job = Job::new(&format!("{mode}sync_files = {sync}\n"));
            for (version, len) in [(1, 100), (2, 5 << 20), (3, 0), (2, (6 << 20) + 1)] {
                let bytes = content(version, len);
                job.take(version, &[&[(1, &bytes), (4, b"end")]]).unwrap();
                job.engine.drain().unwrap();
                job.check(version, &[&bytes, &b"end"[..]].concat());
            }
        }
    }
}

/// The host buffer has room for little more than one checkpoint. Catches a persistent file that is continued
/// at the wrong place, or from another checkpoint's scratch file, when its memory is needed.
#[test]
fn memory_that_is_needed_is_given_back_in_the_middle_of_a_file() {
    let job = Job::new("mode = async\nhost_cache_size = 12M\nsync_files = none\n");
    let take = |round: i32| {
        let bytes = content(round, (5 << 20) + 1000 * round as usize);
        job.take(round % 7, &[&[(1, &bytes)]]).unwrap();
        bytes
    };
    let taken: Vec<Vec<u8>> = (0..21).map(take).collect();
    job.engine.drain().unwrap();
    for round in 14..21 {
        job.check(round % 7, &taken[round as usize]);
    }
}

/// Catches a second file whose regions are in the order of the calls, or that lacks some.
#[test]
fn what_is_captured_in_parts_is_a_copy() {
    let job = Job::new("mode = sync\n");
    let [first, second] = [content(1, 2 << 20), content(2, 3 << 20)];
    job.take(1, &[&[(7, &first)], &[(2, &second)]]).unwrap();
    job.check(1, &[&second[..], &first[..]].concat());
}

/// Catches an error of persistent that ends the checkpoint in scratch, and one that is not reported.
#[test]
fn scratch_has_its_file_whatever_persistent_says() {
    for len in [100, 3 << 20] {
        let job = Job::new("mode = sync\n");
        let persistent = job.folder.path().join("persistent");
        fs::remove_dir(&persistent).unwrap();
        fs::write(&persistent, "no directory").unwrap();
        let bytes = content(1, len);
        let error = job.take(1, &[&[(1, &bytes)]]).unwrap_err();
        assert!(error.to_string().contains("persistent"), "{error}");
        assert!(fs::read(&job.paths(1)[0]).unwrap().ends_with(&bytes));
        let has = |level| {
            job.engine.shared.catalog.read(|state| state.checkpoints().has_file("x", 1, level))
        };
        assert!(has(FileLevel::Scratch) && !has(FileLevel::Persistent));
    }
}
