//! Files that no program should make, and directories in disorder.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use capi_tests::checkpoint_file::{content, encode, parse};
use capi_tests::depth::times;
use capi_tests::job::{files, names, Job};
use capi_tests::program::{faults, Flavour};
use capi_tests::random::Random;
use sha2::{Digest as _, Sha256};

const SCRATCH: &str = "mode = sync\nscratch = DIR/scratch\n";
const PERSISTENT: &str = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n";
const CHECKED: &str = "mode = sync\nscratch = DIR/scratch\nmeta = DIR/meta\nchksum = true\n";

/// The bytes of the region in the files that are damaged here.
const BYTES: usize = 1000;

/// How many damaged files are made.
const DAMAGED: i32 = 120;

/// A good file that is cut, lengthened, or has flipped bits; half of these in its header.
fn damage(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
        1 => bytes.extend((0..=random.below(40)).map(|byte| byte as u8)),
        which => {
            let among = if which == 2 { 20 } else { bytes.len() };
            // An odd number of flips: at least one bit differs in the end.
            for _ in 0..=2 * random.below(3) {
                bytes[random.below(among as u64) as usize] ^= 1 << random.below(8);
            }
        }
    }
    bytes
}

/// Files of versions 1 to [`DAMAGED`], each damaged in another way, and a good one behind them.
/// With `meta`, it gets the checksums of the undamaged files.
fn make_damaged(job: &Job, meta: Option<&Path>, random: &mut Random) -> String {
    let good = encode(&[(1, content(1, 1, BYTES))]);
    fs::create_dir(job.scratch()).unwrap();
    let mut commands = format!("size={BYTES}");
    for version in 1..=DAMAGED + 1 {
        let file = format!("x-0-{version}.dat");
        let bytes = if version > DAMAGED { good.clone() } else { damage(&good, random) };
        fs::write(job.scratch().join(&file), bytes).unwrap();
        if let Some(meta) = meta {
            fs::create_dir_all(meta).unwrap();
            fs::write(meta.join(format!("{file}.chksum")), Sha256::digest(&good)).unwrap();
        }
        let expected = if meta.is_some() { ":1" } else { "" };
        commands.push_str(&format!(" try=x:{version}{expected}"));
    }
    commands
}

/// With checksums no damaged file is restored, and the memory stays as it was. Catches a header that
/// is believed before the checksum was compared.
#[test]
fn damaged_files_with_checksums() {
    let mut random = Random::seeded("hostile::damaged_files_with_checksums");
    let job = Job::new(CHECKED);
    let commands = make_damaged(&job, Some(&job.path("meta")), &mut random);
    let ended = job.run_flavour("script", Flavour::Sanitized, &commands).succeed();
    assert_eq!(ended.figures("refused"), (1..=DAMAGED as u64).collect::<Vec<_>>());
    assert_eq!(ended.figures("restored"), [DAMAGED as u64 + 1]);
}

/// Without checksums a flipped bit of a region's content cannot be seen; but nothing crashes,
/// nothing is written beyond the region (the program runs under AddressSanitizer), a refused file
/// changes nothing, and a file that does not match its header is refused.
#[test]
fn damaged_files_without_checksums() {
    let mut random = Random::seeded("hostile::damaged_files_without_checksums");
    let job = Job::new(SCRATCH);
    let commands = make_damaged(&job, None, &mut random);
    let ended = job.run_flavour("script", Flavour::Sanitized, &commands).succeed();
    for version in ended.figures("restored") {
        let file = fs::read(job.scratch().join(format!("x-0-{version}.dat"))).unwrap();
        let regions = parse(&file).unwrap_or_else(|why| panic!("version {version}: {why}"));
        assert!(regions.len() <= 1, "version {version}");
        assert!(regions.iter().all(|(id, bytes)| *id == 1 && bytes.len() == BYTES));
    }
    assert!(ended.figures("restored").contains(&(DAMAGED as u64 + 1)));
}

