//! The library's threads in the application's process.
//!
//! Waiting for their end is bounded ([`join`]), as the application may have closed the descriptor that
//! would wake them. They block signals: the system delivers a signal for the process to any thread that
//! does not block it, so an application that blocks one in its own threads, to use `sigwait` or
//! `signalfd`, would be killed if a thread of the library took it.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Signals that are not blocked: those that a thread's own instructions raise, and the ticks of
/// profilers.
const TAKEN: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGPROF,
];

/// Runs `start` with the calling thread's signals blocked, so that threads started by it inherit the
/// mask. The calling thread's mask is restored afterwards, even after a panic.
///
/// In such a thread, a write beyond the file size limit (`RLIMIT_FSIZE`) or to a closed socket is an
/// error, because the signals that would kill the process are blocked. `SIGABRT` is blocked, too, but
/// `abort` unblocks it.
pub fn unsignalled<T>(start: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::begin();
    start()
}

/// How long to wait for a thread that was told to end.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for the end of all `threads`, together at most [`JOIN_TIMEOUT`]. Returns messages about threads
/// that have panicked or not ended; the latter are left behind with all that they use.
pub fn join(threads: impl IntoIterator<Item = JoinHandle<()>>, at_most: Duration) -> Vec<String> {
    let since = Instant::now();
    let mut said = Vec::new();
    for thread in threads {
        let mut pause = Duration::from_micros(20);
        while !thread.is_finished() && since.elapsed() < at_most {
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        let name = thread.thread().name().unwrap_or("without a name").to_owned();
        if !thread.is_finished() {
            let seconds = at_most.as_secs();
            said.push(format!(
                "the thread {name} has not ended within {seconds} s: it is left behind"
            ));
        } else if thread.join().is_err() {
            said.push(format!("the thread {name} panicked"));
        }
    }
    said
}

/// The stack in bytes of a thread that makes one call.
const SMALL_STACK: usize = 64 << 10;

/// Has a thread do `work`, for which nobody waits. False: there is no thread, and `work` is dropped.
pub fn behind(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let builder = thread::Builder::new().name(name.to_owned()).stack_size(SMALL_STACK);
    unsignalled(|| builder.spawn(work)).is_ok()
}

/// Blocks the calling thread's signals until it is dropped on that thread.
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

    /// Catches an unbounded wait for a thread that nothing can wake, and one that is not named.
    #[test]
    fn a_thread_that_does_not_end_is_left_behind() {
        let (keep, kept) = std::sync::mpsc::channel::<()>();
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let stays = named("stays").spawn(move || kept.recv().unwrap_or(())).unwrap();
        let panics = named("panics").spawn(|| panic!("on purpose")).unwrap();
        let ends = named("ends").spawn(|| {}).unwrap();
        while !panics.is_finished() || !ends.is_finished() {
            thread::yield_now();
        }
        let said = join([stays, panics, ends], Duration::from_millis(1));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("stays has not ended"), "{said:?}");
        assert!(said[1].contains("panics panicked"), "{said:?}");
        drop(keep);
    }

    /// Whether the calling thread blocks each signal.
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

    /// Catches a thread that takes the process's signals, one that blocks its own faults, and a changed
    /// mask of the calling thread.
    #[test]
    fn threads_take_no_signals_and_their_starter_its_own() {
        // In a thread of its own, so that no other mask is changed.
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
                // Signals below SIGRTMIN are reserved for the C library.
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
