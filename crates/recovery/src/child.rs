//! The program that is started as a backend, from its start until it is one.

use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use super::launch;
use os::error::{Error, Kind};

/// A job that ends waits so long for a program that it has started and that is no backend yet.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is looked whether the program has ended.
const POLL_CHILD: Duration = Duration::from_millis(5);

/// The program that was started as a backend, until it is one: then this process ends. It is waited for
/// on every path, so that the system can forget it.
#[derive(Debug)]
pub(super) struct BackendChild {
    pub(super) child: Child,
    since: Instant,
}

impl BackendChild {
    pub(super) fn new(child: Child) -> BackendChild {
        BackendChild { child, since: Instant::now() }
    }

    /// Waits for the end of the process, of which it is known that it comes. How it ended: not known
    /// where the application has all its children waited for by the system.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        self.child.wait().ok()
    }

    /// Sees to it that it ends: a backend becomes a process of its own within `timeout`, and what
    /// does not is none.
    pub(super) fn end_unless_daemon(&mut self, timeout: Duration) -> Option<ExitStatus> {
        while matches!(self.child.try_wait(), Ok(None)) {
            if self.since.elapsed() >= timeout {
                log::warn!(
                    "process {} was started as veloc-backend and serves nobody: it is ended",
                    self.child.id()
                );
                let _ = self.child.kill();
                break;
            }
            thread::sleep(POLL_CHILD);
        }
        self.reap()
    }

    /// The error of one that nobody has been served by.
    pub(super) fn ended_error(mut self) -> Error {
        let how = self
            .end_unless_daemon(START_TIMEOUT)
            .map_or("in an unknown way".to_owned(), |how| how.to_string());
        let program = launch::program();
        let what = format!("{} has ended before it served anybody ({how})", program.display());
        Error::new(Kind::System, what)
    }
}

impl Drop for BackendChild {
    fn drop(&mut self) {
        self.end_unless_daemon(START_TIMEOUT);
    }
}
