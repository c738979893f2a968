//! One persistent file for the processes of a job (`aggregated = true`), in upstream's form.
//!
//! Each process writes its part to a common temporary file and enters it in a second one, the roll.
//! The process that finds the roll complete gives the file its name: it removes the old table and
//! the old file, puts the new table, and the file last, so that a table never stands beside a file
//! of another attempt. Nobody waits for anybody.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::age::Ages;
use super::attempts::Attempts;
use super::listing::Listing;
use super::live::Rights;
use super::output::Output;
use super::places::Places;
use super::proofs::Proofs;
use super::rebased::Bases;
use super::rolls::{common_temporary, complete, RollPart, LINE, ROLL};
use super::sums::Sums;
use catalog::FileLevel;
use errors::{Error, Result};
use format::aggregate::{AggregatePart, Offsets, PartProofs};
use format::proof::{Digest, Proof};
use os::files;

/// The aggregated files of a job.
#[derive(Debug)]
pub struct Aggregates {
    places: Arc<Places>,
    ages: Arc<Ages>,
    listing: Arc<Listing>,
    sums: Arc<Sums>,
    proofs: Arc<Proofs>,
    rights: Arc<Rights>,
    bases: Arc<Bases>,
    attempts: Arc<Attempts>,
}

impl Aggregates {
    pub(super) fn new(
        (places, ages, listing): (Arc<Places>, Arc<Ages>, Arc<Listing>),
        (sums, proofs, rights): (Arc<Sums>, Arc<Proofs>, Arc<Rights>),
        bases: Arc<Bases>,
        attempts: Arc<Attempts>,
    ) -> Aggregates {
        Aggregates { places, ages, listing, sums, proofs, rights, bases, attempts }
    }

    /// Copies a checkpoint's scratch file to its place in the aggregated file. The last process to
    /// do so completes the file.
    pub(super) fn persist_part(
        &self,
        name: &str,
        version: i32,
        place: &AggregatePart,
    ) -> Result<u64> {
        let (data, _) = self.places.places_of(name, version)?;
        let durability = self.places.persistent_durability();
        let source = self.places.scratch_path(name, version)?;
        let from = files::open_own(&source)?;
        let taken = from.metadata().and_then(|metadata| metadata.modified()).ok();
        let temporary = common_temporary(&data, "", place);
        let to = files::open_shared(&temporary)?;
        let bytes =
            files::copy_between(&from, &to, place.offset, (&source, &temporary), || Ok(()))?;
        files::finish_write(&to, &temporary, durability)?;
        // The scratch file's proof holds for the part. Damage shows when the part is read.
        let proof = Proof::read(&from, &source).unwrap_or_default();
        let proof = proof.filter(|proof| proof.is_of(name, version, self.places.rank(), bytes));
        let digest = proof.and_then(|proof| proof.digest);
        self.enter_part(name, version, place, &temporary, (bytes, digest, taken))?;
        Ok(bytes)
    }

    /// Writes a part of an aggregated file with `put`, which writes what a scratch file would have.
    pub fn write_part(
        &self,
        name: &str,
        version: i32,
        place: &AggregatePart,
        put: impl FnOnce(&mut Output) -> Result<()>,
    ) -> Result<u64> {
        self.places.may_change_in(self.places.persistent())?;
        let (data, _) = self.places.places_of(name, version)?;
        let temporary = common_temporary(&data, "", place);
        let file = files::open_shared(&temporary)?;
        let mut output = Output::within(file, temporary, place.offset, self.proofs.digest());
        put(&mut output)?;
        files::finish_write(&output.file, &output.temporary, self.places.persistent_durability())?;
        let written = output.finish();
        let part = (written.len, written.digest, None);
        self.enter_part(name, version, place, &written.temporary, part)?;
        self.sums.persist_checksum(name, version, None, self.places.persistent_durability())?;
        Ok(written.len)
    }

