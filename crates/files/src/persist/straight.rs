//! Persistent files that are written past scratch, because scratch cannot take them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::Persistent;
use crate::naming::Naming;
use crate::output::{Output, Written};
use crate::rolls::common_temporary;
use catalog::FileLevel;
use errors::{Error, Result};
use format::aggregate::AggregatePart;
use format::identity::Identity;
use os::files::{self, Durability};

fn is_there(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(Error::system(format!("looking for {}", path.display()), &error)),
    }
}

impl Persistent {
    /// Creates a temporary file in persistent, or opens the place of a part in an aggregated one.
    pub fn create_straight(
        &self,
        name: &str,
        version: i32,
        place: Option<&AggregatePart>,
    ) -> Result<Output> {
        self.places.may_change_in(self.places.persistent())?;
        let Some(place) = place else {
            let path = self.places.own_persistent_path(name, version)?;
            return Output::create(self.places.temporary(&path), self.proofs.digest());
        };
        let (data, _) = self.places.places_of(name, version)?;
        let temporary = common_temporary(&data, "", place);
        let file = files::open_shared(&temporary)?;
        Ok(Output::within(file, temporary, place.offset, self.proofs.digest()))
    }

    /// Gives a complete persistent file its proof (a part has it in the roll), syncs it if the
    /// configuration says so, and has the file system say what it could not write. To be called
    /// before [`Persistent::publish_straight`].
    pub fn seal_straight(
        &self,
        output: &Output,
        name: &str,
        version: i32,
        (identity, place): (Identity, Option<&AggregatePart>),
    ) -> Result<()> {
        if place.is_none() {
            self.proofs.prove(output, name, version, identity);
        }
        files::finish_write(&output.file, &output.temporary, self.places.persistent_durability())
    }

    /// Gives a file that was written past scratch its name and its checksum. Scratch files of that
    /// version are removed before, as a restart would take them for the nearest copy.
    pub fn publish_straight(
        &self,
        _: &Naming<'_>,
        written: &Written,
        name: &str,
        version: i32,
        place: Option<&AggregatePart>,
    ) -> Result<()> {
        self.places.may_change_in(self.places.persistent())?;
        self.check_persistent(name, version)?;
        self.clear_scratch(name, version)?;
        let durability = self.places.persistent_durability();
        self.sums.put_checksum(name, version, written.digest, durability)?;
        match place {
            Some(place) => {
                let part = (written.len, written.digest, None);
                self.aggregates.enter_part(name, version, place, &written.temporary, part)
            }
            None => {
                let path = self.places.own_persistent_path(name, version)?;
                self.ages.stamp(FileLevel::Persistent, &written.temporary);
                let _naming = self.places.naming_one();
                files::atomic_replace(&written.temporary, &path, durability)
            }
        }
    }

    /// Gives a complete file of the application's own, beside the one that it replaces, its name,
    /// and persistent the link to it.
    pub fn publish_routed_straight(
        &self,
        _: &Naming<'_>,
        temporary: &Path,
        name: &str,
        version: i32,
        (identity, original): (Identity, &str),
    ) -> Result<()> {
        self.places.may_change_in(self.places.persistent())?;
        let link = self.places.own_persistent_path(name, version)?;
        self.check_persistent(name, version)?;
        self.clear_scratch(name, version)?;
        let durability = self.places.persistent_durability();
        let file = files::open(temporary)?;
        self.proofs.prove_routed(&file, temporary, name, version, identity)?;
        if durability == Durability::Synced {
            files::sync(&file, temporary)?;
        }
        let original = Path::new(original);
        files::atomic_replace(temporary, original, durability)?;
        self.link(original, &link)?;
        self.sums.persist_checksum(name, version, Some(original), durability)
    }

    /// Removes the scratch files of a version, and its checksum.
    fn clear_scratch(&self, name: &str, version: i32) -> Result<()> {
        self.bases.let_go(name, version, &self.places.scratch_path(name, version)?)?;
        let beside =
            [self.places.routed_note(name, version)?, self.places.parity_path(name, version)?];
        for old in beside.into_iter().chain([self.places.scratch_path(name, version)?]) {
            // A read-only file system refuses to remove even a file that is not there.
            if is_there(&old)? {
                self.places.may_change_in(self.places.scratch())?;
                let _naming = self.places.naming_one();
                files::remove(&old)?;
            }
        }
        self.sums.remove_checksum(name, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use crate::Names;
    use config::Config;

    /// Catches an old file in scratch that a restart takes for the nearest copy, a checksum of the
    /// old content, and bytes of a part in another process's place.
    #[test]
    fn what_goes_past_scratch_is_the_only_one() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "mode = async\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\nchksum = true\n\
             aggregated = true\n",
            folder.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let [zero, one] = [0, 1].map(|rank| Files::open(&config, rank).unwrap());
        // A checkpoint without regions, and seven bytes in one.
        let old = [0; 8].to_vec();
        let header = format::header::Header::new(vec![(1, 7)]).unwrap();
        let new = [header.encode(), b"content".to_vec()].concat();
        let write = |files: &Files, place: Option<&AggregatePart>| {
            let mut output = files.persistent().create_straight("x", 1, place).unwrap();
            output.put(&new).unwrap();
            files.persistent().seal_straight(&output, "x", 1, (Identity::UNKNOWN, place)).unwrap();
            let written = output.finish();
            assert_eq!(written.len, new.len() as u64);
            files
                .persistent()
                .publish_straight(&Names::default().lock(), &written, "x", 1, place)
                .unwrap();
        };
        for files in [&zero, &one] {
            fs::write(files.places().scratch_path("x", 1).unwrap(), &old).unwrap();
            write(files, None);
            let opened = files.copies().open_nearest("x", 1).unwrap();
            assert_eq!(opened.header.region(1).unwrap().size, 7);
            assert!(!files.places().scratch_path("x", 1).unwrap().exists());
        }
        for (files, offset) in [(&one, new.len() as u64), (&zero, 0)] {
            fs::write(files.places().scratch_path("x", 1).unwrap(), &old).unwrap();
            let identity = Identity { run: 1, generation: 1 };
            write(files, Some(&AggregatePart { offset, ranks: 2, identity, attempt: 1 }));
        }
        for files in [&zero, &one] {
            assert!(!files.places().persistent_path("x", 1).unwrap().exists());
            assert_eq!(
                files.copies().open_nearest("x", 1).unwrap().header.region(1).unwrap().size,
                7
            );
        }
        assert_eq!(fs::read(folder.path().join("p/x-agg-1.dat")).unwrap(), [&new[..]; 2].concat());
    }
}
