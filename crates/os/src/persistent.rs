//! Files that programs compute in: mapped memory, and what a crash leaves of it.

use std::ffi::{c_int, CString, OsStr};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::crash::{simulation, Simulation};
use crate::files;
use crate::flush::{drain, Instruction, LINE};
use crate::memory::page_size;
use crate::mounts::mount_of;
use errors::{Error, ErrorKind, Result};

/// A crash, and what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The process dies: all that it stored is there.
    Process,
    /// The machine dies: what was flushed and drained is there; of the rest each line of the cache may be, word by
    /// word.
    Power,
    /// The machine dies: what was flushed and drained is there; of the rest each page may be, sector by sector.
    Page,
}

/// What a file was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The worst crash after which what was flushed and drained is there.
    pub model: Model,
    /// Bytes that reach the file together; 1: each store does.
    pub granularity: u64,
    /// Why it is no more than that.
    pub why: String,
}

/// The crash that a program asks its file to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// That of the process.
    Process,
    /// That of the machine: with persistent memory [`Model::Power`], else [`Model::Page`].
    Machine,
    /// That of the machine, as [`Model::Power`] alone.
    Power,
}

/// A mapped file.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
    len: u64,
    domain: Domain,
    simulation: Option<&'static Simulation>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and no reference to its bytes is handed out here.
unsafe impl Send for Mapped {}
// SAFETY: as above; flushes and drains are ordered by the caller.
unsafe impl Sync for Mapped {}

