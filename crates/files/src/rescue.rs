//! Parts of aggregated files that will never be complete.
//!
//! A job whose processes are killed, or cannot agree any more, leaves files to which some have
//! copied their parts and others have not. A part is as good as a file of its own: the next job, or
//! the same one in the end, makes it one.

use std::sync::Arc;

use super::age::Ages;
use super::attempts::{Attempts, Roll};
use super::expected::refuse_holes;
use super::listing::Listing;
use super::places::Places;
use super::proofs::Proofs;
use super::rolls::{parts, temporary_of, RollPart};
use catalog::FileLevel;
use errors::{ErrorKind, Result};
use os::files;
use policy::slice::SLICE;

/// The rescue of parts.
#[derive(Debug)]
pub struct Rescue {
    places: Arc<Places>,
    ages: Arc<Ages>,
    listing: Arc<Listing>,
    proofs: Arc<Proofs>,
    attempts: Arc<Attempts>,
    /// This process is the successor of another one.
    is_successor: bool,
}

impl Rescue {
    pub(super) fn new(
        (places, ages, listing): (Arc<Places>, Arc<Ages>, Arc<Listing>),
        proofs: Arc<Proofs>,
        attempts: Arc<Attempts>,
        is_successor: bool,
    ) -> Rescue {
        Rescue { places, ages, listing, proofs, attempts, is_successor }
    }

    /// Copies each part of this process that is in an incomplete aggregated file to a file of its
    /// own, unless persistent has that checkpoint. To be called only before this process writes a
    /// part, or once no process does any more.
    ///
    /// # Errors
    /// Persistent cannot be read. A part that cannot be copied is a warning.
    pub fn rescue_parts(&self) -> Result<()> {
        if self.is_successor {
            // The successors of other processes may be about to complete the file.
            return Ok(());
        }
        let mut rolls = self.attempts.rolls()?;
        // The last attempt is the one to keep.
        rolls.sort_by(|a, b| b.cmp(a));
        for roll in rolls {
            let Roll { name, version, .. } = &roll;
            if self.listing.is_persistent(name, *version) {
                continue;
            }
            match self.rescue_part(&roll) {
                Ok(None) => {}
                Ok(Some(bytes)) => log::warn!(
                    "the aggregated file of checkpoint \"{name}\" version {version} was not completed: the part of \
                     rank {}, {bytes} bytes, is now a file of its own",
                    self.places.rank()
                ),
                Err(error) => log::warn!(
                    "checkpoint \"{name}\" version {version} stays in an aggregated file that is \
                     not complete: {error}"
                ),
            }
        }
        Ok(())
    }

