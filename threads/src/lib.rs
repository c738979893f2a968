//! Threads of a library's own in somebody else's process. The system gives a signal that is sent to the
//! process to any thread that has not blocked it: an application that blocks one in its own threads, to wait
//! for it in `sigwait` or to read it from a `signalfd`, would be ended by it if a library's thread took it.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// What a thread takes as the application's threads do: what its own instructions raise, which ends the
/// process as it should, and the ticks of profilers, which count the time of the thread that they interrupt.
const TAKEN: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGPROF,
];

/// Runs `start`, which starts threads, with the calling thread's signals blocked: the threads inherit that
/// before their first instruction, and what they start does, too. Afterwards the calling thread has the mask
/// that it had, also after a panic.
///
/// A write of such a thread beyond the process's limit of a file's size (`RLIMIT_FSIZE`) is an error, as on
/// a full file system, and one to a socket without a reader as well: the signals that would end the process
/// are blocked with the others. `SIGABRT` is blocked, too; `abort` lets it through.
pub fn unsignalled<T>(start: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::begin();
    start()
}

/// The calling thread takes no signals until this is dropped, on that thread.
struct Blocked {
    before: libc::sigset_t,
    of_this_thread: PhantomData<*const ()>,
}

impl Blocked {
    fn begin() -> Blocked {
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = signals;
        // SAFETY: the sets are places to write to; each is filled before it is read: `before` by
        // `sigemptyset`, should the last call fail, which it can only for a `how` that does not exist.
        let before = unsafe {
            libc::sigfillset(signals.as_mut_ptr());
            for signal in TAKEN {
                libc::sigdelset(signals.as_mut_ptr(), signal);
            }
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        Blocked { before, of_this_thread: PhantomData }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is one that the system has given; nothing is written to a null pointer.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::thread;

    /// Whether the calling thread has each signal blocked.
    fn mask() -> Vec<bool> {
        // SAFETY: zeros are a value of a set; the call asks, and writes to the set alone.
        let signals = unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut signals);
            signals
        };
        // SAFETY: a set, and numbers of signals.
        (1..=libc::SIGRTMAX()).map(|n| unsafe { libc::sigismember(&signals, n) } == 1).collect()
    }

    /// Catches a signal that such a thread takes, one of its own that it does not, and a calling thread
    /// whose mask is another one afterwards.
    #[test]
    fn threads_take_no_signals_and_their_starter_its_own() {
        // Of a thread of its own: nobody else's mask is changed.
        thread::spawn(|| {
            // SAFETY: zeros are a value of a set, which is filled before it is read.
            unsafe {
                let mut one: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut one);
                libc::sigaddset(&mut one, libc::SIGUSR2);
                libc::pthread_sigmask(libc::SIG_BLOCK, &one, std::ptr::null_mut());
            }
            let before = mask();
            let inside = unsignalled(|| thread::spawn(mask)).join().unwrap();
            for (index, blocked) in inside.iter().enumerate() {
                let signal = index as libc::c_int + 1;
                let never = [libc::SIGKILL, libc::SIGSTOP].contains(&signal);
                // Those below SIGRTMIN are the C library's own.
                let own = signal >= 32 && signal < libc::SIGRTMIN();
                let expected = !never && !own && !TAKEN.contains(&signal);
                assert_eq!(*blocked, expected, "signal {signal}");
            }
            assert_eq!(mask(), before);
            assert!(catch_unwind(|| unsignalled(|| panic!("not started"))).is_err());
            assert_eq!(mask(), before);
        })
        .join()
        .unwrap();
    }
}
