//! What is left of attempts at aggregated files that were not completed: how its name tells it, and
//! when it is removed.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::listing::Listing;
use super::places::Places;
use super::rolls::{parts, temporary_of, ROLL};
use errors::Result;
use format::aggregate::AggregatePart;
use format::{aggregate, names};
use os::files;

/// The attempts at aggregated files.
#[derive(Debug)]
pub struct Attempts {
    places: Arc<Places>,
    listing: Arc<Listing>,
}

/// The roll of an attempt at an aggregated file. A roll that was changed later is greater.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Roll {
    changed: SystemTime,
    /// The name of the checkpoint.
    pub(super) name: String,
    /// Its version.
    pub(super) version: i32,
    /// As in `AggregatePart`.
    pub(super) job: u32,
    /// As in `AggregatePart`.
    pub(super) attempt: u64,
    /// Where it is.
    pub(super) path: PathBuf,
}

/// The name of a file that an attempt at an aggregated file has left.
struct Attempt<'a> {
    /// The name of the aggregated file.
    of: &'a str,
    /// It is the roll, and not the file itself.
    is_roll: bool,
    /// As in `AggregatePart`.
    pub(super) job: u32,
    /// As in `AggregatePart`.
    pub(super) attempt: u64,
}

impl Attempt<'_> {
    /// Parses the name of such a file. `None`: it is another file's name.
    fn parse(name: &str) -> Option<Attempt<'_>> {
        let temporary = names::parse_temporary(name)?;
        // A roll that was taken away, to complete the file, has two temporary endings.
        let taken = names::parse_temporary(temporary.complete);
        let temporary = taken.unwrap_or(temporary);
        let roll = temporary.complete.strip_suffix(ROLL);
        let of = roll.unwrap_or(temporary.complete);
        aggregate::parse_name(of)?;
        let (job, attempt) = (temporary.pid, temporary.number);
        Some(Attempt { of, is_roll: roll.is_some(), job, attempt })
    }
}

impl Attempts {
    pub(super) fn new(places: Arc<Places>, listing: Arc<Listing>) -> Attempts {
        Attempts { places, listing }
    }

    /// Removes what is left of aggregated files that were never completed: this job's, where a
    /// version was taken again before all processes had copied it; and killed jobs', where there is
    /// by now a file of that version, or of each of the parts. To be called only once no process of
    /// this job copies any more, nor what its predecessor has left.
    pub fn remove_incomplete(&self, of_job: u32) -> Result<()> {
        let rolls = self.rolls()?;
        self.remove_attempts(|attempt| attempt.job == of_job || self.is_over(&rolls, attempt))
    }

    /// Removes attempts at one checkpoint, once a file of it is complete: then all processes have
    /// made files of what was left to them. Later these may be gone, because there are newer ones.
    pub(super) fn remove_passed_by(
        &self,
        name: &str,
        version: i32,
        place: &AggregatePart,
    ) -> Result<()> {
        let rolls = OnceCell::new();
        self.remove_attempts(|attempt| match aggregate::parse_name(attempt.of) {
            Some((of, _)) if of == name && attempt.job != place.job() => {
                let rolls = rolls.get_or_init(|| self.rolls().unwrap_or_default());
                self.is_over(rolls, attempt)
            }
            Some(of) => {
                attempt.job == place.job()
                    && of == (name, version)
                    && attempt.attempt < place.attempt
            }
            None => false,
        })
    }

    /// Whether nobody needs what an attempt has left. `rolls`: those of all attempts.
    fn is_over(&self, rolls: &[Roll], attempt: &Attempt<'_>) -> bool {
        let Some((name, version)) = aggregate::parse_name(attempt.of) else { return false };
        let which = (name, version, attempt.job, attempt.attempt);
        let of_this = |roll: &&Roll| (&*roll.name, roll.version, roll.job, roll.attempt) == which;
        self.listing.is_aggregated(name, version)
            || match are_rescued(rolls.iter().filter(of_this)) {
                Ok(Some(rescued)) => rescued,
                // The roll has no part: its writer has been killed, or is about to enter one.
                Ok(None) => !self.is_begun(name, version, attempt),
                Err(_) => false,
            }
    }

    /// Whether some process has an attempt's file open, in which there is no part yet.
    fn is_begun(&self, name: &str, version: i32, attempt: &Attempt<'_>) -> bool {
        self.places.aggregated_data(name, version).is_none_or(|data| {
            let path = temporary_of(&data, "", attempt.job, attempt.attempt);
            path.exists() && files::is_in_use(&path)
        })
    }

    /// Removes the temporary files and rolls that `select` takes, but none of another user's.
    fn remove_attempts(&self, select: impl Fn(&Attempt<'_>) -> bool) -> Result<()> {
        let Some(persistent) = self.places.persistent() else {
            return Ok(());
        };
        let found = files::list(persistent, |name| {
            let is_one = Attempt::parse(name).is_some_and(|attempt| select(&attempt));
            (is_one && files::is_own(&persistent.join(name))).then(|| name.to_owned())
        })?;
        self.places.may_change_in(self.places.persistent())?;
        found.iter().try_for_each(|name| files::remove(&persistent.join(name)))
    }

    /// The rolls of all attempts at aggregated files; also those that a process has taken away,
    /// which was perhaps killed before the file was complete.
    ///
    /// # Errors
    /// Persistent cannot be listed.
    pub(super) fn rolls(&self) -> Result<Vec<Roll>> {
        let Some(persistent) = self.places.persistent() else { return Ok(Vec::new()) };
        files::list(persistent, |file| {
            let found = Attempt::parse(file).filter(|found| found.is_roll)?;
            let (name, version) = aggregate::parse_name(found.of)?;
            let path = persistent.join(file);
            let there = path.symlink_metadata().ok()?;
            if files::other_owner(&there, &path).is_some() {
                return None;
            }
            let changed = there.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let (name, job, attempt) = (name.to_owned(), found.job, found.attempt);
            Some(Roll { changed, name, version, job, attempt, path })
        })
    }
}

/// Whether all parts that these `rolls` of one attempt have are files of their own by now;
/// `None`: there are no parts.
fn are_rescued<'a>(rolls: impl Iterator<Item = &'a Roll>) -> Result<Option<bool>> {
    let mut any = None;
    for roll in rolls {
        let parts = parts(&roll.path)?;
        for rank in (0..).zip(&parts).filter_map(|(rank, part)| part.map(|_| rank)) {
            let own = names::checkpoint_file(&roll.name, rank, roll.version);
            if !roll.path.with_file_name(own).exists() {
                return Ok(Some(false));
            }
            any = Some(true);
        }
    }
    Ok(any)
}
