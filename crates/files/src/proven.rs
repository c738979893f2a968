//! Files that were read to their end and found good: as long as they do not change, they are not
//! read again to know that.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use errors::{Error, Result};
use format::proof::Digest;
use os::sync::Mutex;

/// How many files are remembered as good; then all are forgotten.
const REMEMBERED: usize = 4096;

/// The files that were found good.
#[derive(Debug, Default)]
pub(super) struct Proven(Mutex<HashMap<PathBuf, Stamp>>);

/// Tells a file from what it was before, with the digest that its content should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    /// The digest of the content.
    digest: Digest,
}

impl Stamp {
    /// The stamp of an open file, which messages call `path`. To be taken before the file is read.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(super) fn of(file: &File, path: &Path, digest: Digest) -> Result<Stamp> {
        let metadata = file
            .metadata()
            .map_err(|error| Error::system(format!("stat {}", path.display()), &error))?;
        Ok(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            digest,
        })
    }

    /// The length of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

impl Proven {
    /// Whether the file at `path` was found good with this stamp.
    pub(super) fn has(&self, path: &Path, stamp: &Stamp) -> bool {
        self.0.lock().get(path) == Some(stamp)
    }

    /// The file at `path` was read, and is good with this stamp.
    pub(super) fn note(&self, path: &Path, stamp: Stamp) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(path.to_owned(), stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use config::Config;
    use errors::ErrorKind;
    use format::checksum::Checksum;
    use std::fs;

    /// Catches a file that is read each time, one that is trusted because of what was there before,
    /// and another content that passes for the right one.
    #[test]
    fn a_file_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("mode = sync\nscratch = {}\n", folder.path().display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let path = folder.path().join("x-0-1.dat");
        let digest = Checksum::of(b"abc");
        let is_good = || {
            files.checks().has_content(&path, 3, digest, || Ok(())).map_err(|error| error.kind())
        };
        assert_eq!(is_good(), Err(ErrorKind::NotFound));
        fs::write(&path, "abc").unwrap();
        assert_eq!(is_good(), Ok(true));
        // Reading the file anew would show another content.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "abd").unwrap();
        File::open(&path).unwrap().set_modified(modified).unwrap();
        assert_eq!(is_good(), Ok(true));
        assert_eq!(files.checks().has_content(&path, 3, Checksum::of(b"abd"), || Ok(())), Ok(true));
        assert_eq!(is_good(), Ok(false));
        fs::write(folder.path().join("new"), "abc").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(is_good(), Ok(true));
        assert_eq!(files.checks().has_content(&path, 2, digest, || Ok(())), Ok(false));
    }
}
