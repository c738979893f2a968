//! The program veloc-backend: how it is found and started, other programs in its place, its end.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use capi_tests::backends::{backends, serving, until, wait_for_backends, MARK};
use capi_tests::job::{names, Job};
use capi_tests::run::{Run, Running};
use xtask::files::write_program;

use super::{dies, job, kill, run, stays, SCRATCH};

/// A user who has no files on this machine.
const THIRD_USER: u32 = 65533;

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
    assert_eq!(ended.complaints(), [""; 0]);
    let _ = run(&job, "read").succeed();
}

/// A backend that was started by hand serves the same jobs, one after the other.
#[test]
fn started_by_hand() {
    let job = job("");
    let program = capi_tests::program::staged().bin().join("veloc-backend");
    let by_hand = || Run::new(&program).arg(job.path("veloc.cfg")).env(MARK, job.path(""));
    assert!(by_hand().end().status.success());
    let first = serving(&job);
    let again = by_hand().end();
    assert!(again.status.success() && again.stdout.contains("already"), "{}", again.stdout);
    for _ in 0..2 {
        dies(&run(&job, "kill").end());
        let _ = run(&job, "read").succeed();
        assert_eq!(backends(&job), [first]);
    }
    kill(first, libc::SIGTERM);
    until("it ends", || backends(&job).is_empty());
}

/// Catches a program that panics: at a path that is not UTF-8, or when nobody reads its help.
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

/// Connections to a backend that send nothing.
pub(super) struct Silent {
    path: String,
}

impl Silent {
    pub(super) fn at(backend: u32) -> Silent {
        Silent { path: socket_of(backend) }
    }

    pub(super) fn connect(&self) -> OwnedFd {
        // SAFETY: plain data, for which all zeros are valid.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path.iter_mut().zip(self.path.bytes()) {
            *to = from as libc::c_char;
        }
        let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: a socket that nobody else has, and an address that is that long.
        unsafe {
            let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
            let address = std::ptr::from_ref(&address).cast();
            assert_eq!(libc::connect(socket, address, len), 0, "{}", self.path);
            OwnedFd::from_raw_fd(socket)
        }
    }
}

/// The path at which a backend listens.
fn socket_of(backend: u32) -> String {
    let opened = fs::read_dir(format!("/proc/{backend}/fd")).unwrap().flatten();
    let links: Vec<_> = opened
        .filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok())
        .collect();
    let mut path = None;
    // A table that changes while it is read may lack a line.
    until("the backend's socket is in the table", || {
        let table = fs::read_to_string("/proc/net/unix").unwrap();
        path = table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let path = fields.get(7).filter(|path| path.contains("/backend-"))?;
            links.contains(&format!("socket:[{}]", fields[6])).then(|| (*path).to_owned())
        });
        path.is_some()
    });
    path.unwrap()
}

/// A backend leaves no socket behind; the socket of a killed backend is replaced.
#[test]
fn a_socket_goes_with_its_backend() {
    let job = job("");
    let end = |mut running: Running| {
        running.input().write_all(b"go on\nend\n").unwrap();
        let ended = running.end().succeeded();
        assert_eq!(ended.figure("descriptors"), 0);
        wait_for_backends(&job);
        ended
    };
    let running = stays(&job, "");
    let path = socket_of(serving(&job));
    assert!(Path::new(&path).exists());
    assert_eq!(end(running).complaints(), [""; 0]);
    assert!(!Path::new(&path).exists());
    drop(UnixListener::bind(&path).unwrap());
    let running = stays(&job, "");
    assert_eq!(socket_of(serving(&job)), path);
    assert_eq!(end(running).complaints(), [""; 0]);
    assert!(!Path::new(&path).exists());
}

/// Another user has made the directory in which a user's backends are looked for. Catches a job that
/// goes there, and one that does not say why it has no backend.
#[test]
fn another_users_directory_is_not_used() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: another_users_directory_is_not_used needs root");
        return;
    }
    let job = job("");
    let folder = format!("/tmp/veloc-{THIRD_USER}");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).unwrap();
    std::os::unix::fs::chown(job.path(""), Some(THIRD_USER), None).unwrap();
    let prey = |command: &mut Command| {
        command.uid(THIRD_USER).gid(THIRD_USER);
    };
    let ended = run(&job, "finalize").with(prey).succeed();
    fs::remove_dir(&folder).unwrap();
    let said = format!("{folder}, which is to be of this user alone: it belongs to user 65534");
    assert!(ended.stderr.contains(&said), "{}", ended.stderr);
    assert!(ended.stderr.contains("going on without"), "{}", ended.stderr);
}

