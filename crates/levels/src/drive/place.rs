//! Where a drive has its bytes: a file without a name in a directory, or a block device.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::LEAST_BLOCK;
use errors::{Error, ErrorKind, Result};
use os::fork::CloseOnFork;
use os::mapping::Mapping;
use os::size;

/// How a device begins that is a drive. It is never read as anything else.
const MARK: [u8; 8] = *b"VELOCdrv";

/// What was put on a device says so within as many bytes: file systems, tables of partitions, volumes.
const SIGNATURES: usize = 1 << 20;

/// The kernel's number of ramfs.
const RAMFS_MAGIC: rustix::fs::FsWord = 0x8584_58f6;

/// A drive that is open. Nothing but this process has the file: it ends with it, also when it is killed.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    file: CloseOnFork<File>,
    pub(super) len: u64,
    pub(super) block: u64,
    /// Where its bytes begin.
    pub(super) begin: u64,
}

impl Opened {
    pub(super) fn open(path: &Path, bytes: u64) -> Result<Opened> {
        let what = |why: &str| format!("drive = {}: {why}", path.display());
        let kind = std::fs::metadata(path)
            .map_err(|error| Error::system(what("its kind cannot be determined"), &error))?
            .file_type();
        let is_device = kind.is_block_device();
        if !is_device && !kind.is_dir() {
            return Err(Error::invalid(what("it is neither a directory nor a block device")));
        }
        if !is_device && is_memory(path) {
            return Err(Error::invalid(what(
                "it lies in memory (tmpfs or ramfs), so that it gives no room; host_cache_size gives as much",
            )));
        }
        let flags = if is_device { libc::O_EXCL } else { libc::O_TMPFILE };
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600);
            options.custom_flags(flags | libc::O_DIRECT).open(path)
        };
        let file = CloseOnFork::new(open).map_err(|error| {
            let why = match error.raw_os_error() {
                Some(libc::EBUSY) => "somebody else uses it, or it is mounted",
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL) if !is_device => {
                    "its file system has no files without a name, or none that bypass the system's cache"
                }
                _ => "it cannot be opened",
            };
            Error::system(what(why), &error)
        })?;
        let mut opened =
            Opened { path: path.to_owned(), file, len: 0, block: LEAST_BLOCK, begin: 0 };
        opened.block = block_of(opened.file()?).max(LEAST_BLOCK);
        if is_device {
            opened.take().map_err(|error| error.within(format!("drive = {}", path.display())))?;
        }
        opened.len = bytes - bytes % opened.block;
        if opened.len == 0 {
            return Err(Error::invalid(what(&format!(
                "drive_size is {bytes} bytes, less than one block of {} bytes",
                opened.block
            ))));
        }
        let allocated = if is_device { opened.find_room() } else { opened.allocate() };
        allocated.map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoRoom,
                _ => ErrorKind::System,
            };
            let wanted = format!(
                "drive_size is {} ({bytes} bytes), and there is no room for as much",
                size::show(bytes)
            );
            Error::new(kind, format!("{}: {error}", what(&wanted)))
        })?;
        Ok(opened)
    }

    /// The file.
    ///
    /// # Errors
    /// The application has closed it.
    pub(super) fn file(&self) -> Result<&File> {
        self.file.get().map_err(|error| Error::system(self.path.display(), &error))
    }

    /// Allocates the room of a file.
    fn allocate(&self) -> io::Result<()> {
        let file = self.file.unchecked().as_raw_fd();
        loop {
            // SAFETY: no memory is involved.
            match unsafe { libc::fallocate64(file, 0, 0, self.len as libc::off64_t) } {
                0 => return Ok(()),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }

    /// Marks a device as a drive.
    ///
    /// # Errors
    /// It has something else on it, or cannot be read or written.
    fn take(&mut self) -> Result<()> {
        let failed = |error: io::Error| Error::system("looking at what it has", &error);
        let mut first = vec![0; SIGNATURES];
        let mut there = 0;
        let mut cached = File::open(&self.path).map_err(failed)?;
        while there < first.len() {
            match cached.read(&mut first[there..]).map_err(failed)? {
                0 => break,
                some => there += some,
            }
        }
        if !first.starts_with(&MARK) && first.iter().any(|byte| *byte != 0) {
            return Err(Error::invalid(
                "it holds other data, which would be overwritten: if nobody needs them, write zeros to its first MiB",
            ));
        }
        let memory = Mapping::reserve(self.block as usize)?;
        // SAFETY: a new mapping of as many bytes, which are zero.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(memory.base().as_ptr(), self.block as usize) };
        bytes[..MARK.len()].copy_from_slice(&MARK);
        self.file()?.write_all_at(bytes, 0).map_err(|error| Error::system("marking it", &error))?;
        self.begin = self.block;
        Ok(())
    }

    /// Whether a device has the room.
    fn find_room(&self) -> io::Result<()> {
        let has = self.file.unchecked().seek(SeekFrom::End(0))?;
        match has >= self.begin + self.len {
            true => Ok(()),
            false => Err(io::Error::other(format!("it has {has} bytes"))),
        }
    }
}

/// Whether a directory's files are in memory.
fn is_memory(path: &Path) -> bool {
    let memory = [libc::TMPFS_MAGIC, RAMFS_MAGIC];
    rustix::fs::statfs(path).is_ok_and(|system| memory.contains(&system.f_type))
}

/// The block of which a file or device takes whole ones alone, if it says so.
fn block_of(file: &File) -> u64 {
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let empty = c"".as_ptr();
    // SAFETY: an empty path, and a place to write to.
    let asked = unsafe {
        libc::statx(
            file.as_raw_fd(),
            empty,
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            found.as_mut_ptr(),
        )
    };
    // SAFETY: zeros are a value of it, whatever was written.
    let found = unsafe { found.assume_init() };
    match asked == 0 && found.stx_mask & libc::STATX_DIOALIGN != 0 {
        true => u64::from(found.stx_dio_offset_align.max(found.stx_dio_mem_align)),
        false => 0,
    }
}
