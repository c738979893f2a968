//! Checks which memory this process may access, by asking the system: a bad address is an answer, not a
//! fault.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::sync::OnceLock;

use super::memory::page_size;

/// `process_vm_readv` or `process_vm_writev`.
type Transfer = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// The most addresses in one call: the system's limit.
const AT_A_TIME: usize = 1024;

/// The smallest page size in bytes.
const LEAST_PAGE: u64 = 4096;

/// Whether the first and the last of `len` bytes at `address` can be read.
pub fn is_readable(address: u64, len: u64) -> bool {
    static ANSWERED: OnceLock<bool> = OnceLock::new();
    let read = |addresses: &[u64]| {
        let mut bytes = vec![0u8; addresses.len()];
        let local: Vec<u64> =
            bytes.iter_mut().map(|byte| std::ptr::from_mut(byte) as u64).collect();
        passing(libc::process_vm_readv, &local, addresses)
    };
    first_bad_end(&[(address, len)], &ANSWERED, read).is_none()
}

/// Finds memory readable, and does not ask again about the page that it has asked about last: many small regions
/// lie in one. Should that page be unmapped meanwhile, this is not noticed.
#[derive(Debug, Default)]
pub struct Reader(Cell<Option<u64>>);

impl Reader {
    /// Whether the first and the last of `len` bytes at `address` can be read.
    pub fn can_read(&self, address: u64, len: u64) -> bool {
        let end = address.saturating_add(len.saturating_sub(1));
        let [first, last] = [address, end].map(|at| at / LEAST_PAGE);
        if first == last && self.0.get() == Some(first) {
            return true;
        }
        let is_readable = is_readable(address, len);
        self.0.set((is_readable && len > 0).then_some(last));
        is_readable
    }
}

/// The index of the first range (address and length) whose first or last byte cannot be written. Those
/// bytes are written with their own value. About a microsecond for all ranges.
pub fn first_unwritable(ranges: &[(u64, u64)]) -> Option<usize> {
    static ANSWERED: OnceLock<bool> = OnceLock::new();
    first_bad_end(ranges, &ANSWERED, |addresses| {
        passing(libc::process_vm_writev, addresses, addresses)
    })
}

/// The index of a range (address and length) of which not all is mapped: less than half a microsecond for a large
/// range of any length, or for many small ones that lie close to each other. If a range covers whole pages, partial
/// pages at its ends are not checked. Mappings that cannot be read, or of a file that was truncated, count as mapped.
pub fn find_unmapped(ranges: &[(u64, u64)]) -> Option<usize> {
    // A power of two.
    let page = page_size() as u64;
    // The pages of small ranges.
    let mut small: Vec<(u64, usize)> = Vec::new();
    for (place, &(address, len)) in ranges.iter().enumerate().filter(|(_, (_, len))| *len > 0) {
        let first = address.checked_next_multiple_of(page);
        let Some((end, start)) = address.checked_add(len).zip(first) else { return Some(place) };
        let whole = end & !(page - 1);
        if start < whole {
            // Whole pages only, as memory checkers report bytes outside the range.
            let (from, len) = (start as *mut libc::c_void, (whole - start) as usize);
            // SAFETY: any addresses may be queried. The call checks the mappings, and starts nothing.
            if is_unmapped(unsafe { libc::msync(from, len, libc::MS_ASYNC) }) {
                return Some(place);
            }
            continue;
        }
        for at in [address / page, (end - 1) / page] {
            if small.last().is_none_or(|(before, _)| *before != at) {
                small.push((at, place));
            }
        }
    }
    small.sort_unstable();
    small.dedup_by_key(|(at, _)| *at);
    let mut resident = [0; AT_A_TIME];
    let mut has_unmapped = |pages: &[(u64, usize)]| {
        let (from, len) = ((pages[0].0 * page) as *mut libc::c_void, pages.len() * page as usize);
        // SAFETY: as above, with room for the result.
        is_unmapped(unsafe { libc::mincore(from, len, resident.as_mut_ptr()) })
    };
    let mut together =
        small.chunk_by(|a, b| a.0 + 1 == b.0).flat_map(|pages| pages.chunks(AT_A_TIME));
    let bad = together.find(|pages| has_unmapped(pages))?;
    bad.chunks(1).find(|page| has_unmapped(page)).map(|page| page[0].1)
}

