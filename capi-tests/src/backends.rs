//! The backends that a job's runs have started.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::job::Job;

/// The variable by which the descendants of a job's runs are recognised.
pub const MARK: &str = "CAPI_TESTS_JOB";

/// The backends that live. While a backend becomes a process of its own there are two for a moment,
/// of which one is about to end; [`serving`] waits until that is over.
pub fn backends(job: &Job) -> Vec<u32> {
    look(job).0
}

/// Kills the job's backends. Each of them ends some time later.
pub fn kill_backends(job: &Job) {
    for backend in backends(job) {
        // SAFETY: sends a signal to a process that a test has started.
        unsafe { libc::kill(backend as libc::pid_t, libc::SIGKILL) };
    }
}

/// Waits until the job has one backend that serves: from here on its process id stays the same, and
/// SIGTERM does not end it at once.
pub fn serving(job: &Job) -> u32 {
    let mut found = Vec::new();
    until("one backend that serves", || {
        found = backends(job);
        matches!(&found[..], [one] if catches_term(*one))
    });
    found[0]
}

/// Waits until everything that the job's runs have left is written: then their backends end.
pub fn wait_for_backends(job: &Job) {
    let nobody = || {
        let (found, unknown) = look(job);
        found.is_empty() && !unknown
    };
    // One look may miss a backend that becomes a process of its own meanwhile: the old process is
    // gone, and the place of the new one was looked at before. The next look finds it.
    until("the backends end with their last client", || {
        backends(job).into_iter().for_each(await_end);
        nobody() && nobody()
    });
}

/// Waits until a process has ended, for a second at most: without looking at all processes meanwhile.
fn await_end(process: u32) {
    let Ok(Some(process)) = os::carrier::open(process) else { return };
    let mut end = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives until the call returns.
    unsafe { libc::poll(&raw mut end, 1, 1000) };
}

/// Waits until `holds`. A test that waits too long has failed.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        let waited = since.elapsed();
        assert!(waited < Duration::from_secs(120), "still waiting: {what}");
        // A look at all processes takes a millisecond or two.
        std::thread::sleep((waited / 4).clamp(Duration::from_millis(2), Duration::from_millis(50)));
    }
}

/// The backends of this job, and whether there is one whose job is unknown: a process that has just
/// become the program, or is about to end, has no environment.
fn look(job: &Job) -> (Vec<u32>, bool) {
    let mark = format!("{MARK}={}", job.path("").display());
    let (mut found, mut unknown) = (Vec::new(), false);
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if !is_backend(&entry.path()) {
            continue;
        }
        // The environment of another user's backend cannot be read, and it is none of ours.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.is_empty() {
            unknown |= state(&entry.path()).is_some_and(|state| !matches!(state, 'Z' | 'X'));
        } else if environment.split(|&byte| byte == 0).any(|v| v == mark.as_bytes()) {
            found.push(number);
        }
    }
    (found, unknown)
}

/// Whether a process runs the backend, by its file or, once that is known, by its name.
fn is_backend(process: &Path) -> bool {
    let program = "veloc-backend";
    let file = fs::read_link(process.join("exe"));
    file.is_ok_and(|file| file.file_name().is_some_and(|name| name == program))
        || fs::read(process.join("comm")).is_ok_and(|name| name.starts_with(program.as_bytes()))
}

/// The state of a process as the system shows it; `None` if it has ended.
fn state(process: &Path) -> Option<char> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name before the state may hold anything.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether SIGTERM is handled: a backend does so once it has become a process of its own.
fn catches_term(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (libc::SIGTERM - 1)) != 0)
}
