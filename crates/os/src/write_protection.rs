//! Write protection of this process's own memory: whoever writes to it waits until it is lifted, and this
//! process is told (`userfaultfd`). Unlike with `mprotect`, no signal is sent, and system calls that write to the
//! memory wait as well.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::descriptors::GuardedFd;
use errors::{Error, Result};

/// The right to protect ranges of memory. When it is dropped, nothing is protected any more.
#[derive(Debug)]
pub struct WriteProtection {
    descriptor: GuardedFd<OwnedFd>,
    /// The first can be read from [`WriteProtection::stop`] on.
    stop: [GuardedFd<UnixStream>; 2],
}

/// What has happened to registered memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryEvent {
    /// A thread wants to write to this address, and waits.
    Write(u64),
    /// The application discards or has unmapped this range. It goes on now that this has been read.
    Gone(Range<u64>),
    /// It has moved the first range to the second, where it is registered and protected as before.
    Moved(Range<u64>, Range<u64>),
}

/// What became of a protection that was to be lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifted {
    /// It is lifted.
    Yes,
    /// An event has to be read before.
    Later,
    /// Some of the range is not registered any more: it was unmapped, whatever is there now. Its rest is protected as
    /// before.
    Gone,
}

/// `struct uffdio_api` of linux/userfaultfd.h.
#[repr(C)]
pub(crate) struct Api {
    pub(crate) api: u64,
    pub(crate) features: u64,
    pub(crate) calls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
pub(crate) struct UserfaultRange {
    start: u64,
    len: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
pub(crate) struct UserfaultRegistration {
    pub(crate) place: UserfaultRange,
    pub(crate) mode: u64,
    pub(crate) calls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct UserfaultProtection {
    place: UserfaultRange,
    mode: u64,
}

/// `struct uffd_msg`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct UserfaultMessage {
    event: u8,
    reserved: [u8; 7],
    /// By event: flags and address; the addresses before and now, and bytes; start and end.
    arguments: [u64; 3],
}

const TYPE: u32 = 0xaa;
pub(crate) const VERSION: u64 = 0xaa;
pub(crate) const API: libc::Ioctl = libc::_IOWR::<Api>(TYPE, 0x3f);
pub(crate) const REGISTER: libc::Ioctl = libc::_IOWR::<UserfaultRegistration>(TYPE, 0);
pub(crate) const UNREGISTER: libc::Ioctl = libc::_IOR::<UserfaultRange>(TYPE, 1);
const WAKE: libc::Ioctl = libc::_IOR::<UserfaultRange>(TYPE, 2);
const WRITE_PROTECT: libc::Ioctl = libc::_IOWR::<UserfaultProtection>(TYPE, 6);
/// Of /dev/userfaultfd: a new descriptor.
const NEW: libc::Ioctl = libc::_IO(TYPE, 0);

/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, `_EVENT_REMAP`, `_EVENT_REMOVE`, `_EVENT_UNMAP`, `_WP_HUGETLBFS_SHMEM`, and
/// `_WP_UNPOPULATED` (Linux 6.4), without which pages that were never written are not protected.
const FEATURES: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 12 | 1 << 13;
/// `UFFDIO_REGISTER_MODE_WP`.
pub(crate) const OF_WRITES: u64 = 1 << 1;
/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const PROTECTED: u64 = 1;

/// Attempts to protect memory beside an event that is not read yet.
const PATIENCE: usize = 100_000;

const EVENT_FAULT: u8 = 0x12;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;

impl WriteProtection {
    /// Asks the system.
    ///
    /// # Errors
    /// It has no write protection of this kind (before Linux 6.4), or forbids it. One for this process's own writes
    /// alone, which everybody gets, is not enough: a system call that writes would fail.
    pub fn open() -> Result<WriteProtection> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: a system call without memory.
        let made = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let descriptor = if made >= 0 {
            made as libc::c_int
        } else {
            let refused = Error::errno("userfaultfd");
            let Ok(device) = File::options().read(true).write(true).open("/dev/userfaultfd") else {
                return Err(refused);
            };
            // SAFETY: a call of that device, without memory.
            let made = unsafe { libc::ioctl(device.as_raw_fd(), NEW, flags) };
            if made < 0 {
                return Err(Error::errno("/dev/userfaultfd"));
            }
            made
        };
        // SAFETY: the call has succeeded, so this is a new descriptor that nobody else has.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let mut api = Api { api: VERSION, features: FEATURES, calls: 0 };
        call(&descriptor, API, &mut api).map_err(|error| {
            let error = std::io::Error::from_raw_os_error(error);
            Error::system("userfaultfd with write protection of new pages (Linux 6.4)", &error)
        })?;
        let pair = UnixStream::pair().map_err(|error| Error::system("socketpair", &error))?;
        let (descriptor, stop) = (descriptor.into(), [pair.0.into(), pair.1.into()]);
        Ok(WriteProtection { descriptor, stop })
    }

