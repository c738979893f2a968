//! SHA-256 checksums of files.
//!
//! Upstream's checksums (`chksum = true`) are those of whole checkpoint files, stored as 32 raw bytes in
//! a file of their own in the directory `meta`. Both copies of a file, in scratch and persistent, share
//! it, and so does the part of an aggregated file, which has the same bytes. Erasure coding identifies
//! files and messages by the same checksums.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use errors::{Error, ErrorKind, Result};
use os::files;

/// The length of a checksum, and of its file, in bytes.
pub const LEN: usize = 32;

/// The suffix of checksum files.
const SUFFIX: &str = ".chksum";

/// SHA-256 of a checkpoint file, or of other bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Checksum([u8; LEN]);

impl Checksum {
    /// From its bytes.
    pub const fn from_bytes(bytes: [u8; LEN]) -> Checksum {
        Checksum(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// The checksum of bytes in memory.
    pub fn of(bytes: &[u8]) -> Checksum {
        let mut hasher = ChecksumHasher::default();
        hasher.update(bytes);
        hasher.finish()
    }
}

/// 64 hexadecimal digits, as in `sha256sum`.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Enough digits to identify it in a log.
impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A checksum in progress, of bytes in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct ChecksumHasher(Sha256);

impl ChecksumHasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(self) -> Checksum {
        Checksum(self.0.finalize().into())
    }
}

/// The checksum file in the directory `meta` of the checkpoint file of this name (no path).
pub fn path(meta: &Path, checkpoint_file: &str) -> PathBuf {
    meta.join(format!("{checkpoint_file}{SUFFIX}"))
}

/// The checkpoint file of the checksum file of this name.
pub fn is_of(file_name: &str) -> Option<&str> {
    file_name.strip_suffix(SUFFIX)
}

/// Reads a checksum file.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is none; [`ErrorKind::Corrupt`] if its length is not [`LEN`]; else the
/// system's. All name the path.
pub fn read(path: &Path) -> Result<Checksum> {
    let file = files::open(path)?;
    let len = files::len(&file, path)?;
    if len != LEN as u64 {
        let what = format!("{} has {len} bytes; a checksum has {LEN}", path.display());
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    let mut bytes = [0; LEN];
    files::read_exact_at(&file, &mut bytes, 0, path)?;
    Ok(Checksum(bytes))
}

/// The checksum of `range` of the open file `file` (`path` in messages). Calls `progress` after each
/// block with its length. Uses 1 MiB of memory.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the file ends before the range does, else the system's, with the path.
pub fn of_range(
    file: &File,
    range: Range<u64>,
    path: &Path,
    mut progress: impl FnMut(u64),
) -> Result<Checksum> {
    let mut hasher = ChecksumHasher::default();
    files::read_through(file, range, path, |block| {
        hasher.update(block);
        progress(block.len() as u64);
    })?;
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::files::BLOCK;
    use std::fs;

    /// The example of one block from FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    /// The checksum of no bytes.
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn known_checksums() {
        assert_eq!(Checksum::of(b"abc").to_string(), ABC);
        assert_eq!(Checksum::of(b"").to_string(), EMPTY);
        let mut hasher = ChecksumHasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish().to_string(), ABC);
        assert_eq!(Checksum::of(b"abc").as_bytes()[..3], [0xba, 0x78, 0x16]);
    }

    #[test]
    fn files_are_read_block_by_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x-0-1.dat");
        let bytes: Vec<u8> = (0..2 * BLOCK + 17).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let file = files::open(&path).unwrap();
        for range in [0..bytes.len(), 0..0, 5..6, BLOCK - 1..2 * BLOCK + 1] {
            let mut seen = 0;
            let of = range.start as u64..range.end as u64;
            let found = of_range(&file, of, &path, |bytes| seen += bytes).unwrap();
            assert_eq!(found, Checksum::of(&bytes[range.clone()]), "{range:?}");
            assert_eq!(seen, range.len() as u64);
        }
        let beyond = 0..bytes.len() as u64 + 1;
        let error = of_range(&file, beyond, &path, |_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("x-0-1.dat"), "{error}");
    }

    #[test]
    fn kept_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let kept = path(folder.path(), "x-0-1.dat");
        assert_eq!(kept.file_name().unwrap(), "x-0-1.dat.chksum");
        assert_eq!(read(&kept).unwrap_err().kind(), ErrorKind::NotFound);
        let checksum = Checksum::of(b"abc");
        fs::write(&kept, checksum.as_bytes()).unwrap();
        assert_eq!(read(&kept).unwrap(), checksum);
        assert_eq!(Checksum::from_bytes(*checksum.as_bytes()), checksum);
        // Neither a shorter one, nor a longer one, nor one in letters.
        for wrong in [&checksum.as_bytes()[..31], &[0; 33], ABC.as_bytes(), b""] {
            fs::write(&kept, wrong).unwrap();
            let error = read(&kept).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(&format!("{} bytes", wrong.len())), "{error}");
        }
        // A pipe, which would block.
        fs::remove_file(&kept).unwrap();
        let name = std::ffi::CString::new(kept.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with a null byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(read(&kept).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
