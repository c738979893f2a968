//! Upstream's faults, each with the test of ours that it would fail. [`FAULTS`] is the list; tests
//! of faults that belong to no other subject follow it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

use std::io::Write as _;

use capi_tests::backends::{backends, serving, wait_for_backends};
use capi_tests::job::{names, Job};
use capi_tests::program::{faults, sync_witness};

/// A test here, and the behaviour of upstream (VELOC 1.8) that would fail it: crashes, hangs, lost
/// data and wrong data. Slowness is not tested here: `veloc-bench` measures it.
const FAULTS: &[(&str, &str, &[&str])] = &[
    ("files.rs", "selective_captures_are_sorted", &["CKPT_SOME erases while it iterates"]),
    (
        "refusals.rs",
        "wrong_arguments_and_calls_out_of_order",
        &["calls before Init, after Finalize", "NULL names abort", "a bad configuration exits"],
    ),
    ("faults.rs", "a_client_that_is_killed_in_wait", &["a client killed in wait ends the daemon"]),
    (
        "files.rs",
        "damaged_files_are_passed_over",
        &["x-0-99999999999.dat hangs Restart_test", "x-0-7.dat.partial counts as version 7"],
    ),
    (
        "files.rs",
        "nothing_is_left_of_what_was_replaced_or_given_up",
        &[
            "a version written again in mid-flush spins the daemon",
            "a smaller rewrite leaves the old tail",
            "Checkpoint_end keeps a checkpoint that has failed",
        ],
    ),
    ("faults.rs", "what_a_killed_backend_leaves_stops_no_job", &["a stale ready file stops Init"]),
    (
        "host.rs",
        "async_jobs",
        &[
            "the first checkpoint of a name freezes its regions",
            "recover overwrites before it finds a misfit",
            "to protect an id again returns -1",
        ],
    ),
    ("kill.rs", "async_jobs", &["no rename: half a file has the name of a whole one"]),
    ("faults.rs", "files_reach_the_storage_before_their_names", &["no fsync anywhere"]),
    (
        "checksums.rs",
        "a_bad_copy_is_passed_over",
        &["a flipped bit loads silently", "a bad scratch copy hides the good one"],
    ),
    ("faults.rs", "scratch_alone_restarts", &["scratch alone cannot restart"]),
    ("faults.rs", "the_newest_that_all_have", &["Restart_test takes the maximum over ranks"]),
    ("versions.rs", "after_a_rollback_the_new_ones_stay", &["the pruner goes by number"]),
    ("files.rs", "cleanup_removes_scratch_files_of_one_name", &["a dot is a wildcard"]),
    (
        "faults.rs",
        "a_checkpoint_that_failed_is_over_and_goes_nowhere",
        &["a failed Checkpoint leaves its phase open", "a failed transfer is flushed all the same"],
    ),
    ("backend.rs", "one_backend_for_each_configuration", &["one daemon for all configurations"]),
    (
        "device.rs",
        "everything_listed_for_a_gpu",
        &["kernels on non-blocking streams race with the copy"],
    ),
];

/// Catches a test that is renamed or removed and so protects from nothing any more, and a case that
/// is removed from the list of `host.rs`.
#[test]
fn every_fault_has_its_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/capi");
    for (file, test, faults) in FAULTS {
        let text = fs::read_to_string(tests.join(file)).unwrap();
        let declared = format!("#[test]\nfn {test}() {{");
        assert!(text.contains(&declared), "{faults:?}: {file} has no test {test}");
    }
    let host = fs::read_to_string(tests.join("host.rs")).unwrap();
    for case in ["protected-again", "all-or-nothing", "replaced-by-less", "given-up"] {
        assert!(host.contains(&format!("    \"{case}\", ")), "host.rs lacks the case {case}");
    }
}

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\nlog_prefix = DIR\n";

/// Upstream's daemon ends with a client that is killed while it waits, and loses all others' files.
#[test]
fn a_client_that_is_killed_in_wait() {
    let job = Job::new(ASYNC);
    let mut other = job
        .run("left_work", "stay rank=1")
        .with(|command| {
            command.stdin(Stdio::piped());
        })
        .start();
    other.wait_for_line("taken");
    let backend = serving(&job);
    for first in [1u32, 100, 200] {
        let mut killed = job.run("killed_job", &format!("write first={first}")).start();
        // The next call of the client is a wait.
        killed.wait_for_line(&format!("taken {}", (first + 1).next_multiple_of(3)));
        killed.signal(libc::SIGKILL);
        assert!(!killed.end().status.success());
        let _ = job.run("killed_job", "read").succeed();
        assert_eq!(backends(&job), [backend], "the backend of the other one has ended");
    }
    other.input().write_all(b"go on\nend\n").unwrap();
    let ended = other.end().succeeded();
    assert_eq!(ended.complaints(), [""; 0]);
    wait_for_backends(&job);
}

