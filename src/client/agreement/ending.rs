//! The end of an agreement: everything that is undecided is decided, and all learn what they have.

use super::{fate, Agreement};
use crate::client::farewell::Farewell;
use crate::engine::shared::Shared;
use crate::error::Result;
use crate::mpi::Series;
use crate::policy::rounds::{GIVEN_UP, VALUES};

/// How far a process has come, or how far one of all has at the most.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Rounds that were begun.
    pub rounds: u64,
    /// Gatherings of lengths that were begun.
    pub gathered: u64,
    /// It still agrees, or all do.
    pub agrees: bool,
}

impl Agreement {
    /// How many rounds and gatherings this process has begun, and whether it still agrees: what
    /// [`Agreement::conclude`] needs to know of all.
    pub fn standing(&self) -> Standing {
        let gathered = self.aggregation.as_ref().map_or(0, |aggregation| aggregation.calls.count());
        Standing { rounds: self.calls.count(), gathered, agrees: !self.failed }
    }

    /// Ends all rounds, so that everything is decided. `most` is the most that a process has begun, if
    /// that is known, and whether all of them agree. Collective: at the end of the job.
    pub fn conclude(
        &mut self,
        engine: &Shared,
        farewell: &mut Farewell<'_>,
        most: Result<Standing>,
    ) {
        match &most {
            Ok(Standing { agrees: true, .. }) => {}
            Ok(_) => self.fail(engine, "MPI has failed on another process"),
            Err(error) => self.fail(engine, error),
        }
        let most = most.unwrap_or_else(|_| self.standing());
        // A process that took fewer checkpoints begins the rounds that the others wait for.
        while self.calls.count() < most.rounds {
            let values = self.rounds.begin_empty(fate(engine));
            self.post(engine, &values);
        }
        self.gather_up_to(engine, most.gathered);
        // Only now is it certain that results come.
        let whole = farewell.least([i64::from(self.is_whole())]);
        match whole {
            Ok([1]) => self.hear_all(engine),
            Ok(_) => self.fail(engine, "MPI has failed on another process"),
            Err(error) => self.fail(engine, error),
        }
    }

    fn is_whole(&self) -> bool {
        let gathers = self.aggregation.as_ref().map(|aggregation| &aggregation.calls);
        let tidings = self.tidings.as_ref().map(|news| &news.calls);
        self.calls.is_whole() && [gathers, tidings].into_iter().flatten().all(Series::is_whole)
    }

    /// Learns what all have in the end; `drained`: this process has no file under way any more.
    /// Collective.
    pub fn finish(
        mut self,
        engine: &Shared,
        farewell: &mut Farewell<'_>,
        drained: bool,
    ) -> Result<()> {
        let values = if self.failed { GIVEN_UP } else { self.rounds.begin_last(fate(engine)) };
        let mut told = [0; VALUES + 2];
        told[..VALUES].copy_from_slice(&values);
        told[VALUES..].copy_from_slice(&[i64::from(drained), i64::from(self.is_whole())]);
        let least = farewell.least(told)?;
        let (drained, agrees) = (least[VALUES] == 1, least[VALUES + 1] == 1);
        let job = self.aggregation.as_ref().map(|aggregation| aggregation.job);
        let tidied = match job.filter(|_| drained) {
            // Some have copied their parts to where the others have not.
            Some(_) if !agrees => engine.files.rescue_parts(),
            Some(job) if self.rank == 0 => engine.files.remove_incomplete(job),
            _ => Ok(()),
        };
        // Otherwise calls may be under way, which keep the communicators.
        if agrees {
            self.apply(engine, &least[..VALUES]);
            self.aggregation.map_or(Ok(()), |aggregation| aggregation.calls.free())?;
            self.tidings.map_or(Ok(()), |news| news.calls.free())?;
            self.calls.free()?;
        }
        tidied
    }
}
