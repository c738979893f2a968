//! Copies files: in the kernel if the file systems can, else by reading and writing.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;

use super::{create, finish_write, len, open_with, remove, write_error, Durability};
use errors::{Error, ErrorKind, Result};

/// The most bytes per system call, so that signals, errors and a request to stop are noticed in time.
const COPY_STEP: u64 = 64 << 20;

/// The buffer of a copy by reading and writing, in bytes.
pub(super) const COPY_BUFFER: usize = 1 << 20;

/// Copies `source` to `temporary` (created or truncated), in the kernel if both file systems can; `beside` copies what
/// is beside the bytes. Returns the number of bytes. After a failure `temporary` is removed.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is no `source`; [`ErrorKind::Corrupt`] if it became shorter meanwhile;
/// [`ErrorKind::NoRoom`] if the target is full; else the system's, with the path.
pub fn copy_file(
    source: &Path,
    temporary: &Path,
    durability: Durability,
    beside: impl FnOnce(&File, &File),
) -> Result<u64> {
    let (from, found) = open_with(source, 0)?;
    let to = create(temporary)?;
    let copied =
        copy_all(&from, &to, found.len(), (source, temporary), || Ok(())).and_then(|bytes| {
            beside(&from, &to);
            finish_write(&to, temporary, durability)?;
            Ok(bytes)
        });
    if copied.is_err() {
        // The error of the copy is the one to report.
        let _ = remove(temporary);
    }
    copied
}

/// Copies all of the open file `from` to `offset` (in bytes) of `to`. Returns the number of bytes.
/// `paths` are for messages; `go_on` is called from time to time, and its error ends the copy.
///
/// # Errors
/// The errors of [`copy_file`] and `go_on`.
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

/// Copies the `total` bytes of `from` from its position, which is its start, to the position of `to`.
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
                ErrorKind::Corrupt,
                format!("{} ended after {copied} of {total} bytes", source.display()),
            ));
        }
    }
    Ok(copied)
}

/// Copies up to `total` bytes by `copy_file_range`. Returns how many: fewer if the file systems cannot,
/// or the source has ended. Advances both positions.
pub(super) fn copy_in_kernel(from: &File, to: &File, total: u64) -> io::Result<u64> {
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
                break; // The end of the source, or a file system that copies nothing without an error.
            }
            copied += bytes;
            continue;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // Different file systems, or one that cannot: the caller continues by reading and writing,
            // which would report a lasting error.
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

/// Copies up to `total` bytes by reading and writing. Returns how many: fewer if the source has ended.
pub(super) fn copy_by_buffer(mut from: &File, mut to: &File, total: u64) -> io::Result<u64> {
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
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(copied)
}
