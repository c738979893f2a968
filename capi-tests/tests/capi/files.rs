//! The content of the directories, read and made without the library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use capi_tests::checkpoint_file::{content, encode, parse, Region};
use capi_tests::ground::Ground;
use capi_tests::job::{files, names, Job};

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\n";
const PERSISTENT: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// The regions that the cases of `host.c` write and read.
fn written(version: i32) -> Vec<Region> {
    vec![(-3, content(-3, version, 5)), (1, content(1, version, 10_000))]
}

/// Every file is exactly as the format says, in every mode, and there is no other file. Catches a
/// wrong order of the (signed) ids, a wrong header, padding between regions, and an old file's
/// tail.
#[test]
fn files_are_as_the_format_says() {
    let lowest = i32::MIN;
    let sizes = [(lowest, 300_000), (-5, 1), (0, 0), (3, 65_536), (7, 4097), (i32::MAX, 255)];
    for (configuration, persistent) in [
        (PERSISTENT, true),
        (ASYNC, false),
        ("mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n", true),
        ("mode = async\nscratch = DIR/scratch\nhost_cache_size = 0\n", false),
        ("mode = async\nscratch = DIR/scratch\nhost_cache_size = 200K\n", false),
    ] {
        let job = Job::new(configuration);
        job.run("host", "round-trip rank=12").succeed();
        let scratch = files(&job.scratch());
        let expected: Vec<String> =
            (0..4).map(|version| format!("round.trip_1-12-{version}.dat")).collect();
        assert_eq!(scratch.keys().cloned().collect::<Vec<_>>(), expected);
        for (version, bytes) in (0..4).zip(scratch.values()) {
            let regions: Vec<Region> =
                sizes.iter().map(|&(id, size)| (id, content(id, version, size))).collect();
            assert_eq!(parse(bytes).unwrap(), regions, "version {version}");
            assert_eq!(*bytes, encode(&regions));
        }
        if persistent {
            assert!(files(&job.persistent()) == scratch, "the copies differ");
        }
    }
}

/// Selective captures in any order give the same file as one capture of all would.
#[test]
fn selective_captures_are_sorted() {
    for configuration in [ASYNC, "mode = sync\nscratch = DIR/scratch\n"] {
        let job = Job::new(configuration);
        job.run("host", "selective").succeed();
        let regions: Vec<Region> =
            (1..=5).map(|id| (id, content(id, 1, 1000 * id as usize))).collect();
        assert_eq!(fs::read(job.scratch().join("part-0-1.dat")).unwrap(), encode(&regions));
        let ids = |version: i32| -> Vec<i32> {
            let path = job.scratch().join(format!("part-0-{version}.dat"));
            parse(&fs::read(path).unwrap()).unwrap().iter().map(|region| region.0).collect()
        };
        assert_eq!(ids(2), [3]);
        assert_eq!(ids(3), [1, 2, 4, 5]);
    }
}

/// A version that is replaced by a smaller one leaves nothing of the old one; a version that is
/// given up leaves nothing at all.
#[test]
fn nothing_is_left_of_what_was_replaced_or_given_up() {
    for configuration in [PERSISTENT, "mode = sync\nscratch = DIR/scratch\n"] {
        let job = Job::new(configuration);
        job.run("host", "replaced-by-less").succeed();
        let scratch = files(&job.scratch());
        assert_eq!(scratch["x-0-5.dat"], encode(&[(1, content(1, 2, 10))]));
        assert_eq!(scratch["x-0-6.dat"], encode(&[(1, content(1, 40, 140_000))]));
        assert_eq!(scratch.len(), 2);

        let job = Job::new(configuration);
        job.run("host", "given-up").succeed();
        assert_eq!(names(&job.scratch()), ["x-0-1.dat", "x-0-2.dat"]);
    }
}

/// A dot in a name is a dot; persistent copies stay, including those that were still to be made.
#[test]
fn cleanup_removes_scratch_files_of_one_name() {
    let job = Job::new(PERSISTENT);
    job.run("host", "cleanup").succeed();
    let of = |name: &str| [format!("{name}-0-1.dat"), format!("{name}-0-2.dat")];
    let mut expected: Vec<String> =
        ["a", "a..b", "a.bc", "azb"].iter().flat_map(|n| of(n)).collect();
    expected.sort();
    assert_eq!(names(&job.scratch()), expected);
    expected.extend(of("a.b"));
    expected.sort();
    assert_eq!(names(&job.persistent()), expected);

    let job = Job::new(PERSISTENT);
    job.run("host", "cleanup-at-once").succeed();
    assert_eq!(names(&job.scratch()), ["gone-0-3.dat", "stays-0-1.dat"]);
    let persistent = files(&job.persistent());
    assert_eq!(persistent.len(), 9, "{:?}", persistent.keys());
    for (name, bytes) in persistent {
        assert_eq!(parse(&bytes).unwrap(), [(1, content(1, 1, 500_000))], "{name}");
    }

    let job = Job::new(ASYNC);
    job.run("host", "cleanup-at-once").succeed();
    assert_eq!(names(&job.scratch()), ["gone-0-3.dat", "stays-0-1.dat"]);
}

