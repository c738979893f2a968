//! Jobs that end with work undone, the backend that does it, and the end of backends.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use capi_tests::backends::{backends, until, wait_for_backends, MARK};
use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};
use capi_tests::run::{Ended, Run, Running};

const SCRATCH: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 128M\n";

fn job(more: &str) -> Job {
    Job::new(&format!("{SCRATCH}log_prefix = DIR\n{more}"))
}

fn run(job: &Job, arguments: &str) -> Run {
    job.run("left", arguments)
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

/// All that was taken is restored by the next job, which waits until it is written; and then there
/// are no backends and nothing half written any more.
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

/// The next job may be of the same process, which has not ended.
#[test]
fn a_process_finds_what_its_own_last_job_has_left() {
    let ended = run(&job(""), "again").succeed();
    assert_eq!(ended.figure("descriptors"), 0);
}

/// What the backend does is what the job would have done: the same files everywhere.
#[test]
fn the_backend_persists_as_well() {
    let job = job("persistent = DIR/persistent\n");
    dies(&run(&job, "kill").end());
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
    assert!(text.contains("not in their files"), "{text}");
}

/// The backend has another working directory. Catches a path that it takes for one below its own:
/// nothing that the job has left was written then; and a log that is lost because its directory was
/// not there.
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
    dies(&there(run(&job, "kill")).end());
    wait_for_backends(&job);
    assert_eq!(names(&job.persistent()).len(), 40);
    assert_eq!(names(&job.path("meta")).len(), 40);
    // It says that it has written them.
    assert_eq!(names(&job.path("logs")).len(), 1);
    let _ = there(run(&job, "read")).succeed();
}

/// Catches a backend that learns of a client's end only from the connection: a child has it open.
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

/// A job goes on without its backend, says so, and has another one before long.
#[test]
fn a_killed_backend_is_replaced() {
    let job = job("");
    let mut running = stays(&job, "");
    let first = backends(&job);
    assert_eq!(first.len(), 1);
    kill(first[0], libc::SIGKILL);
    until("another backend", || backends(&job).iter().any(|number| *number != first[0]));
    running.input().write_all(b"go on\n").unwrap();
    running.wait_for_line("more");
    // The new one has been given what the old one had: it writes what is left.
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
    assert_eq!((backends(&job).len(), backends(&other).len()), (1, 1));
    for mut process in running {
        process.input().write_all(b"go on\nend\n").unwrap();
        let ended = process.end().succeeded();
        assert_eq!(ended.figure("descriptors"), 0);
        assert!(ended.stderr.is_empty(), "{}", ended.stderr);
    }
    until("both end", || backends(&job).is_empty() && backends(&other).is_empty());
}

#[test]
fn without_the_program_a_job_goes_on_and_says_so() {
    let job = job("");
    let ended = run(&job, "finalize").env("VELOC_BIN", "/nowhere").succeed();
    assert!(ended.stderr.contains("/nowhere/veloc-backend"), "{}", ended.stderr);
    assert!(ended.stderr.contains("going on without"), "{}", ended.stderr);
}

#[test]
fn the_program_is_found_beside_the_library() {
    let job = job("");
    let bare = |command: &mut Command| {
        command.env_remove("VELOC_BIN").env("PATH", "/nowhere");
    };
    let ended = run(&job, "kill").with(bare).end();
    dies(&ended);
    assert!(ended.stderr.is_empty(), "{}", ended.stderr);
    let _ = run(&job, "read").succeed();
}

/// A backend that was started by hand serves the same jobs, one after the other.
#[test]
fn started_by_hand() {
    let job = job("");
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let by_hand = || Run::new(&program).arg(job.path("veloc.cfg")).env(MARK, job.path(""));
    assert!(by_hand().end().status.success());
    let first = backends(&job);
    assert_eq!(first.len(), 1);
    let again = by_hand().end();
    assert!(again.status.success() && again.stdout.contains("already"), "{}", again.stdout);
    for _ in 0..2 {
        dies(&run(&job, "kill").end());
        let _ = run(&job, "read").succeed();
        assert_eq!(backends(&job), first);
    }
    kill(first[0], libc::SIGTERM);
    until("it ends", || backends(&job).is_empty());
}

