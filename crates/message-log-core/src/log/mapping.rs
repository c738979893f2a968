//! Memory from the system or from a file, and the thread that allocates pages ahead.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::Arc;

/// The number of mapped bytes, without files.
pub(super) type MappedBytes = Arc<AtomicUsize>;

/// A mapping. The owner of the only handle may write; bytes that others may read do not change.
#[derive(Debug)]
pub struct LogMapping {
    base: *mut u8,
    len: usize,
    /// Counts the memory; `None` for a file.
    mapped: Option<MappedBytes>,
}

// SAFETY: this value owns the mapping, which is not bound to a thread.
unsafe impl Send for LogMapping {}
// SAFETY: a shared mapping is only written by `slice_mut`, whose callers guarantee exclusive access.
unsafe impl Sync for LogMapping {}

impl LogMapping {
    /// Maps and counts this many bytes. `None`: out of memory.
    pub fn map(len: usize, mapped: &MappedBytes) -> Option<LogMapping> {
        mapped.fetch_add(len, Ordering::Relaxed);
        LogMapping::map_counted(len, mapped)
    }

    /// [`map`](Self::map), for bytes that are counted already; uncounts them on failure.
    fn map_counted(len: usize, mapped: &MappedBytes) -> Option<LogMapping> {
        // SAFETY: an anonymous mapping at an address of the system's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            mapped.fetch_sub(len, Ordering::Relaxed);
            return None;
        }
        // Huge pages, if the system has them: fewer page faults and TLB misses.
        // SAFETY: the mapping just made.
        unsafe { libc::madvise(base, len, libc::MADV_HUGEPAGE) };
        Some(LogMapping { base: base.cast(), len, mapped: Some(Arc::clone(mapped)) })
    }

    /// Maps a file that has this many bytes, with room on its file system.
    ///
    /// # Errors
    /// The system's error.
    pub fn of_file(file: &File, len: usize) -> Result<LogMapping, String> {
        // SAFETY: a mapping at an address of the system's choice, of a file that stays open meanwhile.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(format!("mapping a file of {len} bytes: {error}"));
        }
        Ok(LogMapping { base: base.cast(), len, mapped: None })
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.mapped.is_none()
    }

    /// Its length in bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Allocates its pages.
    fn touch(&mut self) {
        for at in (0..self.len).step_by(4096) {
            // SAFETY: within the mapping, which nothing else refers to yet.
            unsafe { self.base.add(at).write_volatile(0) };
        }
    }

    /// Some of its bytes, which must exist.
    pub fn slice(&self, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= self.len);
        // SAFETY: within the mapping, which the system has filled with zeros; nobody writes there while it is
        // shared (see `slice_mut`).
        unsafe { std::slice::from_raw_parts(self.base.add(at), len) }
    }

    /// Some of its bytes, for writing; they must exist.
    ///
    /// # Safety
    /// Nobody else reads or writes them at the same time.
    #[allow(clippy::mut_from_ref)] // Parts of a chunk are read while others are written.
    pub unsafe fn slice_mut(&self, at: usize, len: usize) -> &mut [u8] {
        debug_assert!(at + len <= self.len);
        // SAFETY: in the mapping, and by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(at), len) }
    }
}

impl Drop for LogMapping {
    fn drop(&mut self) {
        // SAFETY: this handle owns the mapping, and it is the last one.
        unsafe { libc::munmap(self.base.cast(), self.len) };
        if let Some(mapped) = &self.mapped {
            mapped.fetch_sub(self.len, Ordering::Relaxed);
        }
    }
}

/// The thread that maps memory ahead. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Maker {
    orders: Sender<()>,
    /// `None`: out of memory.
    made: Receiver<Option<LogMapping>>,
    /// Whether a mapping is being made.
    is_ordered: bool,
    len: usize,
    mapped: MappedBytes,
}

impl Maker {
    /// Makes mappings of this length. `None`: the thread cannot be started; then the application's threads
    /// take the page faults.
    pub(super) fn start(len: usize, mapped: &MappedBytes) -> Option<Maker> {
        let (orders, to_do) = mpsc::channel();
        let (done, made) = mpsc::channel();
        let (mapped, counter) = (Arc::clone(mapped), Arc::clone(mapped));
        let work = move || {
            while to_do.recv().is_ok() {
                let mut mapping = LogMapping::map_counted(len, &counter);
                mapping.iter_mut().for_each(LogMapping::touch);
                if done.send(mapping).is_err() {
                    break;
                }
            }
        };
        let builder = std::thread::Builder::new().name("veloc-mpi pages".into());
        os::threads::unsignalled(|| builder.spawn(work)).ok()?;
        Some(Maker { orders, made, is_ordered: false, len, mapped })
    }

    /// Starts to make a mapping, unless one is being made. It counts from now on, so that the limit holds.
    pub(super) fn order(&mut self) {
        if self.is_ordered {
            return;
        }
        self.mapped.fetch_add(self.len, Ordering::Relaxed);
        self.is_ordered = self.orders.send(()).is_ok();
        if !self.is_ordered {
            self.mapped.fetch_sub(self.len, Ordering::Relaxed);
        }
    }

    /// The finished mapping, if there is one. After a failure another one may be ordered.
    pub(super) fn take(&mut self) -> Option<LogMapping> {
        let made = self.made.try_recv().ok()?;
        self.is_ordered = false;
        made
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fs;

    /// Waits for the thread of this name, and returns whether it blocks a signal that the application
    /// may use.
    pub(crate) fn takes_no_signals(name: &str) -> bool {
        let mask = |status: String| {
            let of_it = status.lines().any(|line| line.strip_prefix("Name:\t") == Some(name));
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"))?;
            u64::from_str_radix(mask, 16).ok().filter(|_| of_it)
        };
        loop {
            let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
            let mut found = threads
                .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
                .filter_map(mask);
            if let Some(mask) = found.next() {
                return mask >> (libc::SIGUSR1 - 1) & 1 == 1;
            }
            std::thread::yield_now();
        }
    }

    /// Catches a failed mapping after which no other is ever ordered, or that is counted for ever.
    #[test]
    fn after_one_that_could_not_be_made_others_can_be_ordered() {
        let mapped = MappedBytes::default();
        let mut maker = Maker::start(1 << 60, &mapped).unwrap();
        for _ in 0..3 {
            maker.order();
            while maker.is_ordered {
                assert!(maker.take().is_none());
                std::thread::yield_now();
            }
            assert_eq!(mapped.load(Ordering::Relaxed), 0);
        }
    }

    /// Catches a thread that takes the application's signals.
    #[test]
    fn the_maker_takes_no_signals() {
        let _maker = Maker::start(4096, &MappedBytes::default()).unwrap();
        assert!(takes_no_signals("veloc-mpi pages"));
    }
}
