//! Survives the process's file size limit.

use std::marker::PhantomData;
use std::ptr;

/// While this lives, a write by the calling (application's) thread beyond the file size limit
/// (`RLIMIT_FSIZE`) is an error, as on a full file system, and does not kill the process. Stays on its
/// thread. The library's own threads block the signal anyway.
#[derive(Debug)]
pub struct SizeLimitOutlived {
    /// The application blocks or handles the signal itself.
    was_blocked: bool,
    of_this_thread: PhantomData<*const ()>,
}

impl SizeLimitOutlived {
    /// Begins to outlive the limit on this thread.
    pub fn begin() -> Self {
        let before = change_mask(libc::SIG_BLOCK, &size_limit_signal());
        // SAFETY: a set of signals and the number of one.
        let was_blocked = unsafe { libc::sigismember(&before, libc::SIGXFSZ) } == 1;
        SizeLimitOutlived { was_blocked, of_this_thread: PhantomData }
    }
}

impl Drop for SizeLimitOutlived {
    fn drop(&mut self) {
        if self.was_blocked {
            return;
        }
        let signal = size_limit_signal();
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Discards a pending signal of the failed writes, which have reported an error.
        // SAFETY: a set of signals and a time; nothing is written to a null pointer.
        unsafe { libc::sigtimedwait(&signal, ptr::null_mut(), &now) };
        change_mask(libc::SIG_UNBLOCK, &signal);
    }
}

fn size_limit_signal() -> libc::sigset_t {
    // SAFETY: a set of signals is integers, for which zeros are a value; the calls write to it
    // alone.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGXFSZ);
        signals
    }
}

/// Changes the calling thread's signal mask; returns the previous one.
fn change_mask(how: libc::c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: as for `size_limit_signal`; the call reads one set and writes to the other.
    unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(how, signals, &mut before);
        before
    }
}