    /// Enters a part in the roll: it is in its place in the temporary file, with this length and
    /// digest. `taken`: the time of its scratch file, if it has one.
    pub(super) fn enter_part(
        &self,
        name: &str,
        version: i32,
        place: &AggregatePart,
        temporary: &Path,
        (bytes, digest, taken): (u64, Option<Digest>, Option<SystemTime>),
    ) -> Result<()> {
        let (data, table) = self.places.places_of(name, version)?;
        self.places.may_change_in(self.places.persistent())?;
        self.places.may_change_in(self.places.meta())?;
        // A file of this process's own, which an earlier job made from its part or from scratch,
        // would be nearer than the part.
        if let Some(own) = self.places.persistent_path(name, version) {
            self.bases.let_go(name, version, &own)?;
            files::remove(&own)?;
        }
        self.check_aggregated(name, version, &data)?;
        let taken = self.ages.time_of_part(temporary, taken)?;
        let roll = common_temporary(&data, ROLL, place);
        let list = files::open_shared(&roll)?;
        let identity = place.identity;
        let part = RollPart { begin: place.offset, len: bytes, digest, taken, identity };
        files::write_all_at(&list, &part.line(), u64::from(self.places.rank()) * LINE, &roll)?;
        if let Some((offsets, digests, taken)) = complete(&list, &roll, place.ranks)? {
            let proofs = PartProofs { name: name.to_owned(), version, identity, digests };
            let offsets = offsets.with_proofs(proofs);
            self.complete_aggregated(&roll, (temporary, taken), &data, &table, &offsets)?;
            self.attempts.remove_passed_by(name, version, place)?;
        }
        Ok(())
    }

    /// Gives an aggregated file its name, its table and the time `taken`, unless another process
    /// does so.
    fn complete_aggregated(
        &self,
        roll: &Path,
        (temporary, taken): (&Path, SystemTime),
        data: &Path,
        table: &Path,
        offsets: &Offsets,
    ) -> Result<()> {
        let durability = self.places.persistent_durability();
        let new_table = self.places.temporary(table);
        let file = files::create(&new_table)?;
        let written = files::write_all_at(&file, &offsets.encode(), 0, &new_table)
            .and_then(|()| files::finish_write(&file, &new_table, durability));
        // Only one process can rename the roll.
        let claimed = self.places.temporary(roll);
        let claim = written.and_then(|()| match std::fs::rename(roll, &claimed) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::system(format!("rename {}", roll.display()), &error)),
        });
        if !matches!(claim, Ok(true)) {
            files::remove(&new_table)?;
            return claim.map(|_| ());
        }
        self.ages.stamp_copy(FileLevel::Persistent, temporary, taken);
        // A process that dies in between leaves a whole file or none, never another one's table.
        let named = files::remove(table)
            .and_then(|()| files::remove(data))
            .and_then(|()| files::atomic_replace(&new_table, table, durability))
            .and_then(|()| files::atomic_replace(temporary, data, durability));
        match named {
            Ok(()) => files::remove(&claimed),
            Err(error) => {
                // Renamed back, so that it can be tried again.
                if !temporary.exists() {
                    let _ = std::fs::rename(data, temporary);
                }
                let _ = std::fs::rename(&claimed, roll);
                let _ = files::remove(&new_table);
                let _ = files::remove(table);
                Err(error)
            }
        }
    }

    /// Checks that this job may replace an aggregated file.
    fn check_aggregated(&self, name: &str, version: i32, data: &Path) -> Result<()> {
        self.rights.check_ranks(name, data, || self.listing.ranks_of_aggregated(name, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use config::Config;
    use format::header::Header;
    use format::identity::Identity;
    use std::fs;

    /// Catches an earlier job's file of a version that stays when the version is taken again, and
    /// is restored in place of the newer part.
    #[test]
    fn a_part_takes_the_place_of_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "mode = async\naggregated = true\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\n",
            folder.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let content =
            |byte: u8| [&Header::new(vec![(1, 3)]).unwrap().encode()[..], &[byte; 3]].concat();
        let len = content(0).len() as u64;
        for rank in 0..2 {
            let files = Files::open(&config, rank).unwrap();
            fs::write(files.places().persistent_path("x", 1).unwrap(), content(7)).unwrap();
            fs::write(files.places().scratch_path("x", 1).unwrap(), content(8)).unwrap();
            let (offset, identity) = (u64::from(rank) * len, Identity { run: 5, generation: 1 });
            let place = AggregatePart { offset, ranks: 2, identity, attempt: 1 };
            files.persistent().persist("x", 1, None, Some(&place)).unwrap();
            fs::remove_file(files.places().scratch_path("x", 1).unwrap()).unwrap();
        }
        for rank in 0..2 {
            let opened = Files::open(&config, rank).unwrap().copies().open_nearest("x", 1).unwrap();
            let mut found = vec![0; len as usize];
            opened.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(found, content(8), "{}", opened.path.display());
        }
    }
}
