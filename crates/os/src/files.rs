//! Small helpers for files that have to be whole or absent: write all, copy all (`copy`), appear by
//! renaming, and look up what is there. Interrupted calls and short writes are repeated, and every
//! error names its path.

mod copy;
mod owner;
mod probe;
mod size_limit;

use std::ffi::CString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

pub use copy::{copy_between, copy_file};
pub use owner::{
    check_beside, check_own, check_own_at, is_own, open_beside, open_own, stranger, stranger_at,
    stranger_of, Stranger,
};
pub use probe::probe_room;
pub use size_limit::SizeLimitOutlived;

use super::descriptors;
use crate::error::{Error, Kind, Result};

/// Whether a file has to survive a crash of the machine before a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It has: the bytes, the length and the name are on the storage (`fsync`).
    Synced,
    /// It need not: a crash of the process alone loses nothing.
    Unsynced,
}

/// Creates `path`, in place of what is there, for reading and writing. Holds a shared lock on it as
/// long as it is open, by which others can tell that somebody is at it ([`is_in_use`]).
///
/// # Errors
/// The system's, with the path.
pub fn create(path: &Path) -> Result<File> {
    let new = || OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let made = match new() {
        // Names of temporary files can be guessed: what somebody has put there is not written to.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path).and_then(|()| new())
        }
        made => made,
    };
    made.map(descriptors::with_high_number)
        .inspect(lock_shared)
        .map_err(|e| Error::system(format!("create {}", path.display()), &e))
}

/// Opens a file that other processes of this user write to as well, or creates it: for reading and
/// writing, with the lock of [`create`].
///
/// # Errors
/// [`Kind::Corrupt`] if it belongs to somebody else; else the system's, with the path.
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
        // Whoever has removed it meanwhile has not seen the lock.
        if file.metadata().is_ok_and(|found| found.nlink() > 0) {
            return Ok(file);
        }
    }
}

/// Has others see that somebody is at this file.
fn lock_shared(file: &File) {
    // A file system without locks has no leftovers that could be told from files in use.
    // SAFETY: an open descriptor.
    let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) };
}

/// Whether somebody else may need what is at `path`: another user owns it, or some process, on whichever
/// node, has it from [`create`] or [`open_shared`], as far as the file system can tell: true if it cannot.
pub fn is_in_use(path: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // A link, which nobody has open.
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return !is_own(path),
        Err(_) => return true,
    };
    // SAFETY: an open descriptor; the lock goes with it.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) != 0 };
    locked || check_own(&file, path).is_err()
}

/// Creates `path`, or empties what is there, for writing, unless some process has it from here.
/// `None`: one has. Where the file system has no locks, nobody has.
///
/// # Errors
/// [`Kind::Invalid`] if something that is no regular file is there; else the system's, with the
/// path.
pub fn create_exclusive(path: &Path) -> Result<Option<File>> {
    let failed = |e: std::io::Error| Error::system(format!("create {}", path.display()), &e);
    // Opening a device may do something to it.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(Error::invalid(format!("create {}: it is no regular file", path.display())));
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        // Not before it is known to be free.
        .truncate(false)
        // Should it have become a pipe meanwhile, nobody waits for a reader.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    // SAFETY: an open descriptor; the lock goes with it.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
    if !locked && std::io::Error::last_os_error().kind() == ErrorKind::WouldBlock {
        return Ok(None);
    }
    file.set_len(0).map_err(failed)?;
    Ok(Some(file))
}

/// Ends the exclusive use of a file from [`create_exclusive`], also for those who have it open with
/// this process: its forked children.
pub fn unlock_exclusive(file: &File) {
    // SAFETY: an open descriptor. Where there are no locks, there is none to give back.
    let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Checks that files can be made in `directory`.
///
/// # Errors
/// The system's, with the path.
pub fn check_writable(directory: &Path) -> Result<()> {
    let name = CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("{} has a null byte", directory.display())))?;
    // By the rights that files are made with: those of the effective user.
    let (wanted, rights) = (libc::W_OK | libc::X_OK, libc::AT_EACCESS);
    // SAFETY: a string that ends with a null byte.
    if unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), wanted, rights) } == 0 {
        return Ok(());
    }
    Err(Error::errno(format!("writing to {}", directory.display())))
}

/// Opens the file at `path` for reading. Never waits: to open a pipe would wait for its other end.
///
/// # Errors
/// [`Kind::NotFound`] if there is no such file; [`Kind::Corrupt`] if it is a directory, a device, a
/// pipe or a socket; else the system's. All name the path.
pub fn open(path: &Path) -> Result<File> {
    open_with(path, 0).map(|(file, _)| file)
}

/// The same with more `flags`, and with what tells that it is a file.
///
/// # Errors
/// As [`open`].
fn open_with(path: &Path, flags: i32) -> Result<(File, Metadata)> {
    let failed = |e: io::Error| {
        let kind = if e.kind() == ErrorKind::NotFound { Kind::NotFound } else { Kind::System };
        Error::new(kind, format!("open {}: {e}", path.display()))
    };
    // Of no effect on the reads of a file.
    let flags = flags | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let file = descriptors::with_high_number(file);
    let found = file.metadata().map_err(failed)?;
    let kind = found.file_type();
    if kind.is_file() {
        return Ok((file, found));
    }
    let what = if kind.is_dir() { "a directory" } else { "a device, a pipe or a socket" };
    Err(Error::new(Kind::Corrupt, format!("{} is {what}, not a file", path.display())))
}

