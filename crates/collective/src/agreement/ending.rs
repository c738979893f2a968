//! The end of an agreement: the last decisions, and what all processes have in the end.

use std::thread;
use std::time::{Duration, Instant};

use super::{file_state, Agreement, OTHER_HAS_FAILED};
use engine::Engine;
use errors::Result;
use mpi::Comm;
use policy::rounds::{VALUES, WITHDRAWN};

/// How long results of rounds are waited for in `VELOC_Finalize`. All processes have begun these or are
/// about to, so that they come as fast as MPI can bring them.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause between two looks for a result.
const PAUSE: Duration = Duration::from_millis(1);

/// How far a process has come, or the most that any of them has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessProgress {
    /// Rounds that were begun.
    pub rounds: u64,
    /// Gatherings of lengths that were begun.
    pub gathered: u64,
    /// The process still agrees, or all do.
    pub agrees: bool,
}

impl Agreement {
    /// How many rounds and gatherings this process has begun, and whether it still agrees.
    pub(crate) fn standing(&self) -> ProcessProgress {
        let [rounds, gathered] = self.begun();
        ProcessProgress { rounds, gathered, agrees: !self.failed }
    }

    /// Ends all rounds, so that everything is decided. `most` is the most that a process has begun, and
    /// whether all of them agree: otherwise nobody waits. Collective: at the end of the job.
    pub(crate) fn conclude(&mut self, engine: &Engine, most: Result<ProcessProgress>) {
        let most = match most {
            Ok(most) if most.agrees => most,
            Ok(_) => return self.fail(engine, OTHER_HAS_FAILED),
            Err(error) => return self.fail(engine, error),
        };
        // A process that took fewer checkpoints begins the rounds that the others wait for.
        while !self.failed && self.calls.begun() < most.rounds {
            let values = self.rounds.begin_without_checkpoint(file_state(engine));
            self.post(engine, &values);
        }
        self.gather_up_to(engine, most.gathered);
        let since = Instant::now();
        loop {
            self.hear(engine);
            if !self.is_waiting() {
                return;
            }
            if since.elapsed() > LONGEST {
                let seconds = LONGEST.as_secs();
                let what = "MPI has brought no result of a reduction that all processes have begun";
                return self.fail(engine, format!("{what} within {seconds} s"));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Learns what all processes have in the end, over a communicator on which nothing is under
    /// way; `None`: the processes disagree on how many rounds there were, and nobody is asked.
    /// `drained`: this process has no file under way any more. Collective with a communicator.
    ///
    /// # Errors
    /// MPI's; or parts of aggregated files could not be looked at.
    pub(crate) fn finish(
        mut self,
        engine: &Engine,
        comm: Option<&Comm>,
        drained: bool,
    ) -> Result<()> {
        let Some(comm) = comm else {
            // Some processes have copied their parts to aggregated files, and others have not.
            return match self.aggregation {
                Some(_) if drained => engine.files().rescue().rescue_parts(),
                _ => Ok(()),
            };
        };
        let values =
            if self.failed { WITHDRAWN } else { self.rounds.begin_last(file_state(engine)) };
        let mut told = [0; VALUES + 2];
        told[..VALUES].copy_from_slice(&values);
        told[VALUES..].copy_from_slice(&[i64::from(drained), i64::from(!self.failed)]);
        let least = comm.allreduce_min(told)?;
        let (drained, agrees) = (least[VALUES] == 1, least[VALUES + 1] == 1);
        let job = self.aggregation.as_ref().map(|_| engine.checkpoints().run() as u32);
        let tidied = match job.filter(|_| drained) {
            Some(_) if !agrees => engine.files().rescue().rescue_parts(),
            Some(job) if self.rank == 0 => engine.files().attempts().remove_incomplete(job),
            _ => Ok(()),
        };
        // If not all agree, calls may be under way, which keep the communicators.
        if agrees {
            self.apply(engine, &least[..VALUES]);
            self.aggregation.map_or(Ok(()), |aggregation| aggregation.calls.free())?;
            self.calls.free()?;
        }
        tidied
    }
}
