//! Numbers of connections that no program should make.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;

use capi_tests::backends::{serving, wait_for_backends};

use super::program::Silent;
use super::{dies, job, run, stays};

/// Connections whose descriptors are kept at a time.
const AT_ONCE: usize = 400;

/// The most threads that a backend may have, whoever is connected.
const MOST_THREADS: usize = 300;

/// The number of connections of a flood: `usual`, or as `VELOC_FLOOD` says.
pub(crate) fn flood(usual: usize) -> usize {
    let said = std::env::var("VELOC_FLOOD").ok();
    said.map_or(usual, |number| number.parse().expect("VELOC_FLOOD is a number"))
}

fn entries(backend: u32, of: &str) -> usize {
    fs::read_dir(format!("/proc/{backend}/{of}")).unwrap().count()
}

/// Catches a backend that gives a thread and descriptors to clients that send nothing, until it has
/// none for a job, whose files are then lost.
#[test]
fn a_backend_has_time_for_its_jobs() {
    let job = job("watchdog_interval = 3\npersistent = DIR/persistent\n");
    let mut running = stays(&job, "");
    let backend = serving(&job);
    let silent = Silent::at(backend);
    let mut connections = VecDeque::new();
    let (mut threads, mut descriptors) = (0, 0);
    for number in 0..flood(AT_ONCE) {
        connections.push_back(silent.connect());
        if connections.len() > AT_ONCE {
            connections.pop_front();
        }
        if number % 100 == 99 {
            threads = threads.max(entries(backend, "task"));
            descriptors = descriptors.max(entries(backend, "fd"));
        }
    }
    // Another job of the configuration comes to the backend now, and its files are written by it.
    let _ = run(&job, "rank=1 finalize").succeed();
    running.input().write_all(b"go on\n").unwrap();
    running.wait_for_line("more");
    running.signal(libc::SIGKILL);
    let ended = running.end();
    dies(&ended);
    assert_eq!(ended.complaints(), [""; 0]);
    assert_eq!(serving(&job), backend);
    let _ = run(&job, "read versions=80").succeed();
    drop(connections);
    wait_for_backends(&job);
    println!("a backend had {threads} threads and {descriptors} descriptors");
    assert!(threads <= MOST_THREADS, "{threads} threads");
}
