//! The SHA-256 of each checkpoint file, in upstream's place and form: 32 raw bytes in
//! `<meta>/<file>.chksum`.
//!
//! A file without a checksum counts as good: it was written before there were any. So when a
//! version is written again, the old checksum goes before the file is replaced, and the new one
//! comes after: at no moment does a checksum stand beside a good file of another content.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hashing;
use super::proven::{Proven, Stamp};
use crate::error::{Error, Kind, Result};
use crate::format::checksum::{self, Checksum};
use crate::platform::files::{self, Durability};

/// The checksums of a job.
#[derive(Debug)]
pub struct Checksums {
    directory: PathBuf,
    kept: bool,
    /// Files that had their checksum, so that a restart after a test reads them once less.
    proven: Arc<Proven>,
}

/// A file of which it is not known yet whether it has its checksum.
#[derive(Debug)]
pub struct Unproven {
    stamp: Stamp,
}

impl Checksums {
    /// Checksums in `directory`. If they are not `kept`, those of an earlier run are only removed,
    /// when their file is replaced.
    pub fn new(directory: PathBuf, kept: bool, proven: Arc<Proven>) -> Checksums {
        Checksums { directory, kept, proven }
    }

    /// Whether files get checksums, and are compared with them.
    pub fn are_kept(&self) -> bool {
        self.kept
    }

    /// Where the checksum of the checkpoint file called `file` is.
    pub fn path(&self, file: &str) -> PathBuf {
        checksum::path(&self.directory, file)
    }

    /// Removes the checksum of `file`.
    pub fn remove(&self, file: &str) -> Result<()> {
        files::remove(&self.path(file))
    }

    /// Notes the checksum of `file`, by way of the file `temporary`.
    pub fn put(
        &self,
        file: &str,
        digest: &Checksum,
        temporary: &Path,
        durability: Durability,
    ) -> Result<()> {
        let path = self.path(file);
        let written = files::create(temporary).and_then(|opened| {
            files::write_all_at(&opened, digest.as_bytes(), 0, temporary)?;
            files::settle(&opened, temporary, durability)?;
            files::atomic_replace(temporary, &path, durability)
        });
        if written.is_err() {
            // The failure of the write is the one to report.
            let _ = files::remove(temporary);
        }
        written
    }

    /// Has the checksum of `file`, if there is one, reach the storage.
    pub fn sync(&self, file: &str) -> Result<()> {
        let path = self.path(file);
        match files::open(&path) {
            Ok(opened) => {
                files::sync(&opened, &path)?;
                files::sync_directory(&self.directory)
            }
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The checksum of `file`, if there is one.
    pub fn get(&self, file: &str) -> Result<Option<Checksum>> {
        match checksum::read(&self.path(file)) {
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Compares the bytes `part` of the open file `opened`, which is `path`, with the checksum of the
    /// checkpoint file called `file`. `go_on` may end it by an error.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if they differ, or if what stands as its checksum is none; those of `go_on`.
    pub fn check(
        &self,
        file: &str,
        opened: &File,
        part: Range<u64>,
        path: &Path,
        go_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        match self.unproven(file, opened, path)? {
            Some(unproven) => {
                let found = hashing::of_range(opened, part, path, go_on)?;
                self.prove(file, path, unproven, found)
            }
            None => Ok(()),
        }
    }

    /// Whether the open file `opened`, which is `path`, has still to be compared with the checksum of
    /// the checkpoint file called `file`. To be asked before it is read.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if what stands as its checksum is none; else the system's.
    pub fn unproven(&self, file: &str, opened: &File, path: &Path) -> Result<Option<Unproven>> {
        if !self.kept {
            return Ok(None);
        }
        let Some(expected) = self.get(file)? else {
            return Ok(None);
        };
        let stamp = Stamp::of(opened, path, expected)?;
        let known = self.proven.has(path, &stamp);
        Ok((!known).then_some(Unproven { stamp }))
    }

    /// Compares the checksum that `path`, which is `unproven`, was `found` to have.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if it is not the one that was kept.
    pub fn prove(
        &self,
        file: &str,
        path: &Path,
        unproven: Unproven,
        found: Checksum,
    ) -> Result<()> {
        let expected = unproven.stamp.digest;
        if found != expected {
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "{} has the SHA-256 {found}, but {} says {expected}",
                    path.display(),
                    self.path(file).display()
                ),
            ));
        }
        self.proven.note(path, unproven.stamp);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(content: &[u8]) -> (tempfile::TempDir, Checksums, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x-0-1.dat");
        std::fs::write(&path, content).unwrap();
        let checksums = Checksums::new(directory.path().to_owned(), true, Arc::default());
        (directory, checksums, path)
    }

    fn check(checksums: &Checksums, path: &Path) -> Result<()> {
        let file = files::open(path).unwrap();
        let len = files::len(&file, path).unwrap();
        checksums.check("x-0-1.dat", &file, 0..len, path, || Ok(()))
    }

    /// Catches a check that is skipped, one that trusts a file because of what it was before, and
    /// one that fails where there is no checksum.
    #[test]
    fn a_changed_file_is_found() {
        let (directory, checksums, path) = setup(b"abc");
        check(&checksums, &path).unwrap();
        let digest = Checksum::of(b"abc");
        let temporary = directory.path().join(".tmp");
        checksums.put("x-0-1.dat", &digest, &temporary, Durability::Synced).unwrap();
        assert_eq!(
            std::fs::read(directory.path().join("x-0-1.dat.chksum")).unwrap(),
            digest.as_bytes()
        );
        for _ in 0..2 {
            check(&checksums, &path).unwrap();
        }
        std::fs::write(&path, b"abd").unwrap();
        let error = check(&checksums, &path).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        for part in ["x-0-1.dat", ".chksum", "ba7816bf"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        checksums.remove("x-0-1.dat").unwrap();
        check(&checksums, &path).unwrap();
    }

    #[test]
    fn what_is_no_checksum_is_refused() {
        let (directory, checksums, path) = setup(b"abc");
        for content in [&b""[..], &[0; 31], &[0; 33], &[0; 64]] {
            std::fs::write(directory.path().join("x-0-1.dat.chksum"), content).unwrap();
            assert_eq!(check(&checksums, &path).unwrap_err().kind(), Kind::Corrupt);
        }
    }
}
