//! `chksum = true`: the checksum of each file, and how files are treated that do not match theirs.

use std::fs;
use std::path::Path;

use capi_tests::checkpoint_file::{content, encode, Region};
use capi_tests::job::{files, names, Job};
use sha2::{Digest as _, Sha256};

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                     meta = DIR/meta\nchksum = true\n";
const SYNC: &str = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                    meta = DIR/meta\nchksum = true\n";

/// Changes one bit of a file, behind its header.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[1000] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// The place and form of upstream's checksums, for small files and for those that are hashed on
/// another thread, in memory's order and in several calls. Catches a digest of other bytes than the
/// file's.
#[test]
fn each_file_has_its_digest() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(configuration);
        job.run("script", "take=x:1 size=9000000 take=x:2 size=1 take=x:3 size=500 take=x:1:7")
            .succeed();
        job.run("host", "selective").succeed();
        let scratch = files(&job.scratch());
        let sums = files(&job.path("meta"));
        assert_eq!(scratch.len(), 3 + 3, "{:?}", scratch.keys());
        assert_eq!(sums.len(), scratch.len(), "{:?}", sums.keys());
        for (name, bytes) in scratch {
            assert_eq!(sums[&format!("{name}.chksum")], Sha256::digest(&bytes)[..], "{name}");
        }
    }
}

/// Without checksums upstream restores a flipped bit, with them it fails despite a good copy.
#[test]
fn a_bad_copy_is_passed_over() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(configuration);
        job.run("script", "take=x:1 take=x:2").succeed();
        flip(&job.scratch().join("x-0-2.dat"));
        let ended = job.run("script", "newest=x:2 restore=x:2 restore=x:1").succeed();
        for part in ["x-0-2.dat", "SHA-256", "another copy"] {
            assert!(ended.stderr.contains(part), "{}", ended.stderr);
        }
        flip(&job.persistent().join("x-0-2.dat"));
        job.run("script", "refuse=x:2:x-0-2.dat|SHA-256 newest=x:1 restore=x:1").succeed();
    }
}

/// Regions may share memory, and a file may have different bytes for them. Catches a checksum of
/// bytes that the next region has replaced already.
#[test]
fn regions_that_share_memory() {
    let job = Job::new(SYNC);
    let regions: Vec<Region> = (1..=17).map(|id| (id, content(1, id, 1 << 20))).collect();
    let bytes = encode(&regions);
    for folder in [job.scratch(), job.path("meta")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(job.path("meta/x-0-1.dat.chksum"), Sha256::digest(&bytes)).unwrap();
    fs::write(job.scratch().join("x-0-1.dat"), bytes).unwrap();
    job.run("script", "size=1048576 alias=16 restore=x:1:17").succeed();
}

/// A missing checksum says nothing; a damaged checksum makes copies without a proof doubtful.
#[test]
fn checksums_that_are_missing_or_damaged() {
    let job = Job::new(ASYNC);
    job.run("script", "take=x:1 take=x:2").succeed();
    fs::remove_file(job.path("meta/x-0-2.dat.chksum")).unwrap();
    job.run("script", "newest=x:2 restore=x:2").succeed();
    fs::write(job.path("meta/x-0-2.dat.chksum"), "short").unwrap();
    job.run("script", "newest=x:2 restore=x:2").succeed();
    job.configure(&format!("{ASYNC}proof = off\n"));
    job.run("script", "newest=x:1 refuse=x:2:chksum|5_bytes").succeed();
}

/// A version that is written again has the new file's checksum, and a run without checksums leaves
/// no old checksum that would condemn its files.
#[test]
fn rewritten_versions() {
    let job = Job::new(ASYNC);
    job.run("script", "take=x:1 wait take=x:1:5").succeed();
    job.run("script", "restore=x:1:5").succeed();
    job.configure(&ASYNC.replace("chksum = true", ""));
    job.run("script", "take=x:1:6").succeed();
    job.configure(ASYNC);
    job.run("script", "newest=x:1 restore=x:1:6").succeed();
}

/// A file of the application's own has a checksum as well, once it is in its place.
#[test]
fn routed_files() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(configuration);
        job.run("script", "route=x:1:DIR/own.1 route=x:2:DIR/own.2").succeed();
        let sums = files(&job.path("meta"));
        let own = fs::read(job.path("own.2")).unwrap();
        assert_eq!(sums["x-0-2.dat.chksum"], Sha256::digest(own)[..]);
        flip(&job.scratch().join("x-0-2.dat"));
        job.run("script", "newest=x:2 reroute=x:2:DIR/own.2").succeed();
        job.run("script", "reroute=x:2:DIR/own.2").succeed();
    }
}

/// A removed file takes its checksum along.
#[test]
fn cleaned_up() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\nmeta = DIR/meta\nchksum = true\n");
    job.run("script", "take=x:1 take=y:1 wait cleanup=x").succeed();
    assert_eq!(names(&job.path("meta")), ["y-0-1.dat.chksum"]);
    let job = Job::new(ASYNC);
    job.run("script", "take=x:1 take=y:1 wait cleanup=x").succeed();
    assert_eq!(names(&job.path("meta")), ["x-0-1.dat.chksum", "y-0-1.dat.chksum"]);
    job.run("script", "restore=x:1").succeed();
}
