//! The files that a process serves to others. They are kept open, so that an announced file can be read
//! even if its path was replaced or removed.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::wire::FileId;
use errors::{Error, ErrorKind, Result};
use os::descriptors::GuardedFd;
use os::files;
use os::sync::Mutex;

/// A file to be served.
#[derive(Debug)]
pub struct FileToServe {
    /// The file.
    pub file: GuardedFd<File>,
    /// Its path, for messages.
    pub path: PathBuf,
    /// Where the served bytes begin in the file, in bytes.
    pub start: u64,
}

/// The served files, with the number of times each is served.
#[derive(Debug, Default)]
pub struct ServedFiles(Mutex<BTreeMap<FileId, (Arc<FileToServe>, usize)>>);

/// Serves a file until it is dropped.
#[derive(Debug)]
pub struct ServedFile {
    served: Arc<ServedFiles>,
    id: FileId,
    /// The file.
    pub source: Arc<FileToServe>,
}

impl ServedFiles {
    /// Serves this file from now on.
    pub fn serve(self: &Arc<Self>, id: FileId, source: FileToServe) -> ServedFile {
        let source = Arc::new(source);
        let mut files = self.0.lock();
        let entry = files.entry(id.clone()).or_insert_with(|| (source.clone(), 0));
        entry.1 += 1;
        ServedFile { served: self.clone(), id, source }
    }

    /// Whether another file of this checkpoint is served, which was therefore taken again.
    pub(crate) fn has_another(&self, id: &FileId) -> bool {
        let files = self.0.lock();
        let mut others = files.keys().filter(|other| *other != id);
        others.any(|other| (&other.name, other.version) == (&id.name, id.version))
    }

    /// Reads bytes of a served file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the file is not served; else the errors of [`files::read_exact_at`].
    pub fn read(&self, id: &FileId, offset: u64, into: &mut [u8]) -> Result<()> {
        let source = self.0.lock().get(id).map(|(source, _)| source.clone());
        let source = source.ok_or_else(|| {
            let what = format!("\"{}\" version {} is not served any more", id.name, id.version);
            Error::new(ErrorKind::NotFound, what)
        })?;
        let at = source.start.saturating_add(offset);
        let closed = |error| Error::system(format!("read {}", source.path.display()), &error);
        files::read_exact_at(source.file.get().map_err(closed)?, into, at, &source.path)
    }
}

impl Drop for ServedFile {
    fn drop(&mut self) {
        let mut files = self.served.0.lock();
        if let Some(entry) = files.get_mut(&self.id) {
            entry.1 -= 1;
            if entry.1 == 0 {
                files.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::checksum::Checksum;

    #[test]
    fn a_file_is_served_as_long_as_somebody_offers_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"head and body").unwrap();
        let source = || FileToServe {
            file: GuardedFd::new(files::open(&path).unwrap()),
            path: path.clone(),
            start: 9,
        };
        let id = FileId { name: "x".to_owned(), version: 1, digest: Checksum::of(b"body") };
        let served = Arc::new(ServedFiles::default());
        let mut bytes = [0; 3];
        let first = served.serve(id.clone(), source());
        let second = served.serve(id.clone(), source());
        std::fs::remove_file(&path).unwrap();
        drop(first);
        served.read(&id, 1, &mut bytes).unwrap();
        assert_eq!(&bytes, b"ody");
        assert_eq!(served.read(&id, 2, &mut bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(served.read(&id, u64::MAX, &mut bytes).is_err());
        drop(second);
        assert_eq!(served.read(&id, 0, &mut bytes).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
