//! The page by which another process gives orders to this one.

use std::ffi::{c_int, CStr};
use std::fs::{self, File};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::status::{DriverResult, ErrorCode};

/// Its name, and what `/proc` has as the name of its descriptor.
const NAME: &CStr = c"softcuda-process";
const LINK: &str = "/memfd:softcuda-process (deleted)";
const SIZE: usize = 4096;
/// How often somebody who waits for an answer looks whether the process still lives.
const LOOK: Duration = Duration::from_millis(50);

/// The states of a process, with the driver's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// `CU_PROCESS_STATE_RUNNING`.
    Running = 0,
    /// `CU_PROCESS_STATE_LOCKED`: its calls wait.
    Locked = 1,
    /// `CU_PROCESS_STATE_CHECKPOINTED`: it has nothing of a device.
    Checkpointed = 2,
}

/// What a process can be told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Lock = 1,
    Checkpoint = 2,
    Restore = 3,
    Unlock = 4,
}

/// Words that both processes see.
#[repr(C)]
struct Words {
    /// The process whose page it is, by its own number; 0 if none answers.
    owner: AtomicU32,
    /// The number of the order given last, and of the one answered last.
    asked: AtomicU32,
    answered: AtomicU32,
    order: AtomicU32,
    /// In milliseconds; 0 for none.
    timeout: AtomicU32,
    /// A code of the driver.
    result: AtomicU32,
    /// A [`ProcessState`].
    state: AtomicU32,
}

/// This process's own page, which stays to its end.
#[derive(Clone, Copy)]
pub(super) struct Page(&'static Words);

impl Page {
    pub(super) fn new() -> Option<Page> {
        // SAFETY: a terminated constant.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // It stays open: others find the page by it.
        // SAFETY: a descriptor that nobody else has.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        file.set_len(SIZE as u64).ok()?;
        let words = map(&file)?;
        words.owner.store(std::process::id(), Ordering::Release);
        Some(Page(words))
    }

    /// Nobody answers here.
    pub(super) fn disown(self) {
        self.0.owner.store(0, Ordering::Release);
    }

    pub(super) fn state(self) -> ProcessState {
        match self.0.state.load(Ordering::Acquire) {
            1 => ProcessState::Locked,
            2 => ProcessState::Checkpointed,
            _ => ProcessState::Running,
        }
    }

    pub(super) fn set_state(self, state: ProcessState) {
        self.0.state.store(state as u32, Ordering::Release);
    }

    /// Answers orders, for ever.
    pub(super) fn serve(
        self,
        mut carry_out: impl FnMut(Order, Option<Duration>) -> DriverResult,
    ) -> ! {
        let words = self.0;
        loop {
            let asked = words.asked.load(Ordering::Acquire);
            if asked == words.answered.load(Ordering::Relaxed) {
                futex_wait(&words.asked, asked, None);
                continue;
            }
            let timeout = match words.timeout.load(Ordering::Relaxed) {
                0 => None,
                millis => Some(Duration::from_millis(millis.into())),
            };
            let result = match words.order.load(Ordering::Relaxed) {
                1 => carry_out(Order::Lock, timeout),
                2 => carry_out(Order::Checkpoint, timeout),
                3 => carry_out(Order::Restore, timeout),
                4 => carry_out(Order::Unlock, timeout),
                _ => Err(ErrorCode::INVALID_VALUE),
            };
            let code = result.map_or_else(|ErrorCode(code)| code, |()| 0);
            words.result.store(code, Ordering::Relaxed);
            words.answered.store(asked, Ordering::Release);
            futex_wake(&words.answered);
        }
    }
}

/// The page of another process, or of this one, and the process.
struct Other {
    words: &'static Words,
    file: File,
    process: c_int,
}

impl Other {
    /// # Errors
    /// There is no such process (1), or it has not initialised this driver (3).
    fn find(process: c_int) -> DriverResult<Other> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))
            .map_err(|_| ErrorCode::INVALID_VALUE)?;
        let own = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own = own.and_then(|all| all.split_whitespace().last()?.parse::<u32>().ok());
        let folder = format!("/proc/{process}/fd");
        for entry in fs::read_dir(folder).map_err(|_| ErrorCode::INVALID_VALUE)?.flatten() {
            let path = entry.path();
            if !fs::read_link(&path).is_ok_and(|link| link.to_str() == Some(LINK)) {
                continue;
            }
            let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
            let mut owner = [0; 4];
            // A forked child has its parent's page, and nobody who answers there.
            let is_its =
                file.read_exact_at(&mut owner, 0).is_ok() && Some(u32::from_ne_bytes(owner)) == own;
            if is_its {
                let words = map(&file).ok_or(ErrorCode::OUT_OF_MEMORY)?;
                return Ok(Other { words, file, process });
            }
        }
        Err(ErrorCode::NOT_INITIALIZED)
    }

    fn wait_for_answer(&self, number: u32) -> DriverResult {
        loop {
            let answered = self.words.answered.load(Ordering::Acquire);
            if answered.wrapping_sub(number) < u32::MAX / 2 {
                return Ok(());
            }
            futex_wait(&self.words.answered, answered, Some(LOOK));
            // SAFETY: no memory is involved.
            if unsafe { libc::kill(self.process, 0) } != 0 {
                return Err(ErrorCode::INVALID_VALUE);
            }
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and used by nobody else.
        unsafe { libc::munmap(std::ptr::from_ref(self.words).cast_mut().cast(), SIZE) };
    }
}

/// The state of a process, behind orders that somebody has given.
pub(crate) fn state_of(process: c_int) -> DriverResult<u32> {
    let other = Other::find(process)?;
    other.wait_for_answer(other.words.asked.load(Ordering::Acquire))?;
    Ok(other.words.state.load(Ordering::Acquire))
}

/// Gives a process an order, and waits until it is carried out.
///
/// # Errors
/// As the process answers; or it is none that takes orders.
pub(crate) fn give(process: c_int, order: Order, timeout: u32) -> DriverResult {
    let other = Other::find(process)?;
    // One at a time; the lock goes with the descriptor.
    // SAFETY: an open descriptor.
    if unsafe { libc::flock(other.file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(ErrorCode::OPERATING_SYSTEM);
    }
    let words = other.words;
    let last = words.asked.load(Ordering::Acquire);
    // Of somebody who has not waited for the answer.
    other.wait_for_answer(last)?;
    words.order.store(order as u32, Ordering::Relaxed);
    words.timeout.store(timeout, Ordering::Relaxed);
    words.asked.store(last.wrapping_add(1), Ordering::Release);
    futex_wake(&words.asked);
    other.wait_for_answer(last.wrapping_add(1))?;
    match words.result.load(Ordering::Relaxed) {
        0 => Ok(()),
        code => Err(ErrorCode(code)),
    }
}

fn map(file: &File) -> Option<&'static Words> {
    const { assert!(size_of::<Words>() <= SIZE) };
    let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
    // SAFETY: a new mapping, of a file that is long enough.
    let at = unsafe { libc::mmap(null_mut(), SIZE, protection, libc::MAP_SHARED, fd, 0) };
    // SAFETY: it is mapped, aligned to a page, and all words may have any value.
    (at != libc::MAP_FAILED).then(|| unsafe { &*at.cast() })
}

/// Sleeps while the word has this value, for so long at most; it may also return for no reason.
pub(super) fn futex_wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a word that lives, and a time or null.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, timeout) };
}

/// Wakes all who sleep.
pub(super) fn futex_wake(word: &AtomicU32) {
    // SAFETY: a word that lives.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
