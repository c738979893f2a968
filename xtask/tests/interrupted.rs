//! `gpu/run.sh` when it is interrupted: it ends at once and in order, and leaves nothing behind.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Stands in for the program `veloc`: says that it has been started, and goes on for a minute.
const PROGRAM: &str = "#!/bin/sh\n: > \"$OUT/started\"\nexec sleep 60\n";

/// A bundle whose first step is under way, in a process group of its own as on a terminal.
fn started(folder: &Path) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/run.sh");
    for name in ["bin", "tmp", "out"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::copy(script, folder.join("run.sh")).unwrap();
    let program = folder.join("bin/veloc");
    fs::write(&program, PROGRAM).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("bash");
    command
        .arg(folder.join("run.sh"))
        .args(["--software", "--figures"])
        .env("OUT", folder.join("out"))
        .env("TMPDIR", folder.join("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    // SAFETY: between fork and exec it makes one system call. A shell cannot handle a signal that
    // was ignored when it began, as it is in the background of another one.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    while !folder.join("out/started").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before its first step");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Catches a log or a table without an end, an exit code that is not the signal's, a working folder
/// that stays, and a step that goes on for its minute.
#[test]
fn the_table_is_closed_and_nothing_stays() {
    for (signal, code, whole_group) in
        [(libc::SIGINT, 130, true), (libc::SIGINT, 130, false), (libc::SIGTERM, 143, false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut child = started(folder.path());
        let process = child.id() as libc::pid_t;
        let to = if whole_group { -process } else { process };
        // SAFETY: our own process, which was not waited for; it leads its group.
        assert_eq!(unsafe { libc::kill(to, signal) }, 0);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal} {whole_group}");
        let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
        let (summary, log) = (read("summary.txt"), read("run.log"));
        assert!(summary.contains("device") && summary.contains("INTERRUPTED"), "{summary}");
        assert!(summary.contains("not done: SIG"), "{summary}");
        assert!(log.lines().last().unwrap().starts_with("interrupted by SIG"), "{log}");
        assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
    }
}