/// Headers with false numbers: counts and sizes that overflow, negative ones, more than the file or
/// memory has. Catches an allocation of the size that a header claims.
#[test]
fn headers_that_lie() {
    let job = Job::new(SCRATCH);
    fs::create_dir(job.scratch()).unwrap();
    let entry = |size: u64| [&1i32.to_le_bytes()[..], &size.to_le_bytes()].concat();
    let file = |count: u64, size: u64| [&count.to_le_bytes()[..], &entry(size), &[7; 64]].concat();
    let hostile = [
        file(1 << 60, 64),
        file(u64::MAX, 64),
        file(-1i64 as u64, 64),
        file((1 << 61) + 1, 64),
        file(1, -64i64 as u64),
        file(1, u64::MAX - 19),
        file(1, 1 << 50),
        file(2, 64),
        file(0, 64),
    ];
    let mut commands = "size=64".to_owned();
    for (version, bytes) in hostile.iter().enumerate() {
        fs::write(job.scratch().join(format!("x-0-{version}.dat")), bytes).unwrap();
        commands.push_str(&format!(" refuse=x:{version}:x-0-{version}.dat"));
    }
    // A file of 1 TiB that takes no room, all of it entries by its header.
    let huge = fs::File::create(job.scratch().join("x-0-90.dat")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&huge, &(1u64 << 36).to_le_bytes(), 0).unwrap();
    huge.set_len(1 << 40).unwrap();
    commands.push_str(" refuse=x:90:x-0-90.dat newest=x:-1");
    let ended = job.run("script", &commands).succeed();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

fn make_pipe(path: &Path) {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a null byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Pipes, directories and links to nowhere or in circles, under the names of a checkpoint, its
/// checksum and its note. Catches an open that waits for a pipe's other end for ever.
#[test]
fn what_is_no_file() {
    for configuration in [SCRATCH, PERSISTENT] {
        let job =
            Job::new(&format!("{configuration}meta = DIR/meta\nchksum = true\nproof = off\n"));
        job.run("script", "take=x:1 take=x:2").succeed();
        let scratch = job.scratch();
        make_pipe(&scratch.join("x-0-3.dat"));
        fs::create_dir(scratch.join("x-0-4.dat")).unwrap();
        symlink("x-0-5.dat", scratch.join("x-0-5.dat")).unwrap();
        symlink("/dev/zero", scratch.join("x-0-6.dat")).unwrap();
        symlink("x-0-1.dat", scratch.join("x-0-9.dat")).unwrap();
        make_pipe(&scratch.join(".x-0-7.dat.routed"));
        fs::remove_file(job.path("meta/x-0-2.dat.chksum")).unwrap();
        make_pipe(&job.path("meta/x-0-2.dat.chksum"));
        if configuration == PERSISTENT {
            make_pipe(&job.persistent().join("x-0-8.dat"));
            symlink("/", job.persistent().join("x-0-9.dat")).unwrap();
        }
        job.run(
            "script",
            "newest=x:1 refuse=x:3:x-0-3.dat|pipe refuse=x:4:x-0-4.dat|directory refuse=x:5 \
             refuse=x:6 refuse=x:9 refuse=x:2:chksum|pipe restore=x:1",
        )
        .succeed();
    }
}

/// A checkpoint replaces a link and leaves the target alone, as does its removal.
#[test]
fn links_out_of_the_directory() {
    let job = Job::new(PERSISTENT);
    for directory in [job.scratch(), job.persistent()] {
        fs::create_dir(&directory).unwrap();
        for version in [1, 2] {
            symlink(job.path("outside"), directory.join(format!("x-0-{version}.dat"))).unwrap();
        }
    }
    fs::write(job.path("outside"), "somebody's").unwrap();
    job.run("script", "take=x:1 restore=x:1 wait cleanup=x wait").succeed();
    assert_eq!(fs::read(job.path("outside")).unwrap(), b"somebody's");
    let copy = job.persistent().join("x-0-1.dat");
    assert!(!copy.is_symlink());
    assert_eq!(parse(&fs::read(copy).unwrap()).unwrap(), [(1, content(1, 1, 100_000))]);
    assert_eq!(names(&job.scratch()), [""; 0]);
}

/// Tens of thousands of files of other programs: they are neither offered nor removed.
#[test]
fn a_directory_full_of_foreign_files() {
    let job = Job::new(SCRATCH);
    fs::create_dir(job.scratch()).unwrap();
    for number in 0..20_000 {
        let name = match number % 5 {
            0 => format!("x-1-{number}.dat"),
            1 => format!("x-0-{number}.dat.old"),
            2 => format!("y.{number}-0-1.dat"),
            3 => format!(".x-0-{number}.dat"),
            _ => format!("core.{number}"),
        };
        fs::write(job.scratch().join(name), "").unwrap();
    }
    job.run("script", "newest=x:-1 take=x:1 take=x:2 newest=x:2 restore=x:1 cleanup=x newest=x:-1")
        .succeed();
    assert_eq!(names(&job.scratch()).len(), 20_000);
}

/// Two jobs of the same rank take the same versions in the same directories at the same time. Each
/// file is whole, and of one of them.
#[test]
fn two_jobs_in_one_directory() {
    let all = times("VELOC_TAKES", 40, 80) as i32;
    for mode in ["mode = sync\n", "mode = async\nthreaded = true\n", "mode = async\n"] {
        let directories = "scratch = DIR/scratch\npersistent = DIR/persistent\n";
        let job = Job::new(&format!("{mode}{directories}"));
        let takes = |offset: i32, bytes: usize| -> String {
            let take = |v: i32| format!(" take=x:{}:{}", v % 10, v + offset);
            format!("size={bytes}{}", (0..all).map(take).collect::<String>())
        };
        // Where files can be locked, the second job is refused (`runs.rs`).
        let start = |takes: String| {
            let run = job.run("script", &takes).env("LD_PRELOAD", faults(&job.path("")));
            run.env("FAULTS_IN", job.scratch()).env("FAULTS_NO_LOCKS", "1").start()
        };
        let first = start(takes(0, 60_000));
        let second = start(takes(1000, 90_000));
        for running in [first, second] {
            let ended = running.end().succeeded();
            assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
            let said = "at the same time goes unnoticed";
            assert_eq!(ended.stderr.matches(said).count(), 1, "{}", ended.stderr);
        }
        for directory in [job.scratch(), job.persistent()] {
            let found = files(&directory);
            assert_eq!(found.len(), 10, "{mode}{:?}", found.keys());
            for (name, bytes) in found {
                let regions = parse(&bytes).unwrap_or_else(|why| panic!("{mode}{name}: {why}"));
                let of = |offset: i32, len: usize| {
                    (0..all).any(|v| regions == [(1, content(1, v + offset, len))])
                };
                assert!(of(0, 60_000) || of(1000, 90_000), "{mode}{name} is of neither");
            }
        }
        job.run("script", "size=90000 try=x:0 try=x:9").succeed();
    }
}

/// Files that cannot be removed do not prevent the removal of others, and are named.
#[test]
fn cleanup_passes_over_what_it_cannot_remove() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("script", "take=x:1 take=x:3").succeed();
    std::fs::create_dir(job.scratch().join("x-0-2.dat")).unwrap();
    let ended = job.run("script", "cleanup=x").end();
    assert!(ended.stdout.contains("x-0-2.dat"), "{}", ended.stdout);
    assert_eq!(names(&job.scratch()), ["x-0-2.dat"]);
}
