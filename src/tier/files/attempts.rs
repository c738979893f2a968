//! What attempts at aggregated files have left that were not completed: how it is told by its name, and
//! when it goes.

use super::aggregate::ROLL;
use super::rescue::Roll;
use super::Files;
use crate::error::Result;
use crate::format::{aggregate, names};
use crate::platform::files;

/// What the name of a file says that an attempt at an aggregated file has left.
pub(super) struct Attempt<'a> {
    /// The name of the aggregated file.
    pub(super) of: &'a str,
    /// It is the roll, and not the file itself.
    pub(super) is_roll: bool,
    /// As in `Place`.
    pub(super) job: u32,
    /// As in `Place`.
    pub(super) attempt: u64,
}

impl Attempt<'_> {
    /// `None`: it is another file's name.
    pub(super) fn parse(name: &str) -> Option<Attempt<'_>> {
        let temporary = names::parse_temporary(name)?;
        // Of a roll that was taken away, to complete the file.
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
    /// Removes what is left of aggregated files that were never completed: of this job's, where a
    /// version was taken again before all processes had copied it; and of jobs that were killed,
    /// where there is a file of that version by now, or of each of the parts. Only once no
    /// process of this job copies any more, nor what its predecessor has left.
    pub fn remove_incomplete(&self, of_job: u32) -> Result<()> {
        let rolls = self.rolls()?;
        let complete = |of: &str, job, attempt| {
            aggregate::parse_name(of).is_some_and(|(name, version)| {
                let of_this = |roll: &&Roll| {
                    (&*roll.name, roll.version, roll.job, roll.attempt)
                        == (name, version, job, attempt)
                };
                self.is_aggregated(name, version)
                    || self.are_rescued(rolls.iter().filter(of_this)).unwrap_or(false)
            })
        };
        self.remove_attempts(|of, job, attempt| job == of_job || complete(of, job, attempt))
    }

    /// Removes the temporary files, and their rolls, that `select` takes by the name of the
    /// aggregated file, the job and the attempt.
    pub(super) fn remove_attempts(&self, select: impl Fn(&str, u32, u64) -> bool) -> Result<()> {
        let Some(persistent) = &self.persistent else {
            return Ok(());
        };
        let found = files::list(persistent, |name| {
            let found = Attempt::parse(name)?;
            select(found.of, found.job, found.attempt).then(|| name.to_owned())
        })?;
        found.iter().try_for_each(|name| files::remove(&persistent.join(name)))
    }
}
