//! Mechanisms of the operating system (Linux): memory, pages, NUMA, files, processors, and the
//! locks by which the processes of a node take turns. No policy: when and how much is decided
//! elsewhere. Every system call of the library that is not the driver's is here.

#![deny(clippy::disallowed_methods)]

pub mod access;
pub mod affinity;
pub mod attributes;
pub mod clock;
pub mod descriptors;
pub mod environment;
pub mod error;
pub mod files;
pub mod fork;
#[cfg(any(test, feature = "tests"))]
pub mod forks;
pub mod lock;
pub mod logging;
pub mod mapping;
pub mod memory;
pub mod mounts;
pub mod network;
pub mod numa;
pub mod origin;
pub mod private;
pub mod shared;
pub mod size;
pub mod socket;
pub mod sync;
pub mod threads;
pub mod times;
pub mod turns;

/// The calling thread's number in the system.
pub fn thread_id() -> u32 {
    // SAFETY: without arguments, and cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// Whether a process exists that may still do something: one that has ended and was not waited for
/// by its parent does not.
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

/// Whether a process is ending, or has ended and was not waited for. From the moment it is killed it
/// may take seconds until its memory and its files are given back.
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
        // It has ended, and nobody has waited for it.
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert!(is_ending(child.id()));
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }
}
