//! The end of a job: what the processes still have to decide, and the last that they hear of each other.

use super::agreement::{Agreement, ProcessProgress};
use super::processes::Processes;
use engine::Engine;
use errors::Result;
use mpi::Comm;

/// The processes of a job that ends.
#[derive(Debug)]
pub struct Ending {
    processes: Processes,
    /// Whether all still agree; MPI's error.
    all_agree: Result<bool>,
    drains: bool,
}

impl Processes {
    /// Decides all that the processes still have to agree on, and whether the job ends with a `drain`. With erasure
    /// coding one process that asks for a drain is enough: parities are made by all members of a group or by none.
    /// Collective.
    pub fn conclude(mut self, engine: &Engine, drain: bool) -> Ending {
        let erasure = engine.file_side().erasure().is_some();
        let Some(comm) = self.comm.as_ref().filter(|_| erasure || self.agreement.is_some()) else {
            return Ending { processes: self, all_agree: Ok(true), drains: drain };
        };
        let standing = self.agreement.as_ref().map(Agreement::standing);
        let own = standing.unwrap_or(ProcessProgress { rounds: 0, gathered: 0, agrees: true });
        let told = [own.rounds, own.gathered, u64::from(drain)].map(|most| -(most as i64));
        let least = comm.allreduce_min([told[0], told[1], told[2], i64::from(own.agrees)]);
        // If MPI has failed, each process decides alone: one that does not drain hangs up, and
        // processes that wait for its parities end.
        let anybody = least.as_ref().map_or(drain, |least| least[2] < 0);
        let most = least.map(|[rounds, gathered, _, agrees]| ProcessProgress {
            rounds: rounds.unsigned_abs(),
            gathered: gathered.unsigned_abs(),
            agrees: agrees == 1,
        });
        let all_agree = most.clone().map(|most| most.agrees);
        if let Some(agreement) = &mut self.agreement {
            agreement.conclude(engine, most);
        }
        Ending { processes: self, all_agree, drains: if erasure { anybody } else { drain } }
    }
}

impl Ending {
    /// Whether all checkpoints are written and persisted first.
    pub fn drains(&self) -> bool {
        self.drains
    }

    /// Learns what all processes have in the end, and removes old versions. `drained`: this process has no file under way
    /// any more. Collective.
    pub fn settle(&mut self, engine: &Engine, drained: bool) {
        let Some(agreement) = self.processes.agreement.take() else { return };
        let asked = self.processes.comm.as_ref().filter(|_| matches!(self.all_agree, Ok(true)));
        let finished = agreement.finish(engine, asked, drained);
        // A failure here loses nothing; old versions may stay.
        finished.unwrap_or_else(|error| log::warn!("{error}"));
        engine.file_side().prune_all();
    }

    /// Frees the communicator, unless MPI has failed.
    pub fn free(self) -> Result<()> {
        let comm = self.processes.comm.filter(|_| self.all_agree.is_ok());
        comm.map_or(Ok(()), Comm::free)
    }
}
