//! The interface to the operating system (Linux): memory, NUMA, files, processors, sockets, threads, and
//! locks between the processes of a node. Mechanisms only; policy is elsewhere. All system calls of the
//! library are here, except the driver's.

#![deny(clippy::disallowed_methods)]

pub mod access;
pub mod affinity;
pub mod attributes;
pub mod carrier;
pub mod clock;
pub mod crash;
pub mod descriptors;
pub mod environment;
pub mod files;
pub mod flush;
pub mod fork;
pub mod fork_detector;
#[cfg(any(test, debug_assertions))]
pub mod forks;
pub mod interrupt;
pub mod live_lock;
pub mod lock;
pub mod logging;
pub mod mapping;
pub mod memory;
pub mod mounts;
pub mod network;
pub mod node_lock;
pub mod numa;
pub mod persistent;
pub mod precedence;
pub mod private;
pub mod programs;
pub mod residency;
pub mod shared;
pub mod size;
pub mod socket;
pub mod stack;
pub mod sync;
pub mod threads;
pub mod times;
pub mod write_protection;
pub mod written;

/// The calling thread's id.
pub fn thread_id() -> u32 {
    // SAFETY: without arguments, and cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// Whether a process is alive; a zombie is not.
pub fn is_alive(process: u32) -> bool {
    // SAFETY: signal 0 only asks whether the process exists.
    let exists = process == std::process::id()
        || unsafe { libc::kill(process as libc::pid_t, 0) } == 0
        || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which is in parentheses and may have any letters.
    let state = status.rsplit_once(") ").and_then(|(_, behind)| behind.chars().next());
    exists && !matches!(state, Some('Z' | 'X'))
}

/// Whether a process is exiting, or is a zombie. A killed process may take seconds to release its memory
/// and its files.
pub fn is_ending(process: u32) -> bool {
    /// The kernel's `PF_EXITING`.
    const EXITING: u64 = 4;
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which may have any letters: the state, five numbers, and the flags.
    let flags = status.rsplit_once(") ").and_then(|(_, behind)| behind.split(' ').nth(6));
    flags.and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn who_is_alive() {
        assert!(is_alive(std::process::id()));
        let mut child = forks::spawn(Command::new("sleep").arg("1000")).unwrap();
        assert!(is_alive(child.id()) && !is_ending(child.id()));
        child.kill().unwrap();
        // A zombie.
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert!(is_ending(child.id()));
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }
}
