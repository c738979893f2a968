//! The child process that is started as a backend, until the backend has detached from it.

use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use super::launch;
use super::usage::PROGRAM;
use errors::{Error, ErrorKind};

/// How long a finishing job waits for its child to become a backend.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(1);
/// How often to check whether the child has exited.
const POLL_CHILD: Duration = Duration::from_millis(5);

/// The child process of a backend start. It exits when the backend has become a daemon. It is reaped on
/// every path, so that no zombie remains.
#[derive(Debug)]
pub(super) struct BackendChild {
    pub(super) child: Child,
    since: Instant,
}

impl BackendChild {
    pub(super) fn new(child: Child) -> BackendChild {
        BackendChild { child, since: Instant::now() }
    }

    /// Waits for the child, which is about to exit, and returns its exit status; `None` if the
    /// application has the system reap all children.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        self.child.wait().ok()
    }

    /// Waits until the child has become a daemon, and so exits; kills it after `timeout`.
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

    /// The error for a child that exited before it served anybody.
    pub(super) fn ended_error(mut self) -> Error {
        let how = self
            .end_unless_daemon(START_TIMEOUT)
            .map_or("in an unknown way".to_owned(), |how| how.to_string());
        let program = launch::program().unwrap_or_else(|_| PROGRAM.into());
        let what = format!("{} has ended before it served anybody ({how})", program.display());
        Error::new(ErrorKind::System, what)
    }
}

impl Drop for BackendChild {
    fn drop(&mut self) {
        self.end_unless_daemon(START_TIMEOUT);
    }
}
