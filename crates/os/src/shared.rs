//! Shared memory that can be passed to another process: an unnamed file that lives while a process has
//! it open or mapped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create, FsWord, MemfdFlags,
    SealFlags,
};
use rustix::process::{getrlimit, Resource};

use super::descriptors::GuardedFd;
use super::mapping::{Mapping, ALIGNMENT};
use super::memory::free_reserved_huge_pages;
use errors::{Error, ErrorKind, Result};

/// Shared memory. Its length is sealed, so that a mapping never loses pages.
#[derive(Debug)]
pub struct SharedMemory {
    file: GuardedFd<OwnedFd>,
    len: u64,
    huge: bool,
}

/// A mapping of shared memory as words, which all who have it read and write as a whole.
#[derive(Debug)]
pub struct SharedWords {
    mapping: Mapping,
    count: usize,
}

impl AsRef<[AtomicU64]> for SharedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        let first = self.mapping.base().as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping has that many words, is aligned for any type and lives as long as `self`; everybody
        // who uses the memory uses it as atomic words.
        unsafe { std::slice::from_raw_parts(first, self.count) }
    }
}

/// `HUGETLBFS_MAGIC`: memory on reserved huge pages.
const HUGETLBFS: FsWord = 0x9584_58f6;

impl SharedMemory {
    /// Creates shared memory of `len` bytes, which read as zero; no page is allocated. `name` is shown
    /// in `/proc`.
    ///
    /// # Errors
    /// The length is 0 or exceeds the file size limit, or the system has no such memory.
    pub fn create(name: &str, len: u64) -> Result<SharedMemory> {
        SharedMemory::create_with(name, len, MemfdFlags::empty())
    }

    /// Creates shared memory on reserved huge pages (`vm.nr_hugepages`), rounded up to whole ones.
    /// They are promised when it is mapped, but a control group may refuse them at the first write,
    /// which kills the process; [`populate`](super::mapping::Mapping::populate) returns an error.
    ///
    /// # Errors
    /// The errors of [`SharedMemory::create`], or there are too few huge pages.
    pub fn create_huge(name: &str, len: u64) -> Result<SharedMemory> {
        let too_few = || Error::invalid(format!("{len} bytes of \"{name}\": too few huge pages"));
        let (free, page) = free_reserved_huge_pages().ok_or_else(too_few)?;
        let rounded = len.checked_next_multiple_of(page).filter(|len| *len <= free);
        // Mappings have no larger alignment.
        let rounded = rounded.filter(|_| page <= ALIGNMENT as u64).ok_or_else(too_few)?;
        SharedMemory::create_with(name, rounded, MemfdFlags::HUGETLB)
    }

    fn create_with(name: &str, len: u64, flags: MemfdFlags) -> Result<SharedMemory> {
        if len == 0 {
            return Err(Error::invalid(format!("shared memory \"{name}\" of 0 bytes")));
        }
        let what = |call: &str| format!("{call} of \"{name}\", {len} bytes");
        // Exceeding it kills the process, unless SIGXFSZ is ignored.
        if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|limit| len > *limit) {
            return Err(Error::new(
                ErrorKind::System,
                format!("{}: files have {limit} bytes at most (RLIMIT_FSIZE)", what("ftruncate")),
            ));
        }
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags)
            .map_err(|error| Error::system(what("memfd_create"), &error.into()))?;
        ftruncate(&file, len).map_err(|error| Error::system(what("ftruncate"), &error.into()))?;
        fcntl_add_seals(&file, sealed())
            .map_err(|error| Error::system(what("F_ADD_SEALS"), &error.into()))?;
        Ok(SharedMemory {
            file: GuardedFd::new(file),
            len,
            huge: flags.contains(MemfdFlags::HUGETLB),
        })
    }

    /// Maps it as words.
    ///
    /// # Errors
    /// It cannot be mapped.
    pub fn words(&self) -> Result<Box<SharedWords>> {
        let mapping = Mapping::of(self)?;
        Ok(Box::new(SharedWords { mapping, count: self.len as usize / 8 }))
    }

    /// Memory that can refuse pages.
    #[cfg(any(test, debug_assertions))]
    pub fn create_refusing(name: &str, len: u64) -> Result<SharedMemory> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC)
            .map_err(|error| Error::system("memfd_create", &error.into()))?;
        ftruncate(&file, len).map_err(|error| Error::system("ftruncate", &error.into()))?;
        Ok(SharedMemory { file: GuardedFd::new(file), len, huge: false })
    }

    /// Refuses the pages from here on.
    #[cfg(any(test, debug_assertions))]
    pub fn refuse_from(&self, offset: u64) -> Result<()> {
        let refused = ftruncate(self.file.unchecked(), offset);
        refused.map_err(|error| Error::system("ftruncate", &error.into()))
    }

    /// Opens memory that another process created by [`SharedMemory::create`].
    ///
    /// # Errors
    /// The file is something else, or its length is not sealed.
    pub fn from_file(file: OwnedFd) -> Result<SharedMemory> {
        let seals = fcntl_get_seals(&file)
            .map_err(|error| Error::system("F_GET_SEALS of received memory", &error.into()))?;
        let found = fstat(&file)
            .map_err(|error| Error::system("fstat of received memory", &error.into()))?;
        let len = u64::try_from(found.st_size).unwrap_or(0);
        let huge = fstatfs(&file).is_ok_and(|system| system.f_type == HUGETLBFS);
        if !seals.contains(sealed()) || len == 0 {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("received memory of {len} bytes, whose length may change"),
            ));
        }
        Ok(SharedMemory { file: GuardedFd::new(file), len, huge })
    }

    /// Whether the memory is on reserved huge pages.
    pub(crate) fn is_huge(&self) -> bool {
        self.huge
    }

    /// The file, for mapping or passing on.
    ///
    /// # Errors
    /// The application has closed it.
    pub fn file(&self) -> Result<BorrowedFd<'_>> {
        let file = self.file.get().map(AsFd::as_fd);
        file.map_err(|error| Error::system("the memory for veloc-backend", &error))
    }

    /// Whether a process has mapped the memory. `None`: unknown.
    pub fn is_mapped_by(&self, process: u32) -> Option<bool> {
        let own = fstat(self.file.get().ok()?).ok()?.st_ino.to_string();
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
        // Addresses, access, offset, device, inode, path.
        let mut mapped = maps.lines().map(|line| line.split_ascii_whitespace().skip(4));
        Some(mapped.any(|mut fields| {
            fields.next() == Some(&*own) && fields.next().is_some_and(|p| p.starts_with("/memfd:"))
        }))
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u64 {
        self.len
    }
}