/// File systems that keep nothing without power.
const VOLATILE: [&str; 4] = ["tmpfs", "ramfs", "hugetlbfs", "devtmpfs"];
/// File systems of other machines: what `msync` promises there is theirs to say.
const REMOTE: [&str; 10] =
    ["nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "fuse", "9p"];

impl Mapped {
    /// Maps the first `len` bytes of a file, for programs that survive this crash.
    ///
    /// # Errors
    /// The file cannot be mapped; or lies where nothing survives that crash.
    pub fn new(file: &File, path: &Path, len: u64, survives: Survives) -> Result<Mapped> {
        let mapped = Mapped::as_simulated(file, path, len, survives)
            .unwrap_or_else(|| Mapped::as_found(file, path, len, survives));
        mapped.map_err(|error| error.within(path.display()))
    }

    fn as_found(file: &File, path: &Path, len: u64, survives: Survives) -> Result<Mapped> {
        let (base, domain) = match survives {
            Survives::Process => {
                let why = "not asked for more than a crash of the process".to_owned();
                let domain = Domain { model: Model::Process, granularity: 1, why };
                (map(file, len, libc::MAP_SHARED)?, domain)
            }
            Survives::Machine | Survives::Power => {
                match map(file, len, libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC) {
                    Ok(base) => (base, persistent_memory(file, Path::new("/sys"))?),
                    Err(refused) => {
                        let domain = ordinary_file(path, survives, &refused)?;
                        (map(file, len, libc::MAP_SHARED)?, domain)
                    }
                }
            }
        };
        Ok(Mapped { base, len, domain, simulation: None })
    }

    /// The file, if crashes are simulated in this process.
    fn as_simulated(
        file: &File,
        path: &Path,
        len: u64,
        survives: Survives,
    ) -> Option<Result<Mapped>> {
        let simulation = simulation()?;
        let asked = match survives {
            Survives::Process => Model::Process,
            Survives::Machine | Survives::Power => Model::Power,
        };
        Some(map(file, len, libc::MAP_SHARED).map(|base| {
            let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
            let base_at = base.as_ptr() as u64;
            let (model, granularity) =
                match (simulation.mapped)(name.as_ptr(), base_at, len, asked as c_int) {
                    1 => (Model::Power, LINE),
                    2 => (Model::Page, page_size() as u64),
                    _ => (Model::Process, 1),
                };
            let why = "as veloc crash simulates it".to_owned();
            let domain = Domain { model, granularity, why };
            Mapped { base, len, domain, simulation: Some(simulation) }
        }))
    }

    /// What was found out about the file.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The address of a byte.
    pub fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.len);
        self.base.as_ptr().wrapping_add(offset as usize)
    }

    /// Has these addresses written back: they are once [`Mapped::drain`] has returned.
    ///
    /// # Errors
    /// They are not all within the file; or the system's, for an ordinary file.
    pub fn flush(&self, range: &Range<u64>) -> Result<()> {
        let all = self.base.as_ptr() as u64..self.base.as_ptr() as u64 + self.len;
        if range.start > range.end || range.start < all.start || range.end > all.end {
            return Err(Error::invalid(format!(
                "{} bytes at {:#x} are not within the {} bytes at {:#x}",
                range.end.saturating_sub(range.start),
                range.start,
                self.len,
                all.start
            )));
        }
        if let Some(simulation) = self.simulation {
            (simulation.flush)(range.start, range.end - range.start);
            return Ok(());
        }
        match self.domain.model {
            Model::Power if self.domain.granularity == LINE => {
                // SAFETY: within the mapping.
                unsafe { Instruction::here().flush(range) };
                Ok(())
            }
            Model::Process | Model::Power => Ok(()),
            Model::Page => {
                let page = page_size() as u64;
                let start = range.start / page * page;
                let len = (range.end - start) as usize;
                // SAFETY: whole pages of the mapping, and no memory of this process changes.
                let synced = unsafe { libc::msync(start as *mut _, len, libc::MS_SYNC) };
                (synced == 0 || len == 0).then_some(()).ok_or_else(|| Error::errno("msync"))
            }
        }
    }

    /// Waits until all that this thread has flushed is where a crash leaves it.
    pub fn drain(&self) {
        match self.simulation {
            Some(simulation) => (simulation.drain)(),
            None if self.domain.model == Model::Power => drain(),
            None => {}
        }
    }

    /// Stores a word at once: a crash leaves it old or new.
    ///
    /// # Safety
    /// It lies in the file, `offset` is a multiple of 8, and nobody else uses it.
    pub unsafe fn store(&self, offset: u64, word: u64) {
        let at = self.at(offset).cast::<u64>();
        match self.simulation {
            Some(simulation) => (simulation.store)(at, word),
            // SAFETY: the caller's promise.
            None => unsafe { at.write_volatile(word) },
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(simulation) = self.simulation {
            (simulation.unmapped)(self.base.as_ptr() as u64, self.len);
        }
        // SAFETY: the mapping that was made for this, of which no reference is handed out.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len as usize) };
    }
}

/// What a crash of the machine would leave of a file in this directory. Nothing is left there.
///
/// # Errors
/// Nothing, as [`Mapped::new`]; or no file can be made there.
pub fn found_in(directory: &Path) -> Result<Domain> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    let failed = |error| Error::system(format!("a file in {}", directory.display()), &error);
    let file = options.open(directory).map_err(failed)?;
    let len = page_size() as u64;
    file.set_len(len).map_err(failed)?;
    Mapped::new(&file, directory, len, Survives::Machine).map(|mapped| mapped.domain().clone())
}

/// Persistent memory, which the system has just granted.
fn persistent_memory(file: &File, sysfs: &Path) -> Result<Domain> {
    let (granularity, by) = match keeps_caches(file, sysfs)? {
        true => (1, "the caches keep their content as well".to_owned()),
        false => (LINE, format!("written back by {}", Instruction::here().name())),
    };
    Ok(Domain { model: Model::Power, granularity, why: format!("persistent memory; {by}") })
}

/// Whether the platform also writes back the processor's caches when the power fails.
fn keeps_caches(file: &File, sysfs: &Path) -> Result<bool> {
    let device = file.metadata().map_err(|error| Error::system("fstat", &error))?.dev();
    let link =
        sysfs.join(format!("dev/block/{}:{}/device", libc::major(device), libc::minor(device)));
    // A region of persistent memory is above its block device; it says so itself.
    let Ok(device) = std::fs::canonicalize(link) else { return Ok(false) };
    let said = device
        .ancestors()
        .find_map(|above| std::fs::read_to_string(above.join("persistence_domain")).ok());
    Ok(said.is_some_and(|domain| domain.trim() == "cpu_cache"))
}