    /// Has the writes to a range of whole pages, once it is protected, and its end reported.
    ///
    /// # Errors
    /// It is no anonymous or shared memory, or not mapped, or another has registered it.
    pub fn register(&self, range: &Range<u64>) -> Result<()> {
        let mut what = UserfaultRegistration { place: place(range), mode: OF_WRITES, calls: 0 };
        self.call(REGISTER, &mut what).map_err(|error| failed("userfaultfd", range, error))
    }

    /// Ends that, and all protection of the range; whoever waits goes on. What is not registered stays as it is.
    pub fn unregister(&self, range: &Range<u64>) {
        // It fails if nothing is mapped there any more.
        let _ = self.call(UNREGISTER, &mut place(range));
        let _ = self.call(WAKE, &mut place(range));
    }

    /// Protects a registered range. Another thread must read events meanwhile.
    ///
    /// # Errors
    /// Some of it is not registered, or not mapped.
    pub fn protect(&self, range: &Range<u64>) -> Result<()> {
        let set = || {
            self.call(
                WRITE_PROTECT,
                &mut UserfaultProtection { place: place(range), mode: PROTECTED },
            )
        };
        let mut done = set();
        // The application is unmapping something, and waits until that is read.
        for _ in 0..PATIENCE {
            if done != Err(libc::EAGAIN) {
                break;
            }
            std::thread::yield_now();
            done = set();
        }
        done.map_err(|error| failed("write protection", range, error))
    }

    /// Lifts the protection of a registered range; whoever waits goes on. Allocates nothing.
    pub fn lift(&self, range: &Range<u64>) -> Lifted {
        match self.call(WRITE_PROTECT, &mut UserfaultProtection { place: place(range), mode: 0 }) {
            Ok(()) => Lifted::Yes,
            Err(libc::EAGAIN) => Lifted::Later,
            Err(_) => Lifted::Gone,
        }
    }

    /// Whether what was protected is so still: the application has not closed the descriptor.
    pub fn is_open(&self) -> bool {
        self.descriptor.get().is_ok()
    }

    /// Waits until there is an event. False: [`stop`](Self::stop) was called. Allocates nothing.
    ///
    /// # Errors
    /// The application has closed the descriptor: nothing is protected any more. Or the system's.
    pub fn wait(&self) -> std::io::Result<bool> {
        // Nobody is woken by a descriptor that is closed.
        let at_most = Timespec { tv_sec: 1, tv_nsec: 0 };
        loop {
            let mut ready = [
                PollFd::new(self.descriptor.get()?, PollFlags::IN),
                PollFd::new(self.stop[0].get()?, PollFlags::IN),
            ];
            match poll(&mut ready, Some(&at_most)) {
                Err(Errno::INTR) | Ok(0) => continue,
                other => other?,
            };
            return Ok(ready[1].revents().is_empty());
        }
    }

    /// The next event, if there is one. Who discards or unmaps memory goes on once that is read. Allocates nothing.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn read(&self) -> std::io::Result<Option<MemoryEvent>> {
        loop {
            let mut message = UserfaultMessage::default();
            let len = size_of::<UserfaultMessage>();
            let number = self.descriptor.get()?.as_raw_fd();
            // SAFETY: the kernel writes one message, for which there is room.
            let read = unsafe { libc::read(number, (&raw mut message).cast(), len) };
            if read < 0 {
                let error = std::io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(None),
                    Some(libc::EINTR) => continue,
                    _ => return Err(error),
                }
            }
            let [first, second, third] = message.arguments;
            match message.event {
                EVENT_FAULT => return Ok(Some(MemoryEvent::Write(second))),
                EVENT_REMOVE | EVENT_UNMAP => return Ok(Some(MemoryEvent::Gone(first..second))),
                EVENT_REMAP => {
                    return Ok(Some(MemoryEvent::Moved(
                        first..first + third,
                        second..second + third,
                    )))
                }
                _ => {}
            }
        }
    }

    /// Ends the waits.
    pub fn stop(&self) {
        // If the application has closed it, the thread that waits has ended, or does within a second.
        let _ = (&self.stop[1]).write(&[1]);
    }

    fn call<T>(&self, request: libc::Ioctl, what: &mut T) -> std::result::Result<(), i32> {
        match self.descriptor.get() {
            Ok(descriptor) => call(descriptor, request, what),
            Err(_) => Err(libc::EBADF),
        }
    }
}

pub(crate) fn place(range: &Range<u64>) -> UserfaultRange {
    UserfaultRange { start: range.start, len: range.end - range.start }
}