/// The files except the library's hidden ones.
fn visible(directory: &Path) -> Vec<String> {
    names(directory).into_iter().filter(|name| !name.starts_with('.')).collect()
}

const SYNC_PERSISTENT: &str = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// A routed file gets to the place that the application wanted, with a link in persistent; a later
/// process finds it in scratch, and by the link alone.
#[test]
fn routed_files() {
    for configuration in [PERSISTENT, SYNC_PERSISTENT] {
        let job = Job::new(configuration);
        job.run("host", "route original=DIR/original").succeed();
        let original = job.path("original");
        assert_eq!(fs::read_to_string(&original).unwrap(), "what the application wrote\n");
        let link = fs::read_link(job.persistent().join("routed-0-4.dat")).unwrap();
        assert_eq!(fs::canonicalize(link).unwrap(), fs::canonicalize(&original).unwrap());
        assert_eq!(visible(&job.scratch()), ["routed-0-4.dat"]);
        assert_eq!(visible(&job.persistent()), ["routed-0-4.dat"]);

        job.run("host", "route-back original=DIR/original").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        job.run("host", "route-back original=DIR/original").succeed();
    }
}

/// Without persistent, the file still gets to its place, and restarts from scratch.
#[test]
fn routed_files_without_persistent() {
    for configuration in [ASYNC, "mode = sync\nscratch = DIR/scratch\n"] {
        let job = Job::new(configuration);
        job.run("host", "route original=DIR/original").succeed();
        assert!(job.path("original").exists());
        job.run("host", "route-back original=DIR/original").succeed();
    }
}

/// The note that marks a routed file does not outlive the file.
#[test]
fn routed_files_that_are_removed_or_replaced() {
    for configuration in [PERSISTENT, SYNC_PERSISTENT, ASYNC] {
        let job = Job::new(configuration);
        job.run("host", "route-cleaned original=DIR/original").succeed();
        assert_eq!(names(&job.scratch()), [""; 0]);
        assert!(job.path("original").exists());

        let job = Job::new(configuration);
        job.run("host", "route-replaced original=DIR/original").succeed();
        job.run("host", "route-replaced-back original=DIR/original").succeed();
        if configuration != ASYNC {
            fs::remove_dir_all(job.scratch()).unwrap();
            job.run("host", "route-replaced-back original=DIR/original").succeed();
        }
    }
}

/// Files that another program has made in this format are restored.
#[test]
fn files_made_by_hand_restore() {
    let job = Job::new(ASYNC);
    fs::create_dir(job.scratch()).unwrap();
    for version in 1..=3 {
        fs::write(job.scratch().join(format!("x-0-{version}.dat")), encode(&written(version)))
            .unwrap();
    }
    job.run("host", "read last=3").succeed();
}

/// A new process restores from scratch, and from persistent when scratch is gone.
#[test]
fn restarts_in_a_new_process() {
    let job = Job::new(PERSISTENT);
    job.run("host", "write last=5").succeed();
    job.run("host", "read last=5").succeed();
    fs::remove_dir_all(job.scratch()).unwrap();
    job.run("host", "read last=5").succeed();
    fs::remove_dir_all(job.persistent()).unwrap();
    let ended = job.run("host", "read last=5").end();
    assert!(!ended.status.success(), "restored from nothing");
}

