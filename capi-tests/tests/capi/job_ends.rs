//! Forks, exits and kills, and what the next job finds. The checks are in `programs/job_ends.c`.

use std::fs;

use capi_tests::job::{names, Job};

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\n";
const OVERFLOWING: &str =
    "mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 1M\n";

fn files(job: &Job) -> usize {
    fs::read_dir(job.scratch()).unwrap().count()
}

/// Catches a child that works on the parent's memory, or waits for workers that it does not have.
#[test]
fn a_forked_child_is_refused() {
    for configuration in [ASYNC, OVERFLOWING] {
        Job::new(configuration).run("job_ends", "case=fork").succeed();
    }
}

/// Catches an exit that hangs, and files of an ephemeral job that outlive it.
#[test]
fn an_exit_without_finalize() {
    Job::new(ASYNC).run("job_ends", "case=exit").succeed();
    let job = Job::new(OVERFLOWING);
    job.run("job_ends", "case=exit").succeed();
    assert_eq!(files(&job), 0, "the file that was being written, too");
    job.run("job_ends", "case=next").succeed();
    assert_eq!(files(&job), 0);
}

/// Catches an exit that calls a driver which has ended before it: the driver is loaded when the job
/// has begun. `cargo xtask nvidia` tests this with NVIDIA's driver.
#[test]
fn an_exit_without_finalize_where_the_driver_came_late() {
    Job::new(ASYNC).run_device("driver_loaded_late", "").succeed();
}

/// Catches a job that restores what a killed ephemeral job had left.
#[test]
fn the_files_of_a_killed_ephemeral_job() {
    let job = Job::new(OVERFLOWING);
    let mut running = job.run("job_ends", "case=wait").start();
    running.wait_for_line("taken");
    drop(running);
    assert!(files(&job) > 0, "it did not overflow");
    job.run("job_ends", "case=next").succeed();
    assert_eq!(files(&job), 0, "the next job removes them");
}

/// Catches paths that change their meaning when the application changes its directory.
#[test]
fn a_relative_scratch_stays_where_it_was() {
    let job = Job::new("mode = async\nscratch = below\n");
    let directory = job.path("");
    job.run("job_ends", "case=relative")
        .with(|command| {
            command.current_dir(directory);
        })
        .succeed();
    assert_eq!(names(&job.path("below")).len(), 30);
}

/// Catches a forked child that waits for a lock of logging, which a thread of its parent held.
#[test]
fn a_child_is_refused_while_others_log() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\nprint_errors = true\n");
    let ended = job.run("errors", "case=fork").succeed();
    assert!(ended.stderr.contains("was forked from process"), "{}", ended.stderr);
}

/// Catches a text that is freed while the statement that names it goes on.
#[test]
fn texts_of_errors_stay_for_a_while() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("errors", "case=texts").succeed();
}

/// Catches a Cleanup of scratch that would empty persistent.
#[test]
fn scratch_and_persistent_must_differ() {
    let job = Job::new("mode = async\nscratch = DIR/same\npersistent = DIR/same\n");
    let ended = job.run("job_ends", "case=next").end();
    assert!(!ended.status.success());
    assert!(ended.stdout.contains("same directory"), "{}", ended.stdout);
}

/// Catches unreadable memory that is taken for host memory.
#[test]
fn memory_that_is_none() {
    Job::new(ASYNC).run("job_ends", "case=wild").succeed();
    Job::new(ASYNC).run_device("job_ends", "case=wild").succeed();
}
