//! Helpers for files that must be complete or absent: write all, copy all (`copy`), rename into place,
//! and list. Interrupted calls and short writes are repeated, and every error names its path.

mod clone;
mod copy;
mod folder;
mod owner;
mod probe;
mod size_limit;

use std::ffi::CString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub use clone::can_clone;
pub use copy::{copy_between, copy_file};
pub use folder::{remove_with_folder, Folder};
pub(crate) use owner::check_own;
pub use owner::{
    check_beside, check_own_at, check_whose, is_own, open_beside, open_own, other_owner,
    other_owner_at, other_owner_of, OtherUser,
};
pub use probe::probe_room;
pub use size_limit::SizeLimitOutlived;

use super::descriptors;
use errors::{Error, ErrorKind, Result};

/// Whether a file must survive a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The file must: data, length and name are synced to storage (`fsync`).
    Synced,
    /// The file need not: a crash of the process alone loses nothing.
    Unsynced,
}

/// Creates or replaces `path`, for reading and writing. Holds a shared lock on the file while it is
/// open, so that others can see that it is in use ([`is_in_use`]).
///
/// # Errors
/// The system's, with the path.
pub fn create(path: &Path) -> Result<File> {
    let new = || OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let made = match new() {
        // The names of temporary files are predictable: an existing file, perhaps another user's, is not
        // written to.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path).and_then(|()| new())
        }
        made => made,
    };
    made.map(descriptors::with_high_number)
        .inspect(lock_shared)
        .map_err(|e| Error::system(format!("create {}", path.display()), &e))
}

/// Opens or creates a file that other processes of this user write to as well, for reading and writing,
/// with the lock of [`create`].
///
/// # Errors
/// [`ErrorKind::Corrupt`] if it belongs to another user; else the system's, with the path.
pub fn open_shared(path: &Path) -> Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map(descriptors::with_high_number)
            .map_err(|e| Error::system(format!("create {}", path.display()), &e))?;
        check_own(&file, path)?;
        lock_shared(&file);
        // If it was removed meanwhile, the other process has not seen the lock.
        if file.metadata().is_ok_and(|found| found.nlink() > 0) {
            return Ok(file);
        }
    }
}

/// Takes the shared lock that shows that the file is in use.
fn lock_shared(file: &File) {
    // Without locks in the file system, leftover files cannot be told from files in use.
    // SAFETY: an open descriptor.
    let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) };
}

/// Whether `path` may be in use: another user owns it, or a process on any node has it open from
/// [`create`] or [`open_shared`], or has a [`Folder`] there. True if the file system cannot tell.
pub fn is_in_use(path: &Path) -> bool {
    if let Some(is_used) = folder::is_folder_in_use(path) {
        return is_used;
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // A symbolic link, which is never open.
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return !is_own(path),
        Err(_) => return true,
    };
    // SAFETY: an open descriptor; the lock goes with it.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) != 0 };
    locked || check_own(&file, path).is_err()
}

/// Creates or truncates `path` for writing, unless another process has it open from this function: then
/// `None`. Without locks in the file system, no process counts.
///
/// # Errors
/// [`ErrorKind::Invalid`] if something that is no regular file is there; [`ErrorKind::Corrupt`] if it is another user's, or a link
/// of another user's; else the system's, with the path.
pub fn create_exclusive(path: &Path) -> Result<Option<File>> {
    let failed = |e: std::io::Error| Error::system(format!("create {}", path.display()), &e);
    // Nothing is made where another user's link points to.
    check_own_at(path)?;
    // Opening a device may have side effects.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(Error::invalid(format!("create {}: it is no regular file", path.display())));
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        // Only when it is known to be unused.
        .truncate(false)
        // In case it has become a pipe meanwhile, opening does not wait for a reader.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    check_whose(&file, path)?;
    // SAFETY: an open descriptor; the lock goes with it.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
    if !locked && std::io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
        return Ok(None);
    }
    file.set_len(0).map_err(failed)?;
    Ok(Some(file))
}

/// Releases the lock of [`create_exclusive`], even if forked children have the file open.
pub fn unlock_exclusive(file: &File) {
    // SAFETY: an open descriptor. Where there are no locks, there is none to give back.
    let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Checks that files can be created in `directory`.
///
/// # Errors
/// The system's, with the path.
pub fn check_writable(directory: &Path) -> Result<()> {
    let name = CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("{} has a null byte", directory.display())))?;
    // With the effective user's rights, as files are created.
    let (wanted, rights) = (libc::W_OK | libc::X_OK, libc::AT_EACCESS);
    // SAFETY: a string that ends with a null byte.
    if unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), wanted, rights) } == 0 {
        return Ok(());
    }
    Err(Error::errno(format!("writing to {}", directory.display())))
}