fn sealed() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Mapping, ALIGNMENT};

    #[test]
    fn two_mappings_see_the_same_bytes() {
        let memory = SharedMemory::create("veloc-test", 3 * ALIGNMENT as u64 + 5).unwrap();
        let first = Mapping::of(&memory).unwrap();
        let other =
            SharedMemory::from_file(memory.file().unwrap().try_clone_to_owned().unwrap()).unwrap();
        let second = Mapping::of(&other).unwrap();
        assert_eq!(first.len(), second.len());
        assert_eq!(first.base().as_ptr() as usize % ALIGNMENT, 0);
        let own = std::process::id();
        let unmapped = SharedMemory::create("veloc-test", 4096).unwrap();
        assert_eq!(memory.is_mapped_by(own), Some(true));
        assert_eq!(unmapped.is_mapped_by(own), Some(false));
        assert_eq!(memory.is_mapped_by(u32::MAX), None);
        let last = first.len() - 1;
        // SAFETY: within the mappings, which only this test uses.
        unsafe {
            first.base().as_ptr().add(last).write(7);
            drop(first);
            assert_eq!(second.base().as_ptr().add(last).read(), 7);
            assert_eq!(second.base().as_ptr().read(), 0);
        }
    }

    /// On systems with reserved huge pages.
    #[test]
    fn huge_pages_that_were_set_aside() {
        let len = 3 << 20;
        let Ok(memory) = SharedMemory::create_huge("veloc-test", len) else {
            println!("skipped: there are none");
            return;
        };
        assert!(memory.is_huge() && memory.len() == 4 << 20);
        let (before, _) = free_reserved_huge_pages().unwrap();
        let first = Mapping::of(&memory).unwrap();
        assert_eq!(free_reserved_huge_pages().unwrap().0, before - memory.len(), "promised");
        first.advise_huge(true).unwrap();
        first.dont_fork().unwrap();
        first.populate(5..10).unwrap();
        first.touch(0..first.len(), 4096).unwrap();
        let other = memory.file().unwrap().try_clone_to_owned().unwrap();
        let other = SharedMemory::from_file(other).unwrap();
        assert!(other.is_huge());
        let second = Mapping::of(&other).unwrap();
        assert_eq!(memory.is_mapped_by(std::process::id()), Some(true));
        let addresses = first.addresses(&(0..first.len())).unwrap();
        let huge = crate::memory::huge_bytes_of(addresses).unwrap();
        assert_eq!(huge, memory.len());
        // SAFETY: within the mappings, which only this test uses.
        unsafe {
            first.base().as_ptr().write(7);
            drop(first);
            assert_eq!(second.base().as_ptr().read(), 7);
        }
        assert!(SharedMemory::create_huge("veloc-test", before + 1).is_err(), "there are fewer");
    }

    #[test]
    fn its_length_is_fixed() {
        let memory = SharedMemory::create("veloc-test", 4096).unwrap();
        assert!(ftruncate(memory.file().unwrap(), 0).is_err(), "readers would be ended by SIGBUS");
        let open = memfd_create("veloc-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&open, 4096).unwrap();
        assert!(SharedMemory::from_file(open).is_err());
        assert!(SharedMemory::create("veloc-test", 0).is_err());
    }
}