/// An ordinary file, if what a crash leaves of one there is known.
fn ordinary_file(path: &Path, survives: Survives, refused: &Error) -> Result<Domain> {
    let kind = mount_of(path)?.kind;
    let here = format!("it lies in a file system of type {kind}");
    if VOLATILE.contains(&kind.as_str()) {
        return Err(Error::invalid(format!("{here}, which keeps nothing without power")));
    }
    if REMOTE.contains(&kind.split('.').next().unwrap_or_default()) {
        return Err(Error::invalid(format!(
            "{here}, of which this machine does not know what a crash leaves"
        )));
    }
    if survives == Survives::Power {
        return Err(Error::invalid(format!("{here}, without persistent memory: {refused}")));
    }
    Ok(Domain {
        model: Model::Page,
        granularity: page_size() as u64,
        why: format!("no persistent memory, written back by msync: {refused}"),
    })
}

/// The file to open in place of `path`: another one where crashes are simulated.
pub fn place(path: &Path) -> Result<PathBuf> {
    let Some(simulation) = simulation() else { return Ok(path.to_owned()) };
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("{} has a NUL", path.display())))?;
    let mut place = [0_u8; libc::PATH_MAX as usize];
    (simulation.place)(name.as_ptr(), place.as_mut_ptr().cast());
    let len = place.iter().position(|byte| *byte == 0).unwrap_or(0);
    Ok(PathBuf::from(OsStr::from_bytes(&place[..len])))
}

/// Makes a file of `len` bytes, all of whose room is there, with these bytes at its begin. It appears whole, and what a
/// killed process has left of one is used again. False: there is one by now.
///
/// # Errors
/// The system's, with the path: among others, that the disk has no room; or another process is making it.
pub fn make_file(path: &Path, len: u64, begin: &[u8]) -> Result<bool> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = Path::new(&temporary);
    let file = unfinished(temporary)?;
    let made = || {
        // Whoever makes it holds the lock of the unfinished file.
        if path.symlink_metadata().is_ok() {
            if let Err(error) = path.metadata() {
                return Err(Error::system(format!("the link {}", path.display()), &error));
            }
            return files::remove(temporary).map(|()| false);
        }
        let within =
            |error| Error::system(format!("room for {len} bytes in {}", path.display()), &error);
        file.set_len(0).map_err(within)?;
        // SAFETY: an open file.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
            0 => {}
            number => return Err(within(std::io::Error::from_raw_os_error(number))),
        }
        // By a mapping: files in huge pages cannot be written to.
        let mapped = Mapped::as_found(&file, temporary, len, Survives::Process)?;
        // SAFETY: the mapping is longer, and this process's alone.
        unsafe { std::ptr::copy_nonoverlapping(begin.as_ptr(), mapped.at(0), begin.len()) };
        files::sync(&file, temporary)?;
        std::fs::rename(temporary, path)
            .map_err(|error| Error::system(format!("rename {}", temporary.display()), &error))?;
        files::sync_directory(directory_of(path)).map(|()| true)
    };
    made().inspect_err(|_| drop(files::remove(temporary)))
}

/// The bytes of which files there have a multiple: 1, or in huge pages those of one.
///
/// # Errors
/// The system's, with the path.
pub fn unit_of(path: &Path) -> Result<u64> {
    let directory = directory_of(path);
    let found = rustix::fs::statfs(directory)
        .map_err(|error| Error::system(format!("statfs {}", directory.display()), &error.into()))?;
    let huge = found.f_type == libc::HUGETLBFS_MAGIC;
    Ok(if huge { found.f_bsize as u64 } else { 1 })
}

