//! Which pages of this process's memory were written since one has last asked (userfaultfd with `WP_ASYNC`, and
//! `PAGEMAP_SCAN`: Linux 6.7, for ordinary users as well).
//!
//! The kernel notes the first write to a page, by a thread or by a system call, and lets it go on. Not seen are
//! writes by other processes to shared memory, and by devices to pinned pages.

use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use crate::descriptors::GuardedFd;
use crate::mapping::{Mapping, ALIGNMENT};
use crate::memory::page_size;
use crate::residency::{push, Scan, PATH};
use crate::write_protection::{
    call, failed, place, Api, UserfaultRegistration, API, OF_WRITES, REGISTER, UNREGISTER, VERSION,
};
use errors::{Error, ErrorKind, Result};

/// `UFFD_USER_MODE_ONLY`, which is enough here: nobody waits for this process.
const FOR_ALL_USERS: libc::c_int = 1;
/// `UFFD_FEATURE_WP_UNPOPULATED` and `_WP_ASYNC`.
const FEATURES: u64 = 1 << 13 | 1 << 15;
/// `PM_SCAN_WP_MATCHING` and `PM_SCAN_CHECK_WPASYNC`.
const AND_PROTECT: u64 = 1 | 1 << 1;
/// `PAGE_IS_WRITTEN`. Asked for alone: the kernel takes a hundred times as long for the others (6.18).
const WRITTEN: u64 = 1 << 1;

/// What writes to a process's memory without its page table: network cards (InfiniBand, RoCE, Omni-Path and EFA;
/// Slingshot; BXI; Aries), and memory of other processes that is attached. Folders count if something is in them.
const PAST_THE_SYSTEM: [&str; 5] =
    ["sys/class/infiniband", "sys/class/cxi", "sys/class/bxi", "dev/kgni0", "dev/xpmem"];

/// A card of this machine, or what else there is, by which memory may be written to unnoticed: programs register memory
/// with it once, for good.
pub fn unnoticed() -> Option<PathBuf> {
    unnoticed_below(Path::new("/"))
}

fn unnoticed_below(root: &Path) -> Option<PathBuf> {
    PAST_THE_SYSTEM.iter().map(|place| root.join(place)).find_map(|place| {
        match fs::read_dir(&place) {
            Ok(mut cards) => cards.next().and_then(std::result::Result::ok).map(|card| card.path()),
            Err(_) => place.exists().then_some(place),
        }
    })
}

/// Notes writes to the ranges that it watches.
#[derive(Debug)]
pub struct WriteWatch {
    descriptor: GuardedFd<OwnedFd>,
    map: GuardedFd<File>,
}

