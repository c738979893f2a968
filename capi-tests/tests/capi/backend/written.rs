//! The files that a job has left, as the backend or the next job writes them: where, how many, and
//! which messages there are about the rest.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use capi_tests::backends::{backends, serving, until, wait_for_backends, MARK};
use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};
use capi_tests::program::staged;
use capi_tests::run::Run;
use xtask::files::write_program;

use super::{dies, job, kill, SCRATCH};

/// A job is ended with its process group, as mpirun does it, while its backend is starting. Catches
/// a backend that ends with the job.
#[test]
fn what_ends_the_whole_group_does_not_end_a_backend_that_starts() {
    let job = job("");
    let bin = job.path("bin");
    fs::create_dir(&bin).unwrap();
    let [go, real] = [job.path("go"), staged().bin().join("veloc-backend")];
    let text = format!(
        "#!/bin/sh\nuntil test -e {}; do sleep 0.01; done\nexec {} \"$@\"\n",
        go.display(),
        real.display()
    );
    write_program(&bin.join("veloc-backend"), &text).unwrap();
    let run = job.run("script", "size=1000000 take=x:1 take=x:2").env("VELOC_BIN", &bin);
    let alone = |command: &mut Command| {
        command.process_group(0);
    };
    dies(&run.arg("run=kill -KILL 0").with(alone).end());
    fs::write(&go, "").unwrap();
    let _ = job.run("script", "size=1000000 newest=x:2 restore=x:2 restore=x:1").succeed();
    wait_for_backends(&job);
}

/// Catches a backend that writes nothing at all because one of the directories is gone.
#[test]
fn without_persistent_the_backend_writes_scratch() {
    let job = job("persistent = DIR/persistent\n");
    let persistent = job.persistent().display().to_string();
    let run = job.run("script", "size=8000000 take=x:1 wait");
    let run = run.arg(format!("run=rm -r {persistent}; touch {persistent}"));
    dies(&run.args("take=x:2 kill").end());
    wait_for_backends(&job);
    fs::remove_file(job.persistent()).unwrap();
    let _ = job.run("script", "size=8000000 newest=x:2 restore=x:2").succeed();
}

/// Versions that persistent lacks because it was away are reported by the next job that asks for
/// them, once for each name, and stay in scratch: no limit of versions removes them, and no
/// clean-up. Catches a checkpoint that is lost before `veloc sync` has copied it, and one that is
/// kept for ever although persistent has it.
#[test]
fn what_persistent_lacks_is_said_and_stays() {
    let limits = "persistent = DIR/persistent\nwatchdog_interval = 1\nscratch_versions = 1\n\
                  max_versions = 9\n";
    let job = job(limits);
    let persistent = job.persistent().display().to_string();
    let run = job.run("script", "size=1000000 take=x:1 wait");
    let run = run.arg(format!("run=rm -r {persistent}; touch {persistent}"));
    dies(&run.args("take=x:2 late=persistent take=x:3 late=persistent take=y:1 kill").end());
    wait_for_backends(&job);
    fs::remove_file(job.persistent()).unwrap();
    let commands =
        "size=1000000 newest=x:3 newest=x:3 restore=x:3 take=x:4 take=x:5 wait cleanup=x";
    let ended = job.run("script", commands).succeed();
    let [scratch, config] =
        ["scratch", "veloc.cfg"].map(|name| job.path(name).display().to_string());
    let said =
        format!("2 checkpoints of \"x\" are in {scratch} only; `veloc sync --config {config}`");
    assert_eq!(ended.stderr.matches(&said).count(), 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains("\"y\""), "{}", ended.stderr);
    let there = names(&job.scratch());
    for left in ["x-0-2.dat", "x-0-3.dat", "y-0-1.dat"] {
        assert!(there.contains(&left.to_owned()), "{there:?}");
    }
    assert!(!there.contains(&"x-0-5.dat".to_owned()), "{there:?}");
    assert_eq!(names(&job.persistent()), ["x-0-4.dat", "x-0-5.dat"]);
    // Copied by hand, as `veloc sync` does.
    for left in there.iter().filter(|name| name.starts_with('x')) {
        fs::copy(job.scratch().join(left), job.persistent().join(left)).unwrap();
    }
    let ended = job.run("script", "size=1000000 restore=x:3 take=x:6 wait cleanup=x").succeed();
    assert!(!ended.stderr.contains("veloc sync"), "{}", ended.stderr);
    assert_eq!(names(&job.scratch()), ["y-0-1.dat"]);
}

/// Catches a copy of a version that this job itself has taken and did not want to be copied.
#[test]
fn what_this_job_has_taken_is_owed_by_nobody() {
    let interval = "persistent = DIR/persistent\npersistent_interval = 0\n";
    let job = job(interval);
    let persistent = job.persistent().display().to_string();
    let away = job.path("away").display().to_string();
    // Only this job's own worker tries a failed copy again.
    let run = job
        .run("script", "size=1000")
        .arg(format!("run=mv {persistent} {away}; touch {persistent}"));
    let run = run.args("take=x:1 late=persistent newest=x:1 restore=x:1");
    let run = run.arg(format!("run=rm {persistent}; mv {away} {persistent}")).args("sleep=300");
    let run = run.arg(format!("run=test -z \"$(ls {persistent})\""));
    let _ = run.succeed();
    assert_eq!(names(&job.persistent()), ["x-0-1.dat"]);
}

