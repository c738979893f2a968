//! Keeps test processes from inheriting each other's descriptors.
//!
//! A child has its parent's descriptors until it executes a program. So with concurrent tests, a
//! descriptor that one test closes may stay open for a moment in a child of another.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

static FORKS: Mutex<()> = Mutex::new(());

/// While this is held, no forked child has descriptors of this process. To be held by a test that needs
/// to be a descriptor's only owner, and by one that forks until the child has ended.
pub fn none() -> MutexGuard<'static, ()> {
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process, and returns when it has executed its program.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _held = none();
    command.spawn()
}
