//! The end of a backend that does not answer, and that might go on at any moment.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{pidfd_send_signal, Signal};

use super::usage::PROGRAM;
use os::error::{Error, Kind, Result};
use os::socket::{connect_to, wait_for, Socket};

/// How long a process may take to end that is ending.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Kills the backend at the other end of `connection`, which listens at `path`, and waits until it is
/// dead: from then on it writes nothing. Its number.
///
/// # Errors
/// It is not known which process it is, or it does not end.
pub fn kill_backend(connection: &Socket, path: &Path) -> Result<i32> {
    // Who was connected before the backend came to listen knows only who has started it.
    let fresh = connect_to(path).ok().flatten();
    let known = |socket: &Socket| Some((socket.peer_number(), socket.peer()?));
    let found = fresh.iter().chain([connection]).filter_map(known);
    let Some((number, process)) = found.into_iter().find(|(number, _)| is_backend(*number)) else {
        return Err(Error::new(Kind::System, "it cannot be ended: its process is not known"));
    };
    kill(number, &process).map(|()| number)
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
    Err(Error::new(Kind::System, what))
}

/// Whether a process is a backend: its number may be that of an application, which has started one.
fn is_backend(number: i32) -> bool {
    fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|name| name.trim_end() == PROGRAM)
}

/// Whether a process ends within this time. A signal to this one does not end the waiting.
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
