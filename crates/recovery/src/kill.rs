//! Kills a backend that does not answer but might resume at any moment.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{pidfd_send_signal, Signal};

use super::usage::PROGRAM;
use errors::{Error, ErrorKind, Result};
use os::socket::{connect_to, wait_for, Socket};

/// How long a killed process may take to exit.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Kills the backend at the other end of `connection`, which listens at `path`, and waits until it has
/// exited: from then on it writes nothing. Returns its process id, and what it did when it was killed.
///
/// # Errors
/// The process is unknown, or it does not exit.
pub(crate) fn kill_backend(connection: &Socket, path: &Path) -> Result<(i32, String)> {
    // A connection made before the backend called `listen` reports the process that created the socket.
    let fresh = connect_to(path).ok().flatten();
    let known = |socket: &Socket| Some((socket.peer_number(), socket.peer()?));
    let found = fresh.iter().chain([connection]).filter_map(known);
    let Some((number, process)) = found.into_iter().find(|(number, _)| is_backend(*number)) else {
        return Err(Error::new(ErrorKind::System, "it cannot be ended: its process is not known"));
    };
    let did = states(number);
    kill(number, &process).map(|()| (number, did))
}

/// The threads of a process, each with the state that the system shows for it: S waits, D waits for a device or a file
/// system, T is stopped, R runs or would.
fn states(process: i32) -> String {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let state = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("stat")).ok()?;
        let (name, rest) = status.rsplit_once(") ")?;
        let name = name.split_once('(')?.1;
        Some(format!("{name} {}", rest.chars().next()?))
    };
    threads.filter_map(state).collect::<Vec<String>>().join(", ")
}

fn kill(number: i32, process: &OwnedFd) -> Result<()> {
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(Error::system(format!("ending process {number}"), &error.into())),
    }
    if wait_for_exit(process, EXIT_TIMEOUT) {
        return Ok(());
    }
    let what = format!("process {number} was killed and does not end");
    Err(Error::new(ErrorKind::System, what))
}

/// Whether the process is a backend and not the application that created the socket.
fn is_backend(number: i32) -> bool {
    fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|name| name.trim_end() == PROGRAM)
}

/// Whether the process exits within this time. Signals do not interrupt the wait.
pub fn wait_for_exit(process: &OwnedFd, at_most: Duration) -> bool {
    let since = Instant::now();
    loop {
        let left = at_most.saturating_sub(since.elapsed());
        if wait_for(&[process.as_fd()], left) == [true] {
            return true;
        }
        if left.is_zero() {
            return false;
        }
    }
}
