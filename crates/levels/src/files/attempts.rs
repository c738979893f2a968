//! What is left of attempts at aggregated files that were not completed: how its name tells it, and
//! when it is removed.

use std::cell::OnceCell;

use super::aggregate::{temporary_of, ROLL};
use super::rescue::Roll;
use super::Files;
use errors::Result;
use format::aggregate::AggregatePart;
use format::{aggregate, names};
use os::files;

/// The name of a file that an attempt at an aggregated file has left.
pub(super) struct Attempt<'a> {
    /// The name of the aggregated file.
    pub(super) of: &'a str,
    /// It is the roll, and not the file itself.
    pub(super) is_roll: bool,
    /// As in `AggregatePart`.
    pub(super) job: u32,
    /// As in `AggregatePart`.
    pub(super) attempt: u64,
}

impl Attempt<'_> {
    /// Parses the name of such a file. `None`: it is another file's name.
    pub(super) fn parse(name: &str) -> Option<Attempt<'_>> {
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

impl Files {
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
        self.is_aggregated(name, version)
            || match self.are_rescued(rolls.iter().filter(of_this)) {
                Ok(Some(rescued)) => rescued,
                // The roll has no part: its writer has been killed, or is about to enter one.
                Ok(None) => !self.is_begun(name, version, attempt),
                Err(_) => false,
            }
    }

    /// Whether some process has an attempt's file open, in which there is no part yet.
    fn is_begun(&self, name: &str, version: i32, attempt: &Attempt<'_>) -> bool {
        self.aggregated_data(name, version).is_none_or(|data| {
            let path = temporary_of(&data, "", attempt.job, attempt.attempt);
            path.exists() && files::is_in_use(&path)
        })
    }

    /// Removes the temporary files and rolls that `select` takes, but none of another user's.
    fn remove_attempts(&self, select: impl Fn(&Attempt<'_>) -> bool) -> Result<()> {
        let Some(persistent) = &self.persistent else {
            return Ok(());
        };
        let found = files::list(persistent, |name| {
            let is_one = Attempt::parse(name).is_some_and(|attempt| select(&attempt));
            (is_one && files::is_own(&persistent.join(name))).then(|| name.to_owned())
        })?;
        self.may_change_in(self.persistent.as_deref())?;
        found.iter().try_for_each(|name| files::remove(&persistent.join(name)))
    }
}
