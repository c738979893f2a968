//! Removes what a killed run has left half written.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::companions::SeenCompanions;
use super::note::read_note;
use super::places::Places;
use errors::Result;
use format::{aggregate, checksum, names};
use os::{self, files};

/// A file that scratch has beside whole files of checkpoints.
enum Beside {
    Leftover(String),
    Note { name: String, about: String },
    Parity,
}

/// Whether a file of this name was to become the table of an aggregated file, and never will.
fn is_left_of_table(name: &str) -> bool {
    names::parse_temporary(name).is_some_and(|temporary| {
        aggregate::parse_name(temporary.complete).is_some() && is_dead(temporary.pid)
    })
}

/// Whether a process writes nothing any more: a killed process may be there for a while.
fn is_dead(process: u32) -> bool {
    !os::is_alive(process) || os::is_ending(process)
}

/// Removes files that are not in use: a writer on another node or container looks dead here.
fn remove_unused(directory: &Path, names: Vec<String>) -> Result<()> {
    for path in names.into_iter().map(|name| directory.join(name)) {
        if !files::is_in_use(&path) {
            files::remove_with_folder(&path)?;
        }
    }
    Ok(())
}

/// The leftovers of a killed run.
pub(super) struct Leftovers<'a> {
    places: &'a Places,
    seen: &'a SeenCompanions,
}

