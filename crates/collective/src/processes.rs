//! The processes of a job, and how they begin it together.

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::agreement::Agreement;
use super::outcome::all_or_none;
use super::pass::{decode, encode};
use super::protect;
use super::search::Search;
use super::{alike, order};
use config::Config;
use engine::Engine;
use errors::Result;
use mpi::Comm;
use recovery::Process;

/// The processes of a job, as this one sees them; by default, one without others.
#[derive(Debug, Default)]
pub struct Processes {
    pub(super) comm: Option<Comm>,
    pub(super) agreement: Option<Agreement>,
}

impl Processes {
    /// The processes of a communicator, with the configuration that all of them were given, and this process among
    /// them. The communicator is freed if there is no job. Collective.
    ///
    /// # Errors
    /// MPI's; or this process, or another one, cannot take part.
    pub fn meet(
        config: impl FnOnce() -> Result<Config>,
        comm: Comm,
    ) -> Result<(Processes, Config, Process)> {
        let (rank, ranks) = (comm.rank()?, comm.size()?);
        os::logging::set_process(rank, ranks);
        // Compared before anything that depends on the configuration.
        let (config, run) = alike::configured(config(), &comm)?;
        let config = given_up(config, &comm)?;
        given_up(order::look_at_order(&comm), &comm)?;
        let processes = Processes { comm: Some(comm), agreement: None };
        Ok((processes, config, Process { rank, ranks, run }))
    }

    /// What this process has started, if all have. Otherwise there is no job, and the communicator is freed. Collective.
    pub fn all_started<T>(&self, own: Result<T>) -> Result<T> {
        match &self.comm {
            Some(comm) => given_up(all_or_none(comm, own)?, comm),
            None => own,
        }
    }

    /// Lets the processes protect each other's files, and agree on their checkpoints. Collective.
    ///
    /// # Errors
    /// One of them cannot: there is no job, and the communicator is freed.
    pub fn join(&mut self, engine: &Engine) -> Result<()> {
        let Some(comm) = &self.comm else { return Ok(()) };
        let node = protect::join(engine.config(), comm);
        self.all_started(node.and_then(|node| node.map_or(Ok(()), |node| engine.join(node))))?;
        self.agreement = self.all_started(Agreement::start(comm, engine))?;
        Ok(())
    }

    /// What they agree on without waiting for each other, if there is anything.
    pub fn agreement(&self) -> Option<&Agreement> {
        self.agreement.as_ref()
    }

    /// The agreement, to tell it what this process does.
    pub fn agreement_mut(&mut self) -> Option<&mut Agreement> {
        self.agreement.as_mut()
    }

    /// How many rounds and gatherings of the agreement this process has begun.
    pub fn rounds(&self) -> [u64; 2] {
        self.agreement.as_ref().map_or([0; 2], Agreement::begun)
    }

    /// What they can restore.
    pub fn search<'a>(&'a self, engine: &'a Engine) -> Search<'a> {
        Search::new(self.comm.as_ref(), engine)
    }

    /// How many processes the job has.
    pub fn ranks(&self) -> Result<u64> {
        self.comm.as_ref().map_or(Ok(1), |comm| comm.size().map(u64::from))
    }

    /// This process's rank.
    pub fn rank(&self) -> Result<u64> {
        self.comm.as_ref().map_or(Ok(0), |comm| comm.rank().map(u64::from))
    }

    /// The values of all processes, by rank. Collective.
    pub fn exchange<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>> {
        let own = encode(own)?;
        let all = match &self.comm {
            Some(comm) => comm.allgather(&own)?,
            None => vec![own],
        };
        all.iter().map(|bytes| decode(bytes)).collect()
    }

    /// A communicator with all processes of the job, if there are others. Collective.
    pub fn channel(&self) -> Result<Option<Comm>> {
        match &self.comm {
            Some(comm) if comm.size()? > 1 => Ok(Some(comm.dup()?)),
            _ => Ok(None),
        }
    }
}

/// Returns `started`. If the start has failed, nobody needs the communicator: it is freed.
fn given_up<T>(started: Result<T>, comm: &Comm) -> Result<T> {
    if started.is_err() {
        comm.clone().free()?;
    }
    started
}