/// Opens the file at `path` for reading. Does not block on a pipe.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is no such file; [`ErrorKind::Corrupt`] if it is a directory, a device, a
/// pipe or a socket; else the system's. All name the path.
pub fn open(path: &Path) -> Result<File> {
    open_with(path, 0).map(|(file, _)| file)
}

/// Opens the file at `path` with more `flags`, and also returns its metadata.
///
/// # Errors
/// The errors of [`open`].
fn open_with(path: &Path, flags: i32) -> Result<(File, Metadata)> {
    let failed = |e: io::Error| {
        let kind = if e.kind() == io::ErrorKind::NotFound {
            ErrorKind::NotFound
        } else {
            ErrorKind::System
        };
        Error::new(kind, format!("open {}: {e}", path.display()))
    };
    // Has no effect on regular files.
    let flags = flags | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let file = descriptors::with_high_number(file);
    let found = file.metadata().map_err(failed)?;
    let kind = found.file_type();
    if kind.is_file() {
        return Ok((file, found));
    }
    let what = if kind.is_dir() { "a directory" } else { "a device, a pipe or a socket" };
    Err(Error::new(ErrorKind::Corrupt, format!("{} is {what}, not a file", path.display())))
}

/// The length in bytes of the open file `file` (`path` in messages).
///
/// # Errors
/// The system's, with the path.
pub fn len(file: &File, path: &Path) -> Result<u64> {
    let metadata =
        file.metadata().map_err(|e| Error::system(format!("stat {}", path.display()), &e))?;
    Ok(metadata.len())
}

/// Writes all of `bytes` at `offset` (in bytes) of `file` (`path` in messages).
///
/// # Errors
/// [`ErrorKind::NoRoom`] if the file system or the quota is full, else the system's, with the path.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64, path: &Path) -> Result<()> {
    file.write_all_at(bytes, offset).map_err(|e| {
        write_error(format!("write {} bytes at {offset} of {}", bytes.len(), path.display()), &e)
    })
}

/// Reads `bytes.len()` bytes at `offset` (in bytes) of `file` (`path` in messages).
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the file ends too early, else the system's, with the path.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64, path: &Path) -> Result<()> {
    let len = bytes.len();
    file.read_exact_at(bytes, offset).map_err(|e| {
        let kind = if e.kind() == io::ErrorKind::UnexpectedEof {
            ErrorKind::Corrupt
        } else {
            ErrorKind::System
        };
        Error::new(kind, format!("read {len} bytes at {offset} of {}: {e}", path.display()))
    })
}

/// The block size of [`read_through`] in bytes.
pub const BLOCK: usize = 1 << 20;

/// Reads `range` of `file` (`path` in messages) block by block, and passes the blocks to `take`.
///
/// # Errors
/// The errors of [`read_exact_at`].
pub fn read_through(
    file: &File,
    range: Range<u64>,
    path: &Path,
    mut take: impl FnMut(&[u8]),
) -> Result<()> {
    let mut at = range.start;
    let mut block = vec![0; range.end.saturating_sub(at).min(BLOCK as u64) as usize];
    while at < range.end {
        let bytes = (range.end - at).min(BLOCK as u64);
        let block = &mut block[..bytes as usize];
        read_exact_at(file, block, at, path)?;
        take(block);
        at += bytes;
    }
    Ok(())
}

/// Syncs the data and the length of `file` (`path` in messages) to storage. Where the file system does not sync, that
/// is a warning.
///
/// # Errors
/// The system's, with the path. What was written before may then be lost.
pub fn sync(file: &File, path: &Path) -> Result<()> {
    // std repeats an interrupted call.
    match file.sync_all() {
        Err(e) if cannot_sync(&e) => {
            static SAID: AtomicBool = AtomicBool::new(false);
            if !SAID.swap(true, Ordering::Relaxed) {
                log::warn!(
                    "fsync {}: {e}: this file system does not sync files, which may not survive a crash of the machine \
                     (sync_files = none says so)",
                    path.display()
                );
            }
            Ok(())
        }
        synced => synced.map_err(|e| write_error(format!("fsync {}", path.display()), &e)),
    }
}

