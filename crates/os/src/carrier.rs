//! Carriers: copy-on-write children of this process, which copy its memory as it was when they were
//! made to shared memory, and end.
//!
//! A carrier is made by `clone3` with no exit signal: the application's `wait` and its handler of
//! SIGCHLD do not notice it, and no fork handlers run. It makes system calls and copies, and nothing
//! else, as only one thread of the process is in it. It outlives this process.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::descriptors::GuardedFd;
use errors::{Error, ErrorKind, Result};

/// Bytes to copy.
#[derive(Clone, Copy, Debug)]
pub struct CarriedBytes {
    /// Where the bytes are.
    pub from: *const u8,
    /// Where they go, in memory that the carrier shares with this process.
    pub to: *mut u8,
    /// How many.
    pub len: usize,
}

/// What a carrier tells others by when it has copied everything: it sets these bits of a word in shared
/// memory.
pub type CarrierMark<'a> = (&'a AtomicU64, u64);

/// A carrier under way. If it is dropped, the carrier goes on.
#[derive(Debug)]
pub struct Carrier {
    process: u32,
    /// Its pidfd, which the application may close.
    end: GuardedFd<OwnedFd>,
    done: DoneWord,
}

/// A word that the carrier shares: not 0 once it has copied everything. Its exit status may be another's: the
/// application may wait for all children, of whatever kind (`__WALL`).
#[derive(Debug)]
struct DoneWord(NonNull<AtomicU64>);

impl DoneWord {
    fn new() -> Result<DoneWord> {
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the system's choice.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), size_of::<u64>(), access, flags, -1, 0) };
        match NonNull::new(at.cast::<AtomicU64>()) {
            Some(word) if at != libc::MAP_FAILED => Ok(DoneWord(word)),
            _ => Err(Error::errno("mmap of a word that processes share")),
        }
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the mapping lives as long as this, and is zero at first.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for DoneWord {
    fn drop(&mut self) {
        // SAFETY: this mapping, which nobody else uses.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<u64>()) };
    }
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for DoneWord {}
// SAFETY: the word is atomic.
unsafe impl Sync for DoneWord {}

/// The arguments of `clone3` (Linux 5.3), as far as they are used here.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// Signal handlers are not inherited (Linux 5.5).
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

impl Carrier {
    /// Makes a carrier that copies `pieces` in order, and then sets `mark`.
    ///
    /// # Safety
    /// Each piece can be read and written as a whole, also in a forked child; `to` and the mark's word are
    /// in shared mappings. Until the carrier has ended, nobody else uses the bytes at `to`.
    ///
    /// # Errors
    /// The system has no such call, forbids it, or has no room for a process or its page tables.
    pub unsafe fn start(pieces: &[CarriedBytes], mark: Option<CarrierMark<'_>>) -> Result<Carrier> {
        let done = DoneWord::new()?;
        let mut end: libc::c_int = -1;
        let arguments = CloneArguments {
            flags: libc::CLONE_PIDFD as u64 | CLONE_CLEAR_SIGHAND,
            pidfd: &raw mut end as u64,
            ..CloneArguments::default()
        };
        // A signal that comes before the handlers are gone would run the application's in the child.
        let blocked = SignalsBlocked::begin();
        // SAFETY: without a shared address space the child goes on here with a copy of this stack, as after
        // a fork; it gets to `carry`, which only makes system calls and does not return.
        let process = unsafe {
            libc::syscall(
                libc::SYS_clone3,
                &raw const arguments,
                std::mem::size_of::<CloneArguments>(),
            )
        };
        if process == 0 {
            // SAFETY: the caller's promise, and this is the child.
            unsafe { carry(pieces, mark, done.word()) }
        }
        let failure = (process < 0).then(std::io::Error::last_os_error);
        drop(blocked);
        if let Some(error) = failure {
            return Err(Error::system("clone3, which makes a process that copies", &error));
        }
        // Before the call returns: what is sent to the application's group of processes right after it does not end the
        // carrier. It does the same, and may have ended.
        // SAFETY: a child of this process, of which nobody has heard yet.
        unsafe { libc::setpgid(process as libc::pid_t, 0) };
        // SAFETY: the call has succeeded, so this is a new descriptor that nobody else has.
        let end = unsafe { OwnedFd::from_raw_fd(end) };
        Ok(Carrier { process: process as u32, end: end.into(), done })
    }

    /// The carrier's process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Waits until the carrier has ended.
    ///
    /// # Errors
    /// It has not copied everything: memory that it read or wrote was not there, or it was killed.
    pub fn wait(self) -> Result<()> {
        let mut status: libc::siginfo_t = {
            // SAFETY: all zeros are a value of this plain structure.
            unsafe { std::mem::zeroed() }
        };
        loop {
            // Without its descriptor by its number, which is no other's before somebody has waited for it. In no case
            // before it has ended: it writes to the room of its checkpoint.
            let (kind, which) = match self.end.get() {
                Ok(end) => (libc::P_PIDFD, end.as_raw_fd() as libc::id_t),
                Err(_) => (libc::P_PID, self.process),
            };
            // SAFETY: writes to a local variable. `__WALL`: without an exit signal it is no ordinary child.
            let waited =
                unsafe { libc::waitid(kind, which, &raw mut status, libc::WEXITED | libc::__WALL) };
            if waited == 0 {
                break;
            }
            let error = std::io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The application has closed the descriptor just now.
                Some(libc::EBADF | libc::EINVAL)
                    if kind == libc::P_PIDFD && self.end.get().is_err() => {}
                // The application has heard of its end.
                _ if self.done.word().load(Ordering::Acquire) != 0 => return Ok(()),
                _ => return Err(Error::system("waiting for the process that copies", &error)),
            }
        }
        // SAFETY: `waitid` has filled it for a child.
        match (status.si_code, unsafe { status.si_status() }) {
            (libc::CLD_EXITED, 0) => Ok(()),
            (libc::CLD_EXITED, code) => Err(ended(&format!("exit code {code}"))),
            (_, libc::SIGSEGV) => Err(ended("memory that was to be copied cannot be read")),
            (_, libc::SIGBUS) => Err(ended("memory was refused, or a mapped file is shorter now")),
            (_, signal) => Err(ended(&format!("signal {signal}"))),
        }
    }
}

fn ended(how: &str) -> Error {
    Error::new(ErrorKind::System, format!("the process that copied for it has ended: {how}"))
}

/// A descriptor of a process (`pidfd`), for [`await_end`]. `None`: there is no such process.
///
/// # Errors
/// The system's.
pub fn open(process: u32) -> Result<Option<OwnedFd>> {
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    let Some(number) = number else { return Ok(None) };
    match pidfd_open(number, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(Error::system(format!("pidfd_open of process {process}"), &error.into())),
    }
}

/// Waits until a process has ended, of which this is a descriptor (`pidfd`).
///
/// # Errors
/// `poll` failed.
pub fn await_end(process: &OwnedFd) -> Result<()> {
    loop {
        let mut ends = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut ends, None::<&Timespec>) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => {
                return Err(Error::system("waiting for the end of a process", &error.into()))
            }
        }
    }
}

