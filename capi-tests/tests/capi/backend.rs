//! Jobs that end with work undone, the backend that does the work, and the end of backends.

pub(crate) mod flood;
mod late;
mod program;
mod written;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use capi_tests::backends::{backends, serving, until, wait_for_backends, MARK};
use capi_tests::job::{names, Job};
use capi_tests::program::holding;
use capi_tests::run::{Ended, Run, Running};

const SCRATCH: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 128M\n";

fn job(more: &str) -> Job {
    Job::new(&format!("{SCRATCH}log_prefix = DIR\n{more}"))
}

fn run(job: &Job, arguments: &str) -> Run {
    job.run("left_work", arguments)
}

/// A run that has taken its checkpoints and waits.
fn stays(job: &Job, more: &str) -> Running {
    let input = |command: &mut Command| {
        command.stdin(Stdio::piped());
    };
    let mut running = run(job, &format!("stay {more}")).with(input).start();
    running.wait_for_line("taken");
    running
}

fn kill(process: u32, signal: i32) {
    // SAFETY: sends a signal to a process that this test has started.
    assert_eq!(unsafe { libc::kill(process as libc::pid_t, signal) }, 0);
}

fn dies(ended: &Ended) {
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{}", ended.stdout);
}

/// The next job restores all checkpoints that were taken, waiting until they are written; after
/// that there are no backends and no half written files.
fn nothing_is_lost(job: &Job, how: &str, more: &str) {
    let ended = run(job, &format!("{how} {more}")).end();
    if how == "kill" {
        dies(&ended);
    }
    let restored = run(job, &format!("read {more}")).succeed();
    assert_eq!(restored.figure("descriptors"), 0);
    wait_for_backends(job);
    let hidden: Vec<_> =
        names(&job.scratch()).into_iter().filter(|name| name.starts_with('.')).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[test]
fn a_killed_job_loses_nothing_that_it_has_taken() {
    nothing_is_lost(&job(""), "kill", "");
    nothing_is_lost(&job("persistent = DIR/persistent\n"), "kill", "");
    nothing_is_lost(&job(""), "kill", "bytes=100 versions=5000");
}

#[test]
fn a_job_that_exits_or_does_not_drain_leaves_its_work_to_the_backend() {
    nothing_is_lost(&job(""), "exit", "");
    let job = job("");
    nothing_is_lost(&job, "finalize", "");
}

/// The next job may belong to the same process, which has not ended.
#[test]
fn a_process_finds_what_its_own_last_job_has_left() {
    let ended = run(&job(""), "again").succeed();
    assert_eq!(ended.figure("descriptors"), 0);
}

/// Leaves the last file to the backend, however late the job is killed: else there may be nothing to log.
fn without_the_last_file(job: &Job, run: Run) -> Run {
    let run = run.env("LD_PRELOAD", holding(&job.path(""))).env("HOLDS_AT", "left-0-39.dat");
    run.env("HELD_UNTIL", job.path("never"))
}

/// The backend does what the job would have done: the same files everywhere.
#[test]
fn the_backend_persists_as_well() {
    let job = job("persistent = DIR/persistent\n");
    dies(&without_the_last_file(&job, run(&job, "kill")).end());
    wait_for_backends(&job);
    assert_eq!(names(&job.persistent()), names(&job.scratch()));
    assert_eq!(names(&job.scratch()).len(), 40);
    for name in names(&job.scratch()) {
        let copies = [job.scratch(), job.persistent()].map(|d| fs::read(d.join(&name)).unwrap());
        assert!(copies[0] == copies[1], "{name}");
    }
    let said = fs::read_dir(job.path("")).unwrap().flatten().map(|entry| entry.path());
    let logs: Vec<_> = said.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    let text = fs::read_to_string(&logs[0]).unwrap();
    let line = text.lines().find(|line| line.contains("not in their files")).expect(&text);
    let (time, line) = line.split_once("Z WARN] process ").expect(&text);
    assert!(time.starts_with("[20") && line.contains(", rank 0: "), "{text}");
}

/// The backend has another working directory. Catches a relative path that the backend takes for
/// one below its own directory, so that nothing of the job would be written; and a log that is lost
/// because its directory did not exist.
#[test]
fn relative_paths_are_those_of_the_job() {
    let job = Job::new(
        "mode = async\nscratch = scratch\npersistent = persistent\nmeta = meta\nchksum = true\n\
         log_prefix = logs\nhost_cache_size = 128M\n",
    );
    let there = |run: Run| {
        run.with(|command| {
            command.current_dir(job.path(""));
        })
    };
    dies(&without_the_last_file(&job, there(run(&job, "kill"))).end());
    wait_for_backends(&job);
    assert_eq!(names(&job.persistent()).len(), 40);
    assert_eq!(names(&job.path("meta")).len(), 40);
    // The log says that the backend has written the files.
    assert_eq!(names(&job.path("logs")).len(), 1);
    let _ = there(run(&job, "read")).succeed();
}

/// Catches a backend that learns of a client's end by the connection, which a child keeps open.
#[test]
fn a_child_of_the_killed_job_holds_nothing_up() {
    let job = job("");
    let ended = run(&job, "fork").end();
    dies(&ended);
    let restored = run(&job, "read").end();
    kill(ended.figure("child") as u32, libc::SIGKILL);
    let _ = restored.succeeded();
}

/// A process that becomes another program, as those that restart themselves do, lives on and has no
/// part in the job any more. Catches a backend that discards what such a process has left.
#[test]
fn a_job_whose_process_becomes_another_program_loses_nothing() {
    let job = job("");
    let ended = run(&job, "exec").succeed();
    assert_eq!(ended.figure("restored"), 40);
}

/// A job goes on without its backend, says so, and soon has another one.
#[test]
fn a_killed_backend_is_replaced() {
    let job = job("");
    let mut running = stays(&job, "");
    let first = serving(&job);
    kill(first, libc::SIGKILL);
    // The new backend has been given what the first one had.
    running.wait_until_said("there is a veloc-backend again");
    running.input().write_all(b"go on\n").unwrap();
    running.wait_for_line("more");
    // The new backend writes the rest.
    running.signal(libc::SIGKILL);
    let ended = running.end();
    dies(&ended);
    assert!(ended.stderr.contains("veloc-backend has ended"), "{}", ended.stderr);
    let _ = run(&job, "read versions=80").succeed();
}

#[test]
fn one_backend_for_each_configuration() {
    let other = job("touch = concurrent\n");
    let job = job("");
    let running = [stays(&job, "rank=0"), stays(&job, "rank=1"), stays(&other, "")];
    assert_ne!(serving(&job), serving(&other));
    for mut process in running {
        process.input().write_all(b"go on\nend\n").unwrap();
        let ended = process.end().succeeded();
        assert_eq!(ended.figure("descriptors"), 0);
        assert_eq!(ended.complaints(), [""; 0]);
    }
    wait_for_backends(&job);
    wait_for_backends(&other);
}

/// Catches a job that waits for ever, without a message, for a backend that does not answer; and
/// one that ends such a backend although other jobs use it.
#[test]
fn a_backend_that_does_not_answer_is_ended() {
    let job = job("persistent = DIR/persistent\nwatchdog_interval = 1\n");
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let by_hand = Run::new(&program).arg(job.path("veloc.cfg")).env(MARK, job.path("")).end();
    assert!(by_hand.status.success());
    let backend = serving(&job);
    // A job that does not use that backend.
    let mut other = stays(&job, "rank=1 versions=4");
    let is_its = |name: &String| name.starts_with("left-1-");
    until("its versions are in persistent", || {
        names(&job.persistent()).iter().filter(|name| is_its(name)).count() == 4
    });
    // A job that is killed with copies to persistent still to be made.
    let persistent = job.persistent().display().to_string();
    let run = job
        .run("script", "size=1000000")
        .arg(format!("run=rm -r {persistent}; touch {persistent}"));
    let run = run.args("take=x:0 late=persistent take=x:1 late=persistent");
    dies(&run.arg(format!("run=kill -STOP {backend}")).arg("kill").end());
    fs::remove_file(job.persistent()).unwrap();
    // This job's checkpoints have the names of those that the backend has not written.
    let run = job.run("script", "size=1000000 take=x:0:77 take=x:1:77 wait restore=x:0:77");
    // A job that ends before then looks for no other backend.
    let staying = job.path("staying");
    fs::write(&staying, "").unwrap();
    let mut running =
        run.arg(format!("run=while test -e {}; do sleep 0.01; done", staying.display())).start();
    running.wait_until_said("there is a veloc-backend again");
    fs::remove_file(staying).unwrap();
    let ended = running.end().succeeded();
    let killed = "and was killed (its threads: veloc-backend T";
    for said in [&format!("waiting for veloc-backend (process {backend})"), killed] {
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
    assert!(!backends(&job).contains(&backend));
    other.wait_until_said("there is a veloc-backend again");
    other.signal(libc::SIGKILL);
    dies(&other.end());
    wait_for_backends(&job);
    let _ = self::run(&job, "read rank=1 versions=4").succeed();
    let _ = job.run("script", "size=1000000 restore=x:1:77 finalize=0").succeed();
    wait_for_backends(&job);
}
