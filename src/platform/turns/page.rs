//! The page that the processes of a node share: a small file, mapped by each of them.
//!
//! It has a few words of 64 bits and [`SLOTS`] slots. A process owns a slot as long as it holds
//! the lock on the slot's byte of the file; the lock belongs to an open file description, so the
//! kernel releases it when the process ends in whatever way, and no process number has to mean
//! anything to another process (containers of one node share no numbers). A child forked without
//! exec shares the description and keeps the lock alive; the missing signs of life then tell.
//!
//! Nothing on the page is believed: everybody may write to it, and a crash may leave anything.
//! A slot counts only while it is locked, its owner rewrites all of it, and
//! [`policy::turn`](crate::policy::turn) bounds what any content can do. What is not defended
//! against is a user who truncates the file between the check in [`Page::is_whole`] and an access,
//! which would end the process; the file can be opened only by users of the same node.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};

/// How many processes can wait or have the turn at once. More than any node has GPUs.
pub const SLOTS: usize = 256;

/// The version of the layout. It is part of the file's name too, so that libraries of different
/// versions do not meet on one page.
pub const VERSION: u64 = 2;

/// The first word of a page: seven letters and the version.
const MAGIC: u64 = u64::from_be_bytes(*b"velturn\0") | VERSION;

/// Words before the slots.
const HEAD: usize = 8;
/// Words of a slot: a cache line.
const SLOT: usize = 8;
/// Bytes of the file: all words, in whole pages of 4 KiB.
const LEN: usize = ((HEAD + SLOTS * SLOT) * 8).next_multiple_of(4096);

/// What the words of the head are.
const MAGIC_WORD: usize = 0;
const NEXT_WORD: usize = 1;
const OWNER_WORD: usize = 2;
const DEPARTURES_WORD: usize = 3;

/// The words of one slot.
pub struct SlotWords<'a> {
    /// The owner's ticket, or [`NOBODY`](crate::policy::turn::NOBODY).
    pub ticket: &'a AtomicU64,
    /// When it last gave a sign of life, in ms.
    pub beat_ms: &'a AtomicU64,
    /// When it got the turn, in ms, or 0.
    pub started_ms: &'a AtomicU64,
    /// For how long it may keep the turn, in ms.
    pub lease_ms: &'a AtomicU64,
}

/// The mapped page.
#[derive(Debug)]
pub struct Page {
    words: NonNull<AtomicU64>,
    file: File,
}

// SAFETY: the mapping belongs to the process, and it is reached only through atomics.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

/// The lock on a slot. Dropping it frees the slot.
#[derive(Debug)]
pub struct SlotLock {
    file: File,
    index: usize,
}

impl Page {
    /// Opens the page at `path`, or makes it, readable and writable for all users.
    ///
    /// # Errors
    /// The file cannot be opened, made, given room or mapped, or `path` is no regular file.
    pub fn open(path: &Path) -> Result<Page> {
        let failed =
            |what: &str, e: &io::Error| Error::system(format!("{what} {}", path.display()), e);
        let file = open_or_create(path).map_err(|e| failed("open", &e))?;
        if !file.metadata().map_err(|e| failed("stat", &e))?.is_file() {
            return Err(Error::invalid(format!("{} is no regular file", path.display())));
        }
        give_room(&file).map_err(|e| failed("allocate", &e))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice. The file has `LEN` bytes
        // (`give_room`), and nobody who keeps to the rules makes it shorter.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), LEN, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        let words = match NonNull::new(start.cast::<AtomicU64>()) {
            Some(words) if start != libc::MAP_FAILED => words,
            _ => return Err(Error::errno(format!("mmap {}", path.display()))),
        };
        let page = Page { words, file };
        let found = page.word(MAGIC_WORD).swap(MAGIC, Ordering::Relaxed);
        if found != 0 && found != MAGIC {
            // Only the word is repaired: whatever else is wrong is met where it is read.
            log::warn!("{} had been overwritten; it is used all the same", path.display());
        }
        Ok(page)
    }

    /// Whether the file still has its length, so that the page can be accessed.
    pub fn is_whole(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() >= LEN as u64)
    }

    /// The ticket that is drawn next.
    pub fn next(&self) -> &AtomicU64 {
        self.word(NEXT_WORD)
    }

    /// The ticket of whoever has the turn.
    pub fn owner(&self) -> &AtomicU64 {
        self.word(OWNER_WORD)
    }

    /// How many have left the queue or given their turn up: for [`await_departure`].
    ///
    /// [`await_departure`]: Self::await_departure
    pub fn departures(&self) -> u32 {
        self.departures_word().load(Ordering::SeqCst)
    }

    /// Counts one more, and wakes all who wait for that. To be called after everything that they
    /// are to see was written.
    pub fn note_departure(&self) {
        self.departures_word().fetch_add(1, Ordering::SeqCst);
        let everybody = i32::MAX;
        // SAFETY: an aligned word of the mapping, which lives as long as `self`; the call only
        // wakes. An error means that nobody was woken, and those who wait look by themselves.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.departures_word().as_ptr(),
                libc::FUTEX_WAKE,
                everybody,
            )
        };
    }

    /// Sleeps until there have been other than `seen` [`departures`](Self::departures), which may
    /// be the case already, but not for longer than `longest`. May return earlier.
    pub fn await_departure(&self, seen: u32, longest: Duration) {
        let timeout = libc::timespec {
            tv_sec: longest.as_secs() as libc::time_t,
            tv_nsec: longest.subsec_nanos() as libc::c_long,
        };
        // The kernel compares and falls asleep in one step, so that no departure is missed. Not a
        // private futex: those who wait are in other processes.
        // SAFETY: an aligned word of the mapping, which lives as long as `self`, and a time that is
        // only read.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.departures_word().as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                &raw const timeout,
            )
        };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if result == 0 => {}
            Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR) => {}
            // Not allowed here, or the file has just become shorter: nobody will wake this one.
            _ => thread::sleep(longest),
        }
    }

    /// The words of slot `index`, which is less than [`SLOTS`].
    pub fn slot(&self, index: usize) -> SlotWords<'_> {
        let first = HEAD + index % SLOTS * SLOT;
        SlotWords {
            ticket: self.word(first),
            beat_ms: self.word(first + 1),
            started_ms: self.word(first + 2),
            lease_ms: self.word(first + 3),
        }
    }

    /// Locks a slot that nobody has. `None` if all are taken.
    ///
    /// # Errors
    /// The file cannot be opened once more, or its file system has no such locks.
    pub fn lock_a_slot(&self) -> Result<Option<SlotLock>> {
        // Through /proc, because the name may by now mean another file or none. An open file
        // description of its own, because locks of the same one do not exclude each other.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| Error::system(format!("open {path}"), &e))?;
        for index in 0..SLOTS {
            match lock_call(&file, libc::F_OFD_SETLK, index) {
                Ok(_) => return Ok(Some(SlotLock { file, index })),
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {}
                Err(e) => return Err(Error::system("lock a slot of the page of turns", &e)),
            }
        }
        Ok(None)
    }

    /// A word of 32 bits, as the kernel wants it. The other half of the 64 bits is not used.
    fn departures_word(&self) -> &AtomicU32 {
        // SAFETY: the index is below `LEN / 8`, the mapping lives as long as `self`, and these 32
        // bits are accessed by nothing but this.
        unsafe { self.words.add(DEPARTURES_WORD).cast::<AtomicU32>().as_ref() }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < LEN / 8);
        // SAFETY: every index is below `LEN / 8` (the head's are constants, a slot's number is
        // taken modulo `SLOTS`), the mapping is aligned to a page and lives as long as `self`, and
        // all its users access it only by atomic operations of 64 bits (the one word that is not
        // is not reached through this).
        unsafe { self.words.add(index).as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, to which no reference outlives the page. A failure
        // would leave it mapped, which harms nobody.
        unsafe { libc::munmap(self.words.as_ptr().cast(), LEN) };
    }
}

