//! Deltas whose base is about to be replaced, as its number is taken again: they get everything themselves before.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use super::age::Ages;
use super::companions::Companions;
use super::expected::Checks;
use super::find::Copies;
use super::hashing::PIECE;
use super::listing::Listing;
use super::live::Rights;
use super::opened::Opened;
use super::output::Output;
use super::places::Places;
use super::proofs::Proofs;
use super::sums::Sums;
use catalog::FileLevel;
use errors::{Error, ErrorKind, Result};
use format::delta::{self, Base, DeltaTable, REGION};
use format::header::Header;
use format::identity::Identity;
use os::files;
use os::sync::Mutex;

/// The files in scratch that have got other bytes, and have no parities since: names, versions, and whether they had
/// some.
#[derive(Debug, Default)]
pub(super) struct MadeWhole(Mutex<Vec<(String, i32, bool)>>);

impl MadeWhole {
    fn add(&self, name: &str, version: i32, was_protected: bool) {
        self.0.lock().push((name.to_owned(), version, was_protected));
    }

    /// Those since the last call.
    pub(super) fn take(&self) -> Vec<(String, i32, bool)> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The files that deltas were taken from.
#[derive(Debug)]
pub(super) struct Bases {
    places: Arc<Places>,
    ages: Arc<Ages>,
    companions: Arc<Companions>,
    listing: Arc<Listing>,
    sums: Arc<Sums>,
    proofs: Arc<Proofs>,
    checks: Arc<Checks>,
    copies: Arc<Copies>,
    rights: Arc<Rights>,
    made_whole: Arc<MadeWhole>,
}

/// Whether this open file is the one at `path`.
pub(super) fn is_same(file: &File, path: &Path) -> bool {
    let of_path = std::fs::symlink_metadata(path);
    let both = file.metadata().and_then(|file| Ok((file, of_path?)));
    both.is_ok_and(|(file, there)| (file.dev(), file.ino()) == (there.dev(), there.ino()))
}

fn table_of(opened: &Opened) -> Result<Option<DeltaTable>> {
    if opened.header.region(REGION).is_none() {
        return Ok(None);
    }
    delta::table_of(&opened.file, opened.part.clone(), &opened.path)
}

fn write_whole(opened: &Opened, number: u64, output: &mut Output) -> Result<()> {
    let table = DeltaTable { number, chain: 0, base: None, regions: Vec::new() }.encode();
    let regions = opened.header.regions();
    let mut sizes = vec![(REGION, table.len() as u64)];
    sizes.extend(regions.iter().filter(|region| region.id != REGION).map(|r| (r.id, r.size)));
    output.put(&Header::new(sizes)?.encode())?;
    output.put(&table)?;
    let mut buffer = vec![0; PIECE];
    for region in regions.iter().filter(|region| region.id != REGION) {
        let mut done = 0;
        while done < region.size {
            let piece = &mut buffer[..(region.size - done).min(PIECE as u64) as usize];
            opened.read_exact_at(piece, region.offset + done)?;
            output.put(piece)?;
            done += piece.len() as u64;
        }
    }
    Ok(())
}

impl Bases {
    pub(super) fn new(
        (places, ages, companions): (Arc<Places>, Arc<Ages>, Arc<Companions>),
        (listing, sums, rights): (Arc<Listing>, Arc<Sums>, Arc<Rights>),
        (proofs, checks, copies): (Arc<Proofs>, Arc<Checks>, Arc<Copies>),
        made_whole: Arc<MadeWhole>,
    ) -> Bases {
        Bases {
            places,
            ages,
            companions,
            listing,
            sums,
            proofs,
            checks,
            copies,
            rights,
            made_whole,
        }
    }

    /// Before the file of a version at `path` is replaced or removed: checks that this job may do so, and has each
    /// delta that was taken from it, in either level, become a file that has everything.
    ///
    /// # Errors
    /// [`ErrorKind::OtherJob`]: it is of a job with another number of processes; or a delta cannot be read or written. One
    /// that is damaged is of no use with its base, either, and is a warning.
    pub(super) fn let_go(&self, name: &str, version: i32, path: &Path) -> Result<()> {
        self.rights.check_replaced(name, path)?;
        // Whatever is no file of an incremental job is nobody's base.
        let table = Opened::read(path).and_then(|opened| table_of(&opened));
        let Ok(Some(table)) = table else { return Ok(()) };
        let gone = Base { version, number: table.number };
        for level in [FileLevel::Scratch, FileLevel::Persistent] {
            self.rebase_all(level, name, gone).map_err(|error| {
                error.within(format!(
                    "{} stays, as a later version is a delta of it",
                    path.display()
                ))
            })?;
        }
        Ok(())
    }

