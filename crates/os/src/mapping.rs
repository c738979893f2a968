//! Memory that is reserved at once and backed by pages later: private or shared.
//!
//! A [`Mapping`] guarantees: its address is a multiple of [`ALIGNMENT`], its length is fixed,
//! unwritten bytes are zero, and populating or touching a page never changes its contents, even
//! with concurrent writers. It gives out addresses, not references: synchronization is up to the
//! caller.

use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::OnceLock;

use rustix::process::{getrlimit, Resource};

use crate::memory::page_size;
use crate::shared::SharedMemory;
use crate::threads;
use errors::{Error, ErrorKind, Result};

/// The alignment of every mapping in bytes: that of the huge pages of x86-64, and of aarch64 with
/// 4 KiB pages.
pub const ALIGNMENT: usize = 2 << 20;

/// From so many bytes on, a thread gives the pages back.
const LARGE: usize = 64 << 20;

/// Mapped memory, unmapped when dropped, or soon after.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    kind: MappingKind,
}

/// The kind of a mapping's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// Private pages.
    Private,
    /// Shared pages.
    Shared,
    /// Shared pages from hugetlbfs.
    SharedHuge,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: the methods that take `&self` are system calls, which the kernel orders, and atomic
// operations; none hands out a reference to the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes of addresses, rounded up to whole pages. No page is allocated or promised
    /// (`MAP_NORESERVE`): usable memory depends on what is free when it is used.
    ///
    /// # Errors
    /// `len` is 0 or too large for the address space.
    pub fn reserve(len: usize) -> Result<Mapping> {
        let page = page_size();
        let rounded = len.checked_next_multiple_of(page).filter(|len| *len > 0);
        // Reserves room for the alignment, then trims both sides.
        let Some((len, total)) = rounded.and_then(|len| Some((len, len.checked_add(ALIGNMENT)?)))
        else {
            return Err(Error::invalid(format!("cannot reserve a mapping of {len} bytes")));
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing
        // that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), total, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::errno(format!("mmap of {len} bytes")));
        }
        let start = start.cast::<u8>();
        let before = start.align_offset(ALIGNMENT).min(ALIGNMENT);
        let behind = total - before - len;
        // SAFETY: `before + len <= total`, so all three addresses are in or at the end of the
        // mapping above. What is unmapped lies outside the part that is kept, and nobody else
        // knows of it. Both addresses are page-aligned: `start` and `ALIGNMENT` are, and `len` is
        // a multiple of the page size. A failure would only leave addresses reserved.
        let base = unsafe {
            let base = start.add(before);
            if before > 0 {
                libc::munmap(start.cast(), before);
            }
            if behind > 0 {
                libc::munmap(base.add(len).cast(), behind);
            }
            base
        };
        match NonNull::new(base) {
            Some(base) => Ok(Mapping { base, len, kind: MappingKind::Private }),
            None => Err(Error::new(ErrorKind::Internal, "mmap gave the null address")),
        }
    }

    /// Maps all of `memory`, rounded up to whole pages; all mappings in all processes share its bytes.
    /// Huge pages of hugetlbfs are reserved for it.
    ///
    /// # Errors
    /// There are no addresses left, or no such huge pages.
    pub fn of(memory: &SharedMemory) -> Result<Mapping> {
        let mut mapping = Mapping::reserve(memory.len() as usize)?;
        let (kind, promise) = match memory.is_huge() {
            true => (MappingKind::SharedHuge, 0),
            false => (MappingKind::Shared, libc::MAP_NORESERVE),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | promise;
        let file = memory.file()?.as_raw_fd();
        let at = mapping.base.as_ptr().cast();
        // SAFETY: replaces exactly the addresses that were just reserved, which nobody knows of.
        let start = unsafe { libc::mmap(at, mapping.len, access, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::errno(format!("mmap of {} shared bytes", mapping.len)));
        }
        mapping.kind = kind;
        Ok(mapping)
    }

    /// The first byte. Valid for reads and writes of [`len`](Self::len) bytes while the mapping
    /// lives.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The kind of the mapping's pages.
    pub fn kind(&self) -> MappingKind {
        self.kind
    }

    /// Bytes of the mapping, a multiple of the page size.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The addresses of `range`, which is in bytes from the base.
    ///
    /// # Errors
    /// The range is not within the mapping.
    pub fn addresses(&self, range: &Range<usize>) -> Result<Range<usize>> {
        if range.start > range.end || range.end > self.len {
            return Err(Error::invalid(format!(
                "bytes {}..{} are not within a mapping of {} bytes",
                range.start, range.end, self.len
            )));
        }
        let base = self.base.as_ptr() as usize;
        Ok(base + range.start..base + range.end)
    }

    /// Enables or disables huge pages for pages that are allocated from now on. This is advice:
    /// [`huge_bytes_of`](super::memory::huge_bytes_of) tells the result.
    ///
    /// # Errors
    /// The kernel has no transparent huge pages.
    pub fn advise_huge(&self, on: bool) -> Result<()> {
        if self.kind == MappingKind::SharedHuge {
            return Ok(());
        }
        let advice = if on { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: this advice changes no byte.
        unsafe { self.advise(&(0..self.len), advice, "transparent huge pages") }
    }

    /// Excludes the mapping from forked children. Needed before registering it with a driver:
    /// copy-on-write after a fork would give this process other pages than those that the device knows.
    /// A forked child must not use the addresses.
    ///
    /// # Errors
    /// `madvise` failed.
    pub fn dont_fork(&self) -> Result<()> {
        // SAFETY: this advice changes nothing in this process.
        unsafe { self.advise(&(0..self.len), libc::MADV_DONTFORK, "MADV_DONTFORK") }
    }

    /// Has forked children share the mapping again.
    ///
    /// # Errors
    /// `madvise` failed.
    pub fn do_fork(&self) -> Result<()> {
        // SAFETY: this advice changes nothing in this process.
        unsafe { self.advise(&(0..self.len), libc::MADV_DOFORK, "MADV_DOFORK") }
    }

    /// Clears the mapping in forked children.
    ///
    /// # Errors
    /// `madvise` failed, as it does before Linux 4.14.
    pub(crate) fn wipe_on_fork(&self) -> Result<()> {
        // SAFETY: this advice changes nothing in this process.
        unsafe { self.advise(&(0..self.len), libc::MADV_WIPEONFORK, "MADV_WIPEONFORK") }
    }

    /// Allocates every page of `range` (bytes from the base, widened to whole pages) in the kernel,
    /// keeping the contents. Returns when all are allocated, or at the first failure, with the pages
    /// before it allocated.
    ///
    /// # Errors
    /// A range that is not within the mapping, no memory, or a kernel before Linux 5.14
    /// ([`supports_populate`]).
    pub fn populate(&self, range: Range<usize>) -> Result<()> {
        // SAFETY: this advice acts like a write of what is there already.
        unsafe { self.advise(&range, libc::MADV_POPULATE_WRITE, "MADV_POPULATE_WRITE") }
    }

    /// Gives the whole pages of `range` (bytes from the base) back to the system: its bytes are 0 afterwards, in
    /// all processes that share them. Nobody may use them meanwhile.
    ///
    /// # Errors
    /// A range that is not within the mapping, or `madvise` failed.
    pub fn discard(&self, range: Range<usize>) -> Result<()> {
        let page = page_size();
        let whole = range.start.next_multiple_of(page)..range.end / page * page;
        if whole.is_empty() {
            return self.addresses(&range).map(drop);
        }
        let advice = match self.kind {
            MappingKind::Private => libc::MADV_DONTNEED,
            // For shared memory MADV_DONTNEED would only unmap the pages.
            MappingKind::Shared | MappingKind::SharedHuge => libc::MADV_REMOVE,
        };
        // SAFETY: the caller says that nobody uses these bytes; it changes no other page.
        unsafe { self.advise(&whole, advice, "giving pages back") }
    }

    /// Allocates every page of `range` (bytes from the base) by touching one byte in each `step` bytes:
    /// the page size, or the huge page size where huge pages are certain. The contents are kept, even
    /// with concurrent writers. If there is no memory, the kernel kills a process;
    /// [`populate`](Self::populate) would return an error.
    ///
    /// # Errors
    /// A range that is not within the mapping, or a step of 0.
    pub fn touch(&self, range: Range<usize>, step: usize) -> Result<()> {
        self.addresses(&range)?;
        if step == 0 {
            return Err(Error::invalid("a mapping cannot be touched in steps of 0 bytes"));
        }
        let nothing = opaque_zero();
        let mut at = range.start;
        while at < range.end {
            // SAFETY: `at` is within the mapping (checked above), which is readable and writable
            // as long as `self` lives, and a byte needs no alignment. The byte may be written by
            // others at this moment: by the device or the kernel, which are no threads of this
            // program, or by plain stores of a copy routine in another thread. The operation is
            // one indivisible read and write of a single byte by the processor, so it can only
            // put back the value that is there at that instant and cannot undo a store of
            // anybody's; its result is not used. It is not compiled away, because the compiler
            // cannot know that `nothing` is 0.
            let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(at)) };
            byte.fetch_or(nothing, Ordering::Relaxed);
            // Continues at multiples of the step, so that no page is skipped.
            match (at / step).checked_add(1).and_then(|n| n.checked_mul(step)) {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(())
    }

    /// `madvise` on the pages that `range` touches, repeated when a signal interrupts it.
    ///
    /// # Safety
    /// The advice must be sound for everybody who uses the pages.
    unsafe fn advise(&self, range: &Range<usize>, advice: i32, what: &str) -> Result<()> {
        let page = page_size();
        let addresses = self.addresses(range)?;
        // The base and the length are multiples of the page size: widening stays inside.
        let start = addresses.start / page * page;
        let len = addresses.end.next_multiple_of(page) - start;
        if addresses.is_empty() {
            return Ok(());
        }
        loop {
            // SAFETY: whole pages of this mapping; the rest is the caller's promise.
            if unsafe { libc::madvise(start as *mut libc::c_void, len, advice) } == 0 {
                return Ok(());
            }
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(Error::system(
                    format!("madvise of {len} bytes at offset {} ({what})", range.start),
                    &error,
                ));
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (base, len) = (self.base.as_ptr() as usize, self.len);
        let unmap = move || {
            // SAFETY: `base` and `len` are those of the mapping made in `reserve`, and nobody may use
            // it after its owner.
            if unsafe { libc::munmap(base as *mut libc::c_void, len) } != 0 {
                log::warn!("{}", Error::errno(format!("munmap of {len} bytes")));
            }
        };
        // Giving pages back takes tens of milliseconds for each GiB, for which nobody need wait who can do without
        // the addresses.
        let behind = len >= LARGE && getrlimit(Resource::As).current.is_none();
        if !behind || !threads::behind("veloc-unmap", unmap) {
            unmap();
        }
    }
}

/// Whether the kernel has `MADV_POPULATE_WRITE` (Linux 5.14). Tested once.
pub fn supports_populate() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        Mapping::reserve(page_size()).and_then(|probe| probe.populate(0..probe.len())).is_ok()
    })
}