impl SlotLock {
    /// Which slot is locked.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether anybody else holds the lock on slot `index`, which means that its owner exists.
    /// When that cannot be told it is assumed: time will show.
    pub fn is_locked_by_another(&self, index: usize) -> bool {
        lock_call(&self.file, libc::F_OFD_GETLK, index)
            .map_or(true, |lock| i32::from(lock.l_type) != libc::F_UNLCK)
    }
}

/// Sets or queries the write lock on the byte that stands for slot `index`, without waiting.
fn lock_call(file: &File, command: i32, index: usize) -> io::Result<libc::flock> {
    // SAFETY: a struct of integers, for which zeros are a value (and, for the process number, the
    // one that is asked for).
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = index as libc::off_t;
    lock.l_len = 1;
    loop {
        // SAFETY: an open file and a lock that is ours to write to.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) } == 0 {
            return Ok(lock);
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Opens `path` for reading and writing. In a directory that is sticky and writable for all, the
/// kernel may refuse to open another user's file with `O_CREAT`, so that comes second.
fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Not through a link that another user put there, and without waiting for a pipe's other end.
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    loop {
        match options.open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        match options.clone().create_new(true).mode(0o666).open(path) {
            // Somebody else was first: open theirs.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            Ok(file) => {
                // The mask of the process may have taken the others' rights away. If they cannot
                // be given, the others use pages of their own.
                let _ = file.set_permissions(Permissions::from_mode(0o666));
                return Ok(file);
            }
        }
    }
}

/// Gives the file its length, and memory where that is what it is made of: a page that the file
/// system cannot provide later would end the process that touches it.
fn give_room(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: an open file; the call keeps what is in it.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, LEN as libc::off_t) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) if file.metadata()?.len() >= LEN as u64 => {
                return Ok(());
            }
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return file.set_len(LEN as u64),
            _ => return Err(error),
        }
    }
}

/// Whether `path` is a file of this user, so that nobody else could have put it there.
pub fn is_own(path: &Path) -> bool {
    // SAFETY: geteuid cannot fail.
    let user = unsafe { libc::geteuid() };
    path.symlink_metadata().map_or(true, |metadata| metadata.uid() == user)
}

/// The time in ms on the clock that all processes of the node share: since the start of the
/// system, whatever is done to the time of day. 0 if there is none.
pub fn now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a struct that is ours to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    (time.tv_sec as u64).saturating_mul(1000) + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
pub(super) fn scribble(page: &Page, words: impl Iterator<Item = u64>) {
    for (index, value) in (0..LEN / 8).zip(words) {
        match index {
            DEPARTURES_WORD => page.departures_word().store(value as u32, Ordering::Relaxed),
            _ => page.word(index).store(value, Ordering::Relaxed),
        }
    }
}