/// Whether a file system says that it syncs nothing.
fn cannot_sync(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS))
}

/// Reports write errors of a file (`path` in messages) that is about to be renamed into place: written
/// data may still be in memory, and the storage may lack room or quota. With [`Durability::Synced`] the
/// file is synced; otherwise it is only flushed by a close, as network file systems do.
///
/// # Errors
/// [`ErrorKind::NoRoom`] if the file system or the quota is full, else the system's, with the path. What was
/// written before may then be lost.
pub fn finish_write(file: &File, path: &Path, durability: Durability) -> Result<()> {
    if durability == Durability::Synced {
        return sync(file, path);
    }
    // Every close reports write errors, not only the last one. The file stays open and locked.
    let second = file
        .try_clone()
        .map_err(|e| Error::system(format!("a second descriptor of {}", path.display()), &e))?;
    // SAFETY: a descriptor that nobody else has. It is gone in any case.
    if unsafe { libc::close(second.into_raw_fd()) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        _ => Err(write_error(format!("close {}", path.display()), &error)),
    }
}

/// Renames the complete file `temporary` to `complete`, which atomically replaces an old file of that
/// name. Both must be in the same file system. With [`Durability::Synced`] the name survives a crash;
/// the data must have been synced before ([`finish_write`]).
///
/// # Errors
/// The system's, with both paths.
pub fn atomic_replace(temporary: &Path, complete: &Path, durability: Durability) -> Result<()> {
    fs::rename(temporary, complete).map_err(|e| {
        write_error(format!("rename {} to {}", temporary.display(), complete.display()), &e)
    })?;
    match (durability, complete.parent()) {
        (Durability::Synced, Some(directory)) => sync_directory(directory),
        _ => Ok(()),
    }
}

/// A path as a C string.
pub(super) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("the path {} has a null byte", path.display())))
}

/// Syncs the names in `directory` to storage.
///
/// # Errors
/// The system's, with the path.
pub fn sync_directory(directory: &Path) -> Result<()> {
    // The parent of a bare file name is an empty path.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match File::open(directory).and_then(|opened| opened.sync_all()) {
        Ok(()) => Ok(()),
        // The file system cannot sync directories.
        Err(e) if cannot_sync(&e) => Ok(()),
        Err(e) => Err(Error::system(format!("fsync directory {}", directory.display()), &e)),
    }
}

/// Removes the file `path`. A missing file is not an error.
///
/// # Errors
/// The system's, with the path.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            // In a sticky directory like /tmp only the owner can remove a file.
            let whose =
                owner::other_owner_at(path).filter(|_| e.kind() == io::ErrorKind::PermissionDenied);
            let whose = whose.map_or(String::new(), |whose| format!(", which belongs to {whose}"));
            Err(Error::system(format!("remove {}{whose}", path.display()), &e))
        }
        _ => Ok(()),
    }
}

/// The names in `directory`, as selected and converted by `select`, in no order. Names that are not
/// UTF-8 are skipped. A missing directory is empty.
///
/// # Errors
/// The system's, with the path.
pub fn list<T>(directory: &Path, select: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
    let failed = |e: io::Error| Error::system(format!("list {}", directory.display()), &e);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut selected = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        selected.extend(name.to_str().and_then(&select));
    }
    Ok(selected)
}

/// How many bytes this user can still write to the file system of `path`.
///
/// # Errors
/// The system's, with the path.
pub fn free_space(path: &Path) -> Result<u64> {
    let name = c_path(path)?;
    // SAFETY: statvfs is a struct of integers, for which zeros are a value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: a string that ends with a null byte, and a struct that is ours to write to.
        if unsafe { libc::statvfs(name.as_ptr(), &mut stat) } == 0 {
            // On 32-bit systems the fields are narrower than u64.
            #[allow(clippy::useless_conversion)]
            return Ok(u64::from(stat.f_bavail).saturating_mul(u64::from(stat.f_frsize)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(Error::system(format!("statvfs {}", path.display()), &error));
        }
    }
}

/// The error of a failed write; a lack of room has its own kind.
pub(super) fn write_error(what: String, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            Error::new(ErrorKind::NoRoom, format!("{what}: {error}"))
        }
        _ => Error::system(what, error),
    }
}

#[cfg(test)]
mod tests;
