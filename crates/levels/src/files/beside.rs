//! Persistent files that are written from memory, while the scratch file is written or after it.

use std::fs::File;

use super::{Files, Naming, Output, Written};
use catalog::FileLevel;
use config::Compress;
use errors::{Error, Kind, Result};
use format::proof::Proof;
use os::files::{self, Durability};
use os::times;

/// Bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

impl Files {
    /// Whether persistent files may be written from memory: not if a file system can make one file of another
    /// without its bytes, nor if the bytes would have to be compressed, compared, or SHA-256 taken, twice.
    pub fn may_write_beside(&self) -> bool {
        let (Some(scratch), Some(persistent)) = (&self.scratch, &self.persistent) else {
            return false;
        };
        let costs_twice =
            self.keeps_checksums() || self.compress != Compress::None || self.incremental;
        !costs_twice && !files::can_clone(scratch, persistent)
    }

    /// Opens the scratch file of a version.
    ///
    /// # Errors
    /// As [`files::open_own`].
    pub fn open_scratch(&self, name: &str, version: i32) -> Result<File> {
        files::open_own(&self.scratch_path(name, version)?)
    }

    /// Appends to a persistent file what its `scratch` file has beyond the bytes that are there already.
    ///
    /// # Errors
    /// [`Kind::Corrupt`]: the whole is not what the scratch file's proof says; else the system's. Both name
    /// the path.
    pub fn append_scratch(
        &self,
        scratch: &File,
        output: &mut Output,
        name: &str,
        version: i32,
    ) -> Result<()> {
        let path = self.scratch_path(name, version)?;
        let end = files::len(scratch, &path)?;
        let mut buffer = vec![0; end.saturating_sub(output.end).min(PIECE) as usize];
        while output.end < end {
            let bytes = &mut buffer[..(end - output.end).min(PIECE) as usize];
            files::read_exact_at(scratch, bytes, output.end, &path)?;
            output.put(bytes)?;
        }
        // Else damage in scratch would get a proof of its own.
        let proven = Proof::read(scratch, &path)?.and_then(|proof| proof.digest);
        let both = proven.zip(output.digest());
        if both.is_some_and(|(proven, digest)| proven.sort() == digest.sort() && proven != digest) {
            let what = format!("{}: its bytes differ from its proof", path.display());
            return Err(Error::new(Kind::Corrupt, what));
        }
        Ok(())
    }

    /// Gives a complete persistent file its name, where scratch has the same file under its own. The name is
    /// durable only after [`Files::sync_names_in_persistent`]. False: scratch has none any more.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn publish_beside(
        &self,
        _: &Naming<'_>,
        written: &Written,
        name: &str,
        version: i32,
    ) -> Result<bool> {
        self.may_change_in(self.persistent.as_deref())?;
        let path = self.own_persistent_path(name, version)?;
        self.let_go(name, version, &path)?;
        let taken = times::modified(&self.scratch_path(name, version)?);
        match taken {
            Ok(taken) => self.stamp_copy(FileLevel::Persistent, &written.temporary, taken),
            Err(_) => self.stamp(FileLevel::Persistent, &written.temporary),
        }
        let _naming = self.naming_one();
        files::atomic_replace(&written.temporary, &path, Durability::Unsynced)?;
        Ok(taken.is_ok() || !self.lacks_scratch(name, version))
    }

    /// Has the names in persistent reach the storage, if the configuration says so.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn sync_names_in_persistent(&self) -> Result<()> {
        match (self.persistent_durability(), &self.persistent) {
            (Durability::Synced, Some(persistent)) => files::sync_directory(persistent),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Names;
    use super::*;
    use config::Config;
    use format::identity::Identity;
    use std::fs;
    use std::os::unix::fs::FileExt as _;

    /// Catches a file that is continued at another place than where it ended, a digest of something else, and
    /// damage that gets a proof.
    #[test]
    fn a_file_is_continued_with_the_rest_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let text = format!("mode = async\nscratch = {at}/s\npersistent = {at}/p\n");
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let bytes: Vec<u8> = (0..3 * PIECE as usize + 17).map(|i| (i ^ (i >> 9)) as u8).collect();
        fs::write(files.scratch_path("x", 1).unwrap(), &bytes).unwrap();
        let scratch = files.open_scratch("x", 1).unwrap();
        let digest = format::proof::Digest::of(files.digest().unwrap(), &bytes);
        let len = bytes.len() as u64;
        files.put_proof(
            &scratch,
            &files.scratch_path("x", 1).unwrap(),
            "x",
            1,
            (len, Some(digest), Identity::UNKNOWN),
        );
        for begun in [0, 1, PIECE as usize, bytes.len()] {
            let mut output = files.create_straight("x", 1, None).unwrap();
            output.put(&bytes[..begun]).unwrap();
            files.append_scratch(&scratch, &mut output, "x", 1).unwrap();
            let written = output.finish();
            assert_eq!(written.digest, Some(digest));
            assert!(files.publish_beside(&Names::default().lock(), &written, "x", 1).unwrap());
            assert_eq!(fs::read(files.persistent_path("x", 1).unwrap()).unwrap(), bytes);
        }
        // The part that is read from scratch is damaged there.
        let path = files.scratch_path("x", 1).unwrap();
        File::options().write(true).open(&path).unwrap().write_all_at(b"?", 2 * PIECE).unwrap();
        let mut output = files.create_straight("x", 1, None).unwrap();
        output.put(&bytes[..PIECE as usize]).unwrap();
        let error = files.append_scratch(&scratch, &mut output, "x", 1).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        output.finish().discard();
    }
}