/// Catches a program that ends with a panic: at a path that is no UTF-8, or when nobody reads its help.
#[test]
fn its_command_line() {
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let path = Path::new("/nonexistent").join(OsStr::from_bytes(b"\xff.cfg"));
    let ended = Run::new(&program).arg(path).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("veloc-backend: configuration file"), "{}", ended.stderr);
    let (output, reader) = UnixStream::pair().unwrap();
    drop(reader);
    let mut command = Command::new(&program);
    command.arg("--help").stdout(OwnedFd::from(output)).stderr(Stdio::piped());
    let ended = command.output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

/// The client that starts a backend may be killed before it connects. Catches a backend that waits
/// for ever for its first client.
#[test]
fn a_backend_that_no_client_comes_to_ends() {
    let job = job("");
    let socket = UnixListener::bind(job.path("socket")).unwrap();
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let run = Run::new(&program).arg("--socket").env(MARK, job.path("")).with(|command| {
        command.stdin(OwnedFd::from(socket));
    });
    assert!(run.end().status.success());
    wait_for_backends(&job);
}

/// A connection to a backend, on which nothing is said.
fn silent_connection(backend: u32) -> OwnedFd {
    let table = fs::read_to_string("/proc/net/unix").unwrap();
    let opened = fs::read_dir(format!("/proc/{backend}/fd")).unwrap().flatten();
    let links: Vec<_> = opened
        .filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok())
        .collect();
    let name = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.get(7)?.strip_prefix("@veloc-backend")?;
        links.contains(&format!("socket:[{}]", fields[6])).then(|| format!("veloc-backend{name}"))
    });
    let name = name.unwrap();
    // SAFETY: plain data, for which all zeros are valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let len = size_of::<libc::sa_family_t>() + 1 + name.len();
    // SAFETY: a socket that nobody else has, and an address that is that long.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let address = std::ptr::from_ref(&address).cast();
        assert_eq!(libc::connect(socket, address, len as libc::socklen_t), 0, "{name}");
        OwnedFd::from_raw_fd(socket)
    }
}

/// Catches a backend that lives as long as somebody is connected who never says what for.
#[test]
fn a_backend_waits_for_nobody_who_says_nothing() {
    let job = job("watchdog_interval = 1\n");
    let mut running = stays(&job, "");
    let connection = silent_connection(backends(&job)[0]);
    running.input().write_all(b"go on\nend\n").unwrap();
    let _ = running.end().succeeded();
    wait_for_backends(&job);
    drop(connection);
}

#[test]
fn what_needs_no_backend_has_none() {
    for more in ["mode = sync\n", "threaded = true\n"] {
        let job = Job::new(&format!("{SCRATCH}{more}"));
        let mut running = stays(&job, "");
        assert!(backends(&job).is_empty());
        running.input().write_all(b"go on\nend\n").unwrap();
        let _ = running.end().succeeded();
        refused(&job.path("veloc.cfg"), "mode = async");
    }
    refused(Path::new("/nowhere.cfg"), "/nowhere.cfg");
}

fn refused(configuration: &Path, why: &str) {
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let ended = Run::new(&program).arg(configuration).end();
    assert!(!ended.status.success() && ended.stderr.contains(why), "{}", ended.stderr);
}

