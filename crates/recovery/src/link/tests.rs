//! Programs that are not backends.

use std::cell::Cell;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use os::forks;

fn shared(folder: &Path) -> SharedConnection {
    let text = format!("mode = async\nscratch = {}\n", folder.display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let config = portable(&config).unwrap();
    SharedConnection {
        path: folder.join("socket"),
        hello: Hello {
            protocol: PROTOCOL,
            config,
            process: Process::single(0),
            directories: Vec::new(),
        },
        file: None,
        hand_off: HandOff { ledger: SharedMemory::create("veloc-test", 4096).unwrap(), host: None },
        now: Mutex::new(LinkState {
            socket: None,
            predecessors_done: false,
            gave_up_waiting: false,
            heard: 0,
            stuck: None,
            closing: false,
        }),
        changed: Condvar::new(),
    }
}

/// Starts a shell script that inherits the socket. Called with [`forks::none`] held.
fn start(listener: Listener, script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::from(listener.into_file())).spawn().unwrap()
}

/// The state of a process as in /proc; `None`: there is no such process.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Catches a program that exits at once and is started again and again, and zombies.
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
        // No other process inherits the program's socket.
        let sole = forks::none();
        let error = shared(folder.path()).connect(launch).unwrap_err().to_string();
        drop(sole);
        assert!(error.contains("veloc-backend") && error.contains(how), "{error}");
        let children = children.take();
        assert_eq!(children.len(), 1);
        assert_eq!(state(children[0]), None, "it was not waited for");
    }
}

/// Catches a child that is not reaped after a later failure, and a job without a backend because it took long to start one.
#[test]
fn whatever_was_started_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let child = Cell::new(0);
    let launch = |listener, _: Option<&Path>| {
        let _forks = forks::none();
        let started = start(listener, "exec sleep 1000");
        child.set(started.id());
        thread::sleep(CONNECT_TIMEOUT);
        Ok(started)
    };
    drop(shared(folder.path()).connect(launch).unwrap());
    assert_eq!(state(child.get()), None);
}

/// A backend that is about to end may accept a connection and drop it. Catches a job that then has no
/// backend for its whole life.
#[test]
fn a_connection_that_is_lost_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let client = shared(folder.path());
    let launch = |_: Listener, _: Option<&Path>| unreachable!("somebody listens");
    let _sole = forks::none();
    let listener = listen_at(&client.path).unwrap().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                drop(listener.accept(POLL_INTERVAL).unwrap());
            }
        });
        let failed = (0..2000).find_map(|_| client.connect(launch).err());
        done.store(true, Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}

/// The listener is not a backend, so it must not be killed, and it says nothing. Catches a client that
/// writes files which the listener might overwrite with older ones.
#[test]
fn what_cannot_be_ended_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = folder.path().display();
    // Its own folder: others do not lock that of the user meanwhile.
    let text = format!(
        "mode = async\nscratch = {scratch}\nrun_directory = {scratch}\nwatchdog_interval = 1\n"
    );
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let path = path_of(&portable(&config).unwrap()).unwrap();
    let listener = listen_at(&path).unwrap().unwrap();
    let hand_off =
        HandOff { ledger: SharedMemory::create("veloc-test", 4096).unwrap(), host: None };
    let link = Link::open(&config, Process::single(7), Vec::new(), hand_off, None).unwrap();
    let served = listener.accept(Duration::from_secs(60)).unwrap().unwrap();
    assert!(!link.wait_for_predecessors());
    let error = link.may_write().unwrap_err().to_string();
    assert!(error.contains("rank 7") && error.contains("process is not known"), "{error}");
    drop((link, served));
    fs::remove_file(path).unwrap();
}

/// Catches a client that kills its backend because both were stopped for a while.
#[test]
fn time_in_which_nobody_ran_is_no_silence() {
    let patience = Duration::from_secs(3);
    let before = Instant::now().checked_sub(10 * patience).unwrap();
    let mut wait = ReplyWait {
        backend: None,
        patience,
        since: before,
        looked: before,
        silence: Duration::ZERO,
        heard: None,
        said: None,
    };
    assert_eq!(wait.check_silence(), None);
    // As if that was a look later.
    for _ in 0..15 {
        wait.looked = before;
        let _ = wait.check_silence();
    }
    assert!(wait.check_silence().is_some());
}
