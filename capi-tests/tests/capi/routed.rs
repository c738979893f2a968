//! File-based checkpoints (`VELOC_Route_file`) of programs that do not do as they should, and of
//! directories that were lost.

use std::fs;

use capi_tests::job::{names, Job};

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                     meta = DIR/meta\n";
const SYNC: &str = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                    meta = DIR/meta\n";

/// Catches a file of the application's that is replaced by the empty one that waited for its bytes,
/// and one of two files that is lost without a word.
#[test]
fn what_nobody_has_written_replaces_nothing() {
    for configuration in [ASYNC, SYNC, "mode = async\nscratch = DIR/scratch\n"] {
        let job = Job::new(configuration);
        job.run("script", "ignore=x:1:DIR/own newest=x:-1 wait").succeed();
        assert!(names(&job.scratch()).is_empty(), "{:?}", names(&job.scratch()));
        job.run("script", "route=x:1:DIR/own ignore=x:2:DIR/own newest=x:1").succeed();
    }
}

/// Scratch is lost: the file comes back without a false warning, and stays what it is when the
/// application's own file is gone as well.
#[test]
fn a_file_that_came_back_is_still_one() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(configuration);
        job.run("script", "route=x:1:DIR/own").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        let ended = job.run("script", "newest=x:1 reroute=x:1:DIR/own").succeed();
        assert_eq!(ended.stderr, "");
        assert_eq!(names(&job.scratch()), [".x-0-1.dat.routed", "x-0-1.dat"]);
        fs::remove_file(job.path("own")).unwrap();
        let ended = job.run("script", "newest=x:1 reroute=x:1:DIR/own").succeed();
        assert_eq!(ended.stderr, "");
    }
}

/// Catches a search that says that a file is there, and leaves its checksum to the restart.
#[test]
fn a_changed_file_is_found_by_the_search() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(&format!("{configuration}chksum = true\n"));
        job.run("script", "route=x:1:DIR/own.1 route=x:2:DIR/own.2").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        let mut bytes = fs::read(job.path("own.2")).unwrap();
        bytes[7] ^= 1;
        fs::write(job.path("own.2"), bytes).unwrap();
        let ended = job.run("script", "newest=x:1 reroute=x:1:DIR/own.1").succeed();
        let said = ended.stderr.matches("has the SHA-256").count();
        assert_eq!(said, 1, "{}", ended.stderr);
    }
}