impl WriteWatch {
    /// Asks the system, and tries whether its answers are true.
    ///
    /// # Errors
    /// It cannot tell, or what it tells is wrong.
    pub fn open() -> Result<WriteWatch> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | FOR_ALL_USERS;
        // SAFETY: a system call without memory.
        let made = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if made < 0 {
            return Err(Error::errno("userfaultfd"));
        }
        // SAFETY: the call has succeeded, so this is a new descriptor that nobody else has.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made as libc::c_int) };
        let mut api = Api { api: VERSION, features: FEATURES, calls: 0 };
        call(&descriptor, API, &mut api).map_err(|error| {
            let error = std::io::Error::from_raw_os_error(error);
            Error::system("userfaultfd that notes writes (Linux 6.7)", &error)
        })?;
        let map = File::open(PATH).map_err(|error| Error::system(PATH, &error))?;
        let written = WriteWatch { descriptor: descriptor.into(), map: map.into() };
        written.try_out(|range, into| written.take(range, into))?;
        Ok(written)
    }

    /// Notes writes to a range of whole pages from the next [`WriteWatch::take`] on, which still tells all of it.
    ///
    /// # Errors
    /// Another has registered some of it, or it is not mapped.
    pub fn watch(&self, range: &Range<u64>) -> Result<()> {
        let mut what = UserfaultRegistration { place: place(range), mode: OF_WRITES, calls: 0 };
        let descriptor =
            self.descriptor.get().map_err(|error| Error::system("userfaultfd", &error))?;
        call(descriptor, REGISTER, &mut what).map_err(|error| failed("userfaultfd", range, error))
    }

    /// Ends that.
    pub fn forget(&self, range: &Range<u64>) {
        // Either fails only where nothing is noted any more.
        let _ = self.descriptor.get().map(|found| call(found, UNREGISTER, &mut place(range)));
    }

    /// Appends the stretches of a range that were written since the last call; ascending. They count as unwritten then.
    ///
    /// # Errors
    /// Some of it is not watched any more, as other memory was mapped there: what was written is not known.
    pub fn take(&self, range: &Range<u64>, into: &mut Vec<Range<u64>>) -> Result<()> {
        let failed = |error| Error::system("asking which pages were written", &error);
        let map = self.map.get().map_err(failed)?;
        let scan = Scan::of(range, WRITTEN, AND_PROTECT);
        scan.run(map, |stretch| push(into, stretch)).map_err(failed)
    }

    /// Compares what `take` tells with what is done.
    fn try_out(
        &self,
        take: impl Fn(&Range<u64>, &mut Vec<Range<u64>>) -> Result<()>,
    ) -> Result<()> {
        let mapping = Mapping::reserve(ALIGNMENT)?;
        let (base, page) = (mapping.base().as_ptr(), page_size());
        let all = base as u64..(base as usize + 8 * page) as u64;
        let pages = |pages: Range<usize>| {
            (base as usize + pages.start * page) as u64..(base as usize + pages.end * page) as u64
        };
        // SAFETY: within the mapping, which nobody else knows.
        let write = |at: usize| unsafe { base.add(at * page).write_volatile(1) };
        write(0);
        write(1);
        self.watch(&all)?;
        let (mut anew, mut told) = (Vec::new(), Vec::new());
        take(&all, &mut anew)?;
        write(1);
        // SAFETY: as above; the call writes one byte.
        unsafe { libc::getrandom(base.add(3 * page).cast(), 1, 0) };
        write(6);
        take(&all, &mut told)?;
        let first = vec![pages(1..2), pages(3..4), pages(6..7)];
        let mut again = Vec::new();
        take(&all, &mut again)?;
        // SAFETY: as above.
        unsafe { libc::madvise(base.add(3 * page).cast(), page, libc::MADV_DONTNEED) };
        let mut discarded = Vec::new();
        take(&all, &mut discarded)?;
        self.forget(&all);
        let is_true = [told, again, discarded] == [first, Vec::new(), Vec::from([pages(3..4)])];
        if is_true && anew == [all] {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::System,
            "the system tells wrongly which pages were written (found out by a trial)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `None`: this system has none.
    fn open() -> Option<WriteWatch> {
        WriteWatch::open().map_err(|why| eprintln!("not tested: {why}")).ok()
    }

    fn pages(base: u64, written: &[Range<u64>]) -> BTreeSet<usize> {
        let page = page_size() as u64;
        let numbers = |range: &Range<u64>| (range.start - base) / page..(range.end - base) / page;
        written.iter().flat_map(numbers).map(|number| number as usize).collect()
    }

    /// Compares with the bytes: writes by threads and by the system, memory that is discarded, swapped out, moved
    /// within the machine, or copied for a child. Catches a change that is not told, and everything that is told as
    /// written.
    #[test]
    fn what_is_told_is_what_has_changed() {
        let Some(written) = open() else { return };
        let page = page_size();
        for huge in [false, true] {
            let len = 4 * ALIGNMENT;
            let count = len / page;
            let mapping = Mapping::reserve(len).unwrap();
            let _ = mapping.advise_huge(huge);
            let base = mapping.base().as_ptr();
            let all = base as u64..base as u64 + len as u64;
            // SAFETY: the mapping, which only this test uses; no reference outlives a use.
            let bytes = || unsafe { std::slice::from_raw_parts_mut(base, len) };
            bytes()[..len / 2].fill(1);
            written.watch(&all).unwrap();
            let mut anew = Vec::new();
            written.take(&all, &mut anew).unwrap();
            assert_eq!(pages(all.start, &anew).len(), count);
            let mut state = 7_u64;
            let mut random = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % below
            };
            for round in 0..60 {
                let before = bytes().to_vec();
                // Reading has made pages; asked for once, so that what follows is told alone.
                written.take(&all, &mut Vec::new()).unwrap();
                let mut touched = BTreeSet::new();
                for _ in 0..random(40) {
                    let at = random(count);
                    match random(7) {
                        0 => {
                            // SAFETY: within the mapping.
                            let got = unsafe { libc::getrandom(base.add(at * page).cast(), 9, 0) };
                            assert_eq!(got, 9);
                            touched.insert(at);
                        }
                        1 => {
                            let few = random(5).min(count - at);
                            // SAFETY: within the mapping.
                            unsafe {
                                let at = base.add(at * page).cast();
                                libc::madvise(at, few * page, libc::MADV_DONTNEED);
                            }
                            touched.extend(at..at + few);
                        }
                        2 => {
                            // SAFETY: within the mapping.
                            unsafe {
                                libc::madvise(base.add(at * page).cast(), page, libc::MADV_PAGEOUT);
                            }
                        }
                        3 => {
                            // The kernel moves the pages to a large one, if it can.
                            let at = at * page / ALIGNMENT * ALIGNMENT;
                            // SAFETY: within the mapping.
                            unsafe {
                                let at = base.add(at).cast();
                                libc::madvise(at, ALIGNMENT, libc::MADV_COLLAPSE);
                            }
                        }
                        4 => {
                            let _held = crate::forks::none();
                            // SAFETY: the child ends at once.
                            let child = unsafe { libc::fork() };
                            if child == 0 {
                                bytes()[at * page] ^= 0xff;
                                // SAFETY: ends the child.
                                unsafe { libc::_exit(0) };
                            }
                            // SAFETY: waits for the child.
                            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                        }
                        _ => {
                            bytes()[at * page + random(page)] = round as u8 + 2;
                            touched.insert(at);
                        }
                    }
                }
                let mut told = Vec::new();
                written.take(&all, &mut told).unwrap();
                let told = pages(all.start, &told);
                let now = bytes();
                let differs =
                    |n: &usize| now[n * page..(n + 1) * page] != before[n * page..(n + 1) * page];
                let changed: BTreeSet<usize> = (0..count).filter(differs).collect();
                assert!(changed.is_subset(&told), "not told: {:?}", changed.difference(&told));
                assert!(told.is_subset(&touched), "too much: {:?}", told.difference(&touched));
            }
            written.forget(&all);
        }
    }

    /// Catches a trial that no answer fails: nothing, everything, each page but those of the system's writes, and what
    /// was written for ever.
    #[test]
    fn a_system_that_lies_is_found_out() {
        let Some(written) = open() else { return };
        let page = page_size() as u64;
        let truth = |range: &Range<u64>, into: &mut Vec<Range<u64>>| written.take(range, into);
        written.try_out(truth).unwrap();
        type Lie = fn(&Range<u64>, &mut Vec<Range<u64>>, u64);
        let lies: [Lie; 4] = [
            |_, into, _| into.clear(),
            |all, into, _| *into = vec![all.clone()],
            |all, into, page| into.retain(|told| told.start != all.start + 3 * page),
            |all, into, page| push(into, all.start + 7 * page..all.end),
        ];
        for lie in lies {
            let told = written.try_out(|range, into| {
                written.take(range, into)?;
                lie(range, into, page);
                Ok(())
            });
            assert!(told.unwrap_err().to_string().contains("tells wrongly"));
        }
    }

    /// Catches a card that is overlooked, and a folder without any that counts.
    #[test]
    fn cards_that_write_unnoticed_are_found() {
        let root = tempfile::tempdir().unwrap();
        let found = || unnoticed_below(root.path());
        assert_eq!(found(), None);
        let folder = root.path().join("sys/class/infiniband");
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(found(), None);
        fs::write(folder.join("mlx5_0"), "").unwrap();
        assert_eq!(found(), Some(folder.join("mlx5_0")));
        fs::remove_dir_all(root.path().join("sys")).unwrap();
        fs::create_dir_all(root.path().join("dev")).unwrap();
        fs::write(root.path().join("dev/xpmem"), "").unwrap();
        assert_eq!(found(), Some(root.path().join("dev/xpmem")));
    }

    /// Catches memory that was replaced and counts as unchanged.
    #[test]
    fn other_memory_at_the_same_place_is_found_out() {
        let Some(written) = open() else { return };
        let page = page_size();
        let mapping = Mapping::reserve(ALIGNMENT).unwrap();
        let base = mapping.base().as_ptr();
        let all = base as u64..base as u64 + ALIGNMENT as u64;
        written.watch(&all).unwrap();
        written.take(&all, &mut Vec::new()).unwrap();
        // SAFETY: replaces a page of the mapping, which nobody uses, by itself.
        let new = unsafe {
            libc::mmap(
                base.add(5 * page).cast(),
                page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        assert_eq!(new, base.wrapping_add(5 * page).cast());
        assert!(written.take(&all, &mut Vec::new()).is_err());
        written.watch(&all).unwrap();
        written.take(&all, &mut Vec::new()).unwrap();
        // SAFETY: moves a page within the mapping.
        let moved = unsafe {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(base.add(9 * page).cast(), page, page, flags, base.add(2 * page))
        };
        assert_eq!(moved, base.wrapping_add(2 * page).cast());
        assert!(written.take(&all, &mut Vec::new()).is_err());
    }
}
