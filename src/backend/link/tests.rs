//! Programs that are no backends.

use std::cell::Cell;
use std::fs;
use std::process::{Command, Stdio};

use super::*;
use crate::platform::forks;

fn shared(folder: &Path) -> Shared {
    let text = format!("mode = async\nscratch = {}\n", folder.display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let config = portable(&config).unwrap();
    Shared {
        hello: Hello { protocol: PROTOCOL, config, process: Process::alone(0) },
        file: None,
        estate: Estate { ledger: SharedMemory::create("veloc-test", 4096).unwrap(), host: None },
        now: Mutex::new(Now {
            socket: None,
            settled: false,
            hurried: false,
            heard: 0,
            given_up: false,
            leaving: false,
        }),
        changed: Condvar::new(),
    }
}

/// A process with this script, which has the socket. Called with [`forks::none`] held.
fn start(listener: Listener, script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::from(listener.into_file())).spawn().unwrap()
}

/// The state of a process, as the system shows it; `None`: there is none.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Catches a program that ends at once and is started again and again, and children that nobody has
/// waited for.
#[test]
fn a_program_that_ends_at_once_is_started_once() {
    for (script, how) in [("exit 3", "exit status: 3"), ("kill -9 $$", "signal: 9")] {
        let folder = tempfile::tempdir().unwrap();
        let children = Cell::new(Vec::new());
        let launch = |listener, _: Option<&Path>| {
            let child = start(listener, script);
            while state(child.id()) != Some('Z') {
                thread::yield_now();
            }
            children.set([children.take(), vec![child.id()]].concat());
            Ok(child)
        };
        // Nobody else keeps the socket that the program had.
        let sole = forks::none();
        let error = shared(folder.path()).connect(launch).unwrap_err().to_string();
        drop(sole);
        assert!(error.contains("veloc-backend") && error.contains(how), "{error}");
        let children = children.take();
        assert_eq!(children.len(), 1);
        assert_eq!(state(children[0]), None, "it was not waited for");
    }
}

/// Catches a child that nobody waits for because what comes after its start has failed.
#[test]
fn whatever_was_started_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let child = Cell::new(0);
    let launch = |listener, _: Option<&Path>| {
        let _forks = forks::none();
        let started = start(listener, "exec sleep 1000");
        child.set(started.id());
        Ok(started)
    };
    drop(shared(folder.path()).connect(launch).unwrap());
    assert_eq!(state(child.get()), None);
}
