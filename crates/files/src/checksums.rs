//! The SHA-256 of each checkpoint file, in upstream's place and form: 32 raw bytes in
//! `<meta>/<file>.chksum`.
//!
//! All copies of a version share it, so it says nothing of a copy from before the version was taken
//! again: that copy's own proof does (`expected`). A file with neither is refused, as VELOC does. So the checksum comes
//! before the file gets its name: a new version is never without one. Where a version is taken again and files have no
//! proofs, a kill in between leaves the new checksum beside the old file, which is then refused.

use std::path::{Path, PathBuf};

use errors::{ErrorKind, Result};
use format::checksum::{self, Checksum};
use os::files::{self, Durability};

/// The checksums of a job.
#[derive(Debug)]
pub(super) struct Checksums {
    directory: PathBuf,
    kept: bool,
}

impl Checksums {
    /// Checksums in `directory`. If they are not `kept`, an earlier run's are only removed, when
    /// their files are replaced.
    pub(super) fn new(directory: PathBuf, kept: bool) -> Checksums {
        Checksums { directory, kept }
    }

    /// Whether files get checksums, and are compared with them.
    pub(super) fn are_kept(&self) -> bool {
        self.kept
    }

    /// Where the checksum of the checkpoint file called `file` is.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        checksum::path(&self.directory, file)
    }

    /// Removes the checksum of `file`.
    pub(super) fn remove(&self, file: &str) -> Result<()> {
        files::remove(&self.path(file))
    }

    /// Notes the checksum of `file`, by way of the file `temporary`.
    pub(super) fn put(
        &self,
        file: &str,
        digest: &Checksum,
        temporary: &Path,
        durability: Durability,
    ) -> Result<()> {
        let path = self.path(file);
        let written = files::create(temporary).and_then(|opened| {
            files::write_all_at(&opened, digest.as_bytes(), 0, temporary)?;
            files::finish_write(&opened, temporary, durability)?;
            files::atomic_replace(temporary, &path, durability)
        });
        if written.is_err() {
            // The failure of the write is the one to report.
            let _ = files::remove(temporary);
        }
        written
    }

    /// Syncs the checksum of `file`, if there is one.
    pub(super) fn sync(&self, file: &str) -> Result<()> {
        let path = self.path(file);
        match files::open(&path) {
            Ok(opened) => {
                files::sync(&opened, &path)?;
                files::sync_directory(&self.directory)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The checksum of `file`, if there is one.
    pub(super) fn get(&self, file: &str) -> Result<Option<Checksum>> {
        match checksum::read(&self.path(file)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Whether the checksum of `file`, which is at `path`, can be believed. If not, warns of it.
    pub(super) fn counts(&self, file: &str, path: &Path) -> bool {
        let counts = files::check_beside(&self.path(file), path);
        counts.inspect_err(|error| log::warn!("{error}; it is passed over")).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches another place or form than upstream's, and a file that is no checksum and counts.
    #[test]
    fn kept_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let checksums = Checksums::new(directory.path().to_owned(), true);
        assert_eq!(checksums.get("x-0-1.dat"), Ok(None));
        let digest = Checksum::of(b"abc");
        let temporary = directory.path().join(".tmp");
        checksums.put("x-0-1.dat", &digest, &temporary, Durability::Synced).unwrap();
        let there = directory.path().join("x-0-1.dat.chksum");
        assert_eq!(std::fs::read(&there).unwrap(), digest.as_bytes());
        assert_eq!(checksums.get("x-0-1.dat"), Ok(Some(digest)));
        checksums.remove("x-0-1.dat").unwrap();
        assert_eq!(checksums.get("x-0-1.dat"), Ok(None));
        for content in [&b""[..], &[0; 31], &[0; 33], &[0; 64]] {
            std::fs::write(&there, content).unwrap();
            assert_eq!(checksums.get("x-0-1.dat").unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