/// Catches a job that waits for ever, without a word, for a backend that does not answer; and such a
/// backend that goes on later and puts what an earlier job has left in the place of newer files.
#[test]
fn a_backend_that_does_not_answer_is_given_up() {
    let job = job("persistent = DIR/persistent\nwatchdog_interval = 1\n");
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let by_hand = Run::new(&program).arg(job.path("veloc.cfg")).env(MARK, job.path("")).end();
    assert!(by_hand.status.success());
    let backend = backends(&job);
    // A job that is killed with copies to persistent still to be made.
    let persistent = job.persistent().display().to_string();
    let run = job
        .run("script", "size=1000000")
        .arg(format!("run=rm -r {persistent}; touch {persistent}"));
    let run = run.args("take=left:0 late=persistent take=left:1 late=persistent");
    dies(&run.arg(format!("run=kill -STOP {}", backend[0])).arg("kill").end());
    fs::remove_file(job.persistent()).unwrap();
    // This job's checkpoints have the names of those that the backend has not written.
    let ended = job
        .run("script", "size=1000000 take=left:0:77 take=left:1:77 wait restore=left:0:77")
        .succeed();
    let waits = format!("waiting for veloc-backend (process {})", backend[0]);
    assert!(ended.stderr.contains(&waits), "{}", ended.stderr);
    assert!(ended.stderr.contains("going on without it"), "{}", ended.stderr);
    let files = || [job.scratch(), job.persistent()].map(|folder| capi_tests::job::files(&folder));
    let mut before = files();
    assert_eq!(before[1].len(), 2);
    let visible = |name: &String| !name.starts_with('.');
    before[0].retain(|name, _| visible(name));
    kill(backend[0], libc::SIGCONT);
    kill(backend[0], libc::SIGTERM);
    until("it ends", || backends(&job).is_empty());
    let mut after = files();
    after[0].retain(|name, _| visible(name));
    assert!(before == after, "the backend has written what it was kept from");
    let mut said = fs::read_dir(job.path("")).unwrap().flatten().map(|entry| entry.path());
    let log = said.find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains("has gone on without waiting"), "{text}");
    // The next job has a backend again, and nothing is left of the one before.
    let _ = job.run("script", "size=1000000 restore=left:1:77 finalize=0").succeed();
    wait_for_backends(&job);
    assert!(names(&job.scratch()).iter().all(visible), "{:?}", names(&job.scratch()));
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

/// What was written while persistent was away is copied there by the next job that asks for it, and by
/// no job that does not; no more than persistent keeps, and not again what was cleaned up since. Catches
/// checkpoints that are in scratch for ever.
#[test]
fn what_persistent_lacks_is_copied_by_the_next_job() {
    for (more, copied) in [("", &[1, 2, 3, 4][..]), ("max_versions = 2\n", &[3, 4])] {
        let text = format!("persistent = DIR/persistent\nwatchdog_interval = 1\n{more}");
        let job = job(&text);
        let persistent = job.persistent().display().to_string();
        let run = job.run("script", "size=1000000 take=x:1 wait");
        let run = run.arg(format!("run=rm -r {persistent}; touch {persistent}"));
        let commands = "take=x:2 late=persistent take=x:3 late=persistent take=y:1 \
                        late=persistent take=x:4 kill";
        dies(&run.args(commands).end());
        wait_for_backends(&job);
        fs::remove_file(job.persistent()).unwrap();
        let _ = job.run("script", "size=1000000 take=z:1 wait").succeed();
        assert_eq!(names(&job.persistent()), ["z-0-1.dat"]);
        // What is not there yet when it is cleaned up stays in scratch until it is.
        let commands = "size=1000000 newest=x:4 cleanup=x refuse=x:9 finalize=1";
        let ended = job.run("script", commands).succeed();
        let mut expected: Vec<_> =
            copied.iter().map(|version| format!("x-0-{version}.dat")).collect();
        expected.push("z-0-1.dat".to_owned());
        let left = names(&job.scratch());
        assert_eq!(names(&job.persistent()), expected, "{left:?}\n{}", ended.stderr);
        assert_eq!(left, ["y-0-1.dat", "z-0-1.dat"]);
        for version in copied {
            let restore = format!("size=1000000 restore=x:{version}");
            let _ = job.run("script", &restore).succeed();
        }
    }
}

/// Catches a copy of what this job itself has taken, and has not wished to be copied.
#[test]
fn what_this_job_has_taken_is_owed_by_nobody() {
    let interval = "persistent = DIR/persistent\npersistent_interval = 0\n";
    let job = job(interval);
    let persistent = job.persistent().display().to_string();
    // A copy that could not be made is tried again by this job's own worker alone.
    let run =
        job.run("script", "size=1000").arg(format!("run=rm -r {persistent}; touch {persistent}"));
    let run = run.args("take=x:1 late=persistent newest=x:1 restore=x:1");
    let run = run.arg(format!("run=rm {persistent}; mkdir {persistent}")).args("sleep=300");
    let run = run.arg(format!("run=rmdir {persistent}; mkdir {persistent}"));
    let _ = run.succeed();
    assert_eq!(names(&job.persistent()), ["x-0-1.dat"]);
}