/// Whether a call that failed says so. If the call is forbidden, nothing is refused.
fn is_unmapped(status: libc::c_int) -> bool {
    status != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM)
}

/// Copies `len` bytes at `from`, where memory may have gone. Allocates nothing.
///
/// # Safety
/// There is room for them at `to`, which nobody else uses meanwhile.
///
/// # Errors
/// Some of them cannot be read, or the system forbids the call.
pub unsafe fn try_copy(from: u64, to: *mut u8, len: usize) -> std::io::Result<()> {
    let mut copied = 0;
    while copied < len {
        let local = libc::iovec { iov_base: to.wrapping_add(copied).cast(), iov_len: len - copied };
        let base = (from + copied as u64) as *mut libc::c_void;
        let remote = libc::iovec { iov_base: base, iov_len: len - copied };
        // SAFETY: the kernel checks the addresses that it reads; the rest is the caller's promise.
        let read = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        match read {
            1.. => copied += read as usize,
            _ => return Err(std::io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// This process's mappings, for a few questions at a time: from the first one on.
#[derive(Debug)]
pub struct Mappings {
    /// Answers questions about single addresses (`PROCMAP_QUERY`, Linux 6.11): some microseconds for any number
    /// of mappings. `None` where the kernel is older, or /proc is missing.
    asked: OnceCell<Option<File>>,
    /// The mapping that was told last, as many regions lie in one.
    told: RefCell<Option<(Range<u64>, Access)>>,
    /// All mappings, ascending; read where nobody can be asked: tens of microseconds for some hundred
    /// mappings, milliseconds for thousands. `None`: unknown.
    all: OnceCell<Option<List>>,
    /// The mappings that forked children do not get as they are. `None`: unknown.
    kept_from_children: OnceCell<Option<Vec<Range<u64>>>>,
}

/// The addresses of mappings, ascending, and what each is.
type List = Vec<(Range<u64>, Access)>;

/// What a mapping is, as far as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    writable: bool,
    shared: bool,
    /// Of a file.
    file: bool,
}

impl Mappings {
    /// The mappings as they are now.
    pub fn now() -> Mappings {
        Mappings {
            asked: OnceCell::new(),
            told: RefCell::default(),
            all: OnceCell::new(),
            kept_from_children: OnceCell::new(),
        }
    }

    /// Whether all of `len` bytes at `address` are in writable mappings. Without /proc nothing is known,
    /// and nothing refused.
    pub fn have_writable(&self, address: u64, len: u64) -> bool {
        self.all_are(address..address.saturating_add(len), |access| access.writable).unwrap_or(true)
    }

    /// Whether all of `len` bytes at `address` are in writable mappings. Unknown counts as no.
    pub fn are_writable(&self, address: u64, len: u64) -> bool {
        let known = self.all_are(address..address.saturating_add(len), |access| access.writable);
        known.unwrap_or(false)
    }

    /// Whether all of `len` bytes at `address` are in private mappings. Unknown counts as no.
    pub fn have_private(&self, address: u64, len: u64) -> bool {
        self.all_are(address..address.saturating_add(len), |access| !access.shared).unwrap_or(false)
    }

    /// Whether all of `len` bytes at `address` are memory of this process alone and of no file: a forked child has them
    /// as they were at its start, if it has them at all (see [`children_get`](Self::children_get)). Unknown counts as no.
    pub fn have_anonymous(&self, address: u64, len: u64) -> bool {
        let so = |access: Access| !access.shared && !access.file;
        self.all_are(address..address.saturating_add(len), so).unwrap_or(false)
    }

    /// Whether forked children get all of `len` bytes at `address`: the application has advised neither
    /// `MADV_DONTFORK` nor `MADV_WIPEONFORK`. Only the long list says that (/proc/self/smaps), for which the
    /// system goes through the process's pages: milliseconds for each GiB. Unknown counts as no.
    pub fn children_get(&self, address: u64, len: u64) -> bool {
        let wanted = address..address.saturating_add(len);
        let list =
            || fs::read("/proc/self/smaps").ok().map(|text| kept(&String::from_utf8_lossy(&text)));
        let overlaps = |kept: &Range<u64>| kept.start < wanted.end && wanted.start < kept.end;
        let known = self.kept_from_children.get_or_init(list);
        known.as_ref().is_some_and(|kept| !kept.iter().any(overlaps))
    }

    /// Whether `wanted` is in mappings that all are `so`. `None`: unknown.
    fn all_are(&self, wanted: Range<u64>, so: impl Fn(Access) -> bool) -> Option<bool> {
        let maps = self.asked.get_or_init(|| File::open("/proc/self/maps").ok());
        let answer = maps.as_ref().and_then(|maps| self.ask(maps, wanted.clone(), &so));
        answer.or_else(|| self.all_listed_are(wanted, so))
    }

    /// As [`all_are`](Self::all_are), by the list of all mappings.
    fn all_listed_are(&self, wanted: Range<u64>, so: impl Fn(Access) -> bool) -> Option<bool> {
        // The names of files need not be UTF-8.
        let read = || fs::read("/proc/self/maps").ok();
        let list = || read().map(|text| listed(&String::from_utf8_lossy(&text)));
        self.all.get_or_init(list).as_ref().map(|all| all_in(all, wanted, so))
    }

    /// Whether all of `wanted` is in mappings that are `so`. `None`: `maps` does not answer.
    fn ask(&self, maps: &File, wanted: Range<u64>, so: impl Fn(Access) -> bool) -> Option<bool> {
        let mut reached = wanted.start;
        while reached < wanted.end {
            let told = self.told.take().filter(|(mapping, _)| mapping.contains(&reached));
            let told = match told {
                Some(told) => told,
                None => match tell(maps, reached)? {
                    Some(told) => told,
                    None => return Some(false),
                },
            };
            self.told.replace(Some(told.clone()));
            let (mapping, access) = told;
            if !so(access) {
                return Some(false);
            }
            reached = mapping.end;
        }
        Some(true)
    }
}

/// `struct procmap_query` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct MappingQuery {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    /// Of the mapping that is found.
    access: u64,
    page_size: u64,
    offset: u64,
    /// 0: of no file.
    inode: u64,
    /// Its device, and the sizes and addresses of buffers for its name and build id, which are not asked for.
    rest: [u64; 4],
}

impl MappingQuery {
    /// `PROCMAP_QUERY`.
    const CALL: libc::Ioctl = libc::_IOWR::<MappingQuery>(b'f' as u32, 17);
    /// `PROCMAP_QUERY_VMA_WRITABLE`.
    const WRITABLE: u64 = 2;
    /// `PROCMAP_QUERY_VMA_SHARED`.
    const SHARED: u64 = 8;

    fn access(&self) -> Access {
        Access {
            writable: self.access & MappingQuery::WRITABLE != 0,
            shared: self.access & MappingQuery::SHARED != 0,
            file: self.inode != 0,
        }
    }
}

/// The mapping at an address, if there is one. `None`: `maps` does not answer.
fn tell(maps: &File, address: u64) -> Option<Option<(Range<u64>, Access)>> {
    let size = size_of::<MappingQuery>() as u64;
    let mut query = MappingQuery { size, address, ..MappingQuery::default() };
    // SAFETY: the kernel reads and writes the struct, which is ours and of the size that it names.
    let status = unsafe { libc::ioctl(maps.as_raw_fd(), MappingQuery::CALL, &raw mut query) };
    if status != 0 {
        let error = std::io::Error::last_os_error();
        return (error.raw_os_error() == Some(libc::ENOENT)).then_some(None);
    }
    let mapping = query.start..query.end;
    mapping.contains(&address).then(|| Some((mapping, query.access())))
}

/// The index of the first range whose ends do not `pass`. `pass` tells how many addresses, in order,
/// pass. A sandbox may forbid the call; then every address passes.
fn first_bad_end(
    ranges: &[(u64, u64)],
    answered: &OnceLock<bool>,
    pass: impl Fn(&[u64]) -> usize,
) -> Option<usize> {
    let answered = *answered.get_or_init(|| {
        let mut own = 0u8;
        pass(&[std::ptr::from_mut(&mut own) as u64]) == 1
    });
    // One byte per page is enough.
    let mut ends: Vec<(u64, usize)> = Vec::with_capacity(2 * ranges.len());
    for (place, &(address, len)) in ranges.iter().enumerate().filter(|(_, (_, len))| *len > 0) {
        for end in [address, address.saturating_add(len - 1)] {
            if ends.last().is_none_or(|(before, _)| before / LEAST_PAGE != end / LEAST_PAGE) {
                ends.push((end, place));
            }
        }
    }
    ends.chunks(AT_A_TIME).filter(|_| answered).find_map(|ends| {
        let addresses: Vec<u64> = ends.iter().map(|(address, _)| *address).collect();
        ends.get(pass(&addresses)).map(|(_, place)| *place)
    })
}

/// How many bytes the kernel copies between `local` and `remote` addresses of this process, up to the
/// first failure.
fn passing(transfer: Transfer, local: &[u64], remote: &[u64]) -> usize {
    let bytes = |addresses: &[u64]| -> Vec<libc::iovec> {
        let byte = |&at: &u64| libc::iovec { iov_base: at as *mut libc::c_void, iov_len: 1 };
        addresses.iter().map(byte).collect()
    };
    let (local, remote) = (bytes(local), bytes(remote));
    let count = local.len() as libc::c_ulong;
    let (from, to) = (local.as_ptr(), remote.as_ptr());
    // SAFETY: both lists have `count` elements, and the kernel checks their addresses. It writes to the
    // caller's memory, or writes a byte of the application's memory with its own value during an
    // application call.
    let copied = unsafe { transfer(libc::getpid(), from, count, to, count, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// Whether the ascending `mappings` cover all of `wanted` with some that are `so`.
fn all_in(mappings: &List, wanted: Range<u64>, so: impl Fn(Access) -> bool) -> bool {
    let mut reached = wanted.start;
    let first = mappings.partition_point(|(range, _)| range.end <= reached);
    for (range, access) in &mappings[first..] {
        if reached >= wanted.end {
            break;
        }
        if range.start > reached || !so(*access) {
            return false;
        }
        reached = range.end;
    }
    reached >= wanted.end
}

/// The mappings in the text of `/proc/self/maps`.
fn listed(maps: &str) -> List {
    maps.lines().filter_map(mapping).collect()
}

/// The mapping in a line such as `7f0000000000-7f0000200000 rw-p ...`.
fn mapping(line: &str) -> Option<(Range<u64>, Access)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let letters = words.next()?.as_bytes();
    let has = |place, letter| letters.get(place) == Some(&letter);
    // Behind the offset and the device.
    let file = words.nth(2).is_some_and(|inode| inode != "0");
    let access = Access { writable: has(1, b'w'), shared: has(3, b's'), file };
    Some((number(start)?..number(end)?, access))
}

/// The mappings that children do not get as they are, in the text of `/proc/self/smaps`: lines as of maps, each
/// before lines such as `VmFlags: rd wr dc`.
fn kept(smaps: &str) -> Vec<Range<u64>> {
    let mut of = None;
    let mut kept = Vec::new();
    for line in smaps.lines() {
        match line.strip_prefix("VmFlags:") {
            // MADV_DONTFORK and MADV_WIPEONFORK.
            Some(flags) if flags.split_whitespace().any(|flag| flag == "dc" || flag == "wf") => {
                kept.extend(of.take());
            }
            Some(_) => {}
            None => of = mapping(line).map(|(range, _)| range).or(of),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::page_size;

    #[test]
    fn bad_addresses_are_not_readable() {
        let bytes = [1u8; 64];
        let at = bytes.as_ptr() as u64;
        assert!(is_readable(at, 64) && is_readable(0, 0));
        assert!(!is_readable(0, 1) && !is_readable(8, 4096) && !is_readable(at, u64::MAX));
        // Catches an answer for another page, or for a range that goes on in one.
        let reader = Reader::default();
        let goes_on = (at, LEAST_PAGE * LEAST_PAGE * LEAST_PAGE);
        for ((address, len), expected) in
            [((8, 0), true), ((8, 1), false), ((at, 64), true), ((at, 64), true), (goes_on, false)]
        {
            assert_eq!(reader.can_read(address, len), expected, "{len} bytes at {address:#x}");
        }
    }

    /// Catches an answer that is based on reading, and a check that changes bytes.
    #[test]
    fn what_can_only_be_read_is_not_writable() {
        static TABLE: [u8; 64] = [7; 64];
        let constant = TABLE.as_ptr() as u64;
        assert!(is_readable(constant, 64));
        assert_eq!(first_unwritable(&[(constant, 64)]), Some(0));
        assert!(!Mappings::now().have_writable(constant, 64));
        let mut bytes = [7u8; 64];
        let at = bytes.as_mut_ptr() as u64;
        assert_eq!(first_unwritable(&[(at, 64)]), None);
        assert_eq!(bytes, [7; 64]);
        let now = Mappings::now();
        assert!(now.have_writable(at, 64));
        assert!(now.have_writable(0, 0) && !now.have_writable(8, 64));
        // Also empty ranges, and more ranges than one call can check.
        assert_eq!(first_unwritable(&[(0, 0), (at, 64), (8, 64), (constant, 1)]), Some(2));
        let mut wide = vec![7u8; 3 * LEAST_PAGE as usize];
        let start = wide.as_mut_ptr() as u64;
        let mut many: Vec<_> = (0..1500).map(|i| (start + i % 2 * 2 * LEAST_PAGE, 64)).collect();
        assert_eq!(first_unwritable(&many), None);
        many[1400] = (constant, 64);
        assert_eq!(first_unwritable(&many), Some(1400));
        assert_eq!(bytes, [7; 64]);
    }

    /// Catches a check of only the ends of a range.
    #[test]
    fn a_page_between_is_seen() {
        let page = page_size();
        // SAFETY: a mapping of its own at an address that the system chooses.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 3 * page, 3, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let (at, len) = (start as u64, 3 * page as u64);
        assert!(Mappings::now().have_writable(at, len));
        // SAFETY: the page in the middle of that mapping.
        let status = unsafe { libc::mprotect(start.byte_add(page), page, libc::PROT_READ) };
        assert_eq!(status, 0);
        assert_eq!(first_unwritable(&[(at, len)]), None);
        let now = Mappings::now();
        assert!(!now.have_writable(at, len) && now.have_writable(at, page as u64));
        // SAFETY: that mapping, which nobody uses.
        unsafe { libc::munmap(start, 3 * page) };
    }

    #[test]
    fn what_is_not_mapped_is_seen() {
        let page = page_size();
        // SAFETY: a mapping of its own at an address that the system chooses.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 3 * page, 3, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            start as u64
        };
        let is_mapped = |at, len| find_unmapped(&[(at, len)]).is_none();
        assert!(is_mapped(at, 3 * page as u64) && is_mapped(at + 5, 1) && is_mapped(at, 0));
        assert!(is_mapped(at + 5, 2 * page as u64) && is_mapped(at + 5, page as u64));
        // The first page is never mapped, nor are addresses that there are not.
        assert!(!is_mapped(8, 64) && !is_mapped(u64::MAX - 4096, 10) && !is_mapped(at, u64::MAX));
        assert!(!is_mapped(u64::MAX - 10, 5));
        // Small ones are asked about together, and more of them than one call answers; the bad one is named.
        let mut small: Vec<(u64, u64)> = (0..9000).map(|i| (at + i % 3000 * 4, 4)).collect();
        assert_eq!(find_unmapped(&small), None);
        small[7654] = (16, 4);
        assert_eq!(find_unmapped(&small), Some(7654));
        assert_eq!(find_unmapped(&[(at, 8), (at, 3 * page as u64), (8, 2 * page as u64)]), Some(2));
        // SAFETY: that mapping, which nobody uses.
        unsafe { libc::munmap(at as *mut libc::c_void, 3 * page) };
    }

    /// Nine pages, some of which cannot be written to, are asked about one by one and as a
    /// list. Catches an answer for another address, and one that ends at the first mapping.
    #[test]
    fn the_kernel_and_its_list_agree() {
        let page = page_size() as u64;
        // SAFETY: a mapping of its own at an address that the system chooses.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 9 * page as usize, 3, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let at = |place: u64| (start as u64 + place * page) as *mut libc::c_void;
        for (place, access) in [(2, libc::PROT_READ), (3, libc::PROT_NONE), (7, libc::PROT_READ)] {
            // SAFETY: a page of that mapping.
            assert_eq!(unsafe { libc::mprotect(at(place), page as usize, access) }, 0);
        }
        let now = Mappings::now();
        let asked = &File::open("/proc/self/maps").unwrap();
        let writable = |access: Access| access.writable;
        if now.ask(asked, 0..1, writable).is_none() {
            eprintln!("this kernel does not answer");
        }
        for first in 0..9 {
            for last in first..9 {
                let range = at(first) as u64 + 5..at(last) as u64 + page - 5;
                let expected = [2, 3, 7].iter().all(|place| *place < first || *place > last);
                let listed = now.all_listed_are(range.clone(), writable);
                assert_eq!(listed, Some(expected), "{first} to {last}");
                let answer = now.ask(asked, range, writable);
                assert!(answer.is_none_or(|answer| answer == expected), "{first} to {last}");
            }
        }
        assert_ne!(now.ask(asked, 8..16, writable), Some(true));
        // SAFETY: that mapping, which nobody uses.
        unsafe { libc::munmap(start, 9 * page as usize) };
    }

    #[test]
    fn mappings_one_behind_the_other() {
        let maps = "1000-2000 rw-p 0 00:00 0\n2000-3000 -w-s 0 00:00 0 /a b\n\
                    3000-4000 r--p 0 00:00 0\n5000-6000 rw-p 0 00:00 0\n";
        for (range, expected) in [
            (0x1000..0x3000, true),
            (0x1800..0x2800, true),
            (0x5000..0x6000, true),
            (0x1000..0x3001, false),
            (0x3000..0x3001, false),
            (0x4000..0x5001, false),
            (0x5000..0x6001, false),
            (0x0fff..0x1001, false),
        ] {
            let found = all_in(&listed(maps), range.clone(), |access| access.writable);
            assert_eq!(found, expected, "{range:x?}");
        }
    }

    /// Catches shared memory that is taken for private, an answer for the first of two mappings, and advice
    /// that is not seen.
    #[test]
    fn what_a_child_gets_as_a_copy_is_told_apart() {
        let page = page_size();
        let map = |kind| {
            // SAFETY: a mapping of its own at an address that the system chooses.
            let start = unsafe {
                libc::mmap(std::ptr::null_mut(), 3 * page, 3, kind | libc::MAP_ANONYMOUS, -1, 0)
            };
            assert_ne!(start, libc::MAP_FAILED);
            start
        };
        let (private, shared) = (map(libc::MAP_PRIVATE), map(libc::MAP_SHARED));
        let whole = 3 * page as u64;
        let without_asking = Mappings { asked: OnceCell::from(None), ..Mappings::now() };
        for now in [Mappings::now(), without_asking] {
            assert!(now.have_private(private as u64, whole));
            assert!(!now.have_private(shared as u64, whole) && !now.have_private(8, 64));
        }
        assert!(Mappings::now().children_get(private as u64, whole));
        for advice in [libc::MADV_DONTFORK, libc::MADV_WIPEONFORK] {
            let advise = |advice| {
                // SAFETY: the page in the middle of that mapping; this concerns children alone.
                let status = unsafe { libc::madvise(private.byte_add(page), page, advice) };
                assert_eq!(status, 0);
            };
            advise(advice);
            let now = Mappings::now();
            let at = private as u64;
            assert!(!now.children_get(at, whole) && now.children_get(at, page as u64));
            assert!(
                now.children_get(at + 2 * page as u64, page as u64) && now.have_private(at, whole)
            );
            advise(if advice == libc::MADV_DONTFORK {
                libc::MADV_DOFORK
            } else {
                libc::MADV_KEEPONFORK
            });
        }
        for start in [private, shared] {
            // SAFETY: that mapping, which nobody uses.
            unsafe { libc::munmap(start, 3 * page) };
        }
    }
}
