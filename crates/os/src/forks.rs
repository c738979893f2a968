//! Descriptors that are to have no other owner, in tests.
//!
//! A child has every descriptor of its parent until it becomes another program. If tests run beside each
//! other, what one of them closes may thus stay open for a moment in the child that another one starts.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

static FORKS: Mutex<()> = Mutex::new(());

/// As long as this lives, nothing that was forked here has descriptors of this process. To be held by
/// who is to be a descriptor's only owner, and by who forks until the child has ended.
pub fn none() -> MutexGuard<'static, ()> {
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process; when this returns, that is another program.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _held = none();
    command.spawn()
}
