//! A backend that still writes files of a killed job when the next job has files of its own to
//! write.

use std::fs;
use std::path::PathBuf;

use capi_tests::backends::{serving, until, wait_for_backends};
use capi_tests::job::Job;
use capi_tests::program::{holding, staged};
use xtask::files::write_program;

use super::{dies, job, kill};

/// Runs a job of these commands that is killed before it has given a file a name that ends with
/// `held`. Its backend waits at the same place until the file exists whose path is returned.
fn hold(job: &Job, first: &str, held: &str) -> PathBuf {
    let [bin, go] = ["bin", "go"].map(|name| job.path(name));
    fs::create_dir(&bin).unwrap();
    let holds = format!("LD_PRELOAD={}", holding(&job.path("")).display());
    // A backend starts without the libraries that are loaded into its job.
    let real = staged().bin().join("veloc-backend");
    let text = format!("#!/bin/sh\n{holds} exec {} \"$@\"\n", real.display());
    write_program(&bin.join("veloc-backend"), &text).unwrap();
    let run = job.run("script", &format!("size=3000000 {first} kill"));
    let run = run.env("LD_PRELOAD", holding(&job.path(""))).env("VELOC_BIN", &bin);
    dies(&run.env("HOLDS_AT", held).env("HELD_UNTIL", &go).end());
    let about_to = job.path("go.veloc-backend");
    until("the backend is about to write", || about_to.exists());
    go
}

/// Runs such a job, and a second one. The backend goes on when the second is `through`, or waits.
fn come_after(job: &Job, first: &str, held: &str, second: &str) {
    let (go, through) = (hold(job, first, held), job.path("through"));
    let run = job.run("script", &format!("size=3000000 {second}"));
    let run = run.arg(format!("run=touch {}", through.display())).start();
    let waits = || run.has_said("writes what an earlier job has left");
    until("the second job has come through, or waits", || through.exists() || waits());
    fs::write(&go, "").unwrap();
    let _ = run.end().succeeded();
    wait_for_backends(job);
}

/// Catches a backend that hangs, and when it goes on gives an old file the name of a newer one.
#[test]
fn a_backend_that_does_not_answer_replaces_nothing_newer() {
    let job = job("watchdog_interval = 1\n");
    let go = hold(&job, "take=x:1", "scratch/x-0-1.dat");
    let backend = serving(&job);
    kill(backend, libc::SIGSTOP);
    let ended = job.run("script", "size=3000000 take=x:1:77 wait").succeed();
    fs::write(&go, "").unwrap();
    // SAFETY: sends a signal, if there is still a process for it.
    unsafe { libc::kill(backend as libc::pid_t, libc::SIGCONT) };
    wait_for_backends(&job);
    let _ = job.run("script", "size=3000000 restore=x:1:77").succeed();
    let said = format!("veloc-backend (process {backend}) has not answered");
    assert!(ended.stderr.contains(&said), "{}", ended.stderr);
}

/// Catches an older file of the application's own that a backend puts in place of a newer file, for
/// which no search has waited.
#[test]
fn no_older_file_of_the_application_replaces_a_newer_one() {
    let job = job("persistent = DIR/persistent\nwatchdog_interval = 1\n");
    come_after(&job, "route=x:1:DIR/own", "/own", "route=x:2:DIR/own wait");
    let [own, newer] = [job.path("own"), job.scratch().join("x-0-2.dat")];
    assert!(fs::read(own).unwrap() == fs::read(newer).unwrap());
    let _ = job.run("script", "size=3000000 newest=x:2 reroute=x:2:DIR/own").succeed();
}

/// Catches a file of the application's own that loses its place in scratch to a checkpoint from an
/// earlier job's memory: waiting for its copy alone is not enough.
#[test]
fn no_older_checkpoint_replaces_a_file_of_the_application() {
    let job = job("persistent = DIR/persistent\nwatchdog_interval = 1\n");
    come_after(&job, "take=x:1", "scratch/x-0-1.dat", "route=x:1:DIR/own wait");
    let _ = job.run("script", "size=3000000 newest=x:1 reroute=x:1:DIR/own").succeed();
}