    fn rebase_all(&self, level: FileLevel, name: &str, gone: Base) -> Result<()> {
        for (version, path) in self.listing.all_in(level, name)? {
            // What cannot be read is of no use without a base, either.
            let Ok(opened) = Opened::read(&path) else { continue };
            let Ok(Some(table)) = table_of(&opened) else { continue };
            if table.needed() == Some(gone) {
                match self.rebase(level, name, version, opened, table.number) {
                    Err(error) if error.kind() == ErrorKind::Corrupt => {
                        log::warn!(
                            "version {version} of \"{name}\" is lost with its base: {error}"
                        );
                    }
                    done => done?,
                }
            }
        }
        Ok(())
    }

    /// Replaces the file of a delta by one that has everything, and the same number for those that were taken from it.
    fn rebase(
        &self,
        level: FileLevel,
        name: &str,
        version: i32,
        opened: Opened,
        number: u64,
    ) -> Result<()> {
        self.places.may_change_in(self.places.directory(level))?;
        let opened = self.checks.checked(opened, name, version, || Ok(()))?;
        let identity = opened.proof()?.map_or(Identity::UNKNOWN, |proof| proof.identity);
        // Of what was opened: another file may have come to the path.
        let taken = opened.file.metadata().and_then(|found| found.modified());
        let taken = taken.map_err(|error| Error::system(opened.path.display(), &error))?;
        let opened = opened.with_bases(&|base| self.copies.base_of_delta(name, base))?;
        let mut output = Output::create(self.places.temporary(&opened.path), self.proofs.digest())?;
        let written = write_whole(&opened, number, &mut output).and_then(|()| {
            self.proofs.prove(&output, name, version, identity);
            let durability = self.places.durability_in(level);
            files::finish_write(&output.file, &output.temporary, durability)
        });
        let written = match written {
            Ok(()) => output.finish(),
            Err(error) => {
                output.finish().discard();
                return Err(error);
            }
        };
        // What has been taken again or removed meanwhile needs no base any more.
        let _alone = self.places.naming_alone();
        if !is_same(&opened.file, &opened.path) {
            written.discard();
            return Ok(());
        }
        let was_protected = level == FileLevel::Scratch && self.places.has_parities(name, version);
        if level == FileLevel::Scratch {
            // They are of the delta.
            self.companions.remove_parity(name, version)?;
        }
        self.ages.stamp_copy(level, &written.temporary, taken);
        let durability = self.places.durability_in(level);
        self.sums.put_checksum(name, version, written.digest, durability)?;
        files::atomic_replace(&written.temporary, &opened.path, durability)?;
        if level == FileLevel::Scratch {
            self.made_whole.add(name, version, was_protected);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use config::Config;
    use format::delta::Sparse;
    use std::fs;

    /// A file with a table of changes, and these bytes; the whole regions among them stand in the header.
    fn file(table: &DeltaTable, regions: &[(i32, u64)], content: &[u8]) -> Vec<u8> {
        let table = table.encode();
        let of_table = content.len() as u64 - regions.iter().map(|(_, size)| size).sum::<u64>();
        let mut sizes = vec![(REGION, table.len() as u64 + of_table)];
        sizes.extend(regions);
        [Header::new(sizes).unwrap().encode(), table, content.to_vec()].concat()
    }

    /// Catches a delta that is made whole in the place of what has come there, or gone from there, meanwhile.
    #[test]
    fn what_has_changed_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            format!("mode = async\nscratch = {}\nincremental = true\n", folder.path().display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let path = |version| files.places().scratch_path("x", version).unwrap();
        let base = DeltaTable { number: 9, chain: 0, base: None, regions: Vec::new() };
        fs::write(path(1), file(&base, &[(0, 3)], &[1; 3])).unwrap();
        let changes = vec![Sparse { id: 0, size: 3, runs: std::iter::once(1..2).collect() }];
        let base = Some(Base { version: 1, number: 9 });
        let delta = file(&DeltaTable { number: 10, chain: 1, base, regions: changes }, &[], &[2]);
        let rebase = |meanwhile: &dyn Fn()| {
            fs::write(path(2), &delta).unwrap();
            let opened = Opened::read(&path(2)).unwrap();
            meanwhile();
            files.scratch().bases().rebase(FileLevel::Scratch, "x", 2, opened, 10).unwrap();
            fs::read(path(2)).ok()
        };
        let newer = folder.path().join("newer");
        let replace = || {
            fs::write(&newer, "newer").unwrap();
            fs::rename(&newer, path(2)).unwrap();
        };
        assert_eq!(rebase(&replace).unwrap(), b"newer");
        assert_eq!(rebase(&|| fs::remove_file(path(2)).unwrap()), None);
        assert!(rebase(&|| ()).unwrap().ends_with(&[1, 2, 1]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "a temporary file stays");
    }
}