/// Catches a backend that lives as long as a client is connected that never says what for.
#[test]
fn a_backend_waits_for_nobody_who_says_nothing() {
    let job = job("watchdog_interval = 1\n");
    let mut running = stays(&job, "");
    let connection = Silent::at(serving(&job)).connect();
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

/// SIGTERM lets a backend serve its clients to the end, and write what they leave. Catches a
/// backend that ends at once, and a backend that stays.
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
        let backend = serving(&job);
        kill(backend, libc::SIGTERM);
        running.input().write_all(b"go on\n").unwrap();
        running.wait_for_line("more");
        assert_eq!(backends(&job), [backend]);
        running.signal(libc::SIGKILL);
        let ended = running.end();
        dies(&ended);
        assert_eq!(ended.complaints(), [""; 0]);
        wait_for_backends(&job);
        assert_eq!(names(&job.persistent()).len(), 80);
        let _ = run(&job, "read versions=80").succeed();
        wait_for_backends(&job);
    }
}

/// SIGTERM while a backend writes the files of a killed job, and when a job ends, lets it finish.
#[test]
fn a_backend_that_is_told_to_end_finishes_its_work() {
    for how in ["kill", "finalize"] {
        let job = job("persistent = DIR/persistent\n");
        let mut running = stays(&job, "rank=1");
        let backend = serving(&job);
        let _ = run(&job, how).end();
        kill(backend, libc::SIGTERM);
        running.input().write_all(b"go on\nend\n").unwrap();
        let ended = running.end().succeeded();
        assert_eq!(ended.complaints(), [""; 0]);
        wait_for_backends(&job);
        assert_eq!(names(&job.persistent()).len(), 120, "{how}");
    }
}

/// A list of processes shows which configuration a backend serves.
#[test]
fn a_backend_shows_its_configuration() {
    let job = job("");
    let mut running = stays(&job, "");
    let arguments = fs::read(format!("/proc/{}/cmdline", serving(&job))).unwrap();
    let path = job.path("veloc.cfg").display().to_string();
    let shown = arguments.split(|&byte| byte == 0).any(|argument| argument == path.as_bytes());
    assert!(shown, "{}", String::from_utf8_lossy(&arguments));
    running.input().write_all(b"go on\nend\n").unwrap();
    let _ = running.end().succeeded();
}

/// Another program in the place of the backend, and a program that stands still: the job does not
/// wait, reports the program, and ends it. Catches a job that waits with its files until such a
/// program is given up, or for its end.
#[test]
fn nobody_waits_for_a_program_that_is_no_backend() {
    for does in ["exec sleep 1000", "kill -STOP $$"] {
        let job = job("watchdog_interval = 60\n");
        let bin = job.path("bin");
        fs::create_dir(&bin).unwrap();
        let number = job.path("number").display().to_string();
        let program = bin.join("veloc-backend");
        write_program(&program, &format!("#!/bin/sh\necho $$ > {number}\n{does}\n")).unwrap();
        let lives =
            format!("until test -s {number}; do sleep 0.01; done; test -d /proc/$(cat {number})");
        let take = |commands: &str| {
            let run = job.run("script", &format!("size=1000000 newest={commands} wait"));
            run.arg(format!("run={lives}")).env("VELOC_BIN", &bin)
        };
        // The program is given up after a minute, and would not live any more.
        let ended = take("x:-1 take=x:1").succeed();
        assert!(ended.stderr.contains("serves nobody"), "{}", ended.stderr);
        // A backend that is slow to start may be reported as well, which other tests ignore.
        assert_eq!(ended.complaints(), [""; 0]);
        job.configure(&format!("{SCRATCH}watchdog_interval = 1\n"));
        let gone = format!("run=while test -d /proc/$(cat {number}); do sleep 0.01; done");
        fs::remove_file(&number).unwrap();
        let ended = take("x:1 take=x:2").arg(gone).args("take=x:3 finalize=0").succeed();
        for said in ["does not answer", "going on without it"] {
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
        }
        let (_, silence) = ended.stderr.split_once("has not answered for ").expect(&ended.stderr);
        let seconds: u64 = silence.split_once(" s").unwrap().0.parse().expect(&ended.stderr);
        assert!((3..60).contains(&seconds), "{}", ended.stderr);
        assert_eq!(names(&job.scratch()), ["x-0-1.dat", "x-0-2.dat", "x-0-3.dat"]);
    }
}
