//! Directories that cannot be looked at while a job runs, and the messages about what was found.

use std::fs;

use capi_tests::checkpoint_file::{content, encode};
use capi_tests::job::{names, Job};
use xtask::files::write_program;

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";
const SYNC: &str = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// Catches a directory that is down and makes the other one unusable, and a directory that is
/// passed over without a message.
#[test]
fn one_place_that_cannot_be_listed() {
    for configuration in [ASYNC, SYNC] {
        for down in ["persistent", "scratch"] {
            let job = Job::new(configuration);
            job.run("script", "take=x:1 take=x:2").succeed();
            let close = job.path("close");
            let script = "#!/bin/sh\nmv DIR/DOWN DIR/away && touch DIR/DOWN\n";
            let script = script.replace("DIR", &job.path("").display().to_string());
            write_program(&close, &script.replace("DOWN", down)).unwrap();
            let commands = "run=DIR/close newest=x:2 newest=x:1:1 restore=x:2";
            let ended = job.run("script", commands).succeed();
            let (text, place) = (&ended.stderr, job.path(down).display().to_string());
            let complaint = format!("without the checkpoints there: list {place}");
            assert_eq!(text.matches(&complaint).count(), 1, "{text}");
        }
    }
}

/// Catches a directory that cannot be used any more because it was removed for a while, a warning for each file, and one
/// that is missed without a word.
#[test]
fn a_directory_that_was_removed_and_made_again() {
    for configuration in [ASYNC, SYNC] {
        for down in ["persistent", "scratch"] {
            let job = Job::new(configuration);
            let remove = format!("rm -r {}", job.path(down).display());
            let make = format!("mkdir {}", job.path(down).display());
            let run = job.run("script", "take=x:1 take=x:2 wait").arg(format!("run={remove}"));
            let run = run.arg(format!("run={make}")).args("take=x:3 take=x:4 wait newest=x:4");
            let run = run.args("restore=x:3 restore=x:4");
            let text = run.succeed().stderr;
            assert_eq!(text.matches("is another directory than before").count(), 1, "{text}");
            let there = ["x-0-3.dat", "x-0-4.dat"];
            assert_eq!(names(&job.path(down)), there, "{configuration} {down}");
        }
    }
}

/// Catches a copy that is reported each time that it is looked at, and once more where there is no
/// other; and ids that stand twice in a header and make it unreadable.
#[test]
fn a_bad_copy_is_named_once() {
    let job = Job::new(ASYNC);
    job.run("script", "take=x:1 take=x:2").succeed();
    let twice = {
        let mut bytes = encode(&[(1, content(1, 2, 100)), (2, content(2, 2, 100))]);
        bytes[20] = 1;
        bytes
    };
    fs::write(job.scratch().join("x-0-2.dat"), &twice).unwrap();
    let ended = job.run("script", "newest=x:2 newest=x:2:2 restore=x:2").succeed();
    assert_eq!(ended.stderr.matches("x-0-2.dat").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("lists region 1 twice"), "{}", ended.stderr);
    fs::remove_file(job.persistent().join("x-0-2.dat")).unwrap();
    let ended = job.run("script", "newest=x:1 newest=x:1:2 restore=x:1").succeed();
    assert_eq!(ended.stderr.matches("x-0-2.dat").count(), 1, "{}", ended.stderr);
    job.run("script", "refuse=y:1:no_checkpoint|rank_0").succeed();
}

/// Versions that were taken at almost the same time keep their order, also for the next job.
#[test]
fn versions_of_one_moment() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(configuration);
        let versions = "take=x:30 take=x:11 take=x:25 take=x:9";
        job.run("script", versions).succeed();
        job.configure(&format!("{configuration}scratch_versions = 2\nmax_versions = 3\n"));
        job.run("script", "take=x:1").succeed();
        assert_eq!(names(&job.scratch()), ["x-0-1.dat", "x-0-9.dat"]);
        assert_eq!(names(&job.persistent()), ["x-0-1.dat", "x-0-25.dat", "x-0-9.dat"]);
    }
}