/// 0, hidden from the compiler: it would turn an atomic "or" with a known 0 into a fence that does not
/// touch the byte.
fn opaque_zero() -> u8 {
    static ZERO: u8 = 0;
    // SAFETY: a reference is valid for reads.
    unsafe { ptr::read_volatile(&ZERO) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Which pages of `range` are allocated. Pages that were only read are the shared zero page, which
    /// /proc/self/pagemap shows as a file page (bit 61), and do not count.
    fn resident(mapping: &Mapping, range: Range<usize>) -> Vec<bool> {
        use std::os::unix::fs::FileExt as _;
        let page = page_size();
        let first = mapping.addresses(&range).unwrap().start / page;
        let mut entries = vec![0u8; range.len() / page * 8];
        let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
        pagemap.read_exact_at(&mut entries, (first * 8) as u64).unwrap();
        entries
            .chunks_exact(8)
            .map(|entry| {
                let entry = u64::from_le_bytes(entry.try_into().unwrap());
                entry >> 63 == 1 && entry >> 61 & 1 == 0
            })
            .collect()
    }

    fn small_pages(len: usize) -> Mapping {
        let mapping = Mapping::reserve(len).unwrap();
        let _ = mapping.advise_huge(false);
        mapping
    }

    /// Catches a large mapping that stays for ever, as nobody waits for the thread that unmaps it.
    #[test]
    fn a_large_mapping_goes_soon() {
        // So large that others' mappings never fill its place.
        let mapping = Mapping::reserve(LARGE << 6).unwrap();
        let (at, len) = (mapping.base.as_ptr() as u64, mapping.len as u64);
        assert_eq!(crate::access::find_unmapped(&[(at, len)]), None);
        drop(mapping);
        while crate::access::find_unmapped(&[(at, len)]).is_none() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn is_aligned_and_of_whole_pages() {
        for len in [1, page_size(), ALIGNMENT - 1, ALIGNMENT, 3 * ALIGNMENT + 1] {
            let mapping = Mapping::reserve(len).unwrap();
            assert_eq!(mapping.base().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(mapping.len(), len.next_multiple_of(page_size()));
        }
        // Far more than the memory: only addresses are reserved.
        assert!(Mapping::reserve(1 << 43).is_ok());
    }

    #[test]
    fn impossible_lengths_are_errors() {
        for len in [0, usize::MAX, usize::MAX - 4096, 1 << 60] {
            assert!(Mapping::reserve(len).is_err(), "{len}");
        }
    }

    #[test]
    fn ranges_are_checked() {
        let mapping = small_pages(4 * page_size());
        let len = mapping.len();
        assert!(mapping.populate(0..len + 1).is_err());
        assert!(mapping.touch(len..len + 1, page_size()).is_err());
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 2..1;
        assert!(mapping.touch(reversed, page_size()).is_err());
        assert!(mapping.touch(0..len, 0).is_err());
        assert!(mapping.touch(len..len, page_size()).is_ok());
        assert!(mapping.touch(0..len, usize::MAX).is_ok());
    }

    #[test]
    fn touching_gives_pages_and_keeps_bytes() {
        let page = page_size();
        let mapping = small_pages(8 * page);
        // SAFETY: within the mapping, which only this test uses.
        unsafe { mapping.base().as_ptr().add(2 * page).write(0xa5) };
        mapping.touch(page + 1..4 * page + 1, page).unwrap();
        let there = resident(&mapping, 0..8 * page);
        assert_eq!(there, [false, true, true, true, true, false, false, false]);
        // SAFETY: as above.
        let byte = unsafe { mapping.base().as_ptr().add(2 * page).read() };
        assert_eq!(byte, 0xa5);
    }

    /// Catches pages that stay, and neighbours' pages that go.
    #[test]
    fn discarding_takes_whole_pages_alone() {
        use std::os::unix::fs::MetadataExt as _;
        let page = page_size();
        let shared = SharedMemory::create("test", 4 * page as u64).unwrap();
        // The file tells how many pages shared memory has.
        let file = std::fs::File::from(shared.file().unwrap().try_clone_to_owned().unwrap());
        let blocks = || file.metadata().unwrap().blocks() as usize * 512 / page;
        for mapping in [small_pages(4 * page), Mapping::of(&shared).unwrap()] {
            mapping.touch(0..4 * page, page).unwrap();
            // SAFETY: within the mapping, which only this test uses.
            let byte = |at: usize| unsafe { mapping.base().as_ptr().add(at) };
            for at in 0..4 {
                // SAFETY: as above.
                unsafe { byte(at * page).write(7) };
            }
            mapping.discard(1..3 * page + 1).unwrap();
            match mapping.kind() {
                MappingKind::Private => {
                    assert_eq!(resident(&mapping, 0..4 * page), [true, false, false, true]);
                }
                _ => assert_eq!(blocks(), 2),
            }
            // SAFETY: as above.
            let bytes = [0, 1, 2, 3].map(|at| unsafe { byte(at * page).read() });
            assert_eq!(bytes, [7, 0, 0, 7]);
            assert!(mapping.discard(0..5 * page).is_err());
        }
    }

    #[test]
    fn populating_gives_pages_and_keeps_bytes() {
        if !supports_populate() {
            return;
        }
        let page = page_size();
        let mapping = small_pages(8 * page);
        // SAFETY: within the mapping, which only this test uses.
        unsafe { mapping.base().as_ptr().add(2 * page).write(0xa5) };
        mapping.populate(page + 1..3 * page + 1).unwrap();
        let there = resident(&mapping, 0..8 * page);
        assert_eq!(there, [false, true, true, true, false, false, false, false]);
        // SAFETY: as above.
        let byte = unsafe { mapping.base().as_ptr().add(2 * page).read() };
        assert_eq!(byte, 0xa5);
        mapping.populate(5..5).unwrap();
    }

    #[test]
    fn touching_undoes_no_write() {
        let page = page_size();
        let mapping = small_pages(page);
        let done = AtomicBool::new(false);
        // SAFETY: within the mapping, and used atomically in this test.
        let byte = unsafe { AtomicU8::from_ptr(mapping.base().as_ptr()) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    mapping.touch(0..page, page).unwrap();
                }
            });
            for round in 0..100_000u32 {
                let value = round as u8;
                byte.store(value, Ordering::Relaxed);
                assert_eq!(byte.load(Ordering::Relaxed), value);
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn is_not_there_in_a_fork() {
        let mapping = small_pages(page_size());
        mapping.dont_fork().unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", mapping.base().as_ptr() as usize);
        let flags = maps
            .lines()
            .skip_while(|line| !line.starts_with(&start))
            .find(|line| line.starts_with("VmFlags"));
        assert!(flags.is_none_or(|flags| flags.contains(" dc")), "{flags:?}");
    }
}
