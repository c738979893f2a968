//! A checkpoint's file, opened for reading, with its header checked.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::header::{Decoded, Header};
use crate::platform::files;

/// Bytes of a header that are read at a time.
const HEADER_BLOCK: usize = 1 << 20;

/// A checkpoint's file on disk.
#[derive(Debug)]
pub enum Found {
    /// Regions of memory.
    Regions(Opened),
    /// A file of the application's own (`VELOC_Route_file`).
    Routed,
}

/// A complete checkpoint file, open for reading, with its header read.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Its path, for messages.
    pub path: PathBuf,
    /// Its regions.
    pub header: Decoded,
}

impl Opened {
    /// Opens a file and checks its header against its length.
    pub fn read(path: &Path) -> Result<Opened> {
        let file = files::open(path)?;
        let len = files::len(&file, path)?;
        let within = |error: Error| error.within(path.display());
        let mut prefix = vec![0; (len.min(8)) as usize];
        files::read_exact_at(&file, &mut prefix, 0, path)?;
        let declared = Header::declared_len(&prefix, len).map_err(within)?;
        // In blocks, each of which is checked: what is no header must not cost its size in memory.
        while prefix.len() < declared {
            let from = prefix.len();
            prefix.resize(declared.min(from + HEADER_BLOCK), 0);
            files::read_exact_at(&file, &mut prefix[from..], from as u64, path)?;
            Header::check_prefix(&prefix, len).map_err(within)?;
        }
        let header = Header::decode(&prefix, len).map_err(within)?;
        Ok(Opened { file, path: path.to_owned(), header })
    }
}
