//! Which pages of a range this process's page table has.
//!
//! Of plain memory these are the pages that exist. Of managed memory (CUDA) they are those that are on the host: the
//! driver takes a page out of the table when it moves it to a device (seen on driver 580, and nobody else tells:
//! the driver's own question answers what was asked for last).

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use crate::memory::page_size;
use errors::{Error, Result};

/// `PAGE_IS_PRESENT` of linux/fs.h.
const PRESENT: u64 = 1 << 3;
/// `PAGEMAP_SCAN` of linux/fs.h, since Linux 6.7.
const SCAN: libc::c_ulong = 0xc060_6610;
/// Bit 63 of an entry of /proc/self/pagemap.
const ENTRY_PRESENT: u64 = 1 << 63;
/// Entries that are read at a time.
const AT_A_TIME: usize = 8192;
pub(crate) const PATH: &str = "/proc/self/pagemap";
/// Stretches that are asked for at a time.
const STRETCHES: usize = 512;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    ranges: u64,
    ranges_len: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    wanted: u64,
}

impl Scan {
    /// For pages of a range that have all of these categories, which alone are told.
    pub(crate) fn of(range: &Range<u64>, categories: u64, flags: u64) -> Scan {
        let (start, end) = (range.start, range.end);
        let (all_of, wanted) = (categories, categories);
        Scan { flags, start, end, all_of, wanted, ..Scan::default() }
    }

    /// Calls `found` with the stretches of pages that are asked for, ascending.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn run(
        mut self,
        map: &File,
        mut found: impl FnMut(Range<u64>),
    ) -> std::io::Result<()> {
        let mut ranges = vec![PageRegion::default(); STRETCHES];
        self.size = size_of::<Scan>() as u64;
        while self.start < self.end {
            (self.ranges, self.ranges_len) = (ranges.as_mut_ptr() as u64, ranges.len() as u64);
            // SAFETY: the structure is the kernel's, and its array has the length that it says.
            let count = unsafe { libc::ioctl(map.as_raw_fd(), SCAN, &mut self) };
            let count = usize::try_from(count).map_err(|_| std::io::Error::last_os_error())?;
            ranges[..count].iter().for_each(|region| found(region.start..region.end));
            if self.walk_end <= self.start {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.start = self.walk_end;
        }
        Ok(())
    }
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// This process's page table, open to be asked.
#[derive(Debug)]
pub struct PageTable(File);

impl PageTable {
    /// Opens it.
    ///
    /// # Errors
    /// The system's: /proc is not mounted.
    pub fn open() -> Result<PageTable> {
        File::open(PATH).map(PageTable).map_err(|error| Error::system(PATH, &error))
    }

    /// The stretches of `range` whose pages are in the page table, ascending, at the borders of pages.
    ///
    /// # Errors
    /// The system's.
    pub fn present(&self, range: &Range<u64>) -> Result<Vec<Range<u64>>> {
        let page = page_size() as u64;
        let range = range.start / page * page..range.end.next_multiple_of(page);
        let mut found = Vec::new();
        if !scan(&self.0, &range, &mut found) {
            found.clear();
            read(&self.0, &range, page, &mut found).map_err(|error| Error::system(PATH, &error))?;
        }
        Ok(found)
    }
}

/// Appends a stretch, as part of the last one if it begins where that ends.
pub(crate) fn push(found: &mut Vec<Range<u64>>, new: Range<u64>) {
    match found.last_mut() {
        Some(last) if last.end == new.start => last.end = new.end,
        _ => found.push(new),
    }
}

/// By one call for many pages. False: the system does not know it.
fn scan(map: &File, range: &Range<u64>, found: &mut Vec<Range<u64>>) -> bool {
    Scan::of(range, PRESENT, 0).run(map, |stretch| push(found, stretch)).is_ok()
}

/// By an entry for each page.
fn read(
    map: &File,
    range: &Range<u64>,
    page: u64,
    found: &mut Vec<Range<u64>>,
) -> std::io::Result<()> {
    let mut entries = vec![0; AT_A_TIME * 8];
    let mut at = range.start;
    while at < range.end {
        let pages = ((range.end - at) / page).min(AT_A_TIME as u64);
        let bytes = &mut entries[..pages as usize * 8];
        map.read_exact_at(bytes, at / page * 8)?;
        for entry in bytes.chunks_exact(8) {
            let entry = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
            if entry & ENTRY_PRESENT != 0 {
                push(found, at..at + page);
            }
            at += page;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;

    /// Catches pages that are missed at the ends of stretches and of what is read at a time, in both ways.
    #[test]
    fn both_ways_find_the_pages_that_were_touched() {
        let page = page_size() as u64;
        let pages = 3 * AT_A_TIME as u64;
        let mapping = Mapping::reserve((pages * page) as usize).unwrap();
        let base = mapping.base().as_ptr() as u64;
        // SAFETY: an advice about this test's own memory.
        unsafe { libc::madvise(base as *mut _, (pages * page) as usize, libc::MADV_NOHUGEPAGE) };
        let at = AT_A_TIME as u64;
        let few = [0..1, 7..9, at - 1..at + 2, 2 * at..2 * at + 1, pages - 1..pages];
        // More stretches than are asked for at a time.
        let many = (0..STRETCHES as u64).map(|n| 20 + 2 * n..21 + 2 * n);
        let mut touched: Vec<_> = few.into_iter().chain(many).collect();
        touched.sort_unstable_by_key(|stretch| stretch.start);
        for number in touched.iter().cloned().flatten() {
            // SAFETY: within the mapping, which is this test's own.
            unsafe { ((base + number * page) as *mut u8).write(1) };
        }
        let expected: Vec<_> =
            touched.iter().map(|t| base + t.start * page..base + t.end * page).collect();
        let whole = base..base + pages * page;
        let table = PageTable::open().unwrap();
        let present = |range: &Range<u64>| table.present(range);
        assert_eq!(present(&whole).unwrap(), expected);
        let map = File::open("/proc/self/pagemap").unwrap();
        let mut found = Vec::new();
        read(&map, &whole, page, &mut found).unwrap();
        assert_eq!(found, expected);
        // A range within pages has those that it touches.
        assert_eq!(present(&(base + 1..base + 2)).unwrap(), vec![whole.start..whole.start + page]);
        assert_eq!(present(&(base + page..base + page + 1)).unwrap(), vec![]);
    }
}
