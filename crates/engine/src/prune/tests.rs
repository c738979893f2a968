//! Limits of versions in the backend, which writes what a killed job has left.

use std::borrow::Cow;

use crate::Engine;
use catalog::ledger::{self, Ledger, Record, Standing};
use catalog::space::Extent;
use catalog::{Part, Region};
use config::Config;
use format::identity::Identity;
use levels::host_buffer::HostBuffer;
use os::files;
use os::mapping::Mapping;
use os::shared::SharedMemory;
use recovery::Process;

const BYTES: u64 = 1 << 16;

/// What a killed job of this run has left in memory is written: these versions.
fn write(text: &str, versions: &[i32], run: u64) {
    write_of(text, versions, Identity { run, generation: 0 });
}

fn write_of(text: &str, versions: &[i32], identity: Identity) {
    let (config, _) = Config::from_text(text, |_| None).unwrap();
    let memory = SharedMemory::create("veloc-test", 4 << 20).unwrap();
    let record = |version: i32| Record {
        id: version as u64,
        name: Cow::Borrowed("x"),
        version,
        identity,
        may_replace: false,
        routed: None,
        place: None,
        regions: Cow::Owned(vec![Region {
            id: 0,
            size: BYTES,
            part: Part::Host,
            offset: 0,
            decoded: None,
        }]),
        mark: None,
        parts: [
            (0, Cow::Owned(Vec::new())),
            (BYTES, Cow::Owned(vec![Extent { offset: version as u64 * BYTES, len: BYTES }])),
        ],
    };
    let of_job = SharedMemory::create("veloc-test", 1 << 20).unwrap();
    let mut ledger = Ledger::new(of_job.words().unwrap()).unwrap();
    for version in versions {
        let standing = Standing { in_host: true, ..Standing::default() };
        ledger.put(&record(*version), standing).unwrap();
    }
    let host = HostBuffer::over(Mapping::of(&memory).unwrap(), 1 << 20, false);
    let left = ledger::read(of_job.words().unwrap()).unwrap();
    let (process, nowhere) = (Process::single(0), Vec::new());
    let engine = Engine::take_over(config, process, &nowhere, Some(host), &left, None).unwrap();
    engine.drain().unwrap();
}

/// A job had written its newest version itself, and not those before it. Catches a newest version that is removed for
/// older ones because they come later; and one of another run, with a higher number, that stays for that.
#[test]
fn what_comes_late_is_no_younger() {
    for (run_of_newest, expected) in [(7, [3, 4]), (6, [2, 3])] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("mode = async\nscratch = {}\n", folder.path().display());
        write(&text, &[1, 4], run_of_newest);
        write(&format!("{text}scratch_versions = 2\n"), &[2, 3], 7);
        let version =
            |name: &str| name.strip_prefix("x-0-")?.strip_suffix(".dat")?.parse::<i32>().ok();
        let mut left = files::list(folder.path(), version).unwrap();
        left.sort_unstable();
        assert_eq!(left, expected, "the newest is of run {run_of_newest}");
    }
}

/// A job had written its newest versions itself, the last one first, as processes that copy end in any order, and had not
/// written older ones, perhaps of before a rollback. Catches an order by the times of files.
#[test]
fn what_was_written_in_another_order_keeps_its_own() {
    for generation in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("mode = async\nscratch = {}\n", folder.path().display());
        for version in [5, 3, 4] {
            write_of(&text, &[version], Identity { run: 7, generation });
        }
        write(&format!("{text}scratch_versions = 2\n"), &[1, 2], 7);
        let version =
            |name: &str| name.strip_prefix("x-0-")?.strip_suffix(".dat")?.parse::<i32>().ok();
        let mut left = files::list(folder.path(), version).unwrap();
        left.sort_unstable();
        assert_eq!(left, [4, 5], "generation {generation}");
    }
}