/// Bytes of the open file `file`, which messages call `path`.
///
/// # Errors
/// The system's, with the path.
pub fn len(file: &File, path: &Path) -> Result<u64> {
    let metadata =
        file.metadata().map_err(|e| Error::system(format!("stat {}", path.display()), &e))?;
    Ok(metadata.len())
}

/// Writes all of `bytes` at `offset` (in bytes) of `file`, which messages call `path`.
///
/// # Errors
/// [`Kind::NoRoom`] if the file system or the quota is full, else the system's, with the path.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64, path: &Path) -> Result<()> {
    file.write_all_at(bytes, offset).map_err(|e| {
        write_error(format!("write {} bytes at {offset} of {}", bytes.len(), path.display()), &e)
    })
}

/// Fills `bytes` from `offset` (in bytes) of `file`, which messages call `path`.
///
/// # Errors
/// [`Kind::Corrupt`] if the file ends too early, else the system's, with the path.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64, path: &Path) -> Result<()> {
    let len = bytes.len();
    file.read_exact_at(bytes, offset).map_err(|e| {
        let kind = if e.kind() == ErrorKind::UnexpectedEof { Kind::Corrupt } else { Kind::System };
        Error::new(kind, format!("read {len} bytes at {offset} of {}: {e}", path.display()))
    })
}

/// How much of a file [`read_through`] reads at a time, in bytes.
pub const BLOCK: usize = 1 << 20;

/// Hands the bytes of `range` of `file`, which messages call `path`, to `take`, block by block.
///
/// # Errors
/// As [`read_exact_at`].
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

/// Has the bytes and the length of `file`, which messages call `path`, reach the storage.
///
/// # Errors
/// The system's, with the path. What was written before may then be lost.
pub fn sync(file: &File, path: &Path) -> Result<()> {
    // std repeats an interrupted call.
    file.sync_all().map_err(|e| write_error(format!("fsync {}", path.display()), &e))
}

/// Has the file system say what it could not write of `file`, which messages call `path` and which is to
/// get its name: what it has taken so far may be in memory alone, and lack the room or the quota where it
/// goes. With [`Durability::Synced`] the bytes and the length reach the storage; without, only those that
/// the file system brings somewhere when a file is closed, as those of networks do.
///
/// # Errors
/// [`Kind::NoRoom`] if the file system or the quota is full, else the system's, with the path. What was
/// written before may then be lost.
pub fn finish_write(file: &File, path: &Path, durability: Durability) -> Result<()> {
    if durability == Durability::Synced {
        return sync(file, path);
    }
    // Each close says so, not only the last one. The file stays open, and locked.
    let second = file
        .try_clone()
        .map_err(|e| Error::system(format!("a second descriptor of {}", path.display()), &e))?;
    // SAFETY: a descriptor that nobody else has. It is gone in any case.
    if unsafe { libc::close(second.into_raw_fd()) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        _ => Err(write_error(format!("close {}", path.display()), &error)),
    }
}

/// Gives the complete file `temporary` its name `complete`, in place of a file of that name: at
/// any moment that name means the whole old file or the whole new one. Both have to lie in the
/// same file system. With [`Durability::Synced`] the name survives a crash when this returns; the
/// bytes have to have been synced before ([`finish_write`]).
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

/// A path as the system calls take it.
pub(super) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("the path {} has a null byte", path.display())))
}

/// Has the names in `directory` reach the storage.
///
/// # Errors
/// The system's, with the path.
pub fn sync_directory(directory: &Path) -> Result<()> {
    // The parent of a bare file name is written as an empty path.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match File::open(directory).and_then(|opened| opened.sync_all()) {
        Ok(()) => Ok(()),
        // A file system that cannot sync a directory has no more to give.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(e) => Err(Error::system(format!("fsync directory {}", directory.display()), &e)),
    }
}

/// Removes the file `path`. That it is not there is success.
///
/// # Errors
/// The system's, with the path.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            // In a directory like /tmp a file is its owner's to remove.
            let whose =
                owner::stranger_at(path).filter(|_| e.kind() == ErrorKind::PermissionDenied);
            let whose = whose.map_or(String::new(), |whose| format!(", which belongs to {whose}"));
            Err(Error::system(format!("remove {}{whose}", path.display()), &e))
        }
        _ => Ok(()),
    }
}

/// What `select` makes of the names in `directory`, in no order. Names that are not UTF-8 are
/// passed over. A directory that does not exist holds nothing.
///
/// # Errors
/// The system's, with the path.
pub fn list<T>(directory: &Path, select: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
    let failed = |e: io::Error| Error::system(format!("list {}", directory.display()), &e);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut selected = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        selected.extend(name.to_str().and_then(&select));
    }
    Ok(selected)
}

/// Bytes that this user can still write to the file system of `path`.
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
        if error.kind() != ErrorKind::Interrupted {
            return Err(Error::system(format!("statvfs {}", path.display()), &error));
        }
    }
}

/// An error of a call that writes: a lack of room is told apart.
pub(super) fn write_error(what: String, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            Error::new(Kind::NoRoom, format!("{what}: {error}"))
        }
        _ => Error::system(what, error),
    }
}

#[cfg(test)]
mod tests;