/// What the child does.
///
/// # Safety
/// As for [`Carrier::start`]; to be called in the child only.
unsafe fn carry(pieces: &[CarriedBytes], mark: Option<CarrierMark<'_>>, done: &AtomicU64) -> ! {
    // SAFETY: system calls without memory, or with constants; none allocates or takes a lock. The copies are the
    // caller's promise.
    unsafe {
        // What is meant for the application's group of processes (Ctrl-C, a scheduler's signal) does not end it.
        libc::setpgid(0, 0);
        // No file, socket or pipe of the application's is kept open by it.
        libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32);
        // It leaves no image of the application's memory if it fails.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        // If memory is short, it goes before the application does.
        let score = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
        libc::write(score, b"1000".as_ptr().cast(), 4);
        libc::close(score);
        for piece in pieces {
            std::ptr::copy_nonoverlapping(piece.from, piece.to, piece.len);
        }
        if let Some((word, bits)) = mark {
            word.fetch_or(bits, Ordering::Release);
        }
        done.store(1, Ordering::Release);
        libc::_exit(0)
    }
}

/// All signals of this thread are blocked as long as it lives.
struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    fn begin() -> SignalsBlocked {
        // SAFETY: plain structures that the calls fill.
        unsafe {
            let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            SignalsBlocked(before)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the mask that was there before.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::MutexGuard;

    use super::*;
    use crate::forks;
    use crate::mapping::Mapping;
    use crate::shared::SharedMemory;

    /// Shared memory of one word and `len` bytes behind it. Its owner may fork: no other test may need to be a
    /// descriptor's only owner, or take the number of one.
    fn target(len: usize) -> ((SharedMemory, MutexGuard<'static, ()>), Mapping) {
        let sole = forks::none();
        let memory = SharedMemory::create("veloc-test", (len + 8) as u64).unwrap();
        let mapping = Mapping::of(&memory).unwrap();
        ((memory, sole), mapping)
    }

    fn word(mapping: &Mapping) -> &AtomicU64 {
        // SAFETY: the mapping begins with it.
        unsafe { &*mapping.base().as_ptr().cast::<AtomicU64>() }
    }

    /// Catches a copy of what memory becomes afterwards, a mark that is set before all is copied, a child that
    /// the application hears of, and one that is left as a zombie.
    #[test]
    fn it_copies_what_was_there_and_ends_unnoticed() {
        let len = 64 << 20;
        let mut source = vec![1_u8; len];
        let (_memory, mapping) = target(len);
        // SAFETY: within the mapping.
        let to = unsafe { mapping.base().as_ptr().add(8) };
        let pieces = [CarriedBytes { from: source.as_ptr(), to, len }];
        // SAFETY: both live until the carrier has ended; the target is a shared mapping.
        let carrier = unsafe { Carrier::start(&pieces, Some((word(&mapping), 2))) }.unwrap();
        source.fill(2);
        let process = carrier.process();
        await_end(carrier.end.unchecked()).unwrap();
        // SAFETY: a plain structure; the call asks for children of the ordinary kind, and leaves them.
        let heard = unsafe {
            let mut heard: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, process, &raw mut heard, how)
        };
        assert_eq!(heard, -1, "the application's wait hears of it");
        carrier.wait().unwrap();
        assert_eq!(word(&mapping).load(Ordering::Acquire), 2);
        // SAFETY: nobody writes to it any more.
        let copied = unsafe { std::slice::from_raw_parts(to, len) };
        assert!(copied.iter().all(|&byte| byte == 1));
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists());
    }

    /// A launcher kills the group right after the call. Catches a carrier that goes to its own group only once it runs.
    #[test]
    fn it_is_in_no_group_of_the_applications() {
        let source = vec![1_u8; 64 << 20];
        let (_memory, mapping) = target(source.len());
        // SAFETY: within the mapping.
        let to = unsafe { mapping.base().as_ptr().add(8) };
        let pieces = [CarriedBytes { from: source.as_ptr(), to, len: source.len() }];
        for _ in 0..20 {
            // SAFETY: both live until the carrier has ended; the target is a shared mapping.
            let carrier = unsafe { Carrier::start(&pieces, None) }.unwrap();
            let process = carrier.process() as libc::pid_t;
            // SAFETY: asks for a number.
            assert_eq!(unsafe { libc::getpgid(process) }, process);
            carrier.wait().unwrap();
        }
    }

    /// Catches a copy that counts as lost because the application has waited for children of every kind.
    #[test]
    fn an_end_that_the_application_has_heard_of() {
        let source = vec![1_u8; 4096];
        let (_memory, mapping) = target(4096);
        // SAFETY: within the mapping.
        let to = unsafe { mapping.base().as_ptr().add(8) };
        let pieces = [CarriedBytes { from: source.as_ptr(), to, len: 4096 }];
        // SAFETY: both live until the carrier has ended; the target is a shared mapping.
        let carrier = unsafe { Carrier::start(&pieces, None) }.unwrap();
        let process = carrier.process() as libc::pid_t;
        // SAFETY: writes nothing.
        let heard = unsafe { libc::waitpid(process, std::ptr::null_mut(), libc::__WALL) };
        assert_eq!(heard, process);
        carrier.wait().unwrap();
    }

    /// Catches a wait that ends while the carrier still writes, as the application has closed its descriptor.
    #[test]
    fn who_waits_does_so_without_the_descriptor() {
        let len = 64 << 20;
        let source = vec![1_u8; len];
        let (_memory, mapping) = target(len);
        // SAFETY: within the mapping.
        let to = unsafe { mapping.base().as_ptr().add(8) };
        let pieces = [CarriedBytes { from: source.as_ptr(), to, len }];
        // SAFETY: both live until the carrier has ended; the target is a shared mapping.
        let carrier = unsafe { Carrier::start(&pieces, None) }.unwrap();
        // SAFETY: what an application does that closes everything.
        assert_eq!(unsafe { libc::close(carrier.end.number().0) }, 0);
        carrier.wait().unwrap();
        // SAFETY: nobody writes to it any more.
        let copied = unsafe { std::slice::from_raw_parts(to, len) };
        assert!(copied.iter().all(|&byte| byte == 1));
    }

    /// Catches a carrier that counts as done though it was killed by memory that is not there.
    #[test]
    fn memory_that_is_not_there_is_an_error_and_no_mark() {
        let (_memory, mapping) = target(4096);
        // SAFETY: within the mapping.
        let to = unsafe { mapping.base().as_ptr().add(8) };
        let pieces = [CarriedBytes { from: 4096 as *const u8, to, len: 64 }];
        // SAFETY: it is the child alone that reads what is not there.
        let carrier = unsafe { Carrier::start(&pieces, Some((word(&mapping), 2))) }.unwrap();
        let error = carrier.wait().unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        assert_eq!(word(&mapping).load(Ordering::Acquire), 0);
    }
}