/// Without a wish for persistent copies, or where some are due only, none is made that was not.
#[test]
fn what_persistent_need_not_have_stays_in_scratch() {
    let of =
        |interval: i32| format!("persistent = DIR/persistent\npersistent_interval = {interval}\n");
    let job = job(&of(-1));
    let _ = job.run("script", "take=x:1 take=x:2 take=x:3").succeed();
    let _ = job.run("script", "newest=x:3 restore=x:2").succeed();
    assert!(names(&job.persistent()).is_empty());
    job.configure(&format!("{SCRATCH}log_prefix = DIR\n{}", of(3600)));
    let _ = job.run("script", "newest=x:3").succeed();
    assert!(names(&job.persistent()).is_empty());
    job.configure(&format!("{SCRATCH}log_prefix = DIR\n{}", of(0)));
    // What comes after the version that a job goes back to is taken again.
    let _ = job.run("script", "newest=x:2:2").succeed();
    assert_eq!(names(&job.persistent()), ["x-0-1.dat", "x-0-2.dat"]);
    let _ = job.run("script", "newest=x:3").succeed();
    assert_eq!(names(&job.persistent()), names(&job.scratch()));
}

/// Catches a backend that writes what is there, however many versions that makes. Each of these jobs
/// ends before it has removed anything itself.
#[test]
fn limits_hold_from_job_to_job() {
    let job = job("persistent = DIR/persistent\nmax_versions = 1\nscratch_versions = 1\n");
    for version in 1..=3 {
        dies(&job.run("script", &format!("size=8000000 take=x:{version} kill")).end());
        wait_for_backends(&job);
        let left = vec![format!("x-0-{version}.dat")];
        // What it was writing when it was killed may go with the next job.
        let complete = |directory| {
            let mut names = names(directory);
            names.retain(|name| !name.starts_with('.'));
            names
        };
        assert_eq!((complete(&job.scratch()), complete(&job.persistent())), (left.clone(), left));
    }
}

/// Catches a clean-up that a job takes with it when it ends: the backend kept the files.
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

/// Without a host buffer the application writes scratch itself, and the copies to persistent are made
/// in the background. Catches a job that leaves these half made.
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
    let backend = backends(&job)[0];
    let takes: String = (1..=12).map(|v| format!(" take=x:{v}")).collect();
    let run = job.run("script", "size=8000000 newest=x:-1");
    let run = run.arg(format!("run=kill -STOP {backend}")).args(&format!("{takes} finalize=0"));
    let _ = run.succeed();
    assert_eq!(names(&job.persistent()).len(), 12);
    kill(backend, libc::SIGKILL);
    until("it ends", || backends(&job).is_empty());
}