pub(crate) fn failed(what: &str, range: &Range<u64>, error: i32) -> Error {
    let error = std::io::Error::from_raw_os_error(error);
    let len = range.end - range.start;
    Error::system(format!("{what} of {len} bytes at {:#x}", range.start), &error)
}

/// A call of userfaultfd's with its structure; an error is the system's number.
pub(crate) fn call<T>(
    descriptor: &OwnedFd,
    request: libc::Ioctl,
    what: &mut T,
) -> std::result::Result<(), i32> {
    // SAFETY: each request is made of the size of its structure, which the kernel reads and writes. What the calls do
    // to memory is that threads which write to it wait.
    let status = unsafe { libc::ioctl(descriptor.as_raw_fd(), request, std::ptr::from_mut(what)) };
    match status {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;
    use crate::mapping::{Mapping, ALIGNMENT};

    fn next(protection: &WriteProtection) -> MemoryEvent {
        assert!(protection.wait().unwrap());
        protection.read().unwrap().unwrap()
    }

    /// `None`: this system has none.
    fn open() -> Option<WriteProtection> {
        WriteProtection::open().map_err(|why| eprintln!("not tested: {why}")).ok()
    }

    /// Catches a write that is not seen (also of a page that nobody has written before, and by the kernel), one
    /// that goes on too early, and a range that stays protected.
    #[test]
    fn who_writes_waits_until_it_is_lifted() {
        let Some(protection) = open() else { return };
        let mapping = Mapping::reserve(ALIGNMENT).unwrap();
        let start = mapping.base().as_ptr() as u64;
        let all = start..start + ALIGNMENT as u64;
        // SAFETY: within the mapping, whose bytes are only used as atomics.
        let byte = |at: usize| unsafe { &*mapping.base().as_ptr().add(at).cast::<AtomicU8>() };
        byte(0).store(1, Ordering::Relaxed);
        protection.register(&all).unwrap();
        protection.protect(&all).unwrap();
        for (at, by_kernel) in [(0, false), (5 * 4096, false), (9 * 4096, true)] {
            let wrote = AtomicU8::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    if by_kernel {
                        let mut zero = File::open("/dev/zero").unwrap();
                        // SAFETY: one byte of the mapping, which nobody else uses.
                        let byte = unsafe {
                            std::slice::from_raw_parts_mut(mapping.base().as_ptr().add(at), 1)
                        };
                        std::io::Read::read_exact(&mut zero, byte).unwrap();
                    } else {
                        byte(at).store(7, Ordering::Relaxed);
                    }
                    wrote.store(1, Ordering::Release);
                });
                let at = at as u64;
                let MemoryEvent::Write(address) = next(&protection) else {
                    panic!("another event")
                };
                assert_eq!(address & !4095, start + at);
                assert_eq!(wrote.load(Ordering::Acquire), 0);
                assert_eq!(protection.lift(&(start + at..start + at + 4096)), Lifted::Yes);
            });
        }
        assert_eq!(byte(0).load(Ordering::Relaxed), 7);
        protection.unregister(&all);
        byte(20 * 4096).store(7, Ordering::Relaxed);
        protection.stop();
        assert_eq!(protection.read().unwrap(), None);
        assert!(!protection.wait().unwrap());
    }

    /// Catches memory that goes without a word.
    #[test]
    fn what_goes_is_told() {
        let Some(protection) = open() else { return };
        let mapping = Mapping::reserve(2 * ALIGNMENT).unwrap();
        let start = mapping.base().as_ptr();
        let all = start as u64..start as u64 + ALIGNMENT as u64;
        protection.register(&all).unwrap();
        protection.protect(&all).unwrap();
        std::thread::scope(|scope| {
            let advised = scope.spawn(|| {
                // SAFETY: a page of the mapping, which nobody uses.
                unsafe { libc::madvise(mapping.base().as_ptr().cast(), 4096, libc::MADV_DONTNEED) }
            });
            assert!(protection.wait().unwrap());
            // Also for who reads the events: there is one to be read first.
            assert_eq!(protection.lift(&all), Lifted::Later);
            assert_eq!(next(&protection), MemoryEvent::Gone(all.start..all.start + 4096));
            assert_eq!(advised.join().unwrap(), 0);
        });
        assert_eq!(protection.lift(&all), Lifted::Yes);
        assert_eq!(protection.lift(&(all.start..all.end + 4096)), Lifted::Gone);
        assert!(protection.protect(&(8192..12288)).is_err());
        // Otherwise the end of the mapping would wait until it is read.
        protection.unregister(&all);
        static TABLE: [u64; 4096] = [1; 4096];
        let table = TABLE.as_ptr() as u64 & !4095;
        let error = protection.register(&(table..table + 4096)).unwrap_err();
        assert!(error.to_string().contains("userfaultfd of 4096 bytes"), "{error}");
    }
}
