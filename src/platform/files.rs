//! Small helpers for files that have to be whole or absent: write all, copy all, appear by
//! renaming, and look up what is there. Interrupted calls and short writes are repeated, and every
//! error names its path.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::ptr;

use crate::error::{Error, Kind, Result};
use crate::format::names;

/// Whether a file has to survive a crash of the machine before a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It has: the bytes, the length and the name are on the storage (`fsync`).
    Synced,
    /// It need not: a crash of the process alone loses nothing.
    Unsynced,
}

/// The most bytes that one system call is asked to copy, so that a signal, an error or an end of the
/// job is noticed in reasonable time.
const COPY_STEP: u64 = 64 << 20;

/// The buffer of a copy by reading and writing, in bytes.
const COPY_BUFFER: usize = 1 << 20;

/// Creates `path`, or empties what is there, for reading and writing. Holds a shared lock on it as
/// long as it is open, by which others can tell that somebody is at it ([`is_in_use`]).
///
/// # Errors
/// The system's, with the path.
pub fn create(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        // Names of temporary files can be guessed: what somebody links there is not written to.
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .inspect(|file| {
            // A file system without locks has no leftovers that could be told from files in use.
            // SAFETY: an open descriptor.
            let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) };
        })
        .map_err(|e| Error::system(format!("create {}", path.display()), &e))
}

/// Whether some process, on whichever node, has `path` from [`create`], as far as the file system
/// can tell: true if it cannot.
pub fn is_in_use(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
        return true;
    };
    // SAFETY: an open descriptor; the lock goes with it.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) != 0 }
}

/// Creates `path`, or empties what is there, for writing, unless some process has it from here.
/// `None`: one has. Where the file system has no locks, nobody has.
///
/// # Errors
/// [`Kind::Invalid`] if something that is no regular file is there; else the system's, with the
/// path.
pub fn create_alone(path: &Path) -> Result<Option<File>> {
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

/// Ends the exclusive use of a file from [`create_alone`], also for those who have it open with
/// this process: its forked children.
pub fn release(file: &File) {
    // SAFETY: an open descriptor. Where there are no locks, there is none to give back.
    let _ = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// From here on, a write of the calling thread beyond the process's limit of a file's size
/// (`RLIMIT_FSIZE`) is an error, as on a full file system. The default is the end of the process.
pub fn outlive_size_limit() {
    change_mask(libc::SIG_BLOCK, &size_limit_signal());
}

/// The same for as long as this lives: for a thread of the application. Stays on its thread.
#[derive(Debug)]
pub struct SizeLimitOutlived {
    /// The signal was the application's own affair already.
    was_blocked: bool,
    of_this_thread: PhantomData<*const ()>,
}

impl SizeLimitOutlived {
    /// Begins.
    pub fn begin() -> Self {
        let before = change_mask(libc::SIG_BLOCK, &size_limit_signal());
        // SAFETY: a set of signals and the number of one.
        let was_blocked = unsafe { libc::sigismember(&before, libc::SIGXFSZ) } == 1;
        SizeLimitOutlived { was_blocked, of_this_thread: PhantomData }
    }
}

impl Drop for SizeLimitOutlived {
    fn drop(&mut self) {
        if self.was_blocked {
            return;
        }
        let signal = size_limit_signal();
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // A signal of the writes in between is taken back: they have failed, and said so.
        // SAFETY: a set of signals and a time; nothing is written to a null pointer.
        unsafe { libc::sigtimedwait(&signal, ptr::null_mut(), &now) };
        change_mask(libc::SIG_UNBLOCK, &signal);
    }
}

fn size_limit_signal() -> libc::sigset_t {
    // SAFETY: a set of signals is integers, for which zeros are a value; the calls write to it
    // alone.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGXFSZ);
        signals
    }
}

/// Changes the calling thread's mask of signals; what it was before.
fn change_mask(how: libc::c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: as for `size_limit_signal`; the call reads one set and writes to the other.
    unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(how, signals, &mut before);
        before
    }
}

/// Checks that files can be made in `directory`.
///
/// # Errors
/// The system's, with the path.
pub fn check_writable(directory: &Path) -> Result<()> {
    let name = CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("{} has a null byte", directory.display())))?;
    // SAFETY: a string that ends with a null byte.
    if unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } == 0 {
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
    open_measured(path).map(|(file, _)| file)
}

