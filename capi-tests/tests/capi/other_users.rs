//! Directories in which another user has written, tested as root, which can make that user's files.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use capi_tests::job::{names, Job};

const PERSISTENT: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// The user who owns nothing.
const NOBODY: u32 = 65534;

fn is_root(test: &str) -> bool {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("skipped: {test} needs root");
    }
    root
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), None).unwrap();
}

/// Catches a version that another user has put there and that counts as the newest.
#[test]
fn a_newer_version_of_another_user_is_not_the_newest() {
    if !is_root("a_newer_version_of_another_user_is_not_the_newest") {
        return;
    }
    let job = Job::new(PERSISTENT);
    job.run("script", "take=x:1 take=x:2 wait").succeed();
    for directory in [job.scratch(), job.persistent()] {
        let planted = directory.join("x-0-9.dat");
        fs::copy(directory.join("x-0-1.dat"), &planted).unwrap();
        give_away(&planted);
    }
    let ended = job.run("script", "newest=x:2 restore=x:2 cleanup=x").succeed();
    assert!(!ended.stderr.contains("belongs to"), "{}", ended.stderr);
    assert_eq!(names(&job.scratch()), ["x-0-9.dat"]);
}

/// All checkpoints are a colleague's, and none is one's own. Catches a restore without a message,
/// and a restore that is refused.
#[test]
fn a_colleagues_checkpoints_can_be_restored() {
    if !is_root("a_colleagues_checkpoints_can_be_restored") {
        return;
    }
    for lost in ["none", "scratch", "persistent"] {
        let more = "meta = DIR/meta\nchksum = true\nmax_versions = 3\nscratch_versions = 3\n";
        let job = Job::new(&format!("{PERSISTENT}{more}"));
        job.run("script", "take=x:1 take=x:2 wait").succeed();
        if lost != "none" {
            fs::remove_dir_all(job.path(lost)).unwrap();
        }
        for directory in ["scratch", "persistent", "meta"].map(|name| job.path(name)) {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                give_away(&entry.unwrap().path());
            }
        }
        let ended = job
            .run(
                "script",
                "newest=x:2 restore=x:2 restore=x:1 take=x:3 wait newest=x:3 restore=x:2",
            )
            .succeed();
        let said = ended.stderr.matches("belongs to user 65534").count();
        assert_eq!(said, 2, "once for each file: {}", ended.stderr);
    }
}
