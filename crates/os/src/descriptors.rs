//! File descriptors that the library keeps open in a process that it does not own.
//!
//! Some applications close inherited descriptors by counting (`for (i = 3; i < 64; i++) close(i)`), or
//! close everything. So the library's descriptors have high numbers and remember their file: if a number
//! refers to another file, it belongs to the application, and is neither written to nor closed.

use std::fmt;
use std::io::{self, Read, Write};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::{fcntl_dupfd_cloexec, Errno};
use rustix::process::{getrlimit, Resource};

/// The lowest number to use: above the limit of `select` (1024), up to which such loops count, but low
/// enough to keep the kernel's table small.
const LOWEST_PREFERRED: u64 = 1536;
/// With a lower limit, the last numbers are used: at most this many, and at most a quarter.
const RESERVED_AT_LIMIT: u64 = 256;
/// How often a waiting thread checks that the application has not closed the descriptor, which would
/// wake nobody.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Identifies an open file by its device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode(libc::dev_t, libc::ino_t);

impl Inode {
    /// The file that a number refers to. `None`: it is closed. May be called between fork and exec.
    pub fn of(number: RawFd) -> Option<Inode> {
        let mut found = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a place to write to. Any number may be asked about.
        if unsafe { libc::fstat(number, found.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: written by the call, which has succeeded.
        let found = unsafe { found.assume_init() };
        Some(Inode(found.st_dev, found.st_ino))
    }
}

/// The first high number enlarges the kernel's descriptor table, which takes 5 to 15 ms in a process
/// with several threads. It is therefore done when the library is loaded, usually with a single thread,
/// and not in `VELOC_Init`.
#[used]
#[link_section = ".init_array"]
static AT_LOAD: extern "C" fn() = enlarge_table;

extern "C" fn enlarge_table() {
    // On failure, the first file enlarges the table.
    let _ = std::fs::File::open("/dev/null").map(with_high_number);
}

/// The lowest number that the library uses.
fn lowest() -> u64 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    LOWEST_PREFERRED.min(limit - RESERVED_AT_LIMIT.min(limit / 4))
}

/// Moves `file` to a high number. If there is none, the file keeps its number.
pub fn with_high_number<F: AsFd + From<OwnedFd>>(file: F) -> F {
    let lowest = lowest();
    if file.as_fd().as_raw_fd() as u64 >= lowest {
        return file;
    }
    fcntl_dupfd_cloexec(&file, lowest as RawFd).map_or(file, F::from)
}

/// A descriptor that is protected against the application's `close`.
pub struct GuardedFd<F: AsFd> {
    file: ManuallyDrop<F>,
    inode: Option<Inode>,
}

impl<F: AsFd> GuardedFd<F> {
    /// Keeps `file` under a high number.
    pub fn new(file: F) -> GuardedFd<F>
    where
        F: From<OwnedFd>,
    {
        let file = with_high_number(file);
        let inode = Inode::of(file.as_fd().as_raw_fd());
        GuardedFd { file: ManuallyDrop::new(file), inode }
    }

    /// The descriptor's number, and the file that it refers to while it is the library's.
    pub fn number(&self) -> (RawFd, Option<Inode>) {
        (self.file.as_fd().as_raw_fd(), self.inode)
    }

    /// The file, unless the application has closed it.
    ///
    /// # Errors
    /// The application has closed it; the number is named.
    pub fn get(&self) -> io::Result<&F> {
        let (number, inode) = self.number();
        if Inode::of(number) == inode {
            return Ok(&self.file);
        }
        Err(io::Error::other(format!("descriptor {number} was closed by the application")))
    }

    /// The file without a check, for uses that do no harm to another file.
    pub fn unchecked(&self) -> &F {
        &self.file
    }

    /// Waits until data or the end of the file can be read.
    ///
    /// # Errors
    /// The errors of [`GuardedFd::get`], within a second.
    pub(crate) fn await_input(&self) -> io::Result<()> {
        let at_most = Timespec { tv_sec: POLL_INTERVAL.as_secs() as i64, tv_nsec: 0 };
        loop {
            let mut waited = [PollFd::new(self.get()?, PollFlags::IN)];
            match poll(&mut waited, Some(&at_most)) {
                Ok(0) | Err(Errno::INTR) => {}
                // The input may have been another file's.
                Ok(_) => return self.get().map(drop),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl<F: AsFd + From<OwnedFd>> From<F> for GuardedFd<F> {
    fn from(file: F) -> GuardedFd<F> {
        GuardedFd::new(file)
    }
}

impl<F: AsFd> Drop for GuardedFd<F> {
    fn drop(&mut self) {
        if self.get().is_ok() {
            // SAFETY: dropped here alone. Otherwise it is not closed: its number is not ours any more.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

impl<F: AsFd + fmt::Debug> fmt::Debug for GuardedFd<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl<F: AsFd> Read for &GuardedFd<F>
where
    for<'a> &'a F: Read,
{
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.get()?.read(into)
    }
}

impl<F: AsFd> Write for &GuardedFd<F>
where
    for<'a> &'a F: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.get()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.get()?.flush()
    }
}

/// Reads without a time limit, but ends if the application closes the descriptor.
#[derive(Debug)]
pub struct GuardedReader<'a, F: AsFd>(pub &'a GuardedFd<F>);

impl<F: AsFd> Read for GuardedReader<'_, F>
where
    for<'a> &'a F: Read,
{
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.await_input()?;
        self.0.unchecked().read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;
    use std::fs::File;
    use std::io::Seek as _;
    use std::os::fd::BorrowedFd;

    fn closed_by_the_application(number: RawFd) {
        // SAFETY: what an application does that closes by counting.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }

    #[test]
    fn numbers_are_high_and_are_closed_by_us_alone() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let named = tempfile::NamedTempFile::new().unwrap();
        let kept = GuardedFd::new(named.reopen().unwrap());
        let (number, inode) = kept.number();
        assert!(number as u64 >= LOWEST_PREFERRED.min(limit / 4 * 3), "{number}");
        drop(kept);
        assert_ne!(Inode::of(number), inode);
    }

    /// Catches a write to, a read from and a close of the application's file.
    #[test]
    fn a_number_that_means_another_file_is_left_alone() {
        // No other test may take the number or keep the file open.
        let _sole = forks::none();
        // A named file, so that no other file gets its inode number.
        let named = tempfile::NamedTempFile::new().unwrap();
        let kept = GuardedFd::new(named.reopen().unwrap());
        let (number, _) = kept.number();
        let mut other = tempfile::tempfile().unwrap();
        // SAFETY: what an application does that takes numbers of its choice.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert!(kept.get().unwrap_err().to_string().contains(&number.to_string()));
        assert!((&kept).write_all(b"ours").is_err());
        assert!((&kept).read(&mut [0]).is_err());
        assert!(kept.await_input().is_err());
        assert_eq!(other.seek(io::SeekFrom::End(0)).unwrap(), 0);
        drop(kept);
        // SAFETY: asked about, and then closed: it stands for the other file.
        let theirs = unsafe { BorrowedFd::borrow_raw(number) };
        assert!(File::from(theirs.try_clone_to_owned().unwrap()).metadata().is_ok());
        closed_by_the_application(number);
    }

    /// Catches a wait that continues after the descriptor was closed.
    #[test]
    fn who_waits_sees_that_it_was_closed() {
        let _sole = forks::none();
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let kept = GuardedFd::new(end);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| GuardedReader(&kept).read(&mut [0]).is_err());
            closed_by_the_application(kept.number().0);
            assert!(waiting.join().unwrap());
        });
    }
}
