//! How many versions stay (`max_versions`, `scratch_versions`).

use capi_tests::backends::wait_for_backends;
use capi_tests::job::{names, Job};

fn configuration(mode: &str, more: &str) -> String {
    format!("mode = {mode}\nscratch = DIR/scratch\npersistent = DIR/persistent\n{more}")
}

fn of(name: &str, versions: &[i32]) -> Vec<String> {
    let mut names: Vec<String> = versions.iter().map(|v| format!("{name}-0-{v}.dat")).collect();
    names.sort();
    names
}

/// Each level of files has its own limit, each name its own versions; other processes' are left
/// alone.
#[test]
fn the_last_taken_stay() {
    for mode in ["sync", "async"] {
        let job = Job::new(&configuration(mode, "max_versions = 3\nscratch_versions = 2\n"));
        job.run("script", "rank=1 take=x:1 take=x:2 take=x:3").succeed();
        job.run(
            "script",
            "take=y:7 take=x:1 take=x:2 take=x:3 take=x:4 take=x:5 wait newest=x:5 \
                           restore=x:3 restore=x:5 restore=y:7 refuse=x:2:no_checkpoint",
        )
        .succeed();
        let mut scratch = of("x", &[4, 5]);
        scratch.extend(["x-1-2.dat".to_owned(), "x-1-3.dat".to_owned(), "y-0-7.dat".to_owned()]);
        assert_eq!(names(&job.scratch()), scratch, "{mode}");
        let mut persistent = of("x", &[3, 4, 5]);
        persistent.extend((1..=3).map(|v| format!("x-1-{v}.dat")));
        persistent.push("y-0-7.dat".to_owned());
        assert_eq!(names(&job.persistent()), persistent, "{mode}");
    }
}

/// The job ends while copies to persistent lag, and its backend goes on. Catches files in scratch that nobody removes, as
/// none comes there any more.
#[test]
fn what_is_copied_late_leaves_scratch() {
    for max in ["", "max_versions = 3\n"] {
        let limits =
            format!("{max}scratch_versions = 2\nhost_cache_size = 64M\nsync_files = full\n");
        let job = Job::new(&configuration("async", &limits));
        let _ = job.run("handover", "forward steps=150 size=300000 drain=0").succeed();
        wait_for_backends(&job);
        assert_eq!(names(&job.scratch()).len(), 2);
        assert_eq!(names(&job.persistent()).len(), if max.is_empty() { 150 } else { 3 });
    }
}

/// Upstream's pruner removes the lowest number, which after a rollback is the new checkpoint.
#[test]
fn after_a_rollback_the_new_ones_stay() {
    for mode in ["sync", "async"] {
        let job = Job::new(&configuration(mode, "max_versions = 2\nscratch_versions = 2\n"));
        job.run("script", "take=x:8 wait take=x:9 wait take=x:10").succeed();
        assert_eq!(names(&job.persistent()), of("x", &[9, 10]));
        job.run("script", "restore=x:9 take=x:3 wait newest=x:10").succeed();
        assert_eq!(names(&job.persistent()), of("x", &[10, 3]), "{mode}");
        job.run("script", "take=x:4 wait newest=x:4 restore=x:3").succeed();
        assert_eq!(names(&job.persistent()), of("x", &[3, 4]), "{mode}");
        assert_eq!(names(&job.scratch()), of("x", &[3, 4]), "{mode}");
    }
}

/// A version whose file is written after those of younger versions, because it could not be written
/// before, is at once one too many. Catches a file that is removed before the catalog knows of it:
/// its copy in persistent then fails for ever.
#[test]
fn what_comes_late_does_not_fail() {
    let limits = "max_versions = 1\nscratch_versions = 1\nhost_cache_size = 16M\n";
    let job = Job::new(&configuration("async", limits));
    let blocked = job.scratch().join("x-0-1.dat");
    let script = job.run("script", "take=x:0 wait").arg(format!("run=mkdir {}", blocked.display()));
    let script = script.args("take=x:1 late=x-0-1.dat take=x:2 take=x:3 late=x-0-1.dat");
    let script = script.arg(format!("run=rmdir {}", blocked.display()));
    script.args("wait finished=1 newest=x:3 take=x:4 wait restore=x:4").succeed();
    assert_eq!(names(&job.scratch()), of("x", &[4]));
    assert_eq!(names(&job.persistent()), of("x", &[4]));
}

/// A version that is taken again counts once, and as new.
#[test]
fn a_version_that_is_taken_again() {
    let job = Job::new(&configuration("sync", "max_versions = 2\nscratch_versions = 1\n"));
    job.run("script", "take=x:1 take=x:2 take=x:1:7 take=x:3 restore=x:1:7 restore=x:3").succeed();
    assert_eq!(names(&job.persistent()), of("x", &[1, 3]));
}

/// The checksum stays as long as one of the copies, and is removed with the last.
#[test]
fn checksums_go_along() {
    let more = "max_versions = 2\nscratch_versions = 1\nmeta = DIR/meta\nchksum = true\n";
    let job = Job::new(&configuration("async", more));
    job.run("script", "take=x:1 wait take=x:2 wait take=x:3 wait restore=x:2").succeed();
    let expected: Vec<String> = of("x", &[2, 3]).iter().map(|n| format!("{n}.chksum")).collect();
    assert_eq!(names(&job.path("meta")), expected);
}

/// The link of a file-based checkpoint is removed; the file is the application's own.
#[test]
fn routed_files_are_the_applications() {
    let job = Job::new(&configuration("sync", "max_versions = 1\nscratch_versions = 1\n"));
    job.run("script", "route=x:1:DIR/own.1 route=x:2:DIR/own.2 reroute=x:2:DIR/own.2").succeed();
    assert_eq!(names(&job.persistent()), of("x", &[2]));
    assert!(job.path("own.1").exists());
}