    /// Copies this process's part: its bytes, or `None` if there is none or the file was completed.
    fn rescue_part(&self, roll: &Roll) -> Result<Option<u64>> {
        let Some((data, _)) = self.places.aggregated_paths(&roll.name, roll.version) else {
            return Ok(None);
        };
        let Some(target) = self.places.persistent_path(&roll.name, roll.version) else {
            return Ok(None);
        };
        let own = parts(&roll.path)?.get(self.places.rank() as usize).copied().flatten();
        let Some(RollPart { begin: offset, len, digest, taken, identity }) = own else {
            return Ok(None);
        };
        let source = temporary_of(&data, "", roll.job, roll.attempt);
        let from = match files::open_own(&source) {
            Err(error) if error.kind() == ErrorKind::NotFound && data.exists() => return Ok(None),
            opened => opened?,
        };
        // A damaged roll may ask for more bytes than any part has.
        refuse_holes(&from, &(0..files::len(&from, &source)?), &source)?;
        let temporary = self.places.temporary(&target);
        let copied = files::create(&temporary).and_then(|to| {
            let mut buffer = vec![0; len.min(SLICE) as usize];
            let mut done = 0;
            while done < len {
                let bytes = &mut buffer[..(len - done).min(SLICE) as usize];
                files::read_exact_at(&from, bytes, offset + done, &source)?;
                files::write_all_at(&to, bytes, done, &temporary)?;
                done += bytes.len() as u64;
            }
            if digest.is_some() {
                let whole = (len, digest, identity);
                self.proofs.put_proof(&to, &temporary, &roll.name, roll.version, whole);
            }
            files::sync(&to, &temporary)?;
            self.places.may_change_in(self.places.persistent())?;
            self.ages.stamp_copy(FileLevel::Persistent, &temporary, taken);
            let _naming = self.places.naming_one();
            files::atomic_replace(&temporary, &target, self.places.persistent_durability())
        });
        if copied.is_err() {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
        }
        copied.map(|()| Some(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use crate::Files;
    use config::Config;
    use format::aggregate::AggregatePart;
    use format::identity::Identity;
    use std::path::PathBuf;

    /// Catches a part that nobody finds any more, a part that replaces a file that is there, one of another process,
    /// and a file that does not say which run made it.
    #[test]
    fn a_part_becomes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let below = |name: &str| folder.path().join(name);
        let text = format!(
            "mode = async\naggregated = true\nscratch = {}\npersistent = {}\nmeta = {}\n",
            below("s").display(),
            below("p").display(),
            below("m").display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let of = |rank| Files::open(&config, rank).unwrap();
        let put = |rank, version, text: &str, attempt| {
            let files = of(rank);
            let place = AggregatePart {
                offset: u64::from(rank) * 5,
                ranks: 3,
                identity: Identity { run: 7, generation: 1 },
                attempt,
            };
            let put = |output: &mut Output| output.put(text.as_bytes());
            assert_eq!(files.aggregates().write_part("x", version, &place, put).unwrap(), 5);
        };
        put(0, 1, "first", 1);
        put(2, 1, "third", 1);
        put(2, 2, "other", 2);
        std::fs::write(of(2).places().persistent_path("x", 2).unwrap(), "there").unwrap();
        for rank in 0..3 {
            of(rank).rescue().rescue_parts().unwrap();
        }
        let read = |rank, version| {
            std::fs::read_to_string(of(rank).places().persistent_path("x", version).unwrap()).ok()
        };
        assert_eq!(read(0, 1).as_deref(), Some("first"));
        assert_eq!(read(1, 1), None);
        assert_eq!(read(2, 1).as_deref(), Some("third"));
        let path = of(2).places().persistent_path("x", 1).unwrap();
        let made_by = of(2).runs().identity_of(&std::fs::File::open(&path).unwrap(), &path);
        assert_eq!(made_by, Identity { run: 7, generation: 1 });
        assert_eq!(read(2, 2).as_deref(), Some("there"));

        // The job was killed with all parts in the file, and no file has that version.
        put(1, 4, "forth", 4);
        let [data, roll] = ["", ".roll2"].map(|end| below(&format!("p/.x-agg-4.dat{end}.tmp-7-4")));
        std::fs::rename(&roll, of(1).places().temporary(&roll)).unwrap();
        of(1).rescue().rescue_parts().unwrap();
        assert_eq!(read(1, 4).as_deref(), Some("forth"));
        std::fs::remove_file(of(1).places().persistent_path("x", 4).unwrap()).unwrap();
        // Another process has completed the file just now.
        std::fs::rename(&data, below("p/x-agg-4.dat")).unwrap();
        of(1).rescue().rescue_parts().unwrap();
        assert_eq!(read(1, 4), None);
        std::fs::rename(below("p/x-agg-4.dat"), &data).unwrap();
        of(1).rescue().rescue_parts().unwrap();

        // A part that is no file yet stays: somebody may still need it.
        put(1, 3, "third", 3);
        let left = || files::list(&below("p"), |name| name.starts_with('.').then_some(())).unwrap();
        assert_eq!(left().len(), 8);
        of(0).attempts().remove_incomplete(8).unwrap();
        assert_eq!(left().len(), 2);
    }

    /// Catches a copy of nothing but holes that fills persistent, because a damaged roll says that the part is
    /// that long.
    #[test]
    fn holes_are_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let below = |path: &str| folder.path().join(path);
        let text = format!(
            "mode = async\naggregated = true\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\n",
            folder.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        std::fs::write(files.places().scratch_path("x", 1).unwrap(), "first").unwrap();
        let place = AggregatePart {
            offset: 0,
            ranks: 2,
            identity: Identity { run: 7, generation: 1 },
            attempt: 1,
        };
        files.aggregates().persist_part("x", 1, &place).unwrap();
        let [data, roll] = ["", ".roll2"].map(|end| below(&format!("p/.x-agg-1.dat{end}.tmp-7-1")));
        let open = |path: &PathBuf| std::fs::File::options().write(true).open(path).unwrap();
        if open(&data).set_len(1 << 43).is_err() {
            println!("skipped: the folder for temporary files has no files of that length");
            return;
        }
        // The length in the line of this process; it is no more than a test can bear.
        files::write_all_at(&open(&roll), &(1u64 << 20).to_le_bytes(), 8, &roll).unwrap();
        let error = files.rescue().rescue_part(&files.attempts().rolls().unwrap()[0]).unwrap_err();
        assert!(error.to_string().contains("are stored"), "{error}");
    }
}
