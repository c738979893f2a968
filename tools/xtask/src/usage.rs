//! The time that processes take, and that of the processors.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// What a process took, with those that it has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// By the clock.
    pub time: Duration,
    /// Of the processors.
    pub processor: Duration,
}

/// Waits for a process to end that has just been started. Returns its status and what it took.
pub fn wait(child: Child) -> io::Result<(ExitStatus, Usage)> {
    let since = Instant::now();
    let (mut status, mut used) = (0, none());
    loop {
        // SAFETY: both pointers are to variables of these types. The process is this one's child and nobody
        // else waits for it, so that its number is its own.
        let pid = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut used) };
        if pid >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let usage = Usage { time: since.elapsed(), processor: processor(&used) };
    Ok((ExitStatus::from_raw(status), usage))
}

/// The processor time of all processes that this one has waited for.
pub fn of_children() -> Duration {
    let mut used = none();
    // SAFETY: the pointer is to a variable of this type. The call cannot fail with this argument.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut used) };
    processor(&used)
}

fn none() -> libc::rusage {
    // SAFETY: plain numbers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

fn processor(used: &libc::rusage) -> Duration {
    let time = |of: libc::timeval| {
        Duration::from_secs(of.tv_sec as u64) + Duration::from_micros(of.tv_usec as u64)
    };
    time(used.ru_utime) + time(used.ru_stime)
}