/// Jobs that are killed on a scratch that is full, with room in persistent: the backend writes all that
/// was taken there. Catches a will that is dropped because one directory is full.
#[test]
fn what_scratch_cannot_take_the_backend_writes_to_persistent() {
    let more = "host_cache_size = 32M\npersistent = DIR/persistent\nwatchdog_interval = 1\n";
    for interval in ["", "persistent_interval = 3600\n"] {
        let job = Job::new(&format!("{SCRATCH}log_prefix = DIR\n{more}{interval}"));
        let Some(ground) = Ground::mounted(&job, "scratch", 4 << 20) else { return };
        let takes: String = (1..=12).map(|v| format!(" take=x:{v}")).collect();
        dies(&ground.under(job.run("script", &format!("size=2000000{takes} kill"))).end());
        wait_for_backends(&job);
        // The first ones may be in scratch alone, and that is gone with the processes.
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

/// Where there is no room anywhere, what fits is kept, and what is lost is said.
#[test]
fn what_the_backend_cannot_write_is_named() {
    let job = job("");
    let Some(ground) = Ground::mounted(&job, "scratch", 4 << 20) else { return };
    let takes = "take=x:1 take=x:2 kill";
    dies(&ground.under(job.run("script", &format!("size=3000000 {takes}"))).end());
    wait_for_backends(&job);
    let said = log_of(&job);
    let lost = "lost with its memory: \"x\" version 2";
    assert!(said.contains(lost) && said.contains("No space left"), "{said}");
}

/// What the backends of a job have logged.
fn log_of(job: &Job) -> String {
    let found = fs::read_dir(job.path("")).unwrap().flatten().map(|entry| entry.path());
    let logs = found.filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// SIGTERM lets a backend serve its clients to the end, and write what they leave. Catches one that
/// ends at once, and one that stays.
#[test]
fn a_backend_that_is_told_to_end_serves_to_the_end() {
    let job = job("persistent = DIR/persistent\n");
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    for by_hand in [false, true] {
        if by_hand {
            let started = Run::new(&program).arg(job.path("veloc.cfg")).env(MARK, job.path(""));
            assert!(started.end().status.success());
        }
        let mut running = stays(&job, "");
        let backend = backends(&job);
        assert_eq!(backend.len(), 1);
        kill(backend[0], libc::SIGTERM);
        running.input().write_all(b"go on\n").unwrap();
        running.wait_for_line("more");
        assert_eq!(backends(&job), backend);
        running.signal(libc::SIGKILL);
        let ended = running.end();
        dies(&ended);
        assert!(ended.stderr.is_empty(), "{}", ended.stderr);
        wait_for_backends(&job);
        assert_eq!(names(&job.persistent()).len(), 80);
        let _ = run(&job, "read versions=80").succeed();
        wait_for_backends(&job);
    }
}

/// The same with SIGTERM while it writes what a killed job has left, and when a job says goodbye.
#[test]
fn a_backend_that_is_told_to_end_finishes_its_work() {
    for how in ["kill", "finalize"] {
        let job = job("persistent = DIR/persistent\n");
        let mut running = stays(&job, "rank=1");
        let backend = backends(&job);
        let _ = run(&job, how).end();
        kill(backend[0], libc::SIGTERM);
        running.input().write_all(b"go on\nend\n").unwrap();
        let ended = running.end().succeeded();
        assert!(ended.stderr.is_empty(), "{}", ended.stderr);
        wait_for_backends(&job);
        assert_eq!(names(&job.persistent()).len(), 120, "{how}");
    }
}

/// A list of processes shows which configuration a backend serves.
#[test]
fn a_backend_shows_its_configuration() {
    let job = job("");
    let mut running = stays(&job, "");
    let arguments = fs::read(format!("/proc/{}/cmdline", backends(&job)[0])).unwrap();
    let path = job.path("veloc.cfg").display().to_string();
    let shown = arguments.split(|&byte| byte == 0).any(|argument| argument == path.as_bytes());
    assert!(shown, "{}", String::from_utf8_lossy(&arguments));
    running.input().write_all(b"go on\nend\n").unwrap();
    let _ = running.end().succeeded();
}

/// A program that is no backend in the place of one, and one that stands still: nobody waits for it, it
/// is said, and it does not stay. Catches a job that waits with its files until such a program is given
/// up, or for its end.
#[test]
fn nobody_waits_for_a_program_that_is_no_backend() {
    for does in ["exec sleep 1000", "kill -STOP $$"] {
        let job = job("watchdog_interval = 60\n");
        let bin = job.path("bin");
        fs::create_dir(&bin).unwrap();
        let number = job.path("number").display().to_string();
        let program = bin.join("veloc-backend");
        fs::write(&program, format!("#!/bin/sh\necho $$ > {number}\n{does}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let lives =
            format!("until test -s {number}; do sleep 0.01; done; test -d /proc/$(cat {number})");
        let take = |commands: &str| {
            let run = job.run("script", &format!("size=1000000 newest={commands} wait"));
            run.arg(format!("run={lives}")).env("VELOC_BIN", &bin)
        };
        // It is given up after a minute, and so it would not live any more.
        let ended = take("x:-1 take=x:1").succeed();
        assert!(ended.stderr.contains("serves nobody"), "{}", ended.stderr);
        job.configure(&format!("{SCRATCH}watchdog_interval = 1\n"));
        let gone = format!("run=while test -d /proc/$(cat {number}); do sleep 0.01; done");
        fs::remove_file(&number).unwrap();
        let ended = take("x:1 take=x:2").arg(gone).args("take=x:3 finalize=0").succeed();
        for said in ["does not answer", "has not answered for 3 s", "going on without it"] {
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
        }
        assert_eq!(names(&job.scratch()), ["x-0-1.dat", "x-0-2.dat", "x-0-3.dat"]);
    }
}
