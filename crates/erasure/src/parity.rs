//! A parity file: `.<checkpoint file>.parity` in scratch, beside the checkpoint file.
//!
//! The format: the text `VELOCEC1`; the length of the header in four bytes, little-endian; the header;
//! its SHA-256; the member's parities, whose digest is in the header.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::encoding::Encoding;
use errors::{Error, ErrorKind, Result};
use format::checksum::{self, Checksum, ChecksumHasher};
use os::files::{self, Durability};

const MAGIC: &[u8; 8] = b"VELOCEC1";
const PREFIX: usize = MAGIC.len() + 4;
const DIGEST: usize = checksum::LEN;
/// The longest header in bytes: the largest group, with routed paths.
const LONGEST_HEADER: usize = 1 << 20;

/// The header of a parity file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParityHeader {
    /// The encoding that the parities belong to.
    pub encoding: Encoding,
    /// The index of the member that keeps this file.
    pub own: u32,
    /// The digest of the parities.
    pub payload: Checksum,
}

/// An open parity file with a verified header.
#[derive(Debug)]
pub struct ParityFile {
    /// The file.
    pub file: File,
    /// Its path, for messages.
    pub path: PathBuf,
    /// Its header.
    pub header: ParityHeader,
    /// Where the parities begin, in bytes.
    pub start: u64,
}

impl ParityFile {
    /// Opens a parity file and verifies its header and its length, but not its parities.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::Corrupt`] if it is damaged or no parity file.
    pub fn read(path: &Path) -> Result<ParityFile> {
        let file = files::open_own(path)?;
        let damaged =
            |what: &str| Error::new(ErrorKind::Corrupt, format!("{}: {what}", path.display()));
        let mut prefix = [0; PREFIX];
        files::read_exact_at(&file, &mut prefix, 0, path)?;
        let (magic, len) = prefix.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(damaged("this is no parity file"));
        }
        let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
        if len > LONGEST_HEADER {
            return Err(damaged("the length of its header is damaged"));
        }
        let mut head = vec![0; len + DIGEST];
        files::read_exact_at(&file, &mut head, PREFIX as u64, path)?;
        let (head, digest) = head.split_at(len);
        if Checksum::of(head).as_bytes() != digest {
            return Err(damaged("its header is damaged"));
        }
        let header: ParityHeader =
            postcard::from_bytes(head).map_err(|_| damaged("its header cannot be read"))?;
        header.encoding.check().map_err(|error| error.within(path.display()))?;
        if header.own as usize >= header.encoding.members.len() {
            return Err(damaged("its header is of no member"));
        }
        let start = (PREFIX + len + DIGEST) as u64;
        if files::len(&file, path)? != start + header.encoding.layout().payload() {
            return Err(damaged("its length is not what its header says"));
        }
        Ok(ParityFile { file, path: path.to_owned(), header, start })
    }

    /// Verifies the parities.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if they are damaged.
    pub fn verify(&self) -> Result<()> {
        let end = files::len(&self.file, &self.path)?;
        let digest = checksum::of_range(&self.file, self.start..end, &self.path, |_| {})?;
        if digest == self.header.payload {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            format!("{}: its parities are damaged", self.path.display()),
        ))
    }
}

/// A parity file being written.
#[derive(Debug)]
pub struct ParityWriter {
    file: File,
    path: PathBuf,
    header: ParityHeader,
    start: u64,
    at: u64,
    hasher: ChecksumHasher,
}

impl ParityWriter {
    /// Creates a member's file under a temporary name.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn create(path: &Path, encoding: Encoding, own: usize) -> Result<ParityWriter> {
        let header =
            ParityHeader { encoding, own: own as u32, payload: Checksum::from_bytes([0; DIGEST]) };
        let start = (PREFIX + encode(&header)?.len() + DIGEST) as u64;
        let file = files::create(path)?;
        Ok(ParityWriter {
            file,
            path: path.to_owned(),
            header,
            start,
            at: start,
            hasher: ChecksumHasher::default(),
        })
    }

    /// Appends parities.
    ///
    /// # Errors
    /// The errors of [`files::write_all_at`].
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        files::write_all_at(&self.file, bytes, self.at, &self.path)?;
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes the header, which makes it a valid parity file. Returns its length in bytes.
    ///
    /// # Errors
    /// The errors of [`files::write_all_at`]; [`ErrorKind::Internal`] if parities are missing.
    pub fn complete(mut self) -> Result<u64> {
        if self.at - self.start != self.header.encoding.layout().payload() {
            return Err(Error::new(ErrorKind::Internal, "a parity file is not complete"));
        }
        self.header.payload = self.hasher.finish();
        let header = encode(&self.header)?;
        let mut head = MAGIC.to_vec();
        head.extend((header.len() as u32).to_le_bytes());
        head.extend(&header);
        head.extend(Checksum::of(&header).as_bytes());
        files::write_all_at(&self.file, &head, 0, &self.path)?;
        // Not synced: a lost parity file can be made again.
        files::finish_write(&self.file, &self.path, Durability::Unsynced)?;
        Ok(self.at)
    }
}

/// The length and the checksum of an open file.
///
/// # Errors
/// The system's, with the path.
pub fn digest(file: &File, path: &Path) -> Result<(u64, Checksum)> {
    let len = files::len(file, path)?;
    Ok((len, checksum::of_range(file, 0..len, path, |_| {})?))
}

fn encode(header: &ParityHeader) -> Result<Vec<u8>> {
    postcard::to_stdvec(header).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("the header of a parity file: {error}"))
    })
}
