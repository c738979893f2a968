//! Files that programs compute in: mapped memory, and what a crash leaves of it.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::{renameat_with, RenameFlags};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};
use crate::files;
use crate::flush::{drain, Instruction, LINE};
use crate::memory::page_size;
use crate::mounts::mount_of;

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

/// A mapped file.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
    len: u64,
    domain: Domain,
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
    /// Maps the first `len` bytes of a file, for programs that survive a crash of the process, or of the machine
    /// (`survives_machine`).
    ///
    /// # Errors
    /// The file cannot be mapped; or it is to survive the machine, and lies where nothing does.
    pub fn new(file: &File, path: &Path, len: u64, survives_machine: bool) -> Result<Mapped> {
        let within = |error: Error| error.within(path.display());
        if !survives_machine {
            let base = map(file, len, libc::MAP_SHARED).map_err(within)?;
            let why = "not asked for more than a crash of the process".to_owned();
            return Ok(Mapped {
                base,
                len,
                domain: Domain { model: Model::Process, granularity: 1, why },
            });
        }
        let kind = mount_of(path)?.kind;
        if VOLATILE.contains(&kind.as_str()) {
            let why = format!(
                "it lies in a file system of type {kind}, which keeps nothing without power"
            );
            return Err(within(Error::invalid(why)));
        }
        if REMOTE.contains(&kind.split('.').next().unwrap_or_default()) {
            let why = format!(
                "it lies in a file system of type {kind}, of which this machine does not know what a crash leaves"
            );
            return Err(within(Error::invalid(why)));
        }
        let (base, domain) = match map(file, len, libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC) {
            Ok(base) => {
                let by = Instruction::here().name();
                let why = format!("persistent memory, written back by {by}");
                (base, Domain { model: Model::Power, granularity: LINE, why })
            }
            Err(refused) => {
                let base = map(file, len, libc::MAP_SHARED).map_err(within)?;
                let why = format!("no persistent memory, written back by msync: {refused}");
                (base, Domain { model: Model::Page, granularity: page_size() as u64, why })
            }
        };
        Ok(Mapped { base, len, domain })
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

    /// The bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Always false.
    pub fn is_empty(&self) -> bool {
        false
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
        match self.domain.model {
            Model::Process => Ok(()),
            Model::Power => {
                // SAFETY: within the mapping.
                unsafe { Instruction::here().flush(range) };
                Ok(())
            }
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
        if self.domain.model == Model::Power {
            drain();
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made for this, of which no reference is handed out.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len as usize) };
    }
}

/// Makes a file of `len` bytes, all of whose room is there, with these bytes at its begin. It appears whole, and replaces
/// no other. False: there is one by now.
///
/// # Errors
/// The system's, with the path: among others, that the disk has no room.
pub fn make_file(path: &Path, len: u64, begin: &[u8]) -> Result<bool> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let made = || {
        let file = files::create(&temporary)?;
        // SAFETY: an open file.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
            0 => {}
            number => {
                let error = std::io::Error::from_raw_os_error(number);
                return Err(Error::system(
                    format!("room for {len} bytes in {}", path.display()),
                    &error,
                ));
            }
        }
        files::write_all_at(&file, begin, 0, &temporary)?;
        files::sync(&file, &temporary)?;
        let here = rustix::fs::CWD;
        match renameat_with(here, &temporary, here, path, RenameFlags::NOREPLACE) {
            Ok(()) => files::sync_directory(path.parent().unwrap_or(Path::new("."))).map(|()| true),
            Err(Errno::EXIST) => files::remove(&temporary).map(|()| false),
            Err(error) => {
                Err(Error::system(format!("rename {}", temporary.display()), &error.into()))
            }
        }
    };
    made().inspect_err(|_| drop(files::remove(&temporary)))
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
        .ok_or_else(|| Error::new(Kind::Internal, "mmap gave the null address"))
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
        for survives in [false, true] {
            let Ok(mapped) = Mapped::new(&file, &path, 3 * 4096, survives) else {
                // The tests' folder is in memory.
                assert!(survives && VOLATILE.contains(&mount_of(&path).unwrap().kind.as_str()));
                continue;
            };
            let domain = mapped.domain();
            assert_eq!(domain.model == Model::Process, !survives, "{domain:?}");
            let at = mapped.at(5000);
            // SAFETY: within the mapping, which only this test knows.
            unsafe { at.write(7 + u8::from(survives)) };
            mapped.flush(&(at as u64..at as u64 + 1)).unwrap();
            mapped.drain();
            assert_eq!(std::fs::read(&path).unwrap()[5000], 7 + u8::from(survives));
            let end = mapped.at(3 * 4096) as u64;
            let error = mapped.flush(&(end - 1..end + 1)).unwrap_err().to_string();
            assert!(error.contains("2 bytes at"), "{error}");
        }
        let shm = Path::new("/dev/shm");
        if mount_of(shm).is_ok_and(|mount| mount.kind == "tmpfs") {
            let error = Mapped::new(&file, shm, 4096, true).unwrap_err().to_string();
            assert!(error.contains("tmpfs") && error.contains("/dev/shm"), "{error}");
        }
    }
}