/// The same, with the bytes that the file has: what tells that it is one tells these, too.
///
/// # Errors
/// As [`open`].
fn open_measured(path: &Path) -> Result<(File, u64)> {
    let failed = |e: io::Error| {
        let kind = if e.kind() == ErrorKind::NotFound { Kind::NotFound } else { Kind::System };
        Error::new(kind, format!("open {}: {e}", path.display()))
    };
    // Of no effect on the reads of a file.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    let kind = found.file_type();
    if kind.is_file() {
        return Ok((file, found.len()));
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

/// Has the bytes and the length of `file`, which messages call `path`, reach the storage.
///
/// # Errors
/// The system's, with the path. What was written before may then be lost.
pub fn sync(file: &File, path: &Path) -> Result<()> {
    // std repeats an interrupted call.
    file.sync_all().map_err(|e| write_error(format!("fsync {}", path.display()), &e))
}

/// Gives the complete file `temporary` its name `complete`, in place of a file of that name: at
/// any moment that name means the whole old file or the whole new one. Both have to lie in the
/// same file system. With [`Durability::Synced`] the name survives a crash when this returns; the
/// bytes have to have been synced before ([`sync`]).
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
            Err(Error::system(format!("remove {}", path.display()), &e))
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

/// The versions of which `directory` has the file `<name>-<rank>-<version>.dat`, ascending.
///
/// # Errors
/// As [`list`].
pub fn versions(directory: &Path, name: &str, rank: u32) -> Result<Vec<i32>> {
    let mut versions = list(directory, |file_name| {
        let file = names::parse(file_name)?;
        (file.name == name && file.rank == rank).then_some(file.version)
    })?;
    versions.sort_unstable();
    Ok(versions)
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

/// Copies `source` to `temporary` (created, or emptied if it is there), in the kernel where both
/// file systems can, and gives the bytes copied. What is at `temporary` counts for nothing until
/// this has succeeded; after a failure it is removed.
///
/// # Errors
/// [`Kind::NotFound`] if there is no `source`; [`Kind::Corrupt`] if it became shorter meanwhile;
/// [`Kind::NoRoom`] if the target is full; else the system's, with the path.
pub fn copy_file(source: &Path, temporary: &Path, durability: Durability) -> Result<u64> {
    let (from, total) = open_measured(source)?;
    let to = create(temporary)?;
    let copied = copy_all(&from, &to, total, (source, temporary), || Ok(())).and_then(|bytes| {
        if durability == Durability::Synced {
            sync(&to, temporary)?;
        }
        Ok(bytes)
    });
    if copied.is_err() {
        // The failure of the copy is the one to report.
        let _ = remove(temporary);
    }
    copied
}

/// Copies all of the open file `from` to `offset` (in bytes) of `to`, and gives the bytes copied.
/// `paths` are for messages; `go_on` is called now and then, and ends it by an error.
///
/// # Errors
/// As [`copy_file`]; those of `go_on`.
pub fn copy_between(
    mut from: &File,
    mut to: &File,
    offset: u64,
    paths: (&Path, &Path),
    go_on: impl FnMut() -> Result<()>,
) -> Result<u64> {
    let seek = |file: &mut &File, at: u64, path: &Path| {
        file.seek(SeekFrom::Start(at))
            .map_err(|e| Error::system(format!("seek {at} in {}", path.display()), &e))
    };
    seek(&mut from, 0, paths.0)?;
    seek(&mut to, offset, paths.1)?;
    let total = len(from, paths.0)?;
    copy_all(from, to, total, paths, go_on)
}

/// Copies the `total` bytes of `from`, from its position (its start) to that of `to`.
fn copy_all(
    from: &File,
    to: &File,
    total: u64,
    (source, temporary): (&Path, &Path),
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<u64> {
    let failed = |e: &io::Error| {
        write_error(format!("copy {} to {}", source.display(), temporary.display()), e)
    };
    let (mut copied, mut in_kernel) = (0, true);
    while copied < total {
        go_on()?;
        let step = (total - copied).min(COPY_STEP);
        let mut done = 0;
        if in_kernel {
            done = copy_in_kernel(from, to, step).map_err(|e| failed(&e))?;
            in_kernel = done == step;
        }
        if done < step {
            done += copy_by_buffer(from, to, step - done).map_err(|e| failed(&e))?;
        }
        copied += done;
        if done < step {
            return Err(Error::new(
                Kind::Corrupt,
                format!("{} ended after {copied} of {total} bytes", source.display()),
            ));
        }
    }
    Ok(copied)
}

/// Copies up to `total` bytes by `copy_file_range`, and gives how many it did: fewer if the file
/// systems cannot, or the source ended. Both files' positions move by as much.
fn copy_in_kernel(from: &File, to: &File, total: u64) -> io::Result<u64> {
    let mut copied = 0;
    while copied < total {
        let step = (total - copied) as usize;
        // SAFETY: two open files; without offsets the call uses and moves the files' positions.
        let result = unsafe {
            libc::copy_file_range(
                from.as_raw_fd(),
                ptr::null_mut(),
                to.as_raw_fd(),
                ptr::null_mut(),
                step,
                0,
            )
        };
        if let Ok(bytes) = u64::try_from(result) {
            if bytes == 0 {
                break; // The end of the source, or a file system that only pretends.
            }
            copied += bytes;
            continue;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // Two file systems, or one that cannot: the caller goes on by reading and writing,
            // which meets any lasting trouble again.
            Some(
                libc::EXDEV
                | libc::ENOSYS
                | libc::EOPNOTSUPP
                | libc::EINVAL
                | libc::EPERM
                | libc::EBADF
                | libc::EIO,
            ) => break,
            _ => return Err(error),
        }
    }
    Ok(copied)
}

/// Copies up to `total` bytes by reading and writing, and gives how many it did: fewer if the
/// source ended.
fn copy_by_buffer(mut from: &File, mut to: &File, total: u64) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BUFFER];
    let mut copied = 0;
    while copied < total {
        let most = (total - copied).min(COPY_BUFFER as u64) as usize;
        match from.read(&mut buffer[..most]) {
            Ok(0) => break,
            Ok(bytes) => {
                to.write_all(&buffer[..bytes])?;
                copied += bytes as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(copied)
}

/// An error of a call that writes: a lack of room is told apart.
fn write_error(what: String, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            Error::new(Kind::NoRoom, format!("{what}: {error}"))
        }
        _ => Error::system(what, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_and_read_at_offsets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let file = create(&path).unwrap();
        write_all_at(&file, b"world", 6, &path).unwrap();
        write_all_at(&file, b"hello ", 0, &path).unwrap();
        assert_eq!(len(&file, &path).unwrap(), 11);

        let mut bytes = [0; 5];
        read_exact_at(&open(&path).unwrap(), &mut bytes, 6, &path).unwrap();
        assert_eq!(&bytes, b"world");
        let error = read_exact_at(&file, &mut bytes, 7, &path).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");

        assert_eq!(len(&create(&path).unwrap(), &path).unwrap(), 0, "emptied");
    }

    #[test]
    fn errors_name_the_path() {
        let nowhere = Path::new("/nonexistent/f");
        assert_eq!(open(nowhere).unwrap_err().kind(), Kind::NotFound);
        for error in [
            open(nowhere).unwrap_err(),
            create(nowhere).unwrap_err(),
            free_space(nowhere).unwrap_err(),
            copy_file(nowhere, Path::new("/tmp/x"), Durability::Unsynced).unwrap_err(),
            atomic_replace(nowhere, nowhere, Durability::Unsynced).unwrap_err(),
            sync_directory(nowhere).unwrap_err(),
        ] {
            assert!(error.to_string().contains("/nonexistent/f"), "{error}");
        }
        remove(nowhere).unwrap();
    }

    #[test]
    fn a_full_device_is_no_room() {
        let path = Path::new("/dev/full");
        let Ok(file) = OpenOptions::new().write(true).open(path) else {
            return;
        };
        let error = write_all_at(&file, b"x", 0, path).unwrap_err();
        assert_eq!(error.kind(), Kind::NoRoom);
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn replacing() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("final"), directory.path().join(".tmp"));
        fs::write(&old, "a longer old content").unwrap();
        fs::write(&new, "new").unwrap();
        atomic_replace(&new, &old, Durability::Synced).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "new");
        assert!(!new.exists());
        remove(&old).unwrap();
        assert!(!old.exists());
    }

    #[test]
    fn listing_versions() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(versions(&directory.path().join("none"), "x", 0).unwrap(), [0; 0]);
        for file in [
            "x-0-7.dat",
            "x-0-10.dat",
            "x-0-2.dat",
            "x-0-8.dat.partial",
            ".x-0-9.dat.tmp-1-2",
            "x-0-99999999999.dat",
            "x-1-3.dat",
            "y-0-4.dat",
            "xx-0-5.dat",
            "x.-0-6.dat",
        ] {
            fs::write(directory.path().join(file), "").unwrap();
        }
        assert_eq!(versions(directory.path(), "x", 0).unwrap(), [2, 7, 10]);
        assert_eq!(versions(directory.path(), "x", 1).unwrap(), [3]);
        assert_eq!(versions(directory.path(), "z", 0).unwrap(), [0; 0]);
        // A dot in a name is a dot.
        assert_eq!(versions(directory.path(), "..", 0).unwrap(), [0; 0]);
        let not_a_directory = directory.path().join("x-0-7.dat");
        assert!(versions(&not_a_directory, "x", 0).is_err());
    }

    #[test]
    fn there_is_free_space() {
        assert!(free_space(Path::new("/")).is_ok());
        assert!(free_space(Path::new("/\0")).is_err());
    }

    #[test]
    fn copies() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        for len in [0, 1, COPY_BUFFER - 1, 3 * COPY_BUFFER + 17] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            fs::write(&from, &bytes).unwrap();
            fs::write(&to, "something older").unwrap();
            assert_eq!(copy_file(&from, &to, Durability::Synced).unwrap(), len as u64);
            assert_eq!(fs::read(&to).unwrap(), bytes);

            // Without the kernel's help, and by half of each.
            for in_kernel in [0, len as u64 / 2] {
                let (source, target) = (open(&from).unwrap(), create(&to).unwrap());
                let first = copy_in_kernel(&source, &target, in_kernel).unwrap();
                copy_by_buffer(&source, &target, len as u64 - first).unwrap();
                assert_eq!(fs::read(&to).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("to");
        // A directory can be opened, but not read.
        assert!(copy_file(directory.path(), &to, Durability::Unsynced).is_err());
        assert!(!to.exists());
    }
}