/// Catches a backend that writes all versions in memory, whatever the limit, also if they have a
/// region of the lowest id. Each of these jobs ends before it has removed anything itself.
#[test]
fn limits_hold_from_job_to_job() {
    let job = job("persistent = DIR/persistent\nmax_versions = 1\nscratch_versions = 1\n");
    for (version, id) in [(1, 1), (2, 1), (3, i32::MIN), (4, i32::MIN)] {
        dies(&job.run("script", &format!("size=8000000 id={id} take=x:{version} kill")).end());
        wait_for_backends(&job);
        let left = vec![format!("x-0-{version}.dat")];
        // A file that was being written when the job was killed may be removed by the next job.
        let complete = |directory| {
            let mut names = names(directory);
            names.retain(|name| !name.starts_with('.'));
            names
        };
        assert_eq!((complete(&job.scratch()), complete(&job.persistent())), (left.clone(), left));
    }
}

/// Catches a clean-up that is lost when its job ends: the backend kept the files.
#[test]
fn the_backend_finishes_a_cleanup() {
    let job = job("persistent = DIR/persistent\n");
    for end in ["finalize=0", "kill"] {
        let commands = format!("size=8000000 take=x:1 take=x:2 take=x:3 cleanup=x {end}");
        let _ = job.run("script", &commands).end();
        wait_for_backends(&job);
        assert_eq!(names(&job.scratch()), [""; 0], "{end}");
        assert_eq!(names(&job.persistent()).len(), 3);
    }
}

/// Without a host buffer the application writes scratch itself, and the copies to persistent are
/// made in the background. Catches a job that leaves these copies half made.
#[test]
fn without_a_host_buffer_copies_are_finished() {
    let job = Job::new(
        "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\nhost_cache_size = 0\n",
    );
    let takes: String = (1..=9).map(|v| format!(" take=x:{v}")).collect();
    dies(&job.run("script", &format!("size=4000000{takes} kill")).end());
    wait_for_backends(&job);
    assert_eq!(names(&job.persistent()).len(), 9);
    assert_eq!(names(&job.persistent()), names(&job.scratch()));
}

/// Catches a `VELOC_Finalize(0)` that leaves its work to a backend that does not answer any more.
#[test]
fn what_no_backend_takes_the_job_writes() {
    let job = job("persistent = DIR/persistent\nwatchdog_interval = 1\n");
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let by_hand = Run::new(&program).arg(job.path("veloc.cfg")).env(MARK, job.path("")).end();
    assert!(by_hand.status.success());
    let backend = serving(&job);
    let takes: String = (1..=12).map(|v| format!(" take=x:{v}")).collect();
    let run = job.run("script", "size=8000000 newest=x:-1");
    let run = run.arg(format!("run=kill -STOP {backend}")).args(&format!("{takes} finalize=0"));
    let _ = run.succeed();
    assert_eq!(names(&job.persistent()).len(), 12);
    kill(backend, libc::SIGKILL);
    until("it ends", || backends(&job).is_empty());
}

/// Jobs that are killed on a full scratch, with room in persistent: the backend writes all their
/// checkpoints there. Catches files that the backend drops because one directory is full.
#[test]
fn what_scratch_cannot_take_the_backend_writes_to_persistent() {
    let more = "host_cache_size = 32M\npersistent = DIR/persistent\nwatchdog_interval = 1\n";
    for interval in ["", "persistent_interval = 3600\n"] {
        let job = Job::new(&format!("{SCRATCH}log_prefix = DIR\n{more}{interval}"));
        let Some(ground) = Ground::mounted(&job, "scratch", 4 << 20) else { return };
        let takes: String = (1..=12).map(|v| format!(" take=x:{v}")).collect();
        dies(&ground.under(job.run("script", &format!("size=2000000{takes} kill"))).end());
        wait_for_backends(&job);
        // The first versions may be in scratch alone, which is lost with the processes.
        let first = if interval.is_empty() { 1 } else { 3 };
        let there = names(&job.persistent());
        let expected = (first..=12).map(|version| format!("x-0-{version}.dat"));
        for name in expected {
            assert!(there.contains(&name), "{name}: {there:?}\n{}", log_of(&job));
        }
        let restores: String = (first..=12).map(|v| format!(" restore=x:{v}")).collect();
        let _ = job.run("script", &format!("size=2000000{restores}")).succeed();
    }
}

/// Without enough room anywhere, the versions that fit are kept, and the lost ones are reported.
#[test]
fn what_the_backend_cannot_write_is_named() {
    let job = job("");
    let Some(ground) = Ground::mounted(&job, "scratch", 4 << 20) else { return };
    // Room for two files of version 1: after a kill between a file's name and its record it is written once more.
    let takes = "size=500000 take=x:1 size=4000000 take=x:2 kill";
    dies(&ground.under(job.run("script", takes)).end());
    wait_for_backends(&job);
    let said = log_of(&job);
    let lost = "lost with its memory: \"x\" version 2";
    assert!(said.contains(lost) && said.contains("No space left"), "{said}");
}

/// The log lines of the backends of a job.
fn log_of(job: &Job) -> String {
    let found = fs::read_dir(job.path("")).unwrap().flatten().map(|entry| entry.path());
    let logs = found.filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.map(|path| fs::read_to_string(path).unwrap()).collect()
}
