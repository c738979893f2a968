//! The lock under which files get their names and lose them: who looks for a version's files sees all that one
//! step changes, or nothing.

use os::sync::{Mutex, MutexGuard};

/// The lock of names.
#[derive(Debug, Default)]
pub struct Names(Mutex<()>);

/// The lock of names, held. What gives a file its name asks for it.
#[must_use]
#[derive(Debug)]
pub struct Naming<'a>(#[expect(dead_code, reason = "it is held")] MutexGuard<'a, ()>);

impl Names {
    /// Waits for the lock.
    pub fn lock(&self) -> Naming<'_> {
        Naming(self.0.lock())
    }
}
