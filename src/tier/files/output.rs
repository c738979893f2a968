//! A file that is written from its start to its end, with the digest of what was written.

use std::fs::File;
use std::path::PathBuf;

use crate::error::Result;
use crate::platform::digest::{Digest, Hasher};
use crate::platform::files;

/// A file that is being written, under its temporary name.
#[derive(Debug)]
pub struct Output {
    /// The file.
    pub file: File,
    /// Its temporary name.
    pub temporary: PathBuf,
    /// Bytes written: where the next ones go.
    pub end: u64,
    hasher: Option<Hasher>,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// The temporary name of the file.
    pub temporary: PathBuf,
    /// Its bytes.
    pub len: u64,
    /// Their digest, if it was asked for.
    pub digest: Option<Digest>,
}

impl Output {
    /// Creates the file.
    pub fn create(temporary: PathBuf, with_digest: bool) -> Result<Output> {
        let file = files::create(&temporary)?;
        Ok(Output { file, temporary, end: 0, hasher: with_digest.then(Hasher::default) })
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let Output { file, temporary, end, hasher } = self;
        let mut write = |bytes: &[u8]| {
            files::write_all_at(file, bytes, *end, temporary)?;
            *end += bytes.len() as u64;
            Ok(())
        };
        match hasher {
            Some(hasher) => hasher.write(bytes, write),
            None => write(bytes),
        }
    }

    /// Ends the file.
    pub fn finish(self) -> Written {
        Written {
            temporary: self.temporary,
            len: self.end,
            digest: self.hasher.map(Hasher::finish),
        }
    }
}

impl Written {
    /// Removes what was written. A failure is a warning: that which made the file useless is the
    /// one to report.
    pub fn discard(self) {
        if let Err(error) = files::remove(&self.temporary) {
            log::warn!("{error}");
        }
    }
}