impl<'a> Leftovers<'a> {
    /// In these places, of whose companions so much is `seen`.
    pub(super) fn new(places: &'a Places, seen: &'a SeenCompanions) -> Leftovers<'a> {
        Leftovers { places, seen }
    }

    /// Removes what a killed run of this rank has left half written in scratch and beside the files
    /// that were routed from elsewhere, and finds out which companions there are. Lists the
    /// directory once: it may be long, and the application waits.
    pub(super) fn look_through_scratch(&self, scratch: &Path) -> Result<()> {
        let found = files::list(scratch, |name| {
            if self.is_leftover(name) {
                return Some(Beside::Leftover(name.to_owned()));
            }
            let is_own = || files::is_own(&scratch.join(name));
            if let Some(of) =
                names::parse_routed_note(name).filter(|of| of.rank == self.places.rank())
            {
                let about = names::checkpoint_file(of.name, of.rank, of.version);
                return is_own().then(|| Beside::Note { name: name.to_owned(), about });
            }
            let parity = names::parse_parity(name).is_some_and(|of| of.rank == self.places.rank());
            (parity && is_own()).then_some(Beside::Parity)
        });
        let found = found.inspect_err(|_| {
            // A directory that cannot be listed may have any companion.
            self.seen.set(true, true);
        })?;
        let (mut leftovers, mut notes, mut parities) = (Vec::new(), Vec::new(), false);
        for beside in found {
            match beside {
                Beside::Leftover(name) => leftovers.push(name),
                Beside::Note { name, about } => notes.push((name, about)),
                Beside::Parity => parities = true,
            }
        }
        self.seen.set(!notes.is_empty(), parities);
        remove_unused(scratch, leftovers)?;
        self.remove_routed_leftovers(scratch, notes)
    }

    /// Removes what a killed run of this rank has left half written in a directory other than scratch.
    pub(super) fn remove_leftovers(&self, directory: &Path) -> Result<()> {
        // In persistent the numbers in such a name are not those of a process.
        let has_tables = self.places.persistent() != Some(directory) && self.places.rank() == 0;
        let leftovers = files::list(directory, |name| {
            let is_one = self.is_leftover(name) || (has_tables && is_left_of_table(name));
            is_one.then(|| name.to_owned())
        })?;
        remove_unused(directory, leftovers)
    }

    /// Whether a file of this name is one that a killed run of this rank has left half written.
    fn is_leftover(&self, name: &str) -> bool {
        let Some(temporary) = names::parse_temporary(name) else { return false };
        let file = temporary.complete;
        let complete = names::parse(checksum::is_of(file).unwrap_or(file));
        // Another process may be writing: only a dead process's files are leftovers.
        complete
            .is_some_and(|complete| complete.rank == self.places.rank() && is_dead(temporary.pid))
    }

    /// Whether neither scratch nor persistent has the checkpoint file of this name, nor a link for it.
    fn is_about_nothing(&self, file: &str) -> bool {
        let directories = [self.places.scratch(), self.places.persistent()].into_iter().flatten();
        let mut there = directories.map(|directory| fs::symlink_metadata(directory.join(file)));
        there.all(|there| there.is_err_and(|error| error.kind() == ErrorKind::NotFound))
    }

    /// Removes what is half written beside the files that file-based checkpoints were routed from,
    /// which the notes in scratch name.
    fn remove_routed_leftovers(&self, scratch: &Path, notes: Vec<(String, String)>) -> Result<()> {
        for (note, about) in notes {
            // The writer was killed before the file came, or after it was removed.
            if self.is_about_nothing(&about) {
                files::remove(&scratch.join(note))?;
                continue;
            }
            // A file that is no note names no file.
            let Ok(Some(original)) = read_note(&scratch.join(note), &scratch.join(about)) else {
                continue;
            };
            let original = PathBuf::from(original);
            let (Some(folder), Some(file)) = (original.parent(), original.file_name()) else {
                continue;
            };
            let leftovers = files::list(folder, |name| {
                let temporary = names::parse_temporary(name)?;
                (file.to_str() == Some(temporary.complete) && is_dead(temporary.pid))
                    .then(|| name.to_owned())
            })?;
            remove_unused(folder, leftovers)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use config::Config;
    use format::aggregate::AggregatePart;
    use format::identity::Identity;
    use format::proof::{Digest, Sort};
    use os::files::Durability;

    /// Directories for three processes with aggregated files and checksums, for `test`.
    fn with_directories(test: impl FnOnce(&Config, &dyn Fn(&str) -> PathBuf)) {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "mode = async\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\nchksum = true\n\
             aggregated = true\n",
            folder.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        Files::open(&config, 0).unwrap();
        test(&config, &|path| folder.path().join(path));
    }

    fn hidden(directory: &Path) -> Vec<String> {
        let is_hidden = |name: &str| name.starts_with('.').then(|| name.to_owned());
        let mut all = files::list(directory, is_hidden).unwrap();
        all.sort();
        all
    }

    /// Catches what killed jobs have left of aggregated files that stays for ever: because a file of its
    /// own was made of each part and is gone by the end of the job, because nobody had a part in it, or
    /// because it is a table. And one that goes while somebody writes to it, or is another name's.
    #[test]
    fn what_attempts_have_left_goes_with_the_next_file() {
        with_directories(|config, at| {
            let take = |rank, name: &str, version, job| {
                let files = Files::open(config, rank).unwrap();
                files.rescue().rescue_parts().unwrap();
                fs::write(files.places().scratch_path(name, version).unwrap(), [0; 8]).unwrap();
                let (offset, identity) =
                    (u64::from(rank) * 8, Identity { run: job, generation: 1 });
                let place = AggregatePart { offset, ranks: 3, identity, attempt: 1 };
                files.persistent().persist(name, version, None, Some(&place)).unwrap();
            };
            take(0, "x", 4, 7);
            take(2, "x", 4, 7);
            // A part of a process that the next job does not have.
            take(3, "y", 1, 9);
            // Killed before the first part was in it, and before the table had its name.
            fs::write(at("p/.x-agg-5.dat.tmp-7-2"), "half").unwrap();
            fs::write(at("p/.x-agg-6.dat.tmp-7-3"), "half").unwrap();
            let writing = files::open_shared(&at("p/.x-agg-6.dat.tmp-7-3")).unwrap();
            let dead = names::temporary_file("x-agg-4.dat", i32::MAX as u32, 0);
            fs::write(at("m").join(dead), "half").unwrap();

            for rank in 0..3 {
                take(rank, "x", 8, 11);
            }
            assert!(at("p/x-agg-8.dat").exists() && at("p/x-2-4.dat").exists());
            assert_eq!(hidden(&at("m")), [""; 0]);
            let left =
                [".x-agg-6.dat.tmp-7-3", ".y-agg-1.dat.roll2.tmp-9-1", ".y-agg-1.dat.tmp-9-1"];
            assert_eq!(hidden(&at("p")), left);
            drop(writing);
            Files::open(config, 0).unwrap().attempts().remove_incomplete(11).unwrap();
            assert_eq!(hidden(&at("p")), left[1..]);
        });
    }

    /// Catches checksums that stay for ever, and one of a version that is there, of another name or of
    /// another process that goes.
    #[test]
    fn checksums_go_with_the_last_copy_after_a_kill() {
        with_directories(|config, at| {
            let sum = |file: &str| at("m").join(format!("{file}.chksum"));
            let all =
                ["x-1-1.dat", "x-1-2.dat", "x-1-3.dat", "x-1-4.dat", "x-0-4.dat", "y-1-4.dat"];
            for file in all {
                fs::write(sum(file), [0; 32]).unwrap();
            }
            for file in ["s/x-1-1.dat", "p/x-1-2.dat", "p/x-agg-3.dat"] {
                fs::write(at(file), "").unwrap();
            }
            let files = Files::open(config, 1).unwrap();
            for file in all {
                assert!(sum(file).exists(), "not before this job has taken one: {file}");
            }
            let digest = Digest::of(Sort::Sha256, b"abc");
            files
                .scratch()
                .sums()
                .put_checksum("x", 5, Some(digest), Durability::Unsynced)
                .unwrap();
            for file in all {
                assert_eq!(sum(file).exists(), file != "x-1-4.dat", "{file}");
            }
            assert!(sum("x-1-5.dat").exists());
        });
    }

    /// Catches a note that stays for ever, and one that goes although there is a file or a link.
    #[test]
    fn notes_go_with_their_files_after_a_kill() {
        with_directories(|config, at| {
            for version in 1..=3 {
                fs::write(at(&format!("s/.x-0-{version}.dat.routed")), "/own/file").unwrap();
            }
            fs::write(at("s/x-0-1.dat"), "the application's").unwrap();
            std::os::unix::fs::symlink("/own/file", at("p/x-0-2.dat")).unwrap();
            Files::open(config, 1).unwrap();
            assert_eq!(hidden(&at("s")).len(), 3);
            Files::open(config, 0).unwrap();
            assert_eq!(hidden(&at("s")), [".x-0-1.dat.routed", ".x-0-2.dat.routed"]);
        });
    }

    /// Catches the half-written file of a writer on another node that goes, and one that stays for ever.
    #[test]
    fn what_somebody_writes_stays() {
        with_directories(|config, at| {
            let of_another = names::temporary_file("x-0-1.dat", i32::MAX as u32, 0);
            let all = ["s", "m"].map(|folder| at(folder).join(&of_another));
            let writing = all.each_ref().map(|path| files::create(path).unwrap());
            Files::open(config, 0).unwrap();
            assert!(all.iter().all(|path| path.exists()));
            drop(writing);
            Files::open(config, 0).unwrap();
            assert!(!all.iter().any(|path| path.exists()));
        });
    }
}