/// A backend that is killed with its client leaves nothing that disturbs the next job: no file that
/// says it is ready, no socket, no half written checkpoint.
#[test]
fn what_a_killed_backend_leaves_stops_no_job() {
    let job = Job::new(ASYNC);
    for round in 0..3 {
        let mut client =
            job.run("killed_job", &format!("write first={}", 1 + 1000 * round)).start();
        client.wait_for_line(&format!("durable {}", (1 + 1000 * round as u32).next_multiple_of(3)));
        let backend = serving(&job);
        client.signal(libc::SIGSTOP);
        // SAFETY: sends a signal to a process that this test has started.
        assert_eq!(unsafe { libc::kill(backend as libc::pid_t, libc::SIGKILL) }, 0);
        client.signal(libc::SIGKILL);
        assert!(!client.end().status.success());
        // Its half written files count as in use until it has ended.
        wait_for_backends(&job);
        let read = job.run("killed_job", "read").succeed();
        let durable = u64::from((1 + 1000 * round as u32).next_multiple_of(3));
        assert!(read.figure("newest") >= durable);
        wait_for_backends(&job);
        let left: Vec<_> =
            names(&job.scratch()).into_iter().filter(|name| name.starts_with('.')).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Upstream looks for checkpoints in persistent alone when a job starts.
#[test]
fn scratch_alone_restarts() {
    for configuration in [ASYNC, "mode = sync\nscratch = DIR/scratch\n"] {
        let job = Job::new(configuration);
        job.run("script", "take=x:1 take=x:2").succeed();
        job.run("script", "newest=x:2 restore=x:2 restore=x:1").succeed();
    }
}

/// Upstream's maximum over the ranks is a version that some ranks lack.
#[test]
fn the_newest_that_all_have() {
    for mpi in [&crate::mpi::OPEN_MPI, &crate::mpi::MPICH] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        let Some(run) = mpi.script(&job, "take=x:1 take=x:2 take=x:3") else { return };
        run.succeed();
        fs::remove_file(job.scratch().join("x-1-3.dat")).unwrap();
        fs::write(job.scratch().join("x-2-2.dat"), "damaged").unwrap();
        mpi.script(&job, "newest=x:1 restore=x:1").unwrap().succeed();
    }
}

/// A checkpoint whose file cannot be written leaves nothing in any directory, and no phase that the
/// next one would find open.
#[test]
fn a_checkpoint_that_failed_is_over_and_goes_nowhere() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n");
    let limited = |command: &mut std::process::Command| {
        let limit = || {
            let size = libc::rlimit { rlim_cur: 100_000, rlim_max: 100_000 };
            // SAFETY: calls that may be made between fork and exec, with a struct of our own.
            let set = unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                libc::setrlimit(libc::RLIMIT_FSIZE, &size)
            };
            (set == 0).then_some(()).ok_or_else(std::io::Error::last_os_error)
        };
        // SAFETY: the function allocates nothing and takes no lock.
        unsafe { command.pre_exec(limit) };
    };
    job.run(
        "script",
        "size=3000000 fail=x:2:x-0-2.dat fail=x:3:x-0-3.dat size=1000 take=x:1 newest=x:1 \
         restore=x:1 refuse=x:2:no_checkpoint",
    )
    .with(limited)
    .succeed();
    assert_eq!(names(&job.scratch()), ["x-0-1.dat"]);
    assert_eq!(names(&job.persistent()), ["x-0-1.dat"]);
}

/// The system is asked to keep what `sync_files` promises: the bytes under the temporary name, and
/// then the directory with the name.
#[test]
fn files_reach_the_storage_before_their_names() {
    for (value, scratch, persistent) in
        [("none", false, false), ("data", false, true), ("full", true, true)]
    {
        let job = Job::new(&format!(
            "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
             sync_files = {value}\n"
        ));
        let witness = sync_witness(&job.path(""));
        let ended = job.run("script", "take=x:1").env("LD_PRELOAD", witness).succeed();
        for (directory, wanted) in [(job.scratch(), scratch), (job.persistent(), persistent)] {
            let directory = directory.display();
            let at = |what: &str| ended.stderr.lines().position(|line| line.starts_with(what));
            let bytes = at(&format!("synced {directory}/.x-0-1.dat.tmp-"));
            let whole = format!("synced {directory}");
            let name = ended.stderr.lines().position(|line| line == whole);
            assert_eq!(bytes.is_some(), wanted, "{value}, {directory}: {}", ended.stderr);
            assert_eq!(name.is_some(), wanted, "{value}, {directory}: {}", ended.stderr);
            assert!(bytes <= name, "{value}, {directory}: {}", ended.stderr);
        }
    }
}

/// Catches a file that counts as written though the storage has refused its bytes: in the call of a sync
/// job, and in the next wait of an async one.
#[test]
fn a_file_that_could_not_be_synced_is_no_checkpoint() {
    for (mode, commands) in
        [("sync", "fail=x:1:fsync newest=x:-1"), ("async", "take=x:1 late=fsync finalize=1:fails")]
    {
        let job = Job::new(&format!("mode = {mode}\nscratch = DIR/scratch\nsync_files = full\n"));
        let failing = job.run("script", commands).env("LD_PRELOAD", faults(&job.path("")));
        failing.env("FAULTS_IN", job.scratch()).env("FAULTS_NO_SYNC", "1").succeed();
        if mode == "sync" {
            assert_eq!(names(&job.scratch()), [""; 0]);
        }
        // What the async job could not write is written by its backend, whose storage works.
        job.run("script", "take=x:2 newest=x:2").succeed();
    }
}

/// Catches a checkpoint that is lost because its file system syncs nothing, and one that is not safe without a word.
#[test]
fn a_file_system_that_does_not_sync() {
    for (mode, reason) in [("sync", libc::EINVAL), ("async", libc::EINVAL), ("sync", libc::ENOTSUP)]
    {
        let job = Job::new(&format!("mode = {mode}\nscratch = DIR/scratch\nsync_files = full\n"));
        let run = job.run("script", "take=x:1 take=x:2 wait newest=x:2 restore=x:2");
        let run = run.env("LD_PRELOAD", faults(&job.path(""))).env("FAULTS_IN", job.scratch());
        let ended = run.env("FAULTS_NO_SYNC", reason.to_string()).succeed();
        assert_eq!(ended.stderr.matches("does not sync files").count(), 1, "{}", ended.stderr);
    }
}
