//! Giving complete files their names in scratch.

use std::path::Path;
use std::sync::Arc;

use super::age::Ages;
use super::companions::Companions;
use super::naming::Naming;
use super::output::{Output, Written};
use super::places::Places;
use super::proofs::Proofs;
use super::rebased::Bases;
use super::sums::Sums;
use catalog::FileLevel;
use errors::Result;
use format::identity::Identity;
use os::files;

/// The files of scratch, as they get their names.
#[derive(Debug)]
pub struct Scratch {
    places: Arc<Places>,
    ages: Arc<Ages>,
    companions: Arc<Companions>,
    sums: Arc<Sums>,
    proofs: Arc<Proofs>,
    bases: Arc<Bases>,
}

impl Scratch {
    pub(super) fn new(
        (places, ages, companions): (Arc<Places>, Arc<Ages>, Arc<Companions>),
        (sums, proofs): (Arc<Sums>, Arc<Proofs>),
        bases: Arc<Bases>,
    ) -> Scratch {
        Scratch { places, ages, companions, sums, proofs, bases }
    }

    #[cfg(test)]
    pub(super) fn sums(&self) -> &Sums {
        &self.sums
    }

    #[cfg(test)]
    pub(super) fn bases(&self) -> &Bases {
        &self.bases
    }

    /// Gives a complete scratch file its proof, syncs it if the configuration says so, and has the
    /// file system say what it could not write. To be called before [`Scratch::publish`].
    pub fn seal(
        &self,
        output: &Output,
        name: &str,
        version: i32,
        identity: Identity,
    ) -> Result<()> {
        self.proofs.prove(output, name, version, identity);
        self.places.seal_file(&output.file, &output.temporary)
    }

    /// Gives a complete file its name and its checksum.
    pub fn publish(
        &self,
        _: &Naming<'_>,
        written: &Written,
        name: &str,
        version: i32,
    ) -> Result<()> {
        self.places.may_change_in(self.places.scratch())?;
        let path = self.places.own_path(name, version)?;
        self.bases.let_go(name, version, &path)?;
        // An older checkpoint of the name may be file-based, and the parities are of its file.
        self.companions.remove_note(name, version)?;
        self.companions.remove_parity(name, version)?;
        let durability = self.places.scratch_durability();
        self.ages.stamp(FileLevel::Scratch, &written.temporary);
        self.sums.put_checksum(name, version, written.digest, durability)?;
        let _naming = self.places.naming_one();
        files::atomic_replace(&written.temporary, &path, durability)
    }

    /// Gives the complete file of a file-based checkpoint its name.
    pub fn publish_routed(
        &self,
        naming: &Naming<'_>,
        temporary: &Path,
        name: &str,
        version: i32,
        (identity, original): (Identity, &str),
    ) -> Result<()> {
        self.places.may_change_in(self.places.scratch())?;
        self.bases.let_go(name, version, &self.places.scratch_path(name, version)?)?;
        self.companions.remove_parity(name, version)?;
        self.sums.remove_checksum(name, version)?;
        self.ages.stamp(FileLevel::Scratch, temporary);
        self.publish_rebuilt(naming, temporary, name, version, (identity, Some(original)))
    }

    /// Gives a rebuilt file its name. Its parities and its checksum still hold.
    pub fn publish_rebuilt(
        &self,
        _: &Naming<'_>,
        temporary: &Path,
        name: &str,
        version: i32,
        (identity, routed): (Identity, Option<&str>),
    ) -> Result<()> {
        self.places.may_change_in(self.places.scratch())?;
        match routed {
            Some(original) => self.companions.note_routed(name, version, original)?,
            None => {
                self.companions.remove_note(name, version)?;
                self.ages.stamp_brought(temporary, name, version);
            }
        }
        let path = self.places.scratch_path(name, version)?;
        let file = files::open(temporary)?;
        match routed {
            Some(_) => self.proofs.prove_routed(&file, temporary, name, version, identity)?,
            None => self.proofs.prove_whole(&file, temporary, name, version, identity)?,
        }
        self.places.seal_file(&file, temporary)?;
        let _naming = self.places.naming_one();
        files::atomic_replace(temporary, &path, self.places.scratch_durability())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, Names};
    use config::Config;

    /// Catches the checksum of a memory-based version that a file-based one of the same number is judged by.
    #[test]
    fn a_file_of_the_application_has_no_checksum_of_its_predecessor() {
        let directory = tempfile::tempdir().unwrap();
        let text =
            "mode = async\nscratch = DIR/s\npersistent = DIR/p\nmeta = DIR/m\nchksum = true\n";
        let text = text.replace("DIR", &directory.path().display().to_string());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let temporary = files.places().temporary(&files.places().scratch_path("x", 1).unwrap());
        let mut output = Output::create(temporary.clone(), files.proofs().digest()).unwrap();
        output.put(&[0; 8]).unwrap();
        files.scratch().publish(&Names::default().lock(), &output.finish(), "x", 1).unwrap();
        let checksums = || std::fs::read_dir(directory.path().join("m")).unwrap().count();
        assert_eq!(checksums(), 1);
        std::fs::write(&temporary, "the application's").unwrap();
        let original = directory.path().join("own");
        let by = (Identity::UNKNOWN, original.to_str().unwrap());
        files.scratch().publish_routed(&Names::default().lock(), &temporary, "x", 1, by).unwrap();
        assert_eq!(checksums(), 0);
    }
}
