//! Persistent files that are written from memory, while the scratch file is written or after it.

use std::fs::File;

use super::Persistent;
use crate::naming::Naming;
use crate::output::{Output, Written};
use catalog::FileLevel;
use errors::{Error, ErrorKind, Result};
use format::proof::Proof;
use os::files::{self, Durability};
use os::times;

/// Bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

impl Persistent {
    /// Whether persistent files may be written from memory: not if a file system can make one file of another
    /// without its bytes, nor if the bytes would have to be compressed, compared, or SHA-256 taken, twice.
    pub fn may_write_beside(&self) -> bool {
        let (Some(scratch), Some(persistent)) = (self.places.scratch(), self.places.persistent())
        else {
            return false;
        };
        let costs_twice = self.sums.keeps_checksums() || self.proofs.costs_twice();
        !costs_twice && !files::can_clone(scratch, persistent)
    }

    /// Appends to a persistent file what its `scratch` file has beyond the bytes that are there already.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the whole is not what the scratch file's proof says; else the system's. Both name
    /// the path.
    pub fn append_scratch(
        &self,
        scratch: &File,
        output: &mut Output,
        name: &str,
        version: i32,
    ) -> Result<()> {
        let path = self.places.scratch_path(name, version)?;
        let end = files::len(scratch, &path)?;
        let mut buffer = vec![0; end.saturating_sub(output.end()).min(PIECE) as usize];
        while output.end() < end {
            let bytes = &mut buffer[..(end - output.end()).min(PIECE) as usize];
            files::read_exact_at(scratch, bytes, output.end(), &path)?;
            output.put(bytes)?;
        }
        // Else damage in scratch would get a proof of its own.
        let proven = Proof::read(scratch, &path)?.and_then(|proof| proof.digest);
        let both = proven.zip(output.digest());
        if both.is_some_and(|(proven, digest)| proven.sort() == digest.sort() && proven != digest) {
            let what = format!("{}: its bytes differ from its proof", path.display());
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        Ok(())
    }

    /// Gives a complete persistent file its name, where scratch has the same file under its own. The name is
    /// durable only after [`Places::sync_names_in_persistent`](crate::places::Places::sync_names_in_persistent). False: scratch has none any more.
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
        self.places.may_change_in(self.places.persistent())?;
        let path = self.places.own_persistent_path(name, version)?;
        self.bases.let_go(name, version, &path)?;
        let taken = times::modified(&self.places.scratch_path(name, version)?);
        match taken {
            Ok(taken) => self.ages.stamp_copy(FileLevel::Persistent, &written.temporary, taken),
            Err(_) => self.ages.stamp(FileLevel::Persistent, &written.temporary),
        }
        let _naming = self.places.naming_one();
        files::atomic_replace(&written.temporary, &path, Durability::Unsynced)?;
        Ok(taken.is_ok() || !self.places.lacks_scratch(name, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use crate::Names;
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
        fs::write(files.places().scratch_path("x", 1).unwrap(), &bytes).unwrap();
        let scratch = files.places().open_scratch("x", 1).unwrap();
        let digest = format::proof::Digest::of(files.proofs().digest().unwrap(), &bytes);
        let len = bytes.len() as u64;
        files.proofs().put_proof(
            &scratch,
            &files.places().scratch_path("x", 1).unwrap(),
            "x",
            1,
            (len, Some(digest), Identity::UNKNOWN),
        );
        for begun in [0, 1, PIECE as usize, bytes.len()] {
            let mut output = files.persistent().create_straight("x", 1, None).unwrap();
            output.put(&bytes[..begun]).unwrap();
            files.persistent().append_scratch(&scratch, &mut output, "x", 1).unwrap();
            let written = output.finish();
            assert_eq!(written.digest, Some(digest));
            assert!(files
                .persistent()
                .publish_beside(&Names::default().lock(), &written, "x", 1)
                .unwrap());
            assert_eq!(fs::read(files.places().persistent_path("x", 1).unwrap()).unwrap(), bytes);
        }
        // The part that is read from scratch is damaged there.
        let path = files.places().scratch_path("x", 1).unwrap();
        File::options().write(true).open(&path).unwrap().write_all_at(b"?", 2 * PIECE).unwrap();
        let mut output = files.persistent().create_straight("x", 1, None).unwrap();
        output.put(&bytes[..PIECE as usize]).unwrap();
        let error = files.persistent().append_scratch(&scratch, &mut output, "x", 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        output.finish().discard();
    }
}
