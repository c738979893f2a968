//! Signals that are the program's to answer.

use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;

use errors::{Error, Result};

/// Those that a user or a batch system sends to what it has started.
const PASSED_ON: [libc::c_int; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
];

/// Signals of this process, which wait to be read.
pub(crate) struct Signals {
    come: File,
    /// What was blocked before.
    before: libc::sigset_t,
}

impl Signals {
    /// From here on they are read.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open() -> Result<Signals> {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::zeroed());
        // SAFETY: sets that are made here; no memory is involved otherwise.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in PASSED_ON {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(Error::errno("waiting for signals"));
        }
        // SAFETY: a descriptor that nobody else has, and a set that was zero at least.
        let (come, before) = unsafe { (OwnedFd::from_raw_fd(fd), before.assume_init()) };
        Ok(Signals { come: File::from(come), before })
    }

    /// Has the process that `command` starts get them as this one got them before.
    pub(crate) fn leave_to(&self, command: &mut Command) {
        let before = self.before;
        let restore = move || {
            // SAFETY: a whole set; a system call alone, as between fork and exec.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: as above.
        unsafe { command.pre_exec(restore) };
    }

    /// Passes those that have come to the program whose session the process `leader` leads.
    pub(crate) fn pass_on(&mut self, leader: u32) {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        while matches!(self.come.read(&mut bytes), Ok(len) if len == bytes.len()) {
            let signal =
                u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as libc::c_int;
            let leader = leader as libc::pid_t;
            // SAFETY: no memory is involved.
            unsafe {
                match signal {
                    // What a terminal sends reaches all processes of a group.
                    libc::SIGINT | libc::SIGQUIT | libc::SIGHUP => libc::kill(-leader, signal),
                    // A session without a terminal ignores it.
                    libc::SIGTSTP => {
                        libc::kill(-leader, libc::SIGSTOP);
                        libc::kill(libc::getpid(), libc::SIGSTOP);
                        libc::kill(-leader, libc::SIGCONT)
                    }
                    signal => libc::kill(leader, signal),
                };
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.come.as_fd()
    }
}