/// The directory that a file is in.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Opens or creates an unfinished file, which nobody else has.
fn unfinished(temporary: &Path) -> Result<File> {
    let failed = |error| Error::system(format!("create {}", temporary.display()), &error);
    loop {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        // Who may read it could hold its lock.
        options.mode(0o600);
        let file = options.open(temporary).map_err(failed)?;
        // SAFETY: an open descriptor; the lock goes with it.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(Error::errno(format!(
                "another process is making {} right now",
                temporary.display()
            )));
        }
        // It may have been finished before the lock was free.
        let here = temporary.symlink_metadata().map(|found| (found.dev(), found.ino()));
        let there = file.metadata().map(|found| (found.dev(), found.ino()));
        if here.is_ok() && here.ok() == there.ok() {
            return Ok(file);
        }
    }
}

fn map(file: &File, len: u64, flags: libc::c_int) -> Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let len = usize::try_from(len).map_err(|_| Error::invalid(format!("{len} bytes")))?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED {
        return Err(Error::errno(format!("mmap of {len} bytes")));
    }
    NonNull::new(base.cast())
        .ok_or_else(|| Error::new(ErrorKind::Internal, "mmap gave the null address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a file in memory, or on this disk, that is said to be persistent memory; and stores that the file has not.
    #[test]
    fn a_file_is_no_more_than_was_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(3 * 4096).unwrap();
        for (nth, survives) in [Survives::Process, Survives::Machine].into_iter().enumerate() {
            let Ok(mapped) = Mapped::new(&file, &path, 3 * 4096, survives) else {
                // The tests' folder is in memory.
                assert!(VOLATILE.contains(&mount_of(&path).unwrap().kind.as_str()) && nth == 1);
                continue;
            };
            let domain = mapped.domain();
            let expected = [Model::Process, Model::Page][nth];
            assert_eq!(domain.model, expected, "{domain:?}");
            let at = mapped.at(5000);
            // SAFETY: within the mapping, which only this test knows.
            unsafe { at.write(7 + nth as u8) };
            mapped.flush(&(at as u64..at as u64 + 1)).unwrap();
            mapped.drain();
            assert_eq!(std::fs::read(&path).unwrap()[5000], 7 + nth as u8);
            let end = mapped.at(3 * 4096) as u64;
            let error = mapped.flush(&(end - 1..end + 1)).unwrap_err().to_string();
            assert!(error.contains("2 bytes at"), "{error}");
        }
        let shm = Path::new("/dev/shm");
        if mount_of(shm).is_ok_and(|mount| mount.kind == "tmpfs") {
            let error = Mapped::new(&file, shm, 4096, Survives::Machine).unwrap_err().to_string();
            assert!(error.contains("tmpfs") && error.contains("/dev/shm"), "{error}");
        }
        let error = Mapped::new(&file, &path, 4096, Survives::Power).unwrap_err().to_string();
        assert!(error.contains("persistent memory") || error.contains("tmpfs"), "{error}");
    }

    /// Catches flushes that are left out where the caches are lost, and made where they are kept.
    #[test]
    fn the_platform_says_whether_caches_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let region = folder.path().join("devices/ndbus0/region3");
        let namespace = region.join("namespace3.0");
        std::fs::create_dir_all(&namespace).unwrap();
        let file = File::open(folder.path()).unwrap();
        let device = file.metadata().unwrap().dev();
        let numbers = format!("{}:{}", libc::major(device), libc::minor(device));
        let block = folder.path().join("dev/block").join(numbers);
        std::fs::create_dir_all(&block).unwrap();
        let granularity = || persistent_memory(&file, folder.path()).unwrap().granularity;
        assert_eq!(granularity(), LINE);
        std::os::unix::fs::symlink(&namespace, block.join("device")).unwrap();
        assert_eq!(granularity(), LINE);
        for (domain, expected) in [("memory_controller\n", LINE), ("cpu_cache\n", 1)] {
            std::fs::write(region.join("persistence_domain"), domain).unwrap();
            assert_eq!(granularity(), expected, "{domain}");
        }
    }
}