/// Every way in which a file can fail to be a checkpoint.
fn damaged() -> Vec<(&'static str, Vec<u8>)> {
    let good = encode(&written(2));
    let with = |at: usize, bytes: &[u8]| {
        let mut damaged = good.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        damaged
    };
    vec![
        ("empty", vec![]),
        ("a part of the count", good[..7].to_vec()),
        ("the count alone", good[..8].to_vec()),
        ("a part of an entry", good[..19].to_vec()),
        ("the header alone", good[..32].to_vec()),
        ("half", good[..good.len() / 2].to_vec()),
        ("all but the last byte", good[..good.len() - 1].to_vec()),
        ("a byte too many", [good.clone(), vec![0]].concat()),
        ("a count beyond all bounds", with(0, &u64::MAX.to_le_bytes())),
        (
            "a count that overflows with the size of its entries",
            with(0, &(1u64 << 61).to_le_bytes()),
        ),
        ("a size beyond all bounds", with(12, &u64::MAX.to_le_bytes())),
        ("ids in descending order", with(8, &5i32.to_le_bytes())),
        ("zeros", vec![0; good.len()]),
    ]
}

/// A damaged file is passed over: for a good copy in persistent, else for the version before.
#[test]
fn damaged_files_are_passed_over() {
    let job = Job::new(PERSISTENT);
    job.run("host", "write last=2").succeed();
    for (what, bytes) in damaged() {
        println!("{what}");
        fs::write(job.scratch().join("x-0-2.dat"), &bytes).unwrap();
        job.run("host", "read last=2").succeed();
    }
    let job = Job::new(ASYNC);
    job.run("host", "write last=2").succeed();
    for (what, bytes) in damaged() {
        println!("{what}, and no other copy");
        fs::write(job.scratch().join("x-0-2.dat"), &bytes).unwrap();
        let ended = job.run("host", "read last=1").succeed();
        assert!(ended.stderr.contains("x-0-2.dat"), "not a word of it: {}", ended.stderr);
    }
    // A directory or a link under the name of a checkpoint's file.
    fs::remove_file(job.scratch().join("x-0-2.dat")).unwrap();
    let good = encode(&written(1));
    for name in [
        "x-0-99999999999.dat",
        "x-0-7.dat.partial",
        ".x-0-8.dat.tmp-1-1",
        "x-0-09.dat",
        "x-0--5.dat",
        "x-1-6.dat",
        "x-0-6.DAT",
        "xx-0-6.dat",
        "x.-0-6.dat",
    ] {
        fs::write(job.scratch().join(name), &good).unwrap();
    }
    fs::create_dir(job.scratch().join("x-0-10.dat")).unwrap();
    symlink("/nonexistent/file", job.scratch().join("x-0-11.dat")).unwrap();
    job.run("host", "read last=1").succeed();
}

/// Files that a killed process has left half written are removed when its rank comes back; those of
/// other ranks and of living processes are left alone.
#[test]
fn leftovers_are_removed() {
    let job = Job::new(PERSISTENT);
    job.run("host", "write last=1").succeed();
    // This process lives; no process has the highest id.
    let alive = format!(".x-0-4.dat.tmp-{}-0", std::process::id());
    let dead = |rank: u32| format!(".x-{rank}-4.dat.tmp-4194304-0");
    for directory in [job.scratch(), job.persistent()] {
        for name in [&alive, &dead(0), &dead(1)] {
            fs::write(directory.join(name), "half").unwrap();
        }
    }
    job.run("host", "read last=1").succeed();
    for directory in [job.scratch(), job.persistent()] {
        assert_eq!(names(&directory), [alive.clone(), dead(1), "x-0-1.dat".to_owned()]);
    }
}

/// An ephemeral job leaves nothing of its own in scratch, and removes nothing of other jobs.
#[test]
fn ephemeral_jobs_leave_scratch_as_it_was() {
    let job = Job::new(ASYNC);
    job.run("host", "write last=3").succeed();
    let before = files(&job.scratch());
    job.configure("mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 1M\n");
    job.run("host", "read last=3").succeed();
    // This checkpoint overflows to scratch.
    job.run("host", "write name=other last=40 bytes=100000").succeed();
    assert!(files(&job.scratch()) == before, "{:?}", names(&job.scratch()));
}

/// Catches a `VELOC_Init` that keeps the application waiting more than once for the list of a
/// directory, which may be long and on a slow file system.
#[test]
fn each_directory_is_listed_once_when_a_job_begins() {
    for below in ["scratch", "persistent", "meta"] {
        let more = "meta = DIR/meta\nchksum = true\n";
        let job = Job::new(&format!("{PERSISTENT}{more}"));
        let listed = job.path("listed").display().to_string();
        Ground::injected(&job, below, 64 << 20)
            .under(job.run("script", ""))
            .env("FAULTS_LISTED", &listed)
            .arg(format!("run=echo {below}: $(cat {listed}); test $(cat {listed}) = 1"))
            .succeed();
    }
}
